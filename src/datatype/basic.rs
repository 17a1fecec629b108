//! The predefined types.

/// A predefined type: what accumulates work on. Layouts are those of C on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum BasicType {
    /// `MPI_INT8_T`, `MPI_SIGNED_CHAR`
    I8,
    /// `MPI_UINT8_T`, `MPI_UNSIGNED_CHAR`
    U8,
    /// `MPI_INT16_T`, `MPI_SHORT`
    I16,
    /// `MPI_UINT16_T`, `MPI_UNSIGNED_SHORT`
    U16,
    /// `MPI_INT32_T`, `MPI_INT`; stands for `MPI_WCHAR` too, which is text and has no operations
    I32,
    /// `MPI_UINT32_T`, `MPI_UNSIGNED`
    U32,
    /// `MPI_INT64_T`, `MPI_LONG`, `MPI_LONG_LONG`, `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`
    I64,
    /// `MPI_UINT64_T`, `MPI_UNSIGNED_LONG`, `MPI_UNSIGNED_LONG_LONG`
    U64,
    /// `MPI_FLOAT`
    F32,
    /// `MPI_DOUBLE`
    F64,
    /// `MPI_LONG_DOUBLE`: 16 bytes. On x86_64, the value is the first ten of them: all 16 are moved, and operations
    /// leave the other six as they are. Elsewhere it is moved only ([`Op::Replace`](crate::Op::Replace) and
    /// [`Op::NoOp`](crate::Op::NoOp))
    LongDouble,
    /// `MPI_C_FLOAT_COMPLEX`
    ComplexF32,
    /// `MPI_C_DOUBLE_COMPLEX`
    ComplexF64,
    /// `MPI_C_LONG_DOUBLE_COMPLEX`: combined where [`BasicType::LongDouble`] is
    ComplexLongDouble,
    /// `MPI_C_BOOL`: one byte; every value but 0 is true
    Bool,
    /// `MPI_BYTE`; stands for `MPI_CHAR` too, which is text and has no operations
    Byte,
    /// `MPI_FLOAT_INT`
    FloatInt,
    /// `MPI_DOUBLE_INT`
    DoubleInt,
    /// `MPI_LONG_INT`
    LongInt,
    /// `MPI_2INT`
    TwoInt,
    /// `MPI_SHORT_INT`
    ShortInt,
    /// `MPI_LONG_DOUBLE_INT`: combined where [`BasicType::LongDouble`] is
    LongDoubleInt,
    /// `MPI_2REAL`: the index is a float, too
    TwoFloat,
    /// `MPI_2DOUBLE_PRECISION`: the index is a double, too
    TwoDouble,
    /// `MPI_LOGICAL2`; of logicals every value but 0 is true. `MPI_LOGICAL1` is [`BasicType::Bool`]
    Logical2,
    /// `MPI_LOGICAL4`, `MPI_LOGICAL`
    Logical4,
    /// `MPI_LOGICAL8`
    Logical8,
    /// `MPI_REAL16`: 16 bytes that are moved as one element, with no operations
    Opaque16,
    /// `MPI_COMPLEX32`: 32 bytes, likewise
    Opaque32,
}

/// Whether this processor's `long double` is that of x87, for which there is arithmetic.
const LONG_DOUBLES_COMBINE: bool = cfg!(target_arch = "x86_64");

