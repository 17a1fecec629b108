//! Reduction operations, and which types they are defined for.

use super::BasicType;
use super::basic::Kind;
use crate::error::{Error, Misuse, Result};

/// A reduction operation (MPI-4.1, section 6.9.2). What it is defined for: `Replace` and `NoOp`
/// for every type, the others as said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Sum; integers wrap. Integers, floats and complex numbers.
    Sum,
    /// Product; integers wrap. Integers, floats and complex numbers.
    Prod,
    /// The smaller; of equals the first, and of a number and a NaN the number. Integers and floats.
    Min,
    /// The greater, likewise. Integers and floats.
    Max,
    /// Bitwise and. Integers and bytes.
    Band,
    /// Bitwise or. Integers and bytes.
    Bor,
    /// Bitwise exclusive or. Integers and bytes.
    Bxor,
    /// Logical and: 1 or 0. Integers and logicals.
    Land,
    /// Logical or: 1 or 0. Integers and logicals.
    Lor,
    /// Logical exclusive or: 1 or 0. Integers and logicals.
    Lxor,
    /// The smaller value and its index; of equals the lower index. Pairs of value and index.
    Minloc,
    /// The greater value and its index; of equals the lower index. Pairs of value and index.
    Maxloc,
    /// What the origin has; accumulates only.
    Replace,
    /// What the target has; accumulates only.
    NoOp,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Sum,
        Self::Prod,
        Self::Min,
        Self::Max,
        Self::Band,
        Self::Bor,
        Self::Bxor,
        Self::Land,
        Self::Lor,
        Self::Lxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// Local. Whether accumulates with this operation are defined for elements of type `ty`.
    #[must_use]
    pub const fn is_defined_for(self, ty: BasicType) -> bool {
        let kind = ty.kind();
        match self {
            Self::Sum | Self::Prod => {
                matches!(kind, Kind::Integer | Kind::Float | Kind::Complex)
            }
            Self::Min | Self::Max => matches!(kind, Kind::Integer | Kind::Float),
            Self::Band | Self::Bor | Self::Bxor => matches!(kind, Kind::Integer | Kind::Byte),
            Self::Land | Self::Lor | Self::Lxor => matches!(kind, Kind::Integer | Kind::Logical),
            Self::Minloc | Self::Maxloc => matches!(kind, Kind::Pair),
            Self::Replace | Self::NoOp => true,
        }
    }

    /// Fails unless it is defined for elements of type `ty`.
    #[inline]
    pub(crate) fn check_defined_for(self, operation: &'static str, ty: BasicType) -> Result<()> {
        match self.is_defined_for(ty) {
            true => Ok(()),
            false => Err(self.undefined(operation, ty.name())),
        }
    }

    /// The error of a call that would combine elements of a type for which this is not defined.
    #[cold]
    pub(crate) fn undefined(self, operation: &'static str, ty: &str) -> Error {
        let misuse = Misuse::BadOperation {
            op: format!("{self:?}"),
            ty: ty.to_owned(),
        };
        Error::new(operation, misuse)
    }
}
