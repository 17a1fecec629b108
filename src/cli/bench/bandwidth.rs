//! One large operation and a flush, under `lock_all`.

use transom::raw::Window;
use transom::{BasicType, Op};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;
use super::latency::{accumulate, get, put};

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

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("one large operation and flush")?;
    for (size, iterations) in MOVES {
        let name = format!("put{}K_bw", size >> 10);
        let line = line(&name, "put", size, iterations);
        put(bench, window, line, buffer, size)?;
    }
    for (size, iterations) in MOVES {
        let name = format!("get{}K_bw", size >> 10);
        let line = line(&name, "get", size, iterations);
        get(bench, window, line, buffer, size)?;
    }
    for &(size, iterations) in &MOVES[..ACCUMULATES] {
        for (label, op, ty) in [
            ("f64", "accumulate_f64", BasicType::F64),
            ("i64", "accumulate", BasicType::I64),
        ] {
            let name = format!("acc_{label}_{}K_bw", size >> 10);
            let line = line(&name, op, size, iterations / 4 + 1);
            accumulate(bench, window, line, buffer, size / 8, ty)?;
        }
    }
    Ok(())
}

/// On a window whose accumulates are to take a lock rather than one atomic for each integer.
pub(super) fn run_coarse(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("the same, with mpi_accumulate_granularity=4096")?;
    for &(size, iterations) in &MOVES[..ACCUMULATES] {
        let iterations = iterations / 4 + 1;
        if bench.is_origin() {
            warm(window, buffer, size, iterations)?;
        }
        let name = format!("acc_i64_{}K_coarse_bw", size >> 10);
        let line = line(&name, "accumulate", size, iterations);
        accumulate(bench, window, line, buffer, size / 8, BasicType::I64)?;
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

fn line<'a>(name: &'a str, op: &'static str, size: usize, iterations: u32) -> Line<'a> {
    Line {
        name,
        subject: Subject::new(op, size, "flush"),
        iterations,
        scale: Scale::Gigabytes(size as f64),
    }
}
