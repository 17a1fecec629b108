//! Whole passive-target epochs.

use std::hint::black_box;

use transom::LockKind;
use transom::raw::{Assert, Window};

use super::engine::{Bench, Line, Scale, TARGET};
use super::error::Result;

pub(super) const LINES: usize = 3;

pub(super) fn run(bench: &mut Bench<'_>, window: &Window, buffer: *mut u8) -> Result<()> {
    bench.barrier()?;
    bench.group("lock epochs")?;
    for (name, kind) in [
        ("excl_lock_put8_unlock", LockKind::Exclusive),
        ("shared_lock_put8_unlock", LockKind::Shared),
    ] {
        lock(bench, window, buffer, name, kind)?;
    }
    bench.origin(line("lock_all_unlock_all"), move || {
        window.lock_all(Assert::NONE)?;
        window.unlock_all()
    })?;
    Ok(())
}

fn line(name: &str) -> Line<'_> {
    Line {
        name,
        iterations: 10_000,
        scale: Scale::Nanoseconds,
    }
}

#[inline(never)]
fn lock(
    bench: &mut Bench<'_>,
    window: &Window,
    buffer: *mut u8,
    name: &str,
    kind: LockKind,
) -> Result<()> {
    let (kind, from, len, target, at) = black_box((kind, buffer, 8, TARGET, 0));
    bench.origin(line(name), move || {
        window.lock(kind, target, Assert::NONE)?;
        // SAFETY: the buffer is longer, and nobody writes to it before the unlock.
        unsafe { window.put(from, len, target, at)? };
        window.unlock(target)
    })?;
    Ok(())
}
