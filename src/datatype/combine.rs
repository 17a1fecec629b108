//! Operations on many elements at a time, in loops that the compiler makes vectors of.

use rdma_sys_shim::memory::copy;

use super::composite::locate;
#[cfg(target_arch = "x86_64")]
use super::long_double;
use super::{BasicType, Complex, Op, Reduce};

/// Copies `count` elements of any alignment, and nothing of the padding in and after them.
///
/// # Safety
/// As for [`copy`], for the elements.
pub(crate) unsafe fn copy_elements(ty: BasicType, to: *mut u8, from: *const u8, count: usize) {
    if !ty.is_padded() {
        // SAFETY: the caller's promise.
        unsafe { copy(to, from, count * ty.size()) };
        return;
    }
    for element in 0..count {
        for &(at, len) in ty.runs() {
            let at = element * ty.extent() + at;
            // SAFETY: part of an element, by the caller's promise.
            unsafe { copy(to.add(at), from.add(at), len) };
        }
    }
}

/// `held[i] = held[i] op operands[i]` for `count` elements of type `ty`. Operations that are not
/// defined for the type, `Replace` and `NoOp` change nothing.
///
/// # Safety
/// `held` and `operands` are readable, and `held` writable, for `count` elements of any alignment;
/// nobody else changes them meanwhile, and they do not overlap.
pub(crate) unsafe fn combine(
    ty: BasicType,
    op: Op,
    held: *mut u8,
    operands: *const u8,
    count: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the caller's promise, and the processor has the instructions.
        unsafe { combine_by_avx2(ty, op, held, operands, count) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { combine_by(ty, op, held, operands, count) };
}

/// # Safety
/// As for [`combine`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_by_avx2(ty: BasicType, op: Op, held: *mut u8, operands: *const u8, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { combine_by(ty, op, held, operands, count) };
}

/// # Safety
/// As for [`combine`].
#[inline(always)]
unsafe fn combine_by(ty: BasicType, op: Op, held: *mut u8, operands: *const u8, count: usize) {
    // SAFETY: the caller's promise, for this type.
    unsafe {
        match ty {
            BasicType::I8 => each::<i8>(op, held, operands, count),
            BasicType::U8 | BasicType::Bool | BasicType::Byte => {
                each::<u8>(op, held, operands, count);
            }
            BasicType::I16 => each::<i16>(op, held, operands, count),
            BasicType::U16 | BasicType::Logical2 => each::<u16>(op, held, operands, count),
            BasicType::I32 => each::<i32>(op, held, operands, count),
            BasicType::U32 | BasicType::Logical4 => each::<u32>(op, held, operands, count),
            BasicType::I64 => each::<i64>(op, held, operands, count),
            BasicType::U64 | BasicType::Logical8 => each::<u64>(op, held, operands, count),
            BasicType::F32 => each::<f32>(op, held, operands, count),
            BasicType::F64 => each::<f64>(op, held, operands, count),
            BasicType::ComplexF32 => each::<Complex<f32>>(op, held, operands, count),
            BasicType::ComplexF64 => each::<Complex<f64>>(op, held, operands, count),
            BasicType::FloatInt => each_pair::<f32, i32>(op, held, operands, count),
            BasicType::DoubleInt => each_pair::<f64, i32>(op, held, operands, count),
            BasicType::LongInt => each_pair::<i64, i32>(op, held, operands, count),
            BasicType::TwoInt => each_pair::<i32, i32>(op, held, operands, count),
            BasicType::ShortInt => each_pair::<i16, i32>(op, held, operands, count),
            BasicType::TwoFloat => each_pair::<f32, f32>(op, held, operands, count),
            BasicType::TwoDouble => each_pair::<f64, f64>(op, held, operands, count),
            #[cfg(target_arch = "x86_64")]
            BasicType::LongDouble | BasicType::ComplexLongDouble | BasicType::LongDoubleInt => {
                long_double::combine(ty, op, held, operands, count);
            }
            #[cfg(not(target_arch = "x86_64"))]
            BasicType::LongDouble | BasicType::ComplexLongDouble | BasicType::LongDoubleInt => {}
            BasicType::Opaque16 | BasicType::Opaque32 => {}
        }
    }
}

/// A loop for each operation, chosen outside of it.
///
/// # Safety
/// As for [`combine`].
#[inline(always)]
unsafe fn each<T: Reduce>(op: Op, held: *mut u8, operands: *const u8, count: usize) {
    macro_rules! one_loop_of {
        ($($op:ident),*) => {
            match op {
                $(Op::$op => {
                    for index in 0..count {
                        // SAFETY: inside both ranges, by the caller's promise.
                        unsafe {
                            let held = held.cast::<T>().add(index);
                            let operand = operands.cast::<T>().add(index).read_unaligned();
                            if let Some(new) = T::combine(Op::$op, held.read_unaligned(), operand) {
                                held.write_unaligned(new);
                            }
                        }
                    }
                })*
                Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => {}
            }
        };
    }
    one_loop_of!(Sum, Prod, Min, Max, Band, Bor, Bxor, Land, Lor, Lxor);
}

/// A value and an index as C lays them out.
#[repr(C)]
struct Pair<V, I>(V, I);

/// Member by member, so that padding stays as it is.
///
/// # Safety
/// As for [`combine`].
#[inline(always)]
unsafe fn each_pair<V: Copy + PartialOrd, I: Copy + PartialOrd>(
    op: Op,
    held: *mut u8,
    operands: *const u8,
    count: usize,
) {
    for index in 0..count {
        // SAFETY: inside both ranges, by the caller's promise; the pointers to members are made
        // without a reference, and only used for accesses of any alignment.
        unsafe {
            let held = held.cast::<Pair<V, I>>().add(index);
            let operand = operands.cast::<Pair<V, I>>().add(index);
            let load = |pair: *const Pair<V, I>| {
                let index = (&raw const (*pair).1).read_unaligned();
                ((&raw const (*pair).0).read_unaligned(), index)
            };
            if let Some((value, index)) = locate(op, load(held), load(operand)) {
                (&raw mut (*held).0).write_unaligned(value);
                (&raw mut (*held).1).write_unaligned(index);
            }
        }
    }
}

/// What becomes of the element `held` of an integer type, a logical or a byte: both are zero-extended,
/// and so is the result.
#[inline]
pub(crate) fn combine_word(ty: BasicType, op: Op, held: u64, operand: u64) -> u64 {
    macro_rules! word {
        ($t:ty, $unsigned:ty) => {
            match <$t>::combine(op, held as $t, operand as $t) {
                Some(new) => u64::from(new as $unsigned),
                None => held,
            }
        };
    }
    match (op, ty) {
        (Op::Replace, _) => operand,
        (_, BasicType::I8) => word!(i8, u8),
        (_, BasicType::U8 | BasicType::Bool | BasicType::Byte) => word!(u8, u8),
        (_, BasicType::I16) => word!(i16, u16),
        (_, BasicType::U16 | BasicType::Logical2) => word!(u16, u16),
        (_, BasicType::I32) => word!(i32, u32),
        (_, BasicType::U32 | BasicType::Logical4) => word!(u32, u32),
        (_, BasicType::I64) => word!(i64, u64),
        (_, BasicType::U64 | BasicType::Logical8) => word!(u64, u64),
        _ => held,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
