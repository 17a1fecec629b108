//! Reduction operations.

use super::Element;

/// A reduction operation (MPI-4.1, section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Sum; integers wrap.
    Sum,
    /// Product; integers wrap.
    Prod,
    /// The smaller.
    Min,
    /// The greater.
    Max,
    /// Bitwise and; integers only.
    Band,
    /// Bitwise or; integers only.
    Bor,
    /// Bitwise exclusive or; integers only.
    Bxor,
    /// What the origin has; accumulates only.
    Replace,
    /// What the target has; fetching accumulates only.
    NoOp,
}

/// Types that [`reduce`](crate::Communicator::reduce) works on.
pub trait Reduce: Element {
    /// `a op b`, or `None` where the operation is not defined for the type.
    fn combine(op: Op, a: Self, b: Self) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ty),*) => {
        $(impl Reduce for $t {
            fn combine(op: Op, a: Self, b: Self) -> Option<Self> {
                Some(match op {
                    Op::Sum => a.wrapping_add(b),
                    Op::Prod => a.wrapping_mul(b),
                    Op::Min => a.min(b),
                    Op::Max => a.max(b),
                    Op::Band => a & b,
                    Op::Bor => a | b,
                    Op::Bxor => a ^ b,
                    Op::Replace | Op::NoOp => return None,
                })
            }
        })*
    };
}

macro_rules! floats {
    ($($t:ty),*) => {
        $(impl Reduce for $t {
            fn combine(op: Op, a: Self, b: Self) -> Option<Self> {
                Some(match op {
                    Op::Sum => a + b,
                    Op::Prod => a * b,
                    Op::Min => a.min(b),
                    Op::Max => a.max(b),
                    _ => return None,
                })
            }
        })*
    };
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, isize, usize);
floats!(f32, f64);
