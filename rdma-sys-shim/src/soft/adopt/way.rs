//! The two ways of moving pages, and which of them is open.

use super::neighbours;
use super::stretch::Stretch;
use super::survey::Others;
use super::sys::Refusal;
use super::uffd::Uffd;
use super::{direct, protected};

/// How pages are moved.
#[derive(Debug)]
pub(super) enum Way {
    /// No other thread runs.
    Direct,
    /// Others run; their writes are held.
    Protected(Uffd),
    /// Others run, and their writes cannot be held.
    Closed(Refusal),
}

impl Way {
    /// The way for a process in which `own_threads` threads besides the caller keep still.
    pub(super) fn find(own_threads: usize) -> Result<Self, Refusal> {
        if neighbours::threads()? == own_threads + 1 {
            return Ok(Self::Direct);
        }
        Ok(Uffd::open().map_or_else(Self::Closed, Self::Protected))
    }

    pub(super) fn others(&self) -> Others {
        match self {
            Self::Direct => Others::None,
            Self::Protected(_) => Others::Held,
            Self::Closed(refusal) => Others::Unheld(*refusal),
        }
    }

    /// Whether the pages at the edges may go back, which hold memory that no promise is about:
    /// no system call of another thread that writes there may fail, and the kernel must not
    /// write there later.
    pub(super) fn may_give_back_edges(&self) -> bool {
        let calls_are_held = match self {
            Self::Direct => true,
            Self::Protected(uffd) => uffd.holds_kernel_writes(),
            Self::Closed(_) => false,
        };
        calls_are_held && neighbours::kernel_writes().is_ok()
    }

    /// Moves private pages into the memfd.
    ///
    /// # Safety
    /// As for the function of the way.
    pub(super) unsafe fn adopt(&self, stretch: &Stretch) -> Result<(), Refusal> {
        match self {
            // SAFETY: the caller keeps the contract.
            Self::Direct => unsafe { direct::adopt(stretch) },
            // SAFETY: the caller keeps the contract.
            Self::Protected(uffd) => unsafe { protected::adopt(uffd, stretch) },
            Self::Closed(refusal) => Err(*refusal),
        }
    }

    /// Moves adopted pages back into private memory.
    ///
    /// # Safety
    /// As for the function of the way.
    pub(super) unsafe fn give_back(&self, stretch: &Stretch) -> Result<(), Refusal> {
        match self {
            // SAFETY: the caller keeps the contract.
            Self::Direct => unsafe { direct::give_back(stretch) },
            // SAFETY: the caller keeps the contract.
            Self::Protected(uffd) => unsafe { protected::give_back(uffd, stretch) },
            Self::Closed(refusal) => Err(*refusal),
        }
    }
}
