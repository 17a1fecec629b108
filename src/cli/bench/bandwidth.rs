//! One large operation and a flush, under `lock_all`.

use std::hint::black_box;

use transom::raw::Window;
use transom::{BasicType, Op};

use super::engine::{Bench, Line, Scale, TARGET};
use super::error::Result;

/// Sizes, and how often each is moved.
const MOVES: [(usize, u32); 4] = [
    (4 << 10, 2_000),
    (64 << 10, 500),
    (1 << 20, 50),
    (16 << 20, 8),
];
/// Accumulates take the first sizes, a quarter as often.
const ACCUMULATES: usize = 3;

pub(super) const LINES: usize = 2 * MOVES.len() + 2 * ACCUMULATES;

pub(super) const COARSE_LINES: usize = ACCUMULATES;

/// As the standard suite has it: the larger, the fewer.
pub(super) fn iterations_for(size: usize, small: u32) -> u32 {
    let found = MOVES.iter().rev().find(|&&(from, _)| size >= from);
    found.map_or(small, |&(_, count)| count)
}

pub(super) fn run(
    bench: &mut Bench<'_>,
    name: &'static str,
    window: &Window,
    buffer: *mut u8,
) -> Result<()> {
    bench.group(name, "one large operation and flush")?;
    for (size, iterations) in MOVES {
        put(bench, window, buffer, size, iterations)?;
    }
    for (size, iterations) in MOVES {
        get(bench, window, buffer, size, iterations)?;
    }
    for (size, iterations) in &MOVES[..ACCUMULATES] {
        for (label, ty) in [("f64", BasicType::F64), ("i64", BasicType::I64)] {
            let line = format!("acc_{label}_{}K_bw", size >> 10);
            accumulate(bench, window, buffer, &line, ty, *size, iterations / 4 + 1)?;
        }
    }
    Ok(())
}

/// On a window whose accumulates are to take a lock rather than one atomic for each integer.
pub(super) fn run_coarse(
    bench: &mut Bench<'_>,
    name: &'static str,
    window: &Window,
    buffer: *mut u8,
) -> Result<()> {
    bench.group(name, "the same, with mpi_accumulate_granularity=4096")?;
    for (size, iterations) in &MOVES[..ACCUMULATES] {
        if bench.is_origin() {
            warm(window, buffer, *size, iterations / 4 + 1)?;
        }
        let (line, ty) = (format!("acc_i64_{}K_coarse_bw", size >> 10), BasicType::I64);
        accumulate(bench, window, buffer, &line, ty, *size, iterations / 4 + 1)?;
    }
    Ok(())
}

/// Leaves pages and caches as the line of floats does, which comes before that of integers in the
/// other windows.
fn warm(window: &Window, buffer: *mut u8, size: usize, times: u32) -> Result<()> {
    for _ in 0..times {
        // SAFETY: the buffer is that long, and nobody writes to it before the flush.
        unsafe { window.accumulate(buffer, size / 8, BasicType::F64, TARGET, 0, Op::Sum)? };
        window.flush(TARGET)?;
    }
    Ok(())
}

fn line(name: &str, size: usize, iterations: u32) -> Line<'_> {
    Line {
        name,
        iterations,
        scale: Scale::Gigabytes(size as f64),
    }
}

#[inline(never)]
fn put(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    size: usize,
    iterations: u32,
) -> Result<()> {
    let name = format!("put{}K_bw", size >> 10);
    let (from, len, target, at) = black_box((buffer, size, TARGET, 0));
    bench.origin(line(&name, size, iterations), move || {
        // SAFETY: the buffer is that long, and nobody writes to it before the flush.
        unsafe { window.put(from, len, target, at)? };
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn get(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    size: usize,
    iterations: u32,
) -> Result<()> {
    let name = format!("get{}K_bw", size >> 10);
    let (to, len, target, at) = black_box((buffer, size, TARGET, 0));
    bench.origin(line(&name, size, iterations), move || {
        // SAFETY: the buffer is that long, and nobody else touches it before the flush.
        unsafe { window.get(to, len, target, at)? };
        window.flush(target)
    })?;
    Ok(())
}

#[inline(never)]
fn accumulate(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    name: &str,
    ty: BasicType,
    size: usize,
    iterations: u32,
) -> Result<()> {
    let (from, count, ty, target, at) = black_box((buffer, size / 8, ty, TARGET, 0));
    bench.origin(line(name, size, iterations), move || {
        // SAFETY: the buffer has that many elements, and nobody writes to it before the flush.
        unsafe { window.accumulate(from, count, ty, target, at, Op::Sum)? };
        window.flush(target)
    })?;
    Ok(())
}
