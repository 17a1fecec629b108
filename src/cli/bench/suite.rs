//! The standard suite: the lines of `rma_bench.c` under its names, and what only Transom has.

use transom::Info;
use transom::raw::{Assert, Window};

use super::args::Windows;
use super::engine::Bench;
use super::error::Result;
use super::memory::{CallerMemory, OriginBuffer};
use super::{attach, bandwidth, busy, collective, creation, latency, locks, pairs, strided};

/// Bytes of each rank's window and buffer.
pub(super) const SPAN: usize = 16 << 20;

const LINES: usize = creation::LINES
    + latency::LINES
    + bandwidth::LINES
    + strided::LINES
    + locks::LINES
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
        under_lock_all(bench, window, |bench| {
            bandwidth::run_coarse(bench, window, buffer.pointer())
        })
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
    under_lock_all(bench, window, |bench| {
        latency::run(bench, window, buffer)?;
        bandwidth::run(bench, window, buffer)?;
        strided::run(bench, window, buffer)
    })?;
    locks::run(bench, window, buffer)?;
    collective::run(bench, window, buffer)?;
    pairs::run(bench, window, buffer)?;
    busy::run(bench, window, buffer)
}

/// Runs `body` while the origin has an epoch of all ranks.
fn under_lock_all<'a>(
    bench: &mut Bench<'a>,
    window: &Window,
    body: impl FnOnce(&mut Bench<'a>) -> Result<()>,
) -> Result<()> {
    bench.barrier()?;
    if bench.is_origin() {
        window.lock_all(Assert::NONE)?;
    }
    body(bench)?;
    if bench.is_origin() {
        window.unlock_all()?;
    }
    Ok(())
}
