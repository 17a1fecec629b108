//! Terms of the standard that are arguments of calls and appear in errors.

use std::fmt;

/// Whether others may hold the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may hold it shared.
    Shared,
    /// No other rank may hold it.
    Exclusive,
}

/// Which call made a window (MPI-4.1, section 12.2.6, `MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// [`Window::create`](crate::raw::Window::create)
    Create,
    /// [`Window::allocate`](crate::raw::Window::allocate)
    Allocate,
    /// [`Window::create_dynamic`](crate::raw::Window::create_dynamic)
    Dynamic,
    /// [`Window::allocate_shared`](crate::raw::Window::allocate_shared)
    Shared,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Allocate => "allocate",
            Self::Dynamic => "create_dynamic",
            Self::Shared => "allocate_shared",
        })
    }
}

/// Which threads of a rank call Transom (MPI-4.1, section 11.6). Threads can share windows at every level; the level
/// says whether calls may overlap in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadLevel {
    /// The caller guarantees that calls of one rank never overlap. Saves some locked instructions. If calls do overlap,
    /// nested or unmatched locks may go unnoticed, and updates of integers by accumulates may be lost.
    Serialized,
    /// Any thread may call at any time.
    #[default]
    Multiple,
}

/// A rank of the world, by which peers are found. All other rank numbers belong to a window or a communicator, whose
/// group translates them to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldRank(pub(crate) u32);

impl fmt::Display for WorldRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A call and its target rank, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The name of the call.
    pub operation: &'static str,
    /// A rank of the window.
    pub rank: u32,
}

impl Aim {
    /// Local. This call, aimed at this rank.
    #[inline(always)]
    #[must_use]
    pub const fn new(operation: &'static str, rank: u32) -> Self {
        Self { operation, rank }
    }

    /// Runs `body` off the fast path. Arguments of a call that is not inlined have to be in memory. This method takes
    /// the aim apart and passes it in registers, so that it is stored to memory only after this call.
    #[inline(always)]
    pub(crate) fn aside<R>(self, body: impl FnOnce(Self) -> R) -> R {
        #[cold]
        #[inline(never)]
        fn call<R>(operation: &'static str, rank: u32, body: impl FnOnce(Aim) -> R) -> R {
            body(Aim { operation, rank })
        }
        call(self.operation, self.rank, body)
    }

    /// As [`Aim::aside`], for code that is not cold in every job: over a network it is common.
    #[inline(always)]
    pub(crate) fn by_call<R>(self, body: impl FnOnce(Self) -> R) -> R {
        #[inline(never)]
        fn call<R>(operation: &'static str, rank: u32, body: impl FnOnce(Aim) -> R) -> R {
            body(Aim { operation, rank })
        }
        call(self.operation, self.rank, body)
    }
}
