//! Numbers that the processor adds many of at a time.

use super::{add_f32, add_f64, add_i8, add_i16, add_i32, add_i64};

/// The type of numbers that [`Number::add`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Floats of 64 bits.
    F64,
    /// Floats of 32 bits.
    F32,
    /// Integers of 64 bits of either sign; sums wrap.
    I64,
    /// Integers of 32 bits of either sign; sums wrap.
    I32,
    /// Integers of 16 bits of either sign; sums wrap.
    I16,
    /// Integers of 8 bits of either sign; sums wrap.
    I8,
}

impl Number {
    /// The size of one number.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::I16 => 2,
            Self::I8 => 1,
        }
    }

    /// Adds `count` numbers at `from` to those at `to`, as [`add_f64`] does.
    ///
    /// # Safety
    /// As for [`add_f64`].
    pub unsafe fn add(self, to: *mut u8, from: *const u8, count: usize) {
        // SAFETY: the caller's promise is the one asked for.
        unsafe {
            match self {
                Self::F64 => add_f64(to, from, count),
                Self::F32 => add_f32(to, from, count),
                Self::I64 => add_i64(to, from, count),
                Self::I32 => add_i32(to, from, count),
                Self::I16 => add_i16(to, from, count),
                Self::I8 => add_i8(to, from, count),
            }
        }
    }
}
