//! Operations on elements whose type is known at run time.

use crate::datatype::{self, BasicType, Op};
use crate::error::{Error, Misuse, Result};

const OPERATION: &str = "combine";

/// Local. `target[i] = target[i] op origin[i]` for all elements of type `ty` in these bytes, which need
/// not be aligned: what an accumulate does, but not atomically. `Replace` copies, and `NoOp` changes
/// nothing; padding stays as it is.
///
/// ```
/// use transom::lower::combine;
/// use transom::{BasicType, Op};
///
/// # fn main() -> transom::Result<()> {
/// let mut sums = 1.5_f64.to_ne_bytes();
/// combine(Op::Sum, BasicType::F64, &mut sums, &2.0_f64.to_ne_bytes())?;
/// assert_eq!(f64::from_ne_bytes(sums), 3.5);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The operation is not defined for the type ([`Op::is_defined_for`]); slices of different lengths, or
/// of a part of an element.
pub fn combine(op: Op, ty: BasicType, target: &mut [u8], origin: &[u8]) -> Result<()> {
    let refused = |misuse| Err(Error::new(OPERATION, misuse));
    if target.len() != origin.len() {
        return refused(Misuse::LengthsDiffer {
            origin: origin.len() as u64,
            other: target.len() as u64,
            side: "in the target, in bytes",
        });
    }
    if !target.len().is_multiple_of(ty.extent()) {
        return refused(Misuse::PartOfElement {
            len: target.len() as u64,
            ty: ty.name(),
            extent: ty.extent() as u64,
        });
    }
    let count = target.len() / ty.extent();
    // SAFETY: both slices have so many bytes, and one of them is borrowed uniquely.
    unsafe { combine_raw(op, ty, target.as_mut_ptr(), origin.as_ptr(), count) }
}

/// Local. As [`combine`], of `count` elements wherever they are.
///
/// # Errors
/// The operation is not defined for the type.
///
/// # Safety
/// `target` and `origin` are readable, and `target` writable, for `count` elements of any alignment
/// ([`BasicType::extent`] bytes each); nobody else changes them meanwhile, and they do not overlap.
pub unsafe fn combine_raw(
    op: Op,
    ty: BasicType,
    target: *mut u8,
    origin: *const u8,
    count: usize,
) -> Result<()> {
    op.check_defined_for(OPERATION, ty)?;
    match op {
        Op::NoOp => {}
        // SAFETY: the caller's promise.
        Op::Replace => unsafe { datatype::copy_elements(ty, target, origin, count) },
        // SAFETY: the caller's promise.
        _ => unsafe { datatype::combine(ty, op, target, origin, count) },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Accumulate, Complex, Reduce, ValueIndex};
    use crate::error::ErrorClass;

    /// Both values, at an odd address, and what the public operation on the type makes of them.
    fn agrees<T: Accumulate + Reduce>(op: Op, held: T, operand: T) {
        let size = size_of::<T>();
        let mut bytes = vec![0xaa; 1 + 2 * size];
        for element in [0, size] {
            bytes[1 + element..][..size].copy_from_slice(bytemuck::bytes_of(&held));
        }
        let operands = [operand; 2];
        let combined = combine(
            op,
            T::TYPE,
            &mut bytes[1..],
            bytemuck::cast_slice(&operands),
        );
        let wanted = match op {
            Op::Replace => Some(operand),
            Op::NoOp => Some(held),
            _ => T::combine(op, held, operand),
        };
        let Some(wanted) = wanted else {
            assert_eq!(combined.unwrap_err().class(), ErrorClass::Op, "{op:?}");
            assert!(!op.is_defined_for(T::TYPE));
            return;
        };
        combined.unwrap();
        for element in [0, size] {
            let found = &bytes[1 + element..][..size];
            assert_eq!(
                found,
                bytemuck::bytes_of(&wanted),
                "{op:?} of {:?}",
                T::TYPE
            );
        }
        assert_eq!(bytes[0], 0xaa);
    }

    #[test]
    fn it_is_what_the_typed_operations_do() {
        for op in Op::ALL {
            macro_rules! of_integers {
                ($($t:ty),*) => {
                    $(for (held, operand) in [(3, 100), (100, 3), (0, 7), (<$t>::MAX, 2), (5, 5)] {
                        agrees::<$t>(op, held, operand);
                    })*
                };
            }
            of_integers!(i8, u8, i16, u16, i32, u32, i64, u64);
            for (held, operand) in [(1.5, -2.25), (f64::NAN, 1.0), (1.0, f64::NAN), (0.0, -0.0)] {
                agrees::<f64>(op, held, operand);
                agrees::<f32>(op, held as f32, operand as f32);
            }
            agrees(
                op,
                Complex { re: 1.5, im: -2.0 },
                Complex {
                    re: 0.5_f32,
                    im: 4.0,
                },
            );
            agrees(
                op,
                Complex { re: 1.5, im: -2.0 },
                Complex {
                    re: 0.5_f64,
                    im: 4.0,
                },
            );
            for (value, index) in [(2, 1), (1, 3), (2, 0), (9, 9)] {
                let held = ValueIndex { value: 2, index: 1 };
                agrees::<ValueIndex<i32>>(op, held, ValueIndex { value, index });
                let held = ValueIndex {
                    value: 2.0,
                    index: 1,
                };
                let value = value as f32;
                agrees::<ValueIndex<f32>>(op, held, ValueIndex { value, index });
            }
        }
    }

    #[test]
    fn what_is_not_defined_is_refused_and_the_rest_is_done() {
        for ty in BasicType::ALL {
            for op in Op::ALL {
                let mut target = vec![1; 3 * ty.extent()];
                let done = combine(op, ty, &mut target, &vec![2; 3 * ty.extent()]);
                assert_eq!(done.is_ok(), op.is_defined_for(ty), "{op:?} of {ty:?}");
                if op == Op::Replace {
                    let changed = target.iter().filter(|&&byte| byte == 2).count();
                    assert_eq!(changed, 3 * ty.size(), "{ty:?}: padding stays");
                }
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let class = |target: usize, origin: usize| {
            let (mut target, origin) = (vec![0; target], vec![0; origin]);
            let error = combine(Op::Sum, BasicType::I32, &mut target, &origin).unwrap_err();
            error.class()
        };
        assert_eq!(class(8, 4), ErrorClass::Count);
        assert_eq!(class(7, 7), ErrorClass::Count);
        combine(Op::Sum, BasicType::I32, &mut [], &[]).unwrap();
    }
}
