//! The predefined types.

use super::Complex;

/// The predefined types: a name for errors, the kind, and the Rust type with this layout, or the two predefined types
/// of a pair. Everything that depends on the list of types is generated from this.
macro_rules! basic_types {
    ($make:ident) => {
        $make! {
            /// `MPI_INT8_T`, `MPI_SIGNED_CHAR`
            I8 "i8" Integer(i8),
            /// `MPI_UINT8_T`, `MPI_UNSIGNED_CHAR`
            U8 "u8" Integer(u8),
            /// `MPI_INT16_T`, `MPI_SHORT`
            I16 "i16" Integer(i16),
            /// `MPI_UINT16_T`, `MPI_UNSIGNED_SHORT`
            U16 "u16" Integer(u16),
            /// `MPI_INT32_T`, `MPI_INT`; stands for `MPI_WCHAR` too, which is text and has no operations
            I32 "i32" Integer(i32),
            /// `MPI_UINT32_T`, `MPI_UNSIGNED`
            U32 "u32" Integer(u32),
            /// `MPI_INT64_T`, `MPI_LONG`, `MPI_LONG_LONG`, `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`
            I64 "i64" Integer(i64),
            /// `MPI_UINT64_T`, `MPI_UNSIGNED_LONG`, `MPI_UNSIGNED_LONG_LONG`
            U64 "u64" Integer(u64),
            /// `MPI_FLOAT`
            F32 "f32" Float(f32),
            /// `MPI_DOUBLE`
            F64 "f64" Float(f64),
            /// `MPI_LONG_DOUBLE`: 16 bytes. On x86_64, the value is the first ten bytes. Moving copies all 16;
            /// operations leave the other six unchanged. On other processors it can only be moved
            /// ([`Op::Replace`](crate::Op::Replace) and [`Op::NoOp`](crate::Op::NoOp))
            LongDouble "long double" Float(LongDouble16),
            /// `MPI_C_FLOAT_COMPLEX`
            ComplexF32 "complex f32" Complex(Complex<f32>),
            /// `MPI_C_DOUBLE_COMPLEX`
            ComplexF64 "complex f64" Complex(Complex<f64>),
            /// `MPI_C_LONG_DOUBLE_COMPLEX`: has operations where [`BasicType::LongDouble`] has
            ComplexLongDouble "complex long double" Complex(Complex<LongDouble16>),
            /// `MPI_C_BOOL`: one byte; every value but 0 is true
            Bool "bool" Logical(u8),
            /// `MPI_BYTE`; stands for `MPI_CHAR` too, which is text and has no operations
            Byte "byte" Byte(u8),
            /// `MPI_FLOAT_INT`
            FloatInt "float and int" Pair(F32, I32),
            /// `MPI_DOUBLE_INT`
            DoubleInt "double and int" Pair(F64, I32),
            /// `MPI_LONG_INT`
            LongInt "long and int" Pair(I64, I32),
            /// `MPI_2INT`
            TwoInt "two ints" Pair(I32, I32),
            /// `MPI_SHORT_INT`
            ShortInt "short and int" Pair(I16, I32),
            /// `MPI_LONG_DOUBLE_INT`: has operations where [`BasicType::LongDouble`] has
            LongDoubleInt "long double and int" Pair(LongDouble, I32),
            /// `MPI_2REAL`: the index is a float, too
            TwoFloat "two floats" Pair(F32, F32),
            /// `MPI_2DOUBLE_PRECISION`: the index is a double, too
            TwoDouble "two doubles" Pair(F64, F64),
            /// `MPI_LOGICAL2`; of logicals every value but 0 is true. `MPI_LOGICAL1` is [`BasicType::Bool`]
            Logical2 "logical of 2 bytes" Logical(u16),
            /// `MPI_LOGICAL4`, `MPI_LOGICAL`
            Logical4 "logical of 4 bytes" Logical(u32),
            /// `MPI_LOGICAL8`
            Logical8 "logical of 8 bytes" Logical(u64),
            /// `MPI_REAL16`: 16 bytes that are moved as one element, without operations
            Opaque16 "16 bytes that are moved only" Opaque(u128),
            /// `MPI_COMPLEX32`: 32 bytes, likewise
            Opaque32 "32 bytes that are moved only" Opaque([u128; 2]),
        }
    };
}
pub(super) use basic_types;

