//! Accumulates in which one atomic of the processor updates each element: aligned integers in mapped
//! memory. Neighbouring narrow elements go in wider words (`narrow`), and many elements may be updated faster under the
//! accumulate lock (`words`).
//!
//! The path depends on the element's type, its alignment and whose memory it is in, never on the operation or
//! where the origin is: a fetch_and_op and an accumulate on one word are atomic with respect to each other,
//! because both use the atomics of the window's domain. These are the processor's (here or in the target's
//! agent); or the device's, which then also carries out this rank's operations on its own memory, mapped or not;
//! or both, if they are atomic with respect to each other. See `by_device`.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use rdma_sys_shim::Width;

use super::work::Work;
use crate::datatype::{BasicType, Op, combine_word};

/// Evaluates an expression on the word of `$width` at `$at`. The word is called `$word`, and its integer type `$int`.
/// The result is zero-extended.
macro_rules! on_word {
    ($at:expr, $width:expr, |$word:ident: $int:ident| $body:expr) => {
        on_word!($at, $width, |$word: $int| $body;
            W8 AtomicU64 u64, W4 AtomicU32 u32, W2 AtomicU16 u16, W1 AtomicU8 u8)
    };
    ($at:expr, $width:expr, |$word:ident: $int:ident| $body:expr;
     $($variant:ident $atomic:ident $integer:ident),+) => {
        match $width {
            $(Width::$variant => {
                type $int = $integer;
                // SAFETY: mapped, aligned and shared as an atomic by the caller's promise.
                let $word = unsafe { $atomic::from_ptr($at.cast()) };
                u64::from($body)
            })+
        }
    };
}

/// An operation that is one instruction and returns the previous value of the word.
#[derive(Clone, Copy)]
pub(super) enum Fetching {
    Add,
    Swap,
    Load,
}

impl Fetching {
    #[inline(always)]
    pub(super) fn of(op: Op) -> Option<Self> {
        match op {
            Op::Sum => Some(Self::Add),
            Op::Replace => Some(Self::Swap),
            Op::NoOp => Some(Self::Load),
            _ => None,
        }
    }
}

/// Applies `op` to the word at `at`; returns the previous value.
///
/// # Safety
/// `at` is mapped, aligned for the width, and all concurrent accesses to it are atomic.
#[inline]
pub(super) unsafe fn fetch_op(at: *mut u8, width: Width, op: Fetching, operand: u64) -> u64 {
    on_word!(at, width, |word: Int| {
        let operand = operand as Int;
        match op {
            Fetching::Add => word.fetch_add(operand, Ordering::SeqCst),
            Fetching::Swap => word.swap(operand, Ordering::SeqCst),
            Fetching::Load => word.load(Ordering::SeqCst),
        }
    })
}

/// A compare-and-swap on the word at `at`; returns the previous value.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
pub(super) unsafe fn compare_swap(at: *mut u8, width: Width, expect: u64, new: u64) -> u64 {
    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
    on_word!(at, width, |word: Int| word
        .compare_exchange(expect as Int, new as Int, success, failure)
        .unwrap_or_else(|old| old))
}

/// Stores without fetching: a plain store is atomic with respect to other processors' locked instructions.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
unsafe fn store(at: *mut u8, width: Width, value: u64) {
    on_word!(at, width, |word: Int| {
        word.store(value as Int, Ordering::Release);
        0_u8
    });
}

/// An exclusive or without fetching. It is an instruction of its own, which takes the line of the word only once.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
unsafe fn flip(at: *mut u8, width: Width, operand: u64) {
    on_word!(at, width, |word: Int| {
        word.fetch_xor(operand as Int, Ordering::SeqCst);
        0_u8
    });
}

/// Any operation that is defined for the type; returns the previous value of the word.
///
/// # Safety
/// As for [`fetch_op`].
unsafe fn update(at: *mut u8, width: Width, ty: BasicType, op: Op, operand: u64) -> u64 {
    if let Some(fetching) = Fetching::of(op) {
        // SAFETY: the caller's promise.
        return unsafe { fetch_op(at, width, fetching, operand) };
    }
    // SAFETY: the caller's promise.
    unsafe { update_by(at, width, |held| combine_word(ty, op, held, operand)) }
}

/// Replaces the word at `at` by what `new` makes of it; returns the previous value.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
pub(super) unsafe fn update_by(at: *mut u8, width: Width, new: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: the caller's promise.
    let mut held = unsafe { fetch_op(at, width, Fetching::Load, 0) };
    loop {
        let new = new(held);
        // In a minimum of many, most leave the word as it is. Other processors then keep their copies of its line.
        if new == held {
            return held;
        }
        // SAFETY: the caller's promise.
        let found = unsafe { compare_swap(at, width, held, new) };
        if found == held {
            return held;
        }
        held = found;
    }
}

/// Carries out work on the elements from `there` on, one by one.
///
/// # Safety
/// As for [`fetch_op`], for each element; the buffers of `work` are valid.
pub(super) unsafe fn update_each(there: *mut u8, width: Width, work: &Work) {
    let words = (0..work.count).map(|index| {
        let offset = index * width.bytes();
        // SAFETY: one of the operands.
        let operand = unsafe { work.operand(offset, width) };
        (offset, there.wrapping_add(offset), operand)
    });
    let &Work { ty, op, .. } = work;
    // If nothing is fetched, shorter instructions are enough.
    match op {
        Op::Sum if work.result.is_null() => {
            // SAFETY: the caller's promise.
            words.for_each(|(_, at, operand)| unsafe {
                fetch_op(at, width, Fetching::Add, operand);
            });
        }
        Op::Bxor if work.result.is_null() => {
            // SAFETY: the caller's promise.
            words.for_each(|(_, at, operand)| unsafe { flip(at, width, operand) });
        }
        Op::Replace if work.overwrites() => {
            // From the last to the first, since they are fetched from the first to the last: see `whole_words`.
            // SAFETY: the caller's promise.
            (words.rev()).for_each(|(_, at, operand)| unsafe { store(at, width, operand) });
        }
        // SAFETY: the caller's promise; what is compared has as many elements.
        _ if !work.compare.is_null() => words.for_each(|(offset, at, operand)| unsafe {
            let expect = width.load(work.compare.add(offset));
            let old = compare_swap(at, width, expect, operand);
            width.store(work.result.add(offset), old);
        }),
        // SAFETY: the caller's promise; the result, if there is one, has as many elements.
        _ => words.for_each(|(offset, at, operand)| unsafe {
            let old = update(at, width, ty, op, operand);
            if !work.result.is_null() {
                width.store(work.result.add(offset), old);
            }
        }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_stays_the_same_is_not_written() {
        // A store to it would end the process.
        static HELD: u64 = 0b1100;
        for (op, operand) in [
            (Op::Min, 13),
            (Op::Max, 12),
            (Op::Bor, 0b0100),
            (Op::Band, 0b1110),
            (Op::Prod, 1),
        ] {
            let at = (&raw const HELD).cast_mut().cast();
            // SAFETY: an aligned word, which is only read.
            let old = unsafe { update(at, Width::W8, BasicType::U64, op, operand) };
            assert_eq!(old, HELD, "{op:?}");
        }
    }
}
