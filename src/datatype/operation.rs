//! Reduction operations, and which types they are defined for.

use super::BasicType;
use super::basic::Kind;
use crate::error::{Error, Misuse, Result};

/// The predefined operations, and the kinds of types for which each is defined. All enumerations of operations in this
/// crate are generated from this list; code that combines values matches on them.
macro_rules! operations {
    ($make:ident) => {
        $make! {
            /// Sum; integers wrap. Integers, floats and complex numbers.
            Sum [Integer Float Complex],
            /// Product; integers wrap. Integers, floats and complex numbers.
            Prod [Integer Float Complex],
            /// The smaller value; if equal, the first; a number rather than a NaN. Integers and floats.
            Min [Integer Float],
            /// The greater value, likewise. Integers and floats.
            Max [Integer Float],
            /// Bitwise and. Integers and bytes.
            Band [Integer Byte],
            /// Bitwise or. Integers and bytes.
            Bor [Integer Byte],
            /// Bitwise exclusive or. Integers and bytes.
            Bxor [Integer Byte],
            /// Logical and: 1 or 0. Integers and logicals.
            Land [Integer Logical],
            /// Logical or: 1 or 0. Integers and logicals.
            Lor [Integer Logical],
            /// Logical exclusive or: 1 or 0. Integers and logicals.
            Lxor [Integer Logical],
            /// The smaller value and its index; if equal, the lower index. Pairs of value and index.
            Minloc [Pair],
            /// The greater value and its index; if equal, the lower index. Pairs of value and index.
            Maxloc [Pair],
            /// The value of the origin; accumulates only.
            Replace [Integer Float Complex Logical Byte Pair Opaque],
            /// The value of the target; accumulates only.
            NoOp [Integer Float Complex Logical Byte Pair Opaque],
        }
    };
}
pub(super) use operations;

macro_rules! define {
    ($($(#[$doc:meta])+ $name:ident [$($kind:ident)+],)+) => {
        /// A reduction operation (MPI-4.1, section 6.9.2). `Replace` and `NoOp` are defined for every type, the others
        /// for the types that they name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Op {
            $($(#[$doc])+ $name,)+
        }

        impl Op {
            /// All of them.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// Local. Whether accumulates with this operation are defined for elements of type `ty`.
            #[must_use]
            pub const fn is_defined_for(self, ty: BasicType) -> bool {
                match self {
                    $(Self::$name => matches!(ty.kind(), $(Kind::$kind)|+),)+
                }
            }
        }
    };
}
operations!(define);

impl Op {
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