macro_rules! define {
    ($($(#[$doc:meta])+ $name:ident $text:literal $kind:ident $element:tt,)+) => {
        /// A predefined type, on which accumulates work. Layouts are those of C on this machine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum BasicType {
            $($(#[$doc])+ $name,)+
        }

        /// The Rust types that have the layouts of the predefined ones.
        pub(super) mod elements {
            use super::*;

            $(pub(in super::super) type $name = element!($kind $element);)+
        }

        impl BasicType {
            /// All of them.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$name),+];

            /// The kind, which determines the operations.
            #[inline]
            pub(crate) const fn kind(self) -> Kind {
                match self {
                    Self::LongDouble | Self::ComplexLongDouble | Self::LongDoubleInt
                        if !LONG_DOUBLES_COMBINE => Kind::Opaque,
                    $(Self::$name => Kind::$kind,)+
                }
            }

            /// The types of the value and of the index, if it is a pair.
            pub(super) const fn members(self) -> Option<(Self, Self)> {
                match self {
                    $(Self::$name => members!($kind $element),)+
                }
            }

            /// Local. Size in bytes without padding (MPI-4.1, section 5.1.5, `MPI_Type_size`).
            #[must_use]
            #[inline]
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$name => size!($kind $element),)+
                }
            }

            /// Local. Bytes from one element to the next, padding included (`MPI_Type_get_extent`).
            #[must_use]
            #[inline]
            pub const fn extent(self) -> usize {
                match self {
                    $(Self::$name => size_of::<elements::$name>(),)+
                }
            }

            /// The alignment of an element in C.
            pub(super) const fn alignment(self) -> u8 {
                match self {
                    $(Self::$name => align_of::<elements::$name>() as u8,)+
                }
            }

            /// The bytes of an element that are not padding: offsets and lengths.
            pub(crate) const fn runs(self) -> &'static [(usize, usize)] {
                match self {
                    $(Self::$name => const { runs!($name $kind $element) },)+
                }
            }

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

macro_rules! element {
    (Pair($value:ident, $index:ident)) => { IndexedValue<$value, $index> };
    ($kind:ident($element:ty)) => { $element };
}

macro_rules! size {
    (Pair($value:ident, $index:ident)) => {
        size_of::<elements::$value>() + size_of::<elements::$index>()
    };
    ($kind:ident($element:ty)) => {
        size_of::<$element>()
    };
}

macro_rules! runs {
    ($name:ident Pair($value:ident, $index:ident)) => {
        match std::mem::offset_of!(elements::$name, 1) - size_of::<elements::$value>() {
            0 => &[(0, Self::$name.size())],
            padding => &[
                (0, Self::$value.size()),
                (Self::$value.size() + padding, Self::$index.size()),
            ],
        }
    };
    ($name:ident $kind:ident $element:tt) => {
        &[(0, Self::$name.size())]
    };
}

macro_rules! members {
    (Pair($value:ident, $index:ident)) => {
        Some((Self::$value, Self::$index))
    };
    ($kind:ident($element:ty)) => {
        None
    };
}

basic_types!(define);

/// A value and an index as C lays them out.
#[repr(C)]
pub(super) struct IndexedValue<V, I>(pub(super) V, pub(super) I);

/// C's `long double` on the machines that give it 16 bytes.
#[repr(C, align(16))]
pub(super) struct LongDouble16([u8; 16]);

/// Whether this processor's `long double` is that of x87, for which arithmetic is implemented here.
const LONG_DOUBLES_COMBINE: bool = cfg!(target_arch = "x86_64");

/// The kinds of types, which determine their operations (the rows of the table in MPI-4.1, section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Float,
    Complex,
    Logical,
    Byte,
    /// A value and its index.
    Pair,
    /// Moved only.
    Opaque,
}

impl BasicType {
    /// Bytes from the first to the last byte of an element that is not padding (`MPI_Type_get_true_extent`).
    pub(crate) const fn true_extent(self) -> usize {
        let runs = self.runs();
        let (at, len) = runs[runs.len() - 1];
        at + len
    }

    /// Whether there is padding in or after an element.
    pub(crate) const fn is_padded(self) -> bool {
        self.size() != self.extent()
    }

    /// Whether compare_and_swap accepts it: single atomics can update it.
    #[inline]
    pub(crate) const fn is_swapped(self) -> bool {
        matches!(self.kind(), Kind::Integer | Kind::Logical | Kind::Byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_c() {
        fn layout<T>(ty: BasicType, members: &[(usize, usize)]) {
            assert_eq!(ty.extent(), size_of::<T>(), "{ty:?}");
            let size: usize = members.iter().map(|&(_, len)| len).sum();
            assert_eq!(ty.size(), size, "{ty:?}");
            let in_runs = |byte: &usize| {
                let inside = |&&(at, len): &&(usize, usize)| (at..at + len).contains(byte);
                ty.runs().iter().find(inside).is_some()
            };
            let bytes: Vec<_> = (0..ty.extent()).filter(in_runs).collect();
            let wanted: Vec<_> = members.iter().flat_map(|&(at, len)| at..at + len).collect();
            assert_eq!(bytes, wanted, "{ty:?}");
        }
        #[repr(C)]
        struct Pair<V>(V, i32);
        #[repr(C, align(16))]
        struct LongDouble([u8; 16]);
        layout::<Pair<f32>>(BasicType::FloatInt, &[(0, 4), (4, 4)]);
        layout::<Pair<f64>>(BasicType::DoubleInt, &[(0, 8), (8, 4)]);
        layout::<Pair<i64>>(BasicType::LongInt, &[(0, 8), (8, 4)]);
        layout::<Pair<i32>>(BasicType::TwoInt, &[(0, 4), (4, 4)]);
        layout::<Pair<i16>>(BasicType::ShortInt, &[(0, 2), (4, 4)]);
        layout::<Pair<LongDouble>>(BasicType::LongDoubleInt, &[(0, 16), (16, 4)]);
        layout::<LongDouble>(BasicType::LongDouble, &[(0, 16)]);
        layout::<[f32; 2]>(BasicType::ComplexF32, &[(0, 8)]);
        layout::<[f64; 2]>(BasicType::ComplexF64, &[(0, 16)]);
        layout::<[LongDouble; 2]>(BasicType::ComplexLongDouble, &[(0, 32)]);
        layout::<bool>(BasicType::Bool, &[(0, 1)]);
        layout::<[f32; 2]>(BasicType::TwoFloat, &[(0, 4), (4, 4)]);
        layout::<[f64; 2]>(BasicType::TwoDouble, &[(0, 8), (8, 8)]);
        layout::<u16>(BasicType::Logical2, &[(0, 2)]);
        layout::<u32>(BasicType::Logical4, &[(0, 4)]);
        layout::<u64>(BasicType::Logical8, &[(0, 8)]);
        layout::<u128>(BasicType::Opaque16, &[(0, 16)]);
        layout::<[u128; 2]>(BasicType::Opaque32, &[(0, 32)]);
    }

    #[test]
    fn every_type_is_listed_once() {
        for (index, ty) in BasicType::ALL.into_iter().enumerate() {
            assert_eq!(ty as usize, index, "{ty:?}");
            assert!(ty.true_extent() <= ty.extent(), "{ty:?}");
        }
    }
}
