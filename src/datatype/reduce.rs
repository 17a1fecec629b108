//! What the operations do to two values.

use super::{Element, Op};

/// Types that [`reduce`](crate::Communicator::reduce) works on.
#[diagnostic::on_unimplemented(
    message = "collectives cannot combine values of `{Self}`",
    label = "values that cannot be combined",
    note = "integers, floats, `Complex` and `ValueIndex` can be combined, and types that implement `Reduce`; for `bool` there are \
            `Communicator::all` and `Communicator::any`"
)]
pub trait Reduce: Element {
    /// `a op b`, or `None` if the operation is not defined for the type.
    fn combine(op: Op, a: Self, b: Self) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ty),*) => {
        $(impl Reduce for $t {
            #[inline(always)]
            fn combine(op: Op, a: Self, b: Self) -> Option<Self> {
                Some(match op {
                    Op::Sum => a.wrapping_add(b),
                    Op::Prod => a.wrapping_mul(b),
                    Op::Min => a.min(b),
                    Op::Max => a.max(b),
                    Op::Band => a & b,
                    Op::Bor => a | b,
                    Op::Bxor => a ^ b,
                    Op::Land => ((a != 0) & (b != 0)).into(),
                    Op::Lor => ((a | b) != 0).into(),
                    Op::Lxor => ((a != 0) ^ (b != 0)).into(),
                    Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => return None,
                })
            }
        })*
    };
}

/// Not `min` and `max` of the standard library: those do not specify which of 0.0 and -0.0 they
/// return, and single elements must give the same result as those of a vector.
macro_rules! floats {
    ($($t:ty),*) => {
        $(impl Reduce for $t {
            #[inline(always)]
            fn combine(op: Op, a: Self, b: Self) -> Option<Self> {
                Some(match op {
                    Op::Sum => a + b,
                    Op::Prod => a * b,
                    Op::Min => if b < a || a.is_nan() { b } else { a },
                    Op::Max => if b > a || a.is_nan() { b } else { a },
                    Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => return None,
                    Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => return None,
                })
            }
        })*
    };
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, isize, usize);
floats!(f32, f64);