/// What the operations make of a type (the rows of the table in MPI-4.1, section 6.9.2).
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
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::LongDouble,
        Self::ComplexF32,
        Self::ComplexF64,
        Self::ComplexLongDouble,
        Self::Bool,
        Self::Byte,
        Self::FloatInt,
        Self::DoubleInt,
        Self::LongInt,
        Self::TwoInt,
        Self::ShortInt,
        Self::LongDoubleInt,
        Self::TwoFloat,
        Self::TwoDouble,
        Self::Logical2,
        Self::Logical4,
        Self::Logical8,
        Self::Opaque16,
        Self::Opaque32,
    ];

    /// Local. Size in bytes without padding (MPI-4.1, section 5.1.5, `MPI_Type_size`).
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool | Self::Byte => 1,
            Self::I16 | Self::U16 | Self::Logical2 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Logical4 => 4,
            Self::ShortInt => 6,
            Self::I64 | Self::U64 | Self::F64 | Self::ComplexF32 | Self::Logical8 => 8,
            Self::FloatInt | Self::TwoInt | Self::TwoFloat => 8,
            Self::DoubleInt | Self::LongInt => 12,
            Self::LongDouble | Self::ComplexF64 | Self::TwoDouble | Self::Opaque16 => 16,
            Self::LongDoubleInt => 20,
            Self::ComplexLongDouble | Self::Opaque32 => 32,
        }
    }

    /// Local. Bytes from one element to the next, padding included (`MPI_Type_get_extent`).
    #[must_use]
    #[inline]
    pub const fn extent(self) -> usize {
        match self {
            Self::ShortInt => 8,
            Self::DoubleInt | Self::LongInt => 16,
            Self::LongDoubleInt => 32,
            dense => dense.size(),
        }
    }

    /// Bytes from an element's first to its last that is no padding (`MPI_Type_get_true_extent`).
    pub(crate) const fn true_extent(self) -> usize {
        let runs = self.runs();
        let (at, len) = runs[runs.len() - 1];
        at + len
    }

    /// Where the bytes of an element that are no padding stand: offsets and lengths.
    pub(crate) const fn runs(self) -> &'static [(usize, usize)] {
        match self.size() {
            1 => &[(0, 1)],
            2 => &[(0, 2)],
            4 => &[(0, 4)],
            6 => &[(0, 2), (4, 4)],
            8 => &[(0, 8)],
            12 => &[(0, 12)],
            16 => &[(0, 16)],
            20 => &[(0, 20)],
            _ => &[(0, 32)],
        }
    }

    /// Whether there is padding in or after an element.
    pub(crate) const fn is_padded(self) -> bool {
        self.size() != self.extent()
    }

    /// Local. True for the integers.
    #[must_use]
    #[inline]
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Integer)
    }

    /// Whether compare_and_swap takes it: what single atomics can update.
    #[inline]
    pub(crate) const fn is_swapped(self) -> bool {
        matches!(self.kind(), Kind::Integer | Kind::Logical | Kind::Byte)
    }

    #[inline]
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::I8 | Self::U8 | Self::I16 | Self::U16 => Kind::Integer,
            Self::I32 | Self::U32 | Self::I64 | Self::U64 => Kind::Integer,
            Self::F32 | Self::F64 => Kind::Float,
            Self::ComplexF32 | Self::ComplexF64 => Kind::Complex,
            Self::Bool | Self::Logical2 | Self::Logical4 | Self::Logical8 => Kind::Logical,
            Self::Byte => Kind::Byte,
            Self::FloatInt | Self::DoubleInt | Self::LongInt => Kind::Pair,
            Self::TwoInt | Self::ShortInt | Self::TwoFloat | Self::TwoDouble => Kind::Pair,
            Self::LongDouble if LONG_DOUBLES_COMBINE => Kind::Float,
            Self::ComplexLongDouble if LONG_DOUBLES_COMBINE => Kind::Complex,
            Self::LongDoubleInt if LONG_DOUBLES_COMBINE => Kind::Pair,
            Self::LongDouble | Self::ComplexLongDouble | Self::LongDoubleInt => Kind::Opaque,
            Self::Opaque16 | Self::Opaque32 => Kind::Opaque,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::LongDouble => "long double",
            Self::ComplexF32 => "complex f32",
            Self::ComplexF64 => "complex f64",
            Self::ComplexLongDouble => "complex long double",
            Self::Bool => "bool",
            Self::Byte => "byte",
            Self::FloatInt => "float and int",
            Self::DoubleInt => "double and int",
            Self::LongInt => "long and int",
            Self::TwoInt => "two ints",
            Self::ShortInt => "short and int",
            Self::LongDoubleInt => "long double and int",
            Self::TwoFloat => "two floats",
            Self::TwoDouble => "two doubles",
            Self::Logical2 => "logical of 2 bytes",
            Self::Logical4 => "logical of 4 bytes",
            Self::Logical8 => "logical of 8 bytes",
            Self::Opaque16 => "16 bytes that are moved only",
            Self::Opaque32 => "32 bytes that are moved only",
        }
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
