//! Rust types whose values can travel between ranks.

use bytemuck::Pod;

use super::BasicType;

/// A type that windows and collectives can hold: `Copy`, without padding, any bit pattern valid,
/// of more than no bytes. Derive [`bytemuck::Pod`] (and `Zeroable`) to have it.
///
/// All ranks of a job must run the same program on the same architecture, so that they agree on
/// the layout.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

mod sealed {
    /// Accumulates read as many bytes as the predefined type has, so nobody else may name one.
    pub trait Sealed {}
}

/// Types that accumulate works on.
pub trait Accumulate: Element + sealed::Sealed {
    /// The predefined type.
    const TYPE: BasicType;
}

/// Types that single atomics work on: the integers of 32 and 64 bits.
pub trait Atomic: Accumulate {}

macro_rules! accumulate {
    ($($rust:ty: $basic:ident),*) => {
        $(impl sealed::Sealed for $rust {}

        impl Accumulate for $rust {
            const TYPE: BasicType = {
                assert!(size_of::<$rust>() == BasicType::$basic.size());
                BasicType::$basic
            };
        })*
    };
}

accumulate!(i32: I32, u32: U32, i64: I64, u64: U64, f64: F64);

impl Atomic for i32 {}
impl Atomic for u32 {}
impl Atomic for i64 {}
impl Atomic for u64 {}
