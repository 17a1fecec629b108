//! Assertions with which a program promises what it will not do (MPI-4.1, section 12.5.5).

use std::ops::BitOr;

/// A set of assertions; join them with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assert(u32);

impl Assert {
    /// No promise.
    pub const NONE: Self = Self(0);
    /// `lock`, `lock_all`: no other rank holds or tries a lock that conflicts. `start`: every target
    /// has posted, and said so by other means. `post`: nothing more is promised than without it.
    pub const NO_CHECK: Self = Self(1);
    /// `fence`, `post`: this rank's memory was not stored to since the last synchronisation.
    pub const NO_STORE: Self = Self(2);
    /// `fence`, `post`: this rank's memory will not be put to until the next fence or `wait`.
    pub const NO_PUT: Self = Self(4);
    /// `fence`, by all ranks: no operation of this rank is under way.
    pub const NO_PRECEDE: Self = Self(8);
    /// `fence`, by all ranks: no operation follows before the next one.
    pub const NO_SUCCEED: Self = Self(16);

    /// True if all of `other` is asserted.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Assert {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
