//! How single atomics, which take no lock, and work on many elements, which takes the accumulate lock and uses no
//! atomics, exclude each other.
//!
//! Each thread of a rank has an in-flight flag, which only that thread writes. Each target has a bulk-mode word, which is
//! written under its accumulate lock. (Below `ThreadLevel::Multiple` all threads of a rank share one flag, since only one
//! of them calls at a time.)
//!
//! | | |
//! |---|---|
//! | single atomics | set the flag of their thread; if bulk mode is off, are carried out; clear the flag. Else they take the lock instead |
//! | work on many elements | takes the lock; if bulk mode is off, turns it on, makes a fence for all threads, and waits until it has read each thread's flag as clear |
//!
//! Either the single atomic reads bulk mode as on, or the work on many elements reads the flag as set. This needs a
//! full fence on both sides. The frequent side issues none: the other side issues it for both, which is expensive. So
//! bulk mode stays on until some single atomics have taken the lock because of it.

use crate::memory::word::SharedWord;

#[cfg(not(all(test, loom)))]
use rdma_sys_shim::light_fence;

/// In a model, this side makes the full fence that the other side would force.
#[cfg(all(test, loom))]
fn light_fence() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// While this lives, a thread carries out single atomics.
pub(super) struct InFlight<'m, W: SharedWord>(&'m W);

impl<W: SharedWord> Drop for InFlight<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.publish(0);
    }
}

/// For single atomics of the thread that owns `flag`. `None` in bulk mode.
#[inline(always)]
pub(super) fn begin_single<'m, W: SharedWord>(
    flag: &'m W,
    bulk_mode: &W,
) -> Option<InFlight<'m, W>> {
    let in_flight = begin(flag);
    is_off(bulk_mode).then_some(in_flight)
}

/// For single atomics of the thread that owns `flag`, on targets for which [`is_off`] then returns true.
#[inline(always)]
pub(super) fn begin<W: SharedWord>(flag: &W) -> InFlight<'_, W> {
    flag.publish(1);
    let in_flight = InFlight(flag);
    light_fence();
    in_flight
}

/// Whether bulk mode is off, so that single atomics may proceed while their in-flight flag is set.
#[inline(always)]
pub(super) fn is_off(bulk_mode: &impl SharedWord) -> bool {
    bulk_mode.observe() == 0
}

/// With the lock held: turns bulk mode on, until `singles` single atomics have found it on. If it was off, returns
/// true: then the caller makes a fence and waits for the in-flight flags.
pub(super) fn enter_bulk_mode(bulk_mode: &impl SharedWord, singles: u64) -> bool {
    let left = bulk_mode.look();
    if left != singles {
        bulk_mode.publish(singles);
    }
    left == 0
}

/// With the lock held: counts a single atomic that found bulk mode on.
pub(super) fn found_bulk_mode(bulk_mode: &impl SharedWord) {
    let left = bulk_mode.look();
    bulk_mode.publish(left.saturating_sub(1));
}

#[cfg(all(test, loom))]
mod loom_model;
