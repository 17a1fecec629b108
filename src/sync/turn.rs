//! Turns of ranks that share processors. One that locks and unlocks without a pause would go on until its time on the
//! processor is over, which is milliseconds, and whoever waits for the lock behind it waits for that of each that comes
//! before. So it gives the processor away sooner.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use crate::window::{Held, Window, held_locks};

/// Long beside a change of threads, which takes some microseconds, and short beside the time that the system gives each.
const TURN: Duration = Duration::from_micros(100);
/// Of so many epochs, one looks at the clock, at the least.
const LOOK_AT_CLOCK: u32 = 256;

impl Window {
    /// Before a passive-target epoch: now and then lets others have the processor, where there are more ranks than those.
    pub(super) fn take_turn(&self) {
        if self.context().patience().is_oversubscribed() {
            // Others may wait for what this process has locked already, in whatever window and by whatever thread. A
            // shared lock does not count: some are held all the time.
            let is_free = || {
                held_locks()
                    .iter()
                    .all(|(held, _)| *held != Held::Exclusive)
            };
            TURN_OF_THREAD.with(|turn| turn.take(is_free));
        }
    }
}

thread_local! {
    static TURN_OF_THREAD: Turn = const { Turn::new() };
}

/// One thread's.
struct Turn {
    /// `None` before the first.
    begun: Cell<Option<Instant>>,
    /// So many epochs lie between two looks at the clock, and so many are left.
    stride: Cell<u32>,
    left: Cell<u32>,
}

impl Turn {
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
        let stride = if now - begun >= TURN && may_yield() {
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
    fn one_turn_ends_and_another_begins() {
        let turn = Turn::new();
        let long_ago = Instant::now().checked_sub(2 * TURN);
        turn.begun.set(long_ago);
        turn.stride.set(3);
        turn.left.set(2);
        for left in [1, 0] {
            turn.take(|| true);
            assert_eq!((turn.begun.get(), turn.left.get()), (long_ago, left));
        }
        turn.take(|| true);
        assert!(turn.begun.get() > long_ago);
        assert_eq!((turn.stride.get(), turn.left.get()), (1, 0));
    }

    #[test]
    fn a_turn_that_must_not_end_is_over_as_soon_as_it_may() {
        let turn = Turn::new();
        let long_ago = Instant::now().checked_sub(2 * TURN);
        turn.begun.set(long_ago);
        turn.take(|| false);
        assert_eq!((turn.begun.get(), turn.left.get()), (long_ago, 1));
        turn.take(|| true);
        turn.take(|| true);
        assert!(turn.begun.get() > long_ago);
    }

    #[test]
    fn within_a_turn_the_clock_is_looked_at_less_and_less() {
        let turn = Turn::new();
        for stride in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
            // However long this test takes, the turn is not over.
            turn.begun
                .set(Instant::now().checked_add(Duration::from_secs(3600)));
            turn.left.set(0);
            turn.take(|| true);
            assert_eq!((turn.stride.get(), turn.left.get()), (stride, stride - 1));
        }
    }
}
