//! Time slices of ranks that share processors. A rank that locks and unlocks in a loop would continue until its kernel
//! time slice is over, which takes milliseconds. A rank that waits for the lock would wait for the time slices of all
//! ranks before it. So a rank in such a loop yields the processor sooner.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use crate::window::{Held, Window, held_locks};

/// Long compared with a thread switch, which takes some microseconds, and short compared with the system's time slices.
const TIME_SLICE: Duration = Duration::from_micros(100);
/// The clock is read at least once in this many epochs.
const LOOK_AT_CLOCK: u32 = 256;

impl Window {
    /// Before a passive-target epoch: yields the processor now and then, if ranks share processors.
    pub(super) fn yield_time_slice(&self) {
        if self.context().patience().is_oversubscribed() {
            // Others may wait for locks of this process, in any window and by any thread. Shared locks do not count:
            // some are held all the time.
            let is_free = || {
                held_locks()
                    .iter()
                    .all(|(held, _)| *held != Held::Exclusive)
            };
            SLICE_OF_THREAD.with(|slice| slice.take(is_free));
        }
    }
}

thread_local! {
    static SLICE_OF_THREAD: TimeSlice = const { TimeSlice::new() };
}

/// The state of one thread.
struct TimeSlice {
    /// `None` before the first.
    begun: Cell<Option<Instant>>,
    /// The number of epochs between two reads of the clock, and how many of them are left.
    stride: Cell<u32>,
    left: Cell<u32>,
}

impl TimeSlice {
    const fn new() -> Self {
        Self {
            begun: Cell::new(None),
            stride: Cell::new(1),
            left: Cell::new(0),
        }
    }

    fn take(&self, may_yield: impl FnOnce() -> bool) {
        match self.left.get() {
            0 => self.look_at_clock(may_yield),
            left => self.left.set(left - 1),
        }
    }

    #[cold]
    fn look_at_clock(&self, may_yield: impl FnOnce() -> bool) {
        let now = Instant::now();
        let begun = self.begun.get().unwrap_or(now);
        let stride = if now - begun >= TIME_SLICE && may_yield() {
            thread::yield_now();
            self.begun.set(Some(Instant::now()));
            1
        } else {
            self.begun.set(Some(begun));
            (self.stride.get() * 2).min(LOOK_AT_CLOCK)
        };
        self.stride.set(stride);
        self.left.set(stride - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slice_ends_and_another_begins() {
        let slice = TimeSlice::new();
        let long_ago = Instant::now().checked_sub(2 * TIME_SLICE);
        slice.begun.set(long_ago);
        slice.stride.set(3);
        slice.left.set(2);
        for left in [1, 0] {
            slice.take(|| true);
            assert_eq!((slice.begun.get(), slice.left.get()), (long_ago, left));
        }
        slice.take(|| true);
        assert!(slice.begun.get() > long_ago);
        assert_eq!((slice.stride.get(), slice.left.get()), (1, 0));
    }

    #[test]
    fn a_slice_that_must_not_end_is_over_as_soon_as_it_may() {
        let slice = TimeSlice::new();
        let long_ago = Instant::now().checked_sub(2 * TIME_SLICE);
        slice.begun.set(long_ago);
        slice.take(|| false);
        assert_eq!((slice.begun.get(), slice.left.get()), (long_ago, 1));
        slice.take(|| true);
        slice.take(|| true);
        assert!(slice.begun.get() > long_ago);
    }

    #[test]
    fn within_a_slice_the_clock_is_read_less_and_less() {
        let slice = TimeSlice::new();
        for stride in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
            // However long this test takes, the turn is not over.
            slice
                .begun
                .set(Instant::now().checked_add(Duration::from_secs(3600)));
            slice.left.set(0);
            slice.take(|| true);
            assert_eq!((slice.stride.get(), slice.left.get()), (stride, stride - 1));
        }
    }
}
