//! Measurements chosen with --op, --sync and --sizes: latency, and the bandwidth that follows.
//!
//! Lines are named as in the standard suite where they are the same measurement
//! (`put8_flush`, `put4K_bw`), and by the same pattern elsewhere (`put4K_fence`, `put4K_fence_bw`,
//! `put8_x64_flush` for 64 operations before each flush). Times are of one operation.

use transom::raw::Window;

use super::args::{Selected, Sync, Windows};
use super::bandwidth::iterations_for;
use super::engine::{Bench, Line, Measured, Scale};
use super::error::Result;
use super::measure::Timed;
use super::memory::{CallerMemory, OriginBuffer};
use super::suite::on_each_window;

pub(super) fn run(bench: &mut Bench<'_>, windows: Windows, selected: &Selected) -> Result<()> {
    let Selected {
        lines,
        syncs,
        burst,
        registered,
        span,
    } = selected;
    bench.expect(windows.count() * syncs.len() * lines.len() * 2);
    let mut buffer = match registered {
        true => OriginBuffer::registered(bench.job(), *span)?,
        false => OriginBuffer::new(*span)?,
    };
    let memory = CallerMemory::new(*span)?;
    let info = bench.info();
    on_each_window(bench, windows, *span, &memory, info, |bench, window| {
        for &sync in syncs {
            bench.barrier()?;
            bench.group(sync.title())?;
            for &(operation, size) in lines {
                let chosen = Timed {
                    burst: *burst,
                    ..Timed::new(operation, size, sync)
                };
                measure(bench, window, buffer.pointer(), chosen)?;
            }
        }
        Ok(())
    })
}

impl Sync {
    fn title(self) -> &'static str {
        match self {
            Self::Flush => "operation and flush",
            Self::Lock => "exclusive lock, operation, unlock",
            Self::LockAll => "lock_all, operation, unlock_all",
            Self::Fence => "operation and fence",
        }
    }

    /// Iterations for small sizes, as the standard suite has them.
    fn iterations(self) -> u32 {
        match self {
            Self::Flush => 20_000,
            Self::Lock | Self::LockAll => 10_000,
            Self::Fence => 5_000,
        }
    }
}

/// The time of one operation of one size, and the bandwidth that follows.
fn measure(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8, chosen: Timed) -> Result<()> {
    let Timed {
        operation,
        size,
        sync,
        burst,
        ..
    } = chosen;
    let mut what = format!("{}{}", operation.label(), readable(size));
    if burst > 1 {
        what = format!("{what}_x{burst}");
    }
    let name = format!("{what}_{}", sync.label());
    let iterations = iterations_for(operation.reach(size), sync.iterations()) / burst;
    let scale = Scale::NanosecondsEach(f64::from(burst));
    let line = chosen.line(&name, iterations.max(2), scale);
    let measured = chosen.measure(bench, window, buffer, line)?;
    let scale = Scale::Gigabytes(size as f64);
    let bandwidth = Measured {
        percentiles: None,
        values: measured
            .values
            .iter()
            .map(|nanoseconds| scale.apply(nanoseconds / 1e9))
            .collect(),
        ..measured
    };
    let name = match sync {
        Sync::Flush => format!("{what}_bw"),
        _ => format!("{what}_{}_bw", sync.label()),
    };
    let name = &name;
    bench.report(
        Line {
            name,
            scale,
            ..line
        },
        &bandwidth,
    )
}

/// As the standard suite writes sizes: in KiB where they are whole.
fn readable(size: usize) -> String {
    match size {
        0..1024 => size.to_string(),
        _ if size.is_multiple_of(1024) => format!("{}K", size / 1024),
        _ => size.to_string(),
    }
}
