//! Rust types whose values can travel between ranks.

use bytemuck::Pod;

use super::{BasicType, Complex, ValueIndex};

/// A type that windows and collectives can hold: `Copy`, without padding, not zero-sized, and any bit pattern is valid.
/// Derive [`bytemuck::Pod`] (and `Zeroable`) to implement it.
///
/// All ranks of a job must run the same program on the same architecture, so that they agree on
/// the layout.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of windows and collectives",
    label = "this is no element",
    note = "elements are integers, floats, arrays of elements, and structs that derive `bytemuck::Pod` and \
            `bytemuck::Zeroable`: they have no padding, no references and no invalid values, as `bool` has"
)]
pub trait Element: Pod + Send + Sync {}

// Otherwise compiler errors would name `Pod`, of another crate, instead of this trait.
#[diagnostic::do_not_recommend]
impl<T: Pod + Send + Sync> Element for T {}

mod sealed {
    /// Accumulates read as many bytes as the predefined type has, so other crates must not name one.
    pub trait Sealed {}
}

/// Types that accumulate works on: integers, floats, complex numbers, and values with their index. [`Op`](crate::Op)
/// says which operations are defined for a type.
#[diagnostic::on_unimplemented(
    message = "no accumulate is defined for `{Self}`",
    label = "elements that accumulates cannot combine",
    note = "accumulates, `load` and `store` are for integers of up to 64 bits but `usize` and `isize`, `f32`, `f64`, \
            `Complex` and `ValueIndex`"
)]
pub trait Accumulate: Element + sealed::Sealed {
    /// The predefined type.
    const TYPE: BasicType;
}

/// Types that [`fetch_add`](crate::Target::fetch_add) and [`compare_swap`](crate::Target::compare_swap) work on: the
/// integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no fetch_add and compare_swap",
    label = "these atomics are for integers",
    note = "they are for integers of up to 64 bits but `usize` and `isize`; for other types there is `fetch_and_op`"
)]
pub trait Atomic: Accumulate {}

macro_rules! accumulate {
    ($($rust:ty: $basic:ident),*) => {
        $(impl sealed::Sealed for $rust {}

        impl Accumulate for $rust {
            const TYPE: BasicType = {
                assert!(size_of::<$rust>() == BasicType::$basic.extent());
                BasicType::$basic
            };
        })*
    };
}

macro_rules! atomic {
    ($($rust:ty: $basic:ident),*) => {
        accumulate!($($rust: $basic),*);
        $(impl Atomic for $rust {})*
    };
}

atomic!(i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64);
accumulate!(f32: F32, f64: F64, Complex<f32>: ComplexF32, Complex<f64>: ComplexF64);
accumulate!(ValueIndex<f32>: FloatInt, ValueIndex<i32>: TwoInt);
