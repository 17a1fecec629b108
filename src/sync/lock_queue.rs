//! The queue of the ranks that wait for a lock word through the device, and how often each of them polls.
//!
//! Next to the lock word is a word with two counts:
//!
//! | bits | |
//! |---|---|
//! | 0–31 | how many ranks have passed |
//! | 32–63 | how many ranks have joined |
//!
//! A rank joins if it does not get the lock at once. It is the first rank when as many ranks have passed as had joined
//! before it. Only the first rank tries to take the lock word, and passes when it has the lock. All other ranks read
//! the counts, rarely.
//!
//! The queue determines only which rank tries when. Only the lock word determines which rank holds the lock. So a torn
//! read of the counts does no harm: a rank that considers itself the first too early passes early, and the ranks that
//! were ahead of it then also find that they are the first. A bit of the lock word reserves the lock for the first
//! rank, so that ranks that arrive later join the queue. A rank that finds the lock free and not yet reserved takes it.
//! This helps all ranks if the first rank has to wait for a processor.
//!
//! All ranks of a window reach its lock words by the same path. So no rank waits for the same lock as for a mapped
//! word, whose entries the first rank would not understand.
//!
//! Load: a rank with k ranks ahead has a request under way for at most 1/(2k) of the time. So with n such ranks and the
//! first one, about 1 + ln(n)/2 requests are under way, and a rank reads the counts about ln n times before it is the
//! first.
//!
//! Alternatives: with random backoff, ranks that have just arrived would try often and those that have waited long
//! rarely. An MCS lock needs no polling, but a connection between any two ranks and one more message for each release.
//! If the lock stayed reserved from one first rank to the next, all ranks would get it equally often, but on
//! oversubscribed processors each would get it a third to half as often, because it would be idle until that rank gets
//! a processor.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::liveness::Awaited;
use crate::memory::remote::RemoteWord;
use crate::memory::word::LockWord;
use crate::wait::Verdict;
use crate::window::{OnTarget, QUEUE_BEHIND};

const JOINED_SHIFT: u32 = 32;
static PASSED: u64 = 1;
/// As [`PASSED`], for the rank that makes the count 0 again: nothing is carried to the other count.
static PASSED_LAST: u64 = 1_u64.wrapping_sub(1 << JOINED_SHIFT);

/// An epoch under the lock takes at least this many round trips.
const ROUND_TRIPS: u32 = 2;
/// The longest pause between two polls, for each rank ahead.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause of a rank that waits for a shared lock.
const LONGEST_OF_READERS: Duration = Duration::from_millis(50);

impl<'w> OnTarget<'w> {
    /// Waits for the lock in `word`, which is accessed through the device; the word is `mine` while this rank holds it.
    /// `reserved`: the bit that reserves it. `check`: whether a wait for it can still end.
    pub(crate) fn wait_in_queue<'c>(
        self,
        word: &RemoteWord,
        mine: u64,
        reserved: u64,
        check: impl Fn() -> Verdict<'c>,
    ) -> Result<()> {
        let stranded = |error: Error| self.stranded(error);
        let patience = self.window.context().patience();
        let queue = word.behind(QUEUE_BEHIND);
        let asked = Instant::now();
        let mut place = QueuePlace::join(&queue).map_err(stranded)?;
        let passes = place.passes();
        let pace = Pace::new(asked.elapsed(), LONGEST_PAUSE);
        let mut wait = || {
            while place.ahead > 0 {
                pace.put_off(place.ahead);
                let has_moved = || match pace.is_due() {
                    true => place.moves(&queue, &pace).map_err(stranded),
                    false => Ok(false),
                };
                // Any rank may be ahead.
                let check = || pace.hastened(check().and_then(|()| self.check_all()));
                // Patience restarts each time that a rank has passed.
                patience.wait(has_moved, check)?;
            }
            let first = First::new(mine, reserved);
            patience.wait(|| first.tries(word).map_err(stranded), &check)
        };
        let result = wait();
        // Also after a failed wait: otherwise later ranks would wait for this one.
        let posted = queue.post_add(passes);
        result.and(posted.map_err(stranded))
    }

    /// Whether all ranks of the window are alive.
    fn check_all(self) -> Verdict<'w> {
        let group = &self.window.team.group;
        let awaited = Awaited::AnyOf {
            ranks: &|index| group.in_world(index),
            excused: &|_, left| left,
            surely: None,
        };
        self.window.check(self.aim.operation, awaited)
    }

    /// Waits until `tried` returns that it has the lock, which is accessed through the device and which many ranks may
    /// get at once. Pauses so that all waiting ranks together have about one request in flight.
    pub(super) fn wait_with_pauses<'c>(
        self,
        tried: impl Fn() -> Result<bool>,
        check: impl Fn() -> Verdict<'c>,
    ) -> Result<()> {
        let asked = Instant::now();
        if tried()? {
            return Ok(());
        }
        let round_trip = asked.elapsed();
        let longest = (self.window.ranks() * round_trip).min(LONGEST_OF_READERS);
        let pace = Pace::new(round_trip, longest);
        let has_it = || {
            if !pace.is_due() {
                return Ok(false);
            }
            pace.put_off(1);
            tried()
        };
        let check = || pace.hastened(check());
        self.window.context().patience().wait(has_it, check)
    }
}

