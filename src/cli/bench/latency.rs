//! One small operation and a flush, and many before one flush, under `lock_all`.

use std::hint::black_box;
use std::ptr;

use transom::raw::Window;
use transom::{BasicType, Op};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 8;

const ROUNDS: u32 = 20_000;
/// How many operations go before one flush.
const BURST: u64 = 64;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("one operation and flush")?;
    put(bench, window, flushed("put8_flush", "put"), buffer, 8)?;
    get(bench, window, flushed("get8_flush", "get"), buffer, 8)?;
    let (real, integer) = (1_f64.to_ne_bytes(), 1_i64.to_ne_bytes());
    for (name, op, ty, one) in [
        ("acc_i64_flush", "accumulate", BasicType::I64, integer),
        ("acc_f64_flush", "accumulate_f64", BasicType::F64, real),
    ] {
        accumulate(bench, window, flushed(name, op), one.as_ptr(), 1, ty)?;
    }
    fetch_add(bench, window)?;
    compare_and_swap(bench, window)?;
    bench.group("64 operations, then flush")?;
    put_burst(bench, window, buffer)?;
    accumulate_burst(bench, window)
}

/// Of 8 bytes.
fn flushed<'a>(name: &'a str, op: &'static str) -> Line<'a> {
    Line {
        name,
        subject: Subject::new(op, 8, "flush"),
        iterations: ROUNDS,
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

/// `buffer` has `len` bytes.
#[inline(never)]
pub(super) fn put(
    bench: &mut Bench<'_>,
    window: &Window,
    line: Line<'_>,
    buffer: *mut u8,
    len: usize,
) -> Result<()> {
    let (from, len, target, at) = black_box((buffer, len, TARGET, 0));
    bench.origin(line, move || {
        // SAFETY: the buffer is that long, and nobody writes to it before the flush.
        unsafe { window.put(from, len, target, at)? };
        window.flush(target)
    })?;
    Ok(())
}

/// `buffer` has `len` bytes.
#[inline(never)]
pub(super) fn get(
    bench: &mut Bench<'_>,
    window: &Window,
    line: Line<'_>,
    buffer: *mut u8,
    len: usize,
) -> Result<()> {
    let (to, len, target, at) = black_box((buffer, len, TARGET, 0));
    bench.origin(line, move || {
        // SAFETY: the buffer is that long, and nobody else touches it before the flush.
        unsafe { window.get(to, len, target, at)? };
        window.flush(target)
    })?;
    Ok(())
}

/// `from` has `count` elements.
#[inline(never)]
pub(super) fn accumulate(
    bench: &mut Bench<'_>,
    window: &Window,
    line: Line<'_>,
    from: *const u8,
    count: usize,
    ty: BasicType,
) -> Result<()> {
    let (from, count, ty, target, at) = black_box((from, count, ty, TARGET, 0));
    bench.origin(line, move || {
        // SAFETY: there are that many elements, which nobody writes to before the flush.
        unsafe { window.accumulate(from, count, ty, target, at, Op::Sum)? };
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn fetch_add(bench: &mut Bench<'_>, window: &Window) -> Result<()> {
    let one = 1_i64.to_ne_bytes();
    let mut result = 0_u64;
    let (from, to) = black_box((one.as_ptr(), (&raw mut result).cast()));
    let (ty, target, at) = black_box((BasicType::I64, TARGET, 0));
    bench.origin(flushed("fetch_add_flush", "fetch_and_op"), move || {
        // SAFETY: both are elements, outlive the flush and are not touched before it.
        unsafe { window.fetch_and_op(from, to, ty, target, at, Op::Sum)? };
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn compare_and_swap(bench: &mut Bench<'_>, window: &Window) -> Result<()> {
    let (new, expect) = (1_i64.to_ne_bytes(), 0_i64.to_ne_bytes());
    let mut result = 0_u64;
    let (from, compare) = black_box((new.as_ptr(), expect.as_ptr()));
    let (to, ty, target, at) = black_box(((&raw mut result).cast(), BasicType::I64, TARGET, 0));
    bench.origin(flushed("cas_flush", "compare_and_swap"), move || {
        // SAFETY: all three are elements, outlive the flush and are not touched before it.
        unsafe { window.compare_and_swap(from, compare, to, ty, target, at)? };
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn put_burst(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    let (from, len, target) = black_box((buffer, 8, TARGET));
    bench.origin(burst("put8_rate", "put"), move || {
        for number in 0..BURST {
            // SAFETY: as in `put`.
            unsafe { window.put(from, len, target, 8 * number)? };
        }
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn accumulate_burst(bench: &mut Bench<'_>, window: &Window) -> Result<()> {
    let one = 1_i64;
    let (from, count, ty, target) =
        black_box((ptr::from_ref(&one).cast(), 1, BasicType::I64, TARGET));
    bench.origin(burst("acc_i64_rate", "accumulate"), move || {
        for number in 0..BURST {
            // SAFETY: as in `accumulate`.
            unsafe { window.accumulate(from, count, ty, target, 8 * number, Op::Sum)? };
        }
        window.flush(target)
    })?;
    Ok(())
}
