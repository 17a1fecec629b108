//! One small operation and a flush, and many before one flush, under `lock_all`. Each is a loop of its own, as in the C
//! program: among the loops of `measure`, the compiler leaves the shortest operations as calls.

use std::hint::black_box;
use std::ptr;

use transom::raw::{Assert, Window};
use transom::{BasicType, Op};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 8;

/// How many operations go before one flush.
const BURST: u64 = 64;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("one operation and flush")?;
    let (one, real, zero, mut result) = (1_i64, 1_f64, 0_i64, 0_u64);
    let integer: *const u8 = ptr::from_ref(&one).cast();
    let (buffer, len, target, at) = black_box((buffer, 8, TARGET, 0));
    let (one, zero) = black_box((integer, ptr::from_ref(&zero).cast()));
    let (result, word) = black_box(((&raw mut result).cast(), BasicType::I64));
    // Of all operations below: the buffer and the others have 8 bytes, they outlive the flush, and nobody touches them
    // before it.
    flushed(bench, window, line("put8_flush", "put"), move || {
        // SAFETY: as said above.
        unsafe { window.put(buffer, len, target, at) }
    })?;
    flushed(bench, window, line("get8_flush", "get"), move || {
        // SAFETY: as said above.
        unsafe { window.get(buffer, len, target, at) }
    })?;
    for (name, op, ty, from) in [
        ("acc_i64_flush", "accumulate", BasicType::I64, integer),
        (
            "acc_f64_flush",
            "accumulate_f64",
            BasicType::F64,
            ptr::from_ref(&real).cast(),
        ),
    ] {
        let (from, count, ty) = black_box((from, 1, ty));
        flushed(bench, window, line(name, op), move || {
            // SAFETY: as said above.
            unsafe { window.accumulate(from, count, ty, target, at, Op::Sum) }
        })?;
    }
    flushed(
        bench,
        window,
        line("fetch_add_flush", "fetch_and_op"),
        move || {
            // SAFETY: as said above.
            unsafe { window.fetch_and_op(one, result, word, target, at, Op::Sum) }
        },
    )?;
    flushed(
        bench,
        window,
        line("cas_flush", "compare_and_swap"),
        move || {
            // SAFETY: as said above.
            unsafe { window.compare_and_swap(one, zero, result, word, target, at) }
        },
    )?;
    bench.group("64 operations, then flush")?;
    flushed(bench, window, burst("put8_rate", "put"), move || {
        for number in 0..BURST {
            // SAFETY: as said above.
            unsafe { window.put(buffer, len, target, 8 * number)? };
        }
        Ok(())
    })?;
    let count = black_box(1);
    flushed(
        bench,
        window,
        burst("acc_i64_rate", "accumulate"),
        move || {
            for number in 0..BURST {
                // SAFETY: as said above.
                unsafe { window.accumulate(one, count, word, target, 8 * number, Op::Sum)? };
            }
            Ok(())
        },
    )
}

/// Of 8 bytes.
fn line<'a>(name: &'a str, op: &'static str) -> Line<'a> {
    Line {
        name,
        subject: Subject::new(op, 8, "flush"),
        iterations: 20_000,
        scale: Scale::Nanoseconds,
    }
}

fn burst<'a>(name: &'a str, op: &'static str) -> Line<'a> {
    Line {
        name,
        subject: Subject::new(op, 8, "flush").burst(BURST as u32),
        iterations: 2_000,
        scale: Scale::MegaOperations(BURST as f64),
    }
}

#[inline(never)]
fn flushed(
    bench: &mut Bench<'_>,
    window: &Window,
    line: Line<'_>,
    operations: impl Fn() -> transom::Result<()>,
) -> Result<()> {
    let (target, origin) = (black_box(TARGET), bench.is_origin());
    if origin {
        window.lock_all(Assert::NONE)?;
    }
    bench.origin(line, move || {
        operations()?;
        window.flush(target)
    })?;
    if origin {
        window.unlock_all()?;
    }
    Ok(())
}
