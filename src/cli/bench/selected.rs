//! Measurements chosen with --op, --sync and --sizes: latency, and the bandwidth that follows.
//!
//! Lines are named as in the standard suite where they are the same measurement
//! (`put8_flush`, `put4K_bw`), and by the same pattern elsewhere (`put4K_fence`, `put4K_fence_bw`,
//! `put8_x64_flush` for 64 operations before each flush). Times are of one operation.

use std::hint::black_box;

use transom::raw::{Assert, Committed, Datatype, Window};
use transom::{BasicType, LockKind, Op};

use super::args::{COLUMNS, Operation, Selected, Sync, Windows};
use super::bandwidth::iterations_for;
use super::engine::{Bench, Line, Measured, Scale, Subject, TARGET};
use super::error::Result;
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
                let chosen = Chosen {
                    operation,
                    size,
                    sync,
                    burst: *burst,
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

    fn label(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Lock => "lock",
            Self::LockAll => "lock_all",
            Self::Fence => "fence",
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

/// One line to measure.
struct Chosen {
    operation: Operation,
    size: usize,
    sync: Sync,
    burst: u32,
}

/// One operation of one size: each kind is a loop of its own, so that none pays for the choice.
fn measure(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8, chosen: Chosen) -> Result<()> {
    let Chosen {
        operation,
        size,
        sync,
        burst,
    } = chosen;
    let mut what = format!("{}{}", operation.label(), readable(size));
    if burst > 1 {
        what = format!("{what}_x{burst}");
    }
    let name = format!("{what}_{}", sync.label());
    let line = Line {
        name: &name,
        subject: Subject::new(operation.name(), size, sync.label()).burst(burst),
        iterations: (iterations_for(operation.reach(size), sync.iterations()) / burst).max(2),
        scale: Scale::NanosecondsEach(f64::from(burst)),
    };
    let word = match size {
        4 => BasicType::I32,
        _ => BasicType::I64,
    };
    let (one, zero) = (1_i64.to_ne_bytes(), [0_u8; 8]);
    let mut result = 0_u64;
    let (buffer, len, target, at) = black_box((buffer, size, TARGET, 0));
    let result = (&raw mut result).cast();
    let (one, zero, result) = black_box((one.as_ptr(), zero.as_ptr(), result));
    let word = black_box(word);
    // The buffer has `size` bytes and the others are words; all of them outlive the
    // synchronisation that follows each operation, and nobody touches them before it.
    let put = || {
        // SAFETY: as said above.
        unsafe { window.put(buffer, len, target, at) }
    };
    let elements = (len / 8) as u64;
    let dense = Committed::of(BasicType::F64).times(elements);
    let column =
        Datatype::vector(elements as i64, 1, COLUMNS as i64, &BasicType::F64.into())?.commit();
    let (dense, column) = black_box((dense, column.times(1)));
    let put_strided = || {
        // SAFETY: as said above.
        unsafe { window.put_layout(buffer, dense, target, at, column) }
    };
    let get = || {
        // SAFETY: as said above.
        unsafe { window.get(buffer, len, target, at) }
    };
    let accumulate = || {
        // SAFETY: as said above.
        unsafe { window.accumulate(buffer, len / 8, BasicType::I64, target, at, Op::Sum) }
    };
    let accumulate_f64 = || {
        // SAFETY: as said above.
        unsafe { window.accumulate(buffer, len / 8, BasicType::F64, target, at, Op::Sum) }
    };
    let fetch_and_op = || {
        // SAFETY: as said above.
        unsafe { window.fetch_and_op(one, result, word, target, at, Op::Sum) }
    };
    let compare_and_swap = || {
        // SAFETY: as said above.
        unsafe { window.compare_and_swap(one, zero, result, word, target, at) }
    };
    let measured = match operation {
        Operation::Put => synchronised(bench, window, line, sync, repeat(burst, put)),
        Operation::Get => synchronised(bench, window, line, sync, repeat(burst, get)),
        Operation::Accumulate => synchronised(bench, window, line, sync, repeat(burst, accumulate)),
        Operation::PutStrided => {
            synchronised(bench, window, line, sync, repeat(burst, put_strided))
        }
        Operation::AccumulateF64 => {
            synchronised(bench, window, line, sync, repeat(burst, accumulate_f64))
        }
        Operation::FetchAndOp => {
            synchronised(bench, window, line, sync, repeat(burst, fetch_and_op))
        }
        Operation::CompareAndSwap => {
            synchronised(bench, window, line, sync, repeat(burst, compare_and_swap))
        }
    }?;
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

#[inline(always)]
fn repeat(
    times: u32,
    operation: impl Fn() -> transom::Result<()>,
) -> impl Fn() -> transom::Result<()> {
    let times = black_box(times);
    move || (0..times).try_for_each(|_| operation())
}

#[inline(always)]
fn synchronised(
    bench: &mut Bench<'_>,
    window: &Window,
    line: Line<'_>,
    sync: Sync,
    operation: impl Fn() -> transom::Result<()>,
) -> Result<Measured> {
    let (target, origin) = (black_box(TARGET), bench.is_origin());
    match sync {
        Sync::Flush => {
            if origin {
                window.lock_all(Assert::NONE)?;
            }
            let measured = bench.origin(line, move || {
                operation()?;
                window.flush(target)
            })?;
            if origin {
                window.unlock_all()?;
            }
            Ok(measured)
        }
        Sync::Lock => bench.origin(line, move || {
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
            operation()?;
            window.unlock(target)
        }),
        Sync::LockAll => bench.origin(line, move || {
            window.lock_all(Assert::NONE)?;
            operation()?;
            window.unlock_all()
        }),
        Sync::Fence => {
            window.fence(Assert::NO_PRECEDE)?;
            let measured = bench.every(line, move || {
                if origin {
                    operation()?;
                }
                window.fence(Assert::NONE)
            })?;
            window.fence(Assert::NO_SUCCEED)?;
            Ok(measured)
        }
    }
}

/// As the standard suite writes sizes: in KiB where they are whole.
fn readable(size: usize) -> String {
    match size {
        0..1024 => size.to_string(),
        _ if size.is_multiple_of(1024) => format!("{}K", size / 1024),
        _ => size.to_string(),
    }
}
