//! Whole passive-target epochs.

use std::hint::black_box;

use transom::LockKind;
use transom::raw::{Assert, Window};

use super::engine::{Bench, Line, Scale, Subject, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 3;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    bench.group("lock epochs")?;
    for (name, sync, kind) in [
        ("excl_lock_put8_unlock", "lock", LockKind::Exclusive),
        ("shared_lock_put8_unlock", "lock_shared", LockKind::Shared),
    ] {
        let line = line(name, Subject::new("put", 8, sync));
        lock(bench, window, buffer, line, kind)?;
    }
    let empty = line("lock_all_unlock_all", Subject::new("none", 0, "lock_all"));
    bench.origin(empty, move || {
        window.lock_all(Assert::NONE)?;
        window.unlock_all()
    })?;
    Ok(())
}

fn line(name: &str, subject: Subject) -> Line<'_> {
    Line {
        name,
        subject,
        iterations: 10_000,
        scale: Scale::Nanoseconds,
    }
}

#[inline(never)]
fn lock(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    line: Line<'_>,
    kind: LockKind,
) -> Result<()> {
    let (kind, from, len, target, at) = black_box((kind, buffer, 8, TARGET, 0));
    bench.origin(line, move || {
        window.lock(kind, target, Assert::NONE)?;
        // SAFETY: the buffer is longer, and nobody writes to it before the unlock.
        unsafe { window.put(from, len, target, at)? };
        window.unlock(target)
    })?;
    Ok(())
}
