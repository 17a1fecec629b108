//! Ranges of bytes relative to where a layout is placed.

/// The range from `lo` up to but excluding `hi`. A layout may begin below its place. Only explicit bounds have a
/// negative length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl Span {
    /// The range of `len` contiguous bytes.
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

    /// The range of `count` copies, each `stride` bytes after the previous one.
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

    /// The smallest range that includes both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
        }
    }

    /// Its length, if `MPI_Count`, which is signed, can represent it.
    pub(crate) fn len(self) -> Option<i64> {
        self.hi.checked_sub(self.lo)
    }
}

/// The hull of two optional ranges.
pub(super) fn hull(a: Option<Span>, b: Option<Span>) -> Option<Span> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hull(b)),
        (a, b) => a.or(b),
    }
}
