//! When it is time to check, for a caller that is asked again and again instead of waiting.

use std::sync::atomic::{AtomicU32, Ordering};

use rdma_sys_shim::{LIVENESS_INTERVAL, milliseconds};

use crate::error::Result;
use crate::wait::{Verdict, test_again};

/// The clock is read once in this many unsuccessful polls.
const LOOK_AT_CLOCK: u32 = 16;

/// The polls of one caller.
#[derive(Default)]
pub(crate) struct Polls {
    /// May wrap: only its remainder counts.
    fruitless: AtomicU32,
    /// The time of the caller's last check, in milliseconds.
    checked: AtomicU32,
}

impl Polls {
    /// Tests once instead of waiting. Now and then `check` says whether the result can still become
    /// true.
    pub(crate) fn poll<'a>(
        &self,
        mut done: impl FnMut() -> Result<bool>,
        check: impl FnOnce() -> Verdict<'a>,
    ) -> Result<bool> {
        if done()? {
            return Ok(true);
        }
        match self.begins_check() {
            true => test_again(check(), &mut done),
            false => Ok(false),
        }
    }

    /// Counts one unsuccessful poll. Returns true now and then: then the caller should check.
    fn begins_check(&self) -> bool {
        let polls = self.fruitless.fetch_add(1, Ordering::Relaxed);
        if polls % LOOK_AT_CLOCK != LOOK_AT_CLOCK - 1 {
            return false;
        }
        let now = milliseconds();
        let passed = now.wrapping_sub(self.checked.load(Ordering::Relaxed));
        let due = passed >= LIVENESS_INTERVAL.as_millis() as u32;
        if due {
            self.checked.store(now, Ordering::Relaxed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;
    use crate::wait::tests::{Told, doubt};

    #[test]
    fn a_poll_fails_when_the_check_does() {
        let (told, polls) = (Told::default(), Polls::default());
        let poll = || polls.poll(|| Ok(false), || Err(doubt(&told)));
        let failed = std::iter::repeat_with(poll).find_map(|answer| answer.err());
        assert_eq!(failed.unwrap().operation(), "test");
        assert_eq!(told.0.get(), 1);
    }

    #[test]
    fn what_happened_before_the_check_failed_counts() {
        let (told, failed) = (Told::default(), Cell::new(false));
        let check = || {
            failed.set(true);
            Err(doubt(&told))
        };
        let polls = Polls::default();
        while !polls.poll(|| Ok(failed.get()), check).unwrap() {}
        assert_eq!(told.0.get(), 0, "and nobody hears of the doubt");
    }

    #[test]
    fn polls_are_checked_now_and_then() {
        let polls = Polls::default();
        let begun = Instant::now();
        let mut due = 0;
        while begun.elapsed() < 6 * LIVENESS_INTERVAL {
            due += u32::from(polls.begins_check());
        }
        // The last turn may have been long.
        let most = begun.elapsed().as_millis() / LIVENESS_INTERVAL.as_millis() + 2;
        assert!((1..=most).contains(&u128::from(due)), "{due}");
    }
}