/// The first of a queue, which tries to take the lock. It uses one atomic each time: a read followed by an atomic would
/// lose against a rank that has just released the lock and wants it again.
pub(crate) struct First {
    mine: u64,
    reserved: u64,
    /// The value of the word after or at the last attempt.
    seen: Cell<u64>,
}

impl First {
    pub(crate) fn new(mine: u64, reserved: u64) -> Self {
        Self {
            mine,
            reserved,
            seen: Cell::new(0),
        }
    }

    /// Tries to take the lock if it is free, or else to reserve it; returns whether the rank has it.
    pub(crate) fn tries(&self, word: &impl LockWord) -> Result<bool> {
        let (seen, reserved) = (self.seen.get(), self.reserved);
        let reserves = seen & !reserved != 0 && seen & reserved == 0;
        let (expect, wanted) = match reserves {
            true => (seen, seen | reserved),
            // If it was held, it may be free by now.
            false => (seen & reserved, self.mine),
        };
        let found = word.compare_swap(expect, wanted)?;
        let swapped = found == expect;
        self.seen.set(if swapped { wanted } else { found });
        Ok(swapped && !reserves)
    }
}

/// How many ranks are before the rank with this number, after `passed` have passed; `None` if others have passed in its
/// place.
fn ahead(number: u32, passed: u32) -> u32 {
    let ahead = number.wrapping_sub(passed);
    if ahead.cast_signed() < 0 { 0 } else { ahead }
}

/// A rank's place in the queue.
#[derive(Debug)]
struct QueuePlace {
    number: u32,
    /// The number of ranks before it.
    ahead: u32,
}

impl QueuePlace {
    fn join(queue: &impl LockWord) -> Result<Self> {
        let counts = queue.fetch_add(1 << JOINED_SHIFT)?;
        let number = (counts >> JOINED_SHIFT) as u32;
        Ok(Self {
            number,
            ahead: ahead(number, counts as u32),
        })
    }

    /// Reads the counts; returns whether ranks have passed since the last time.
    fn moves(&mut self, queue: &impl LockWord, pace: &Pace) -> Result<bool> {
        let ahead = ahead(self.number, queue.load()? as u32);
        let moved = ahead < self.ahead;
        match moved {
            true => {
                self.ahead = ahead;
                pace.restart();
            }
            false => pace.put_off(self.ahead),
        }
        Ok(moved)
    }

    /// The value that the rank adds to the counts when it has the lock.
    fn passes(&self) -> &'static u64 {
        match self.number {
            u32::MAX => &PASSED_LAST,
            _ => &PASSED,
        }
    }
}

/// When a rank polls again: after pauses that double while nothing changes.
pub(super) struct Pace {
    shortest: Duration,
    longest: Duration,
    pause: Cell<Duration>,
    due: Cell<Instant>,
}

