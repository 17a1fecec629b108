//! Ranges of bytes relative to where a layout is placed.

/// From `lo` up to and without `hi`. A layout may reach below its place. Only explicit bounds have a negative length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl Span {
    /// Of `len` contiguous bytes.
    pub(crate) fn of(len: u64) -> Self {
        Self {
            lo: 0,
            hi: len as i64,
        }
    }

    /// Bytes from its start to its end.
    pub(crate) fn bytes(self) -> u64 {
        self.hi.wrapping_sub(self.lo) as u64
    }

    pub(crate) fn shifted(self, by: i64) -> Option<Self> {
        Some(Self {
            lo: self.lo.checked_add(by)?,
            hi: self.hi.checked_add(by)?,
        })
    }

    /// What `count` copies of it cover, each `stride` bytes after the one before.
    pub(crate) fn repeated(self, count: u64, stride: i64) -> Option<Self> {
        let Some(steps) = count.checked_sub(1) else {
            return Some(Self::of(0));
        };
        let reach = i64::try_from(i128::from(stride) * i128::from(steps)).ok()?;
        Some(Self {
            lo: self.lo.checked_add(reach.min(0))?,
            hi: self.hi.checked_add(reach.max(0))?,
        })
    }

    /// The smallest range that has both in it.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
        }
    }

    /// Its length, if that is one that MPI can tell (`MPI_Count` has a sign).
    pub(crate) fn len(self) -> Option<i64> {
        self.hi.checked_sub(self.lo)
    }
}

/// The hull of two ranges that there may be.
pub(super) fn hull(a: Option<Span>, b: Option<Span>) -> Option<Span> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hull(b)),
        (a, b) => a.or(b),
    }
}
