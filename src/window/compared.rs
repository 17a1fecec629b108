//! A value of each rank, as much of it as all ranks have to know.

use bytemuck::{Pod, Zeroable};

/// A value of each of some ranks, compared: the lowest rank's, and the lowest rank that has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Compared {
    first: u64,
    pub(super) other_rank: u64,
    other: u64,
}

/// Of [`Compared::other_rank`], where all are equal.
pub(super) const NO_RANK: u64 = u64::MAX;

impl Compared {
    pub(super) fn of(value: u64) -> Self {
        Self {
            first: value,
            other_rank: NO_RANK,
            other: 0,
        }
    }

    /// The value of rank 0, once all ranks are compared.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The lowest rank that has another value than rank 0, and that value.
    pub(super) fn other(&self) -> Option<(u32, u64)> {
        let rank = u32::try_from(self.other_rank).ok()?;
        Some((rank, self.other))
    }

    pub(super) fn differ(&self) -> bool {
        self.other_rank != NO_RANK
    }

    /// The lowest rank that has another value than this one, and that value.
    pub(super) fn other_than(&self, value: u64) -> Option<(u32, u64)> {
        match self.first == value {
            true => self.other(),
            false => Some((0, self.first)),
        }
    }

    /// With `higher`, whose lowest rank is no lower than that of `self`, but `lowest`.
    pub(super) fn merge(self, higher: Self, lowest: u64) -> Self {
        let differs = match higher.first == self.first {
            true => higher,
            false => Self {
                other_rank: lowest,
                other: higher.first,
                ..higher
            },
        };
        match differs.other_rank < self.other_rank {
            true => Self {
                first: self.first,
                ..differs
            },
            false => self,
        }
    }
}
