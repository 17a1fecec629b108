//! The standard suite: the lines of `rma_bench.c` under its names, and what only Transom has.

use std::hint::black_box;

use transom::raw::{Assert, Window};
use transom::{Info, LockKind};

use super::args::{COLUMNS, Operation, Sync, Windows};
use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;
use super::measure::Timed;
use super::memory::{CallerMemory, OriginBuffer};
use super::{attach, bandwidth, busy, collective, creation, latency, pairs};

/// Bytes of each rank's window and buffer.
pub(super) const SPAN: usize = 16 << 20;

const LINES: usize = creation::LINES
    + latency::LINES
    + bandwidth::LINES
    + OTHER_LINES
    + collective::LINES
    + pairs::LINES
    + busy::LINES
    + bandwidth::COARSE_LINES;

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
    let mut buffer = OriginBuffer::new(SPAN)?;
    let memory = CallerMemory::new(SPAN)?;
    let there = match windows.create() {
        true => attach::find(bench, &memory)?,
        false => None,
    };
    let attached = there.map_or(0, |_| attach::LINES);
    bench.expect(windows.count() * LINES + attached);
    if windows.allocate() {
        bench.of_windows("allocate", bench.info());
        creation::allocate(bench)?;
    }
    if windows.create() {
        bench.of_windows("create", bench.info());
        creation::create(bench, &memory)?;
    }
    if let Some(there) = there {
        // Into a buffer of their own: the one of the other lines is to be untouched until their gets.
        let mut buffer = OriginBuffer::new(SPAN)?;
        attach::run(bench, there, buffer.pointer())?;
    }
    let info = bench.info();
    on_each_window(bench, windows, SPAN, &memory, info, |bench, window| {
        every_line(bench, window, buffer.pointer())
    })?;
    let info = &info.clone().with("mpi_accumulate_granularity", "4096");
    on_each_window(bench, windows, SPAN, &memory, info, |bench, window| {
        bandwidth::run_coarse(bench, window, buffer.pointer())
    })
}

/// Makes windows of `span` bytes on each rank with these hints and passes them to `body`, one after the
/// other.
pub(super) fn on_each_window<'a>(
    bench: &mut Bench<'a>,
    windows: Windows,
    span: usize,
    memory: &CallerMemory,
    info: &Info,
    mut body: impl FnMut(&mut Bench<'a>, &Window) -> Result<()>,
) -> Result<()> {
    let comm = bench.comm();
    if windows.allocate() {
        let window = Window::allocate(comm, span, 1, info)?;
        // SAFETY: the window's own memory of this length; no rank accesses it before the barrier
        // with which each measurement begins.
        unsafe { window.base().write_bytes(0, span) };
        bench.of_windows("allocate", info);
        body(bench, &window)?;
        window.free()?;
    }
    if windows.create() {
        // SAFETY: the memory has `span` bytes, outlives the window (or, after an error, the
        // process ends), nobody else refers to it, and the process has no other thread.
        let window = unsafe { Window::create(comm, memory.pointer(), span, 1, info)? };
        bench.of_windows("create", info);
        body(bench, &window)?;
        window.free()?;
    }
    Ok(())
}

fn every_line(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    latency::run(bench, window, buffer)?;
    bandwidth::run(bench, window, buffer)?;
    strided(bench, window, buffer)?;
    bench.barrier()?;
    locks(bench, window, buffer)?;
    bench.barrier()?;
    bench.group("every rank takes part")?;
    let fence = Timed::new(Operation::Put, 8, Sync::Fence);
    let line = fence.line("put8_fence", 5_000, Scale::Nanoseconds);
    fence.measure(bench, window, buffer, line)?;
    collective::contended(bench, window)?;
    pairs::run(bench, window, buffer)?;
    busy::run(bench, window, buffer)
}

/// The lines of `strided`, of `locks` and of the fence.
const OTHER_LINES: usize = 1 + 3 + 1;

fn strided(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("1,024 elements of a column, then flush")?;
    let timed = Timed::new(Operation::PutStrided, 8 * COLUMNS, Sync::Flush);
    let line = timed.line("put_col1024", 200, Scale::Microseconds);
    timed.measure(bench, window, buffer, line)?;
    Ok(())
}

fn locks(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.group("lock epochs")?;
    for (name, sync, kind) in [
        ("excl_lock_put8_unlock", "lock", LockKind::Exclusive),
        ("shared_lock_put8_unlock", "lock_shared", LockKind::Shared),
    ] {
        let line = Line {
            name,
            subject: Subject::new("put", 8, sync),
            iterations: 10_000,
            scale: Scale::Nanoseconds,
        };
        let (kind, from, len, target, at) = black_box((kind, buffer, 8, TARGET, 0));
        bench.origin(line, move || {
            window.lock(kind, target, Assert::NONE)?;
            // SAFETY: the buffer is longer, and nobody writes to it before the unlock.
            unsafe { window.put(from, len, target, at)? };
            window.unlock(target)
        })?;
    }
    let empty = Line {
        name: "lock_all_unlock_all",
        subject: Subject::new("none", 0, "lock_all"),
        iterations: 10_000,
        scale: Scale::Nanoseconds,
    };
    bench.origin(empty, move || {
        window.lock_all(Assert::NONE)?;
        window.unlock_all()
    })?;
    Ok(())
}
