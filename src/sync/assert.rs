//! Assertions with which a program promises what it will not do (MPI-4.1, section 12.5.5).

use std::fmt;
use std::ops::BitOr;

use crate::error::{Error, Misuse, Result};

/// A set of assertions; combine them with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assert(u32);

impl Assert {
    /// No promise.
    pub const NONE: Self = Self(0);
    /// `lock`, `lock_all`: no other rank holds or requests a conflicting lock. `start`: every target has posted, and
    /// this rank was told so by other means. `post`: no effect.
    pub const NO_CHECK: Self = Self(1);
    /// `fence`, `post`: this rank's memory was not stored to since the last synchronisation.
    pub const NO_STORE: Self = Self(2);
    /// `fence`, `post`: this rank's memory will not be put to until the next fence or `wait`.
    pub const NO_PUT: Self = Self(4);
    /// `fence`, by all ranks: no operation of this rank is pending.
    pub const NO_PRECEDE: Self = Self(8);
    /// `fence`, by all ranks: no operation follows before the next fence.
    pub const NO_SUCCEED: Self = Self(16);

    /// Local. True if all of `other` is asserted.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Assert {
    const NAMES: [(Self, &str); 5] = [
        (Self::NO_CHECK, "NO_CHECK"),
        (Self::NO_STORE, "NO_STORE"),
        (Self::NO_PUT, "NO_PUT"),
        (Self::NO_PRECEDE, "NO_PRECEDE"),
        (Self::NO_SUCCEED, "NO_SUCCEED"),
    ];

    /// Fails if an assertion is not legal for `operation`.
    #[inline]
    pub(crate) fn check(self, operation: &'static str, legal: Self) -> Result<()> {
        match legal.contains(self) {
            true => Ok(()),
            false => Err(self.illegal(operation, legal)),
        }
    }

    #[cold]
    fn illegal(self, operation: &'static str, legal: Self) -> Error {
        let (given, legal) = (self.to_string(), legal.to_string());
        Error::new(operation, Misuse::BadAssert { given, legal })
    }
}

impl fmt::Display for Assert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Self::NAMES.iter().filter(|(one, _)| self.contains(*one));
        let names: Vec<_> = held.map(|(_, name)| *name).collect();
        match names.is_empty() {
            true => f.write_str("NONE"),
            false => f.write_str(&names.join("|")),
        }
    }
}

/// The sets that calls accept.
impl Assert {
    pub(crate) const OF_LOCK: Self = Self::NO_CHECK;
    pub(crate) const OF_START: Self = Self::NO_CHECK;
    pub(crate) const OF_POST: Self = Self(1 | 2 | 4);
    pub(crate) const OF_FENCE: Self = Self(2 | 4 | 8 | 16);
}

impl BitOr for Assert {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
