//! Complex numbers, and values with their index.

use std::ops::{Add, Mul, Sub};

use bytemuck::{Pod, Zeroable};

use super::{Op, Reduce};

/// A complex number with the layout of C's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

// SAFETY: two floats, for which zeroes are valid.
unsafe impl<T: Zeroable> Zeroable for Complex<T> {}
// SAFETY: two members of one type, whose size is a multiple of its alignment, leave no padding.
unsafe impl<T: Pod> Pod for Complex<T> {}

impl<T> Complex<T> {
    #[inline(always)]
    fn combine(op: Op, a: Self, b: Self) -> Option<Self>
    where
        T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>,
    {
        Some(match op {
            Op::Sum => Self {
                re: a.re + b.re,
                im: a.im + b.im,
            },
            Op::Prod => Self {
                re: a.re * b.re - a.im * b.im,
                im: a.re * b.im + a.im * b.re,
            },
            Op::Min | Op::Max | Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => return None,
            Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => return None,
        })
    }
}

/// A value and its index, for [`Op::Minloc`] and [`Op::Maxloc`], with the layout of MPI's pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct ValueIndex<V> {
    /// The value that is compared.
    pub value: V,
    /// The index.
    pub index: i32,
}

// SAFETY: a number and an integer, for which zeroes are valid.
unsafe impl<V: Zeroable> Zeroable for ValueIndex<V> {}
// SAFETY: two members of four bytes, any bytes being valid, without padding.
unsafe impl Pod for ValueIndex<f32> {}
// SAFETY: as above.
unsafe impl Pod for ValueIndex<i32> {}

impl<V: Copy + PartialOrd> ValueIndex<V> {
    #[inline(always)]
    fn locate(op: Op, a: Self, b: Self) -> Option<Self> {
        let pair = |Self { value, index }| (value, index);
        let (value, index) = locate(op, pair(a), pair(b))?;
        Some(Self { value, index })
    }
}

/// `a op b` of values and their indices, or `None` for operations that are not defined for pairs.
#[inline(always)]
pub(super) fn locate<V, I>(op: Op, a: (V, I), b: (V, I)) -> Option<(V, I)>
where
    V: Copy + PartialOrd,
    I: PartialOrd,
{
    let better = match op {
        Op::Minloc => b.0 < a.0,
        Op::Maxloc => b.0 > a.0,
        Op::Sum | Op::Prod | Op::Min | Op::Max | Op::Replace | Op::NoOp => return None,
        Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => return None,
    };
    let tie = b.0 == a.0 && b.1 < a.1;
    // A value that does not equal itself is a NaN; every number is preferred to it.
    let first_number = is_nan(a.0) && !is_nan(b.0);
    Some(if better || tie || first_number { b } else { a })
}

#[inline(always)]
fn is_nan<V: PartialOrd>(value: V) -> bool {
    value.partial_cmp(&value).is_none()
}

macro_rules! reduce {
    ($($t:ty: $combine:path),*) => {
        $(impl Reduce for $t {
            #[inline(always)]
            fn combine(op: Op, a: Self, b: Self) -> Option<Self> {
                $combine(op, a, b)
            }
        })*
    };
}
reduce!(
    Complex<f32>: Complex::combine, Complex<f64>: Complex::combine,
    ValueIndex<f32>: ValueIndex::locate, ValueIndex<i32>: ValueIndex::locate
);
