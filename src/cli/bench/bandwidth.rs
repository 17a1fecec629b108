//! One large operation and a flush.

use transom::raw::{Assert, Window};
use transom::{BasicType, Op};

use super::args::{Operation, Sync};
use super::engine::{Bench, Scale, TARGET};
use super::error::Result;
use super::measure::Timed;

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
    let moves = [Operation::Put, Operation::Get].map(|operation| MOVES.map(|of| (operation, of)));
    let sums = accumulates().flat_map(|of| {
        let operations = [Operation::AccumulateF64, Operation::Accumulate];
        operations.map(|operation| (operation, of))
    });
    for (operation, (size, iterations)) in moves.into_iter().flatten().chain(sums) {
        let name = format!("{}{}K_bw", operation.label(), size >> 10);
        measure(bench, window, buffer, &name, (operation, size, iterations))?;
    }
    Ok(())
}

/// On a window whose accumulates are to take a lock rather than one atomic for each integer.
pub(super) fn run_coarse(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    bench.group("the same, with mpi_accumulate_granularity=4096")?;
    for (size, iterations) in accumulates() {
        if bench.is_origin() {
            warm(window, buffer, size, iterations)?;
        }
        let name = format!("acc_i64_{}K_coarse_bw", size >> 10);
        let what = (Operation::Accumulate, size, iterations);
        measure(bench, window, buffer, &name, what)?;
    }
    Ok(())
}

fn accumulates() -> impl Iterator<Item = (usize, u32)> {
    let moves = MOVES.into_iter().take(ACCUMULATES);
    moves.map(|(size, iterations)| (size, iterations / 4 + 1))
}

/// Leaves pages and caches as the line of floats does, which comes before that of integers in the
/// other windows.
fn warm(window: &Window, buffer: *mut u8, size: usize, times: u32) -> Result<()> {
    window.lock_all(Assert::NONE)?;
    for _ in 0..times {
        // SAFETY: the buffer is that long, and nobody writes to it before the flush.
        unsafe { window.accumulate(buffer, size / 8, BasicType::F64, TARGET, 0, Op::Sum)? };
        window.flush(TARGET)?;
    }
    Ok(window.unlock_all()?)
}

fn measure(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    name: &str,
    (operation, size, iterations): (Operation, usize, u32),
) -> Result<()> {
    let timed = Timed::new(operation, size, Sync::Flush);
    let line = timed.line(name, iterations, Scale::Gigabytes(size as f64));
    timed.measure(bench, window, buffer, line)?;
    Ok(())
}
