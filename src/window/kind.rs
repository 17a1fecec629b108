//! What a window says of itself (MPI-4.1, section 12.2.6).

use super::Window;
use super::entry::Entry;
use crate::comm::Group;
use crate::error::Result;
use crate::terms::{Aim, Flavor};

/// How a rank's own loads and stores interact with its peers' accesses (MPI-4.1, section 12.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryModel {
    /// There is one copy of the memory: loads see what a peer stored without further calls, and the reverse.
    Unified,
}

impl Window {
    /// Local. The address of this rank's memory (MPI-4.1, section 12.2.6, `MPI_WIN_BASE`). Null in a dynamic window and
    /// for a size of 0, except in a contiguous shared window, where it is the end of the previous rank's part.
    ///
    /// Peers may write there while an epoch allows it. Follow the rules of MPI-4.1, section 12.7, and use raw pointers.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Local. Size of this rank's memory in bytes; 0 in a dynamic window (MPI-4.1, section 12.2.6,
    /// `MPI_WIN_SIZE`).
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size_in(&self.parts.own)
    }

    /// Local. This rank's displacement unit in bytes (MPI-4.1, section 12.2.6,
    /// `MPI_WIN_DISP_UNIT`).
    #[must_use]
    pub fn disp_unit(&self) -> u64 {
        self.parts.own.unit
    }

    /// Local. The call that made the window (MPI-4.1, section 12.2.6, `MPI_WIN_CREATE_FLAVOR`).
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Local. Always [`MemoryModel::Unified`] (MPI-4.1, section 12.2.6, `MPI_WIN_MODEL`): peers access the same memory
    /// that this rank loads from and stores to. Mapped memory is the same page at several addresses; RDMA devices write
    /// to memory coherently with the processor's caches.
    #[must_use]
    pub fn model(&self) -> MemoryModel {
        MemoryModel::Unified
    }

    /// Local. This process's rank in the window's communicator.
    #[must_use]
    #[inline]
    pub fn rank(&self) -> u32 {
        self.team.rank
    }

    /// Local. The number of ranks of the window's communicator.
    #[must_use]
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.team.size()
    }

    /// Local. The ranks of the window (MPI-4.1, section 12.2.6, `MPI_Win_get_group`).
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.team.group
    }

    /// Local if all sizes are equal, or if this rank has accessed the memory of `rank`. Otherwise one-sided: each call
    /// reads it from `rank`, which takes a round trip between hosts. The size in bytes of another rank's memory; 0 in a
    /// dynamic window.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the size has to be read, and `rank` cannot be reached.
    pub fn size_of(&self, rank: u32) -> Result<u64> {
        const OPERATION: &str = "size_of";
        self.team.check_rank(OPERATION, rank)?;
        match self.parts.sizes.differ() {
            false => Ok(self.size()),
            true => Ok(self.size_in(&self.entry_of(Aim::new(OPERATION, rank))?)),
        }
    }

    /// Another rank's displacement unit in bytes. If units differ, local or one-sided as [`Window::size_of`].
    ///
    /// # Errors
    /// As for [`Window::size_of`].
    pub fn disp_unit_of(&self, rank: u32) -> Result<u64> {
        const OPERATION: &str = "disp_unit_of";
        self.team.check_rank(OPERATION, rank)?;
        match self.parts.units.differ() {
            false => Ok(self.disp_unit()),
            true => Ok(self.entry_of(Aim::new(OPERATION, rank))?.unit),
        }
    }

    /// The lowest rank whose displacement unit differs from this rank's, and that unit.
    pub(crate) fn other_unit(&self) -> Option<(u32, u64)> {
        self.parts.units.other_than(self.disp_unit())
    }

    fn size_in(&self, entry: &Entry) -> u64 {
        match self.flavor {
            Flavor::Dynamic => 0,
            _ => entry.size,
        }
    }
}
