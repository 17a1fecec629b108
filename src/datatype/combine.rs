//! Operations on many elements at a time, in loops that the compiler makes vectors of.

use rdma_sys_shim::memory::copy;

use super::basic::{IndexedValue, basic_types, elements};
use super::composite::locate;
use super::operation::operations;
use super::{BasicType, Op, Reduce};
#[cfg(not(target_arch = "x86_64"))]
use super::{Complex, basic::LongDouble16};

/// Copies `count` elements of any alignment, without the padding in and after them.
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

/// `held[i] = held[i] op operands[i]` for `count` elements of type `ty`. Has no effect for `Replace`, for `NoOp`, and
/// for operations that are not defined for the type.
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
    macro_rules! by_type {
        ($($(#[$doc:meta])+ $name:ident $text:literal $kind:ident $element:tt,)+) => {
            match ty {
                // SAFETY: the caller's promise, for elements of this layout.
                $(BasicType::$name => unsafe {
                    elements::$name::combine_each(op, held, operands, count);
                })+
            }
        };
    }
    basic_types!(by_type);
}

/// The part of [`combine`] for elements of one layout.
pub(super) trait CombineEach {
    /// # Safety
    /// As for [`combine`].
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize);
}

/// One loop for each operation; the choice is outside the loop.
impl<T: Reduce> CombineEach for T {
    #[inline(always)]
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize) {
        macro_rules! one_loop_of {
            ($($(#[$doc:meta])+ $op:ident [$($kind:ident)+],)+) => {
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
                    })+
                }
            };
        }
        operations!(one_loop_of);
    }
}

/// Works on each member, so that padding is not changed.
impl<V: Copy + PartialOrd, I: Copy + PartialOrd> CombineEach for IndexedValue<V, I> {
    #[inline(always)]
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize) {
        for index in 0..count {
            // SAFETY: inside both ranges, by the caller's promise; the pointers to members are made without a
            // reference, and only used for unaligned accesses.
            unsafe {
                let held = held.cast::<Self>().add(index);
                let operand = operands.cast::<Self>().add(index);
                let load = |pair: *const Self| {
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
}

/// There is no arithmetic for these types.
macro_rules! moved_only {
    ($($t:ty),+) => {
        $(impl CombineEach for $t {
            #[inline(always)]
            unsafe fn combine_each(_: Op, _: *mut u8, _: *const u8, _: usize) {}
        })+
    };
}
moved_only!(u128, [u128; 2]);
#[cfg(not(target_arch = "x86_64"))]
moved_only!(LongDouble16, Complex<LongDouble16>, IndexedValue<LongDouble16, i32>);

/// The new value of the element `held` of an integer type, a logical or a byte. Arguments and result are zero-extended.
#[inline]
pub(crate) fn combine_word(ty: BasicType, op: Op, held: u64, operand: u64) -> u64 {
    macro_rules! by_type {
        ($($(#[$doc:meta])+ $name:ident $text:literal $kind:ident $element:tt,)+) => {
            match ty {
                $(BasicType::$name => word!($kind $element),)+
            }
        };
    }
    macro_rules! word {
        (Integer($t:ty)) => {
            match <$t>::combine(op, held as $t, operand as $t) {
                Some(new) => new as u64 & u64::MAX >> (u64::BITS - <$t>::BITS),
                None => held,
            }
        };
        (Logical $element:tt) => { word!(Integer $element) };
        (Byte $element:tt) => { word!(Integer $element) };
        ($other:ident $element:tt) => { held };
    }
    match op {
        Op::Replace => operand,
        _ => basic_types!(by_type),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
