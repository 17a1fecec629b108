//! The standard suite: the lines of `rma_bench.c` under their names there, and lines that only Transom has.

use std::hint::black_box;

use transom::raw::{Assert, Window};
use transom::{BasicType, Info, Op};

use super::args::{COLUMNS, Operation, SPAN, Sync, Windows};
use super::engine::{Bench, Line, Scale, TARGET};
use super::error::Result;
use super::measure::Timed;
use super::memory::ZeroedMemory;
use super::record::What;
use super::{attach, busy, creation, pairs};

/// Lines for each kind of window.
const LINES: usize = 37;

const EACH: Scale = Scale::Nanoseconds(1.0);

/// The operations that are measured with a flush after each.
const FLUSHED: [(&str, Operation); 6] = [
    ("put8_flush", Operation::Put),
    ("get8_flush", Operation::Get),
    ("acc_i64_flush", Operation::Accumulate),
    ("acc_f64_flush", Operation::AccumulateF64),
    ("fetch_add_flush", Operation::FetchAndOp),
    ("cas_flush", Operation::CompareAndSwap),
];
/// Large sizes, and the iterations for each.
const MOVES: [(usize, u32); 4] = [
    (4 << 10, 2_000),
    (64 << 10, 500),
    (1 << 20, 50),
    (16 << 20, 8),
];

impl Windows {
    pub(super) fn allocate(self) -> bool {
        self != Self::Create
    }

    pub(super) fn create(self) -> bool {
        self != Self::Allocate
    }

    pub(super) fn count(self) -> usize {
        usize::from(self.allocate()) + usize::from(self.create())
    }
}

pub(super) fn run(bench: &mut Bench<'_>, windows: Windows) -> Result<()> {
    let buffer = ZeroedMemory::untouched(SPAN)?;
    let memory = ZeroedMemory::pages(SPAN)?;
    let there = match windows.create() {
        true => attach::find(bench, &memory)?,
        false => None,
    };
    let attached = there.map_or(0, |_| attach::LINES);
    bench.expect(windows.count() * LINES + attached);
    let info = &bench.plan.info;
    if windows.allocate() {
        bench.of_windows("allocate", info);
        creation::measure(bench, None)?;
    }
    if windows.create() {
        bench.of_windows("create", info);
        creation::measure(bench, Some(&memory))?;
    }
    if let Some(there) = there {
        // Use a buffer of their own: the buffer of the other lines must be untouched until their gets.
        attach::run(bench, there, ZeroedMemory::untouched(SPAN)?.pointer())?;
    }
    on_each_window(bench, windows, SPAN, &memory, info, |bench, window| {
        every_line(bench, window, buffer.pointer())
    })?;
    let info = &info.clone().with("mpi_accumulate_granularity", "4096");
    on_each_window(bench, windows, SPAN, &memory, info, |bench, window| {
        bench.group("the same, with mpi_accumulate_granularity=4096")?;
        for (size, iterations) in accumulates() {
            let name = format!("acc_i64_{}K_coarse_bw", size >> 10);
            let what = (Operation::Accumulate, size, iterations);
            large(bench, window, buffer.pointer(), &name, what)?;
        }
        Ok(())
    })
}

/// Makes windows of `span` bytes on each rank with these hints, one after the other, and passes each to `body`.
pub(super) fn on_each_window<'a>(
    bench: &mut Bench<'a>,
    windows: Windows,
    span: usize,
    memory: &ZeroedMemory,
    info: &Info,
    mut body: impl FnMut(&mut Bench<'a>, &Window) -> Result<()>,
) -> Result<()> {
    let comm = bench.comm;
    let mut measure = |kind, window: Window| -> Result<()> {
        bench.of_windows(kind, info);
        comm.barrier()?;
        body(bench, &window)?;
        Ok(window.free()?)
    };
    if windows.allocate() {
        let window = Window::allocate(comm, span, 1, info)?;
        // SAFETY: the window's own memory of this length; no rank accesses it before the barrier.
        unsafe { window.base().write_bytes(0, span) };
        measure("allocate", window)?;
    }
    if windows.create() {
        // SAFETY: the memory has `span` bytes and outlives the window (or, after an error, the process ends). Nothing
        // else refers to it, and the process has no other thread.
        let window = unsafe { Window::create(comm, memory.pointer(), span, 1, info)? };
        measure("create", window)?;
    }
    Ok(())
}