impl Pace {
    /// `round_trip`: the duration of a request.
    pub(super) fn new(round_trip: Duration, longest: Duration) -> Self {
        let shortest = (ROUND_TRIPS * round_trip).min(longest);
        Self {
            shortest,
            longest,
            pause: Cell::new(shortest),
            due: Cell::new(Instant::now()),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due.get()
    }

    /// Polls after this many pauses.
    pub(super) fn put_off(&self, pauses: u32) {
        let pause = self.pause.get();
        self.due.set(Instant::now() + pauses * pause);
        self.pause.set((2 * pause).min(self.longest));
    }

    fn restart(&self) {
        self.pause.set(self.shortest);
    }

    /// Polls at once if a check found that the wait cannot end: the awaited event may have happened before.
    fn hastened<'c>(&self, verdict: Verdict<'c>) -> Verdict<'c> {
        if verdict.is_err() {
            self.due.set(Instant::now());
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::memory::word::SharedWord;

    struct Counts(AtomicU64);

    impl LockWord for Counts {
        fn load(&self) -> Result<u64> {
            Ok(self.0.look())
        }

        fn fetch_add(&self, add: u64) -> Result<u64> {
            Ok(self.0.add(add))
        }

        fn compare_swap(&self, expect: u64, new: u64) -> Result<u64> {
            Ok(self.0.replace_if(expect, new))
        }
    }

    fn pace() -> Pace {
        Pace::new(Duration::from_micros(10), Duration::from_micros(100))
    }

    fn in_order_from(number: u32) {
        let counts = u64::from(number) << JOINED_SHIFT | u64::from(number);
        let queue = Counts(AtomicU64::new(counts));
        let join = || QueuePlace::join(&queue).unwrap();
        let (first, mut second, mut third) = (join(), join(), join());
        assert_eq!([first.ahead, second.ahead, third.ahead], [0, 1, 2]);
        assert!(!second.moves(&queue, &pace()).unwrap());
        queue.0.add(*first.passes());
        assert!(second.moves(&queue, &pace()).unwrap());
        assert_eq!(second.ahead, 0);
        queue.0.add(*second.passes());
        assert!(third.moves(&queue, &pace()).unwrap());
        assert_eq!(third.ahead, 0);
        queue.0.add(*third.passes());
        assert_eq!(join().ahead, 0, "nobody waits any more");
    }

    #[test]
    fn ranks_pass_in_the_order_in_which_they_joined_also_where_the_counts_begin_anew() {
        for number in [0, 7, u32::MAX - 2, u32::MAX - 1, u32::MAX] {
            in_order_from(number);
        }
    }

    const RESERVED: u64 = 1 << 63;

    #[test]
    fn the_first_reserves_what_is_held() {
        let word = Counts(AtomicU64::new(7));
        let first = First::new(5, RESERVED);
        let tries = || first.tries(&word).unwrap();
        assert!(!tries(), "it hopes that the word is free");
        assert!(!tries());
        assert_eq!(word.0.look(), 7 | RESERVED);
        assert!(!tries());
        assert_eq!(word.0.look(), 7 | RESERVED);
        word.0.add(7_u64.wrapping_neg());
        assert!(tries());
        assert_eq!(word.0.look(), 5);
    }

    #[test]
    fn the_first_does_not_take_a_lock_that_another_thread_of_its_rank_holds() {
        let word = Counts(AtomicU64::new(5));
        let first = First::new(5, RESERVED);
        for _ in 0..4 {
            assert!(!first.tries(&word).unwrap());
        }
        word.0.add(5_u64.wrapping_neg());
        assert!(first.tries(&word).unwrap());
    }

    #[test]
    fn a_count_that_is_read_torn_puts_nobody_back() {
        let mut place = QueuePlace {
            number: 0x103,
            ahead: 4,
        };
        let mut moves = |torn| place.moves(&Counts(AtomicU64::new(torn)), &pace()).unwrap();
        assert!(!moves(0x003));
        assert!(moves(0x1ff), "one that is far behind passed too early");
        assert_eq!(place.ahead, 0);
    }

    #[test]
    fn pauses_double_as_long_as_nothing_changes_and_are_for_each_rank_ahead() {
        let pace = pace();
        for pause in [20, 40, 80, 100, 100] {
            assert_eq!(pace.pause.get(), Duration::from_micros(pause));
            let before = Instant::now();
            pace.put_off(3);
            assert!(pace.due.get() >= before + 3 * Duration::from_micros(pause));
        }
        pace.restart();
        assert_eq!(pace.pause.get(), Duration::from_micros(20));
        pace.put_off(1_000_000);
        assert!(!pace.is_due());
        assert!(pace.hastened(Ok(())).is_ok() && !pace.is_due());
    }
}
