//! Synchronisation between two ranks, without the others.

use std::hint::black_box;

use transom::raw::{Assert, Window};

use super::engine::{Bench, Line, ORIGIN, Scale, TARGET};
use super::error::Result;
use super::record::What;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    let is_origin = bench.is_origin();
    let takes_part = is_origin || bench.comm.rank() == TARGET;
    bench.group("two ranks take part")?;
    // No rank may still be in the lock epoch of earlier lines when another exposes its memory.
    bench.comm.barrier()?;
    let line = Line {
        name: "put8_pscw",
        what: What::new("put", 8, "pscw"),
        iterations: 5_000,
        scale: Scale::Nanoseconds(1.0),
    };
    let origins = window.group().include(&[ORIGIN])?;
    let targets = window.group().include(&[TARGET])?;
    let (from, len, target, at) = black_box((buffer, 8, TARGET, 0));
    bench.measure(line, takes_part, || {
        if is_origin {
            window.start(&targets, Assert::NONE)?;
            // SAFETY: the buffer is longer, and nothing writes to it before the epoch is complete.
            unsafe { window.put(from, len, target, at)? };
            window.complete()
        } else {
            window.post(&origins, Assert::NONE)?;
            window.wait()
        }
    })?;
    // Each rank puts to the other and waits for the other's put. The time is that of one direction.
    let line = Line {
        name: "put8_notify",
        what: What::new("put_notify", 8, "notify"),
        iterations: 5_000,
        scale: Scale::Nanoseconds(2.0),
    };
    let counter = black_box(0);
    // SAFETY: the buffer is longer, and nothing writes to it before the end of the epoch.
    let put = |target| unsafe { window.put_notify(from, len, target, at, counter) };
    let mut rounds = 0;
    window.lock_all(Assert::NONE)?;
    bench.measure(line, takes_part, || {
        rounds += 1;
        if is_origin {
            put(TARGET)?;
            window.wait_notify(counter, rounds)
        } else {
            window.wait_notify(counter, rounds)?;
            put(ORIGIN)
        }
    })?;
    Ok(window.unlock_all()?)
}