fn every_line(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    let time = |bench: &mut Bench<'_>, name: &str, timed: Timed, iterations, scale| {
        let line = timed.line(name, iterations, scale);
        timed.measure(bench, window, buffer, line).map(drop)
    };
    bench.group("one operation and flush")?;
    for (name, operation) in FLUSHED {
        let timed = Timed::new(operation, 8, Sync::Flush);
        time(bench, name, timed, 20_000, EACH)?;
    }
    bench.group("64 operations, then flush")?;
    rates(bench, window, buffer)?;
    bench.group("one large operation and flush")?;
    let moves = [Operation::Put, Operation::Get].map(|operation| MOVES.map(|of| (operation, of)));
    let sums = accumulates().flat_map(|of| {
        let operations = [Operation::AccumulateF64, Operation::Accumulate];
        operations.map(|operation| (operation, of))
    });
    for (operation, (size, iterations)) in moves.into_iter().flatten().chain(sums) {
        let name = format!("{}{}K_bw", operation.label(), size >> 10);
        large(bench, window, buffer, &name, (operation, size, iterations))?;
    }
    bench.group("1,024 elements of a column, then flush")?;
    let timed = Timed::new(Operation::PutStrided, 8 * COLUMNS, Sync::Flush);
    time(bench, "put_col1024", timed, 200, Scale::Microseconds)?;
    bench.group("lock epochs")?;
    for (name, sync) in [
        ("excl_lock_put8_unlock", Sync::Lock),
        ("shared_lock_put8_unlock", Sync::LockShared),
    ] {
        let timed = Timed::new(Operation::Put, 8, sync);
        time(bench, name, timed, 10_000, EACH)?;
    }
    let empty = Line {
        name: "lock_all_unlock_all",
        what: What::new("none", 0, "lock_all"),
        iterations: 10_000,
        scale: EACH,
    };
    bench.origin(empty, move || {
        window.lock_all(Assert::NONE)?;
        window.unlock_all()
    })?;
    bench.group("every rank takes part")?;
    let timed = Timed::new(Operation::Put, 8, Sync::Fence);
    time(bench, "put8_fence", timed, 5_000, EACH)?;
    let timed = Timed {
        by_all: true,
        ..Timed::new(Operation::FetchAndOp, 8, Sync::Flush)
    };
    let (each, ranks) = (1.0, f64::from(bench.comm.size()));
    let scale = Scale::MegaOperations { each, ranks };
    time(bench, "contended_fetch_add", timed, 20_000, scale)?;
    pairs::run(bench, window, buffer)?;
    busy::run(bench, window, buffer)
}

/// The number of operations before each flush is known at compile time, as in the C program.
fn rates(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    const BURST: u32 = 64;
    let line = |name, op| Line {
        name,
        what: What {
            burst: BURST,
            ..What::new(op, 8, "flush")
        },
        iterations: 2_000,
        scale: Scale::MegaOperations {
            each: f64::from(BURST),
            ranks: 1.0,
        },
    };
    let (from, len, count, ty, target) = black_box((buffer, 8, 1, BasicType::I64, TARGET));
    let places = || (0..u64::from(BURST)).map(|number| 8 * number);
    if bench.is_origin() {
        window.lock_all(Assert::NONE)?;
    }
    bench.origin(line("put8_rate", "put"), move || {
        for at in places() {
            // SAFETY: the buffer is longer, and nothing writes to it before the flush.
            unsafe { window.put(from, len, target, at)? };
        }
        window.flush(target)
    })?;
    bench.origin(line("acc_i64_rate", "accumulate"), move || {
        for at in places() {
            // SAFETY: as above.
            unsafe { window.accumulate(from, count, ty, target, at, Op::Sum)? };
        }
        window.flush(target)
    })?;
    if bench.is_origin() {
        window.unlock_all()?;
    }
    Ok(())
}

/// As in the standard suite: fewer iterations for larger sizes.
pub(super) fn iterations_for(size: usize, small: u32) -> u32 {
    let found = MOVES.iter().rev().find(|&&(from, _)| size >= from);
    found.map_or(small, |&(_, count)| count)
}

/// Accumulates have the first three sizes, with a quarter of the iterations.
fn accumulates() -> impl Iterator<Item = (usize, u32)> {
    let moves = MOVES.into_iter().take(3);
    moves.map(|(size, iterations)| (size, iterations / 4 + 1))
}

/// The bandwidth of an operation.
fn large(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    name: &str,
    (operation, size, iterations): (Operation, usize, u32),
) -> Result<()> {
    let timed = Timed::new(operation, size, Sync::Flush);
    let line = timed.line(name, iterations, Scale::Gigabytes(size as f64));
    timed.measure(bench, window, buffer, line).map(drop)
}
