//! What a window counts, as a program reads it.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use rdma_sys_shim::Via;

/// What operations are counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// Puts, of any layout, with a request or a notification too.
    Put,
    /// Gets.
    Get,
    /// Accumulates that return nothing.
    Accumulate,
    /// `get_accumulate` and `fetch_and_op`.
    Fetch,
    /// `compare_and_swap`.
    CompareAndSwap,
}

impl OperationKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Put,
        Self::Get,
        Self::Accumulate,
        Self::Fetch,
        Self::CompareAndSwap,
    ];
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Accumulate => "accumulate",
            Self::Fetch => "fetch",
            Self::CompareAndSwap => "compare_and_swap",
        })
    }
}

/// Whose memory an operation went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TargetKind {
    /// This rank's own.
    Own,
    /// Another rank's.
    Other,
}

impl TargetKind {
    pub(super) const ALL: [Self; 2] = [Self::Own, Self::Other];
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Own => "own",
            Self::Other => "other",
        })
    }
}

/// Operations of one kind, on targets of one kind, that went one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accesses {
    /// What they were.
    pub operation: OperationKind,
    /// Whose memory they went to.
    pub target: TargetKind,
    /// How they got there.
    pub via: Via,
    /// How many. One of a dynamic window that several regions hold counts once for each.
    pub count: u64,
    /// How many bytes of the target's memory, all together.
    pub bytes: u64,
}

/// Times that this rank found something not done yet, and waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// How long, all together.
    pub time: Duration,
}

impl AddAssign for Waits {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.time += more.time;
    }
}

/// What this rank did in a window so far.
///
/// Operations are counted when they are called, and are complete when the window's synchronisation
/// says so. What a rank loads and stores itself, in its own memory or in that of
/// [`shared_query`](crate::raw::Window::shared_query), is no operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Operations, without those that never were, in the order of their fields.
    pub accesses: Vec<Accesses>,
    /// Epochs begun: fences that leave one open, locks, `lock_all`, start and post.
    pub epochs: u64,
    /// Calls of flush and its kin.
    pub flushes: u64,
    /// Waits of the window's calls; those of less than a microsecond may be missing.
    pub waits: Waits,
}

impl Statistics {
    /// Local. How many operations of this kind there were, and of how many bytes, on all targets by all
    /// ways.
    #[must_use]
    pub fn of(&self, operation: OperationKind) -> (u64, u64) {
        self.sum(|accesses| accesses.operation == operation)
    }

    /// Local. How many operations took this way, and of how many bytes.
    #[must_use]
    pub fn by(&self, via: Via) -> (u64, u64) {
        self.sum(|accesses| accesses.via == via)
    }

    fn sum(&self, counts: impl Fn(&Accesses) -> bool) -> (u64, u64) {
        let counted = self.accesses.iter().filter(|accesses| counts(accesses));
        counted.fold((0, 0), |(count, bytes), more| {
            (count + more.count, bytes + more.bytes)
        })
    }
}

impl AddAssign<&Self> for Statistics {
    fn add_assign(&mut self, more: &Self) {
        let order = |accesses: &Accesses| (accesses.operation, accesses.target, accesses.via);
        for other in &more.accesses {
            let place = self.accesses.binary_search_by_key(&order(other), order);
            match place {
                Ok(found) => {
                    self.accesses[found].count += other.count;
                    self.accesses[found].bytes += other.bytes;
                }
                Err(missing) => self.accesses.insert(missing, *other),
            }
        }
        self.epochs += more.epochs;
        self.flushes += more.flushes;
        self.waits += more.waits;
    }
}
