//! What a window counts, as a program reads it.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use rdma_sys_shim::Via;

/// The kinds under which operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// Puts, including those with layouts, requests or notifications.
    Put,
    /// Gets.
    Get,
    /// Accumulates that return no data.
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

/// The owner of an operation's target memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TargetKind {
    /// This rank.
    Own,
    /// Another rank.
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

/// Operations of one kind, on targets of one kind, by one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accesses {
    /// The kind of operation.
    pub operation: OperationKind,
    /// The kind of target.
    pub target: TargetKind,
    /// The path.
    pub via: Via,
    /// The number of operations. In a dynamic window, an operation counts once for each region.
    pub count: u64,
    /// The total number of bytes of the target's memory.
    pub bytes: u64,
}

/// Waits of this rank for something that was not yet done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// The number of waits.
    pub count: u64,
    /// Their total time.
    pub time: Duration,
}

impl AddAssign for Waits {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.time += more.time;
    }
}

/// The operations of this rank in a window so far.
///
/// Operations are counted when they are called; the window's synchronisation completes them. A rank's own loads and
/// stores, in its own memory or in that of [`shared_query`](crate::raw::Window::shared_query), are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Operations with a count that is not 0, in the order of their fields.
    pub accesses: Vec<Accesses>,
    /// Epochs begun: fences that leave one open, locks, `lock_all`, start and post.
    pub epochs: u64,
    /// Calls of flush and its variants.
    pub flushes: u64,
    /// Waits of the window's calls; those shorter than a microsecond may be missing.
    pub waits: Waits,
}

impl Statistics {
    /// Local. The number of operations of this kind, and of their bytes, on all targets by all paths.
    #[must_use]
    pub fn of(&self, operation: OperationKind) -> (u64, u64) {
        self.sum(|accesses| accesses.operation == operation)
    }

    /// Local. The number of operations that took this path, and of their bytes.
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
