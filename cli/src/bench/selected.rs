//! Measurements chosen by --op, --sync and --sizes: latency, and the bandwidth computed from it.
//!
//! A line that is the same measurement as one of the standard suite has the same name (`put8_flush`, `put4K_bw`). Other
//! lines follow the same pattern (`put4K_fence`, `put4K_fence_bw`, `put8_x64_flush` for 64 operations before each
//! flush). Times are of one operation.

use transom::raw::Window;

use super::args::{Selected, Sync, Windows, name};
use super::engine::{Bench, Measured, Scale};
use super::error::Result;
use super::measure::Timed;
use super::memory::ZeroedMemory;
use super::suite::{iterations_for, on_each_window};

pub(super) fn run(bench: &mut Bench<'_>, windows: Windows, selected: &Selected) -> Result<()> {
    let span = selected.span;
    let lines = selected.syncs.len() * selected.lines.len() * 2;
    bench.expect(windows.count() * lines);
    let (untouched, mut registered);
    let buffer = match selected.registered {
        true => {
            registered = bench.job.alloc::<u8>(span)?;
            registered.as_mut_ptr()
        }
        false => {
            untouched = ZeroedMemory::untouched(span)?;
            untouched.pointer()
        }
    };
    let memory = ZeroedMemory::pages(span)?;
    let info = &bench.plan.info;
    on_each_window(bench, windows, span, &memory, info, |bench, window| {
        for &sync in &selected.syncs {
            let (title, small) = sync.title_and_iterations();
            bench.group(title)?;
            for &(operation, size) in &selected.lines {
                let timed = Timed {
                    burst: selected.burst,
                    ..Timed::new(operation, size, sync)
                };
                measure(bench, window, buffer, timed, small)?;
            }
        }
        Ok(())
    })
}

impl Sync {
    /// The title of its lines, and the iterations for small sizes, as in the standard suite.
    fn title_and_iterations(self) -> (&'static str, u32) {
        match self {
            Self::Flush => ("operation and flush", 20_000),
            Self::Lock => ("exclusive lock, operation, unlock", 10_000),
            Self::LockShared => ("shared lock, operation, unlock", 10_000),
            Self::LockAll => ("lock_all, operation, unlock_all", 10_000),
            Self::Fence => ("operation and fence", 5_000),
        }
    }
}

/// Measures the time of one operation of one size, and computes the bandwidth.
fn measure(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    timed: Timed,
    small: u32,
) -> Result<()> {
    let (size, burst, sync) = (timed.size, timed.burst, name(timed.sync));
    let mut what = format!("{}{}", timed.operation.label(), readable(size));
    if burst > 1 {
        what = format!("{what}_x{burst}");
    }
    let iterations = iterations_for(timed.operation.reach(size), small) / burst;
    let scale = Scale::Nanoseconds(f64::from(burst));
    let name = format!("{what}_{sync}");
    let line = timed.line(&name, iterations.max(2), scale);
    let measured = timed.measure(bench, window, buffer, line)?;
    let scale = Scale::Gigabytes(size as f64);
    let bandwidth = |nanoseconds: &f64| scale.apply(nanoseconds / 1e9);
    let measured = Measured {
        percentiles: None,
        values: measured.values.iter().map(bandwidth).collect(),
        ..measured
    };
    let name = match timed.sync {
        Sync::Flush => format!("{what}_bw"),
        _ => format!("{name}_bw"),
    };
    bench.report(&timed.line(&name, iterations, scale), &measured)
}

/// As the standard suite writes sizes: whole KiB as such.
fn readable(size: usize) -> String {
    match size {
        0..1024 => size.to_string(),
        _ if size.is_multiple_of(1024) => format!("{}K", size / 1024),
        _ => size.to_string(),
    }
}
