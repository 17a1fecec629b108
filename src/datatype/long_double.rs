//! Arithmetic of C's `long double` where it is that of x87: a value of ten bytes, 64 bits of them its mantissa, and
//! six bytes of padding, which stay as they are. Rust has no such type, but it has the instructions.

use std::arch::asm;
use std::cmp::Ordering;

use super::basic::{IndexedValue, LongDouble16};
use super::combine::CombineEach;
use super::{Complex, Op};

/// The bytes of a number that hold its value.
const VALUE: usize = 10;

/// Calls `step` for each pair of elements of `T`.
///
/// # Safety
/// As for [`combine`](super::combine()); `step` takes one element of each.
unsafe fn each<T>(
    step: unsafe fn(*mut u8, *const u8),
    held: *mut u8,
    operands: *const u8,
    count: usize,
) {
    for at in (0..count).map(|index| index * size_of::<T>()) {
        // SAFETY: one of the elements of both ranges, by the caller's promise.
        unsafe { step(held.add(at), operands.add(at)) };
    }
}

impl CombineEach for LongDouble16 {
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize) {
        let step = match op {
            Op::Sum => add,
            Op::Prod => multiply,
            Op::Min => take_if::<LESS>,
            Op::Max => take_if::<GREATER>,
            Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => return,
            Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => return,
        };
        // SAFETY: the caller's promise.
        unsafe { each::<Self>(step, held, operands, count) };
    }
}

impl CombineEach for Complex<LongDouble16> {
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize) {
        // SAFETY: the caller's promise; a complex number is two numbers, and a complex sum is two sums.
        unsafe {
            match op {
                Op::Sum => each::<LongDouble16>(add, held, operands, 2 * count),
                Op::Prod => each::<Self>(multiply_complex, held, operands, count),
                Op::Min | Op::Max | Op::Minloc | Op::Maxloc | Op::Replace | Op::NoOp => {}
                Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => {}
            }
        }
    }
}

impl CombineEach for IndexedValue<LongDouble16, i32> {
    unsafe fn combine_each(op: Op, held: *mut u8, operands: *const u8, count: usize) {
        let step = match op {
            Op::Minloc => locate::<LESS>,
            Op::Maxloc => locate::<GREATER>,
            Op::Sum | Op::Prod | Op::Min | Op::Max | Op::Replace | Op::NoOp => return,
            Op::Band | Op::Bor | Op::Bxor | Op::Land | Op::Lor | Op::Lxor => return,
        };
        // SAFETY: the caller's promise.
        unsafe { each::<Self>(step, held, operands, count) };
    }
}

/// Instructions that pop as much as they push. The compiler uses none of these registers meanwhile, since all are
/// clobbered.
macro_rules! x87 {
    ($($line:literal),+; $($operand:tt)+) => {
        asm!(
            $($line,)+
            $($operand)+
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        )
    };
}

/// # Safety
/// There is a number at each; the first is writable, and no other code accesses it.
#[inline]
unsafe fn add(held: *mut u8, operand: *const u8) {
    // SAFETY: it reads ten bytes at each and writes ten at the first, where the caller promises numbers; it pops what
    // it pushes.
    unsafe {
        x87!(
            "fld tbyte ptr [{held}]",
            "fld tbyte ptr [{operand}]",
            "faddp st(1), st",
            "fstp tbyte ptr [{held}]";
            held = in(reg) held, operand = in(reg) operand,
        );
    }
}

/// # Safety
/// As for [`add`].
#[inline]
unsafe fn multiply(held: *mut u8, operand: *const u8) {
    // SAFETY: as in `add`.
    unsafe {
        x87!(
            "fld tbyte ptr [{held}]",
            "fld tbyte ptr [{operand}]",
            "fmulp st(1), st",
            "fstp tbyte ptr [{held}]";
            held = in(reg) held, operand = in(reg) operand,
        );
    }
}

/// # Safety
/// As for [`add`], with two numbers at each: the real and the imaginary part.
#[inline]
unsafe fn multiply_complex(held: *mut u8, operand: *const u8) {
    // SAFETY: it reads ten bytes of each of four numbers and writes those of the first two; the caller promises all of
    // them. Both results are calculated before the first is stored. It uses four of eight registers.
    unsafe {
        x87!(
            "fld tbyte ptr [{held}]",
            "fld tbyte ptr [{operand}]",
            "fmulp st(1), st",
            "fld tbyte ptr [{held} + 16]",
            "fld tbyte ptr [{operand} + 16]",
            "fmulp st(1), st",
            "fsubp st(1), st",
            "fld tbyte ptr [{held}]",
            "fld tbyte ptr [{operand} + 16]",
            "fmulp st(1), st",
            "fld tbyte ptr [{held} + 16]",
            "fld tbyte ptr [{operand}]",
            "fmulp st(1), st",
            "faddp st(1), st",
            "fstp tbyte ptr [{held} + 16]",
            "fstp tbyte ptr [{held}]";
            held = in(reg) held, operand = in(reg) operand,
        );
    }
}

/// `None` if one of them is not a number.
///
/// # Safety
/// There is a number at each.
#[inline]
unsafe fn compare(a: *const u8, b: *const u8) -> Option<Ordering> {
    let (less, greater, unordered): (u8, u8, u8);
    // SAFETY: it reads ten bytes at each, where the caller promises numbers, and pops what it pushes. The last pop does
    // not change the flags of the comparison.
    unsafe {
        x87!(
            "fld tbyte ptr [{b}]",
            "fld tbyte ptr [{a}]",
            "fucomip st, st(1)",
            "fstp st(0)",
            "setb {less}",
            "seta {greater}",
            "setp {unordered}";
            a = in(reg) a, b = in(reg) b,
            less = out(reg_byte) less, greater = out(reg_byte) greater, unordered = out(reg_byte) unordered,
        );
    }
    match (unordered, less, greater) {
        (0, 0, 0) => Some(Ordering::Equal),
        (0, 0, _) => Some(Ordering::Greater),
        (0, ..) => Some(Ordering::Less),
        _ => None,
    }
}

const LESS: i8 = Ordering::Less as i8;
const GREATER: i8 = Ordering::Greater as i8;

/// Takes the smaller or the greater number; if they are equal, keeps the held one.
///
/// # Safety
/// As for [`add`].
#[inline]
unsafe fn take_if<const WANTED: i8>(held: *mut u8, operand: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let takes = match compare(operand, held) {
            Some(order) => order as i8 == WANTED,
            // As with other floats, any operand replaces a NaN.
            None => compare(held, held).is_none(),
        };
        if takes {
            held.copy_from_nonoverlapping(operand, VALUE);
        }
    }
}

/// Takes the smaller or the greater number and its index; if the numbers are equal, the lower index.
///
/// # Safety
/// As for [`add`], with an `int` after each number.
#[inline]
unsafe fn locate<const WANTED: i8>(held: *mut u8, operand: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let index = operand
            .add(size_of::<LongDouble16>())
            .cast::<i32>()
            .read_unaligned();
        let held_index = held.add(size_of::<LongDouble16>()).cast::<i32>();
        let takes = match compare(operand, held) {
            Some(Ordering::Equal) => index < held_index.read_unaligned(),
            Some(order) => order as i8 == WANTED,
            // A number is preferred to a NaN.
            None => compare(operand, operand).is_some(),
        };
        if takes {
            held.copy_from_nonoverlapping(operand, VALUE);
            held_index.write_unaligned(index);
        }
    }
}
