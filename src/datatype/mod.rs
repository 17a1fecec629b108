//! Predefined types and operations (MPI-4.1, sections 3.2.2 and 6.9.2).

mod element;
mod operation;

pub use element::{Accumulate, Atomic, Element};
pub use operation::{Op, Reduce};

/// A predefined type that accumulates work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BasicType {
    /// `MPI_INT32_T`
    I32,
    /// `MPI_UINT32_T`
    U32,
    /// `MPI_INT64_T`
    I64,
    /// `MPI_UINT64_T`
    U64,
    /// `MPI_DOUBLE`
    F64,
}

impl BasicType {
    /// Size in bytes, which is also the natural alignment.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// True for the integers.
    #[must_use]
    #[inline]
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::F64)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F64 => "f64",
        }
    }
}
