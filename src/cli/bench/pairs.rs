//! Synchronisation of two ranks, in which the others take no part.

use std::hint::black_box;

use transom::raw::{Assert, Window};

use super::engine::{Bench, Line, ORIGIN, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 2;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    bench.group("two ranks take part")?;
    post_start(bench, window, buffer)?;
    notify(bench, window, buffer)
}

#[inline(never)]
fn post_start(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    let line = Line {
        name: "put8_pscw",
        subject: Subject::new("put", 8, "pscw"),
        iterations: 5_000,
        scale: Scale::Nanoseconds,
    };
    let origins = window.group().include(&[ORIGIN])?;
    let targets = window.group().include(&[TARGET])?;
    let (from, len, target, at) = black_box((buffer, 8, TARGET, 0));
    let access = || {
        window.start(&targets, Assert::NONE)?;
        // SAFETY: the buffer is longer, and nobody writes to it before the epoch is complete.
        unsafe { window.put(from, len, target, at)? };
        window.complete()
    };
    let expose = || {
        window.post(&origins, Assert::NONE)?;
        window.wait()
    };
    bench.pair(line, access, expose)?;
    Ok(())
}

/// Each rank puts to the other and waits for the other's put: the time is that of one way.
#[inline(never)]
fn notify(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    let line = Line {
        name: "put8_notify",
        subject: Subject::new("put_notify", 8, "notify"),
        iterations: 5_000,
        scale: Scale::NanosecondsEach(2.0),
    };
    let (from, len, at, counter) = black_box((buffer, 8, 0, 0));
    // SAFETY: the buffer is longer, and nobody writes to it before the end of the epoch.
    let put = |target| unsafe { window.put_notify(from, len, target, at, counter) };
    let (mut rounds, mut answered) = (0, 0);
    window.lock_all(Assert::NONE)?;
    bench.barrier()?;
    let ask = || {
        rounds += 1;
        put(TARGET)?;
        window.wait_notify(counter, rounds)
    };
    let answer = || {
        answered += 1;
        window.wait_notify(counter, answered)?;
        put(ORIGIN)
    };
    bench.pair(line, ask, answer)?;
    Ok(window.unlock_all()?)
}
