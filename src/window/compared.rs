//! A value of each rank, as much of it as all ranks have to know.

use bytemuck::{Pod, Zeroable};

/// A comparison of one value of some ranks: the lowest rank's value, and the lowest rank with a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Compared {
    first: u64,
    pub(super) other_rank: u64,
    other: u64,
}

/// The value of [`Compared::other_rank`] if all values are equal.
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

    /// The lowest rank whose value differs from that of rank 0, and its value.
    pub(super) fn other(&self) -> Option<(u32, u64)> {
        let rank = u32::try_from(self.other_rank).ok()?;
        Some((rank, self.other))
    }

    pub(super) fn differ(&self) -> bool {
        self.other_rank != NO_RANK
    }

    /// The lowest rank whose value differs from `value`, and its value.
    pub(super) fn other_than(&self, value: u64) -> Option<(u32, u64)> {
        match self.first == value {
            true => self.other(),
            false => Some((0, self.first)),
        }
    }

    /// Merges with `higher`, whose lowest rank, `lowest`, is not below that of `self`.
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
