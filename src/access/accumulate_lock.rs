//! The accumulate lock: the word at a target that its origins hold while they combine, one at a time.
//!
//! | bits | |
//! |---|---|
//! | 0–23 | the holder's rank + 1, or 0 |
//! | 24–47 | the rank + 1 that is next, or 0 |
//! | 48–63 | how many are entered as the next: 1, or for a moment more |
//!
//! Whoever comes to a free lock takes it: that is fast, and unjust to those who sleep while the holder
//! comes back. So who has waited long enters itself as the next, and then nobody else takes the lock
//! until it has.
//!
//! A mapped word is released by a store, if nobody is next: an entry that is made just then is lost,
//! and made again by its owner. Through the device, what a rank has seen of the word is old when its
//! atomic comes there, so that an entry made by a compare-and-swap could miss for ever. It is added
//! there, and withdrawn if there was one. Meanwhile the count is not 1: the sum of two entries is no
//! third rank's, however many there are, since what the sums of ranks carry only raises the count.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::memory::word::{LockWord, SharedWord};

/// The word while `rank` holds the lock and nobody is next.
#[inline]
pub(super) const fn held_by(rank: u32) -> u64 {
    rank as u64 + 1
}

const NEXT_SHIFT: u32 = 24;
const RANK_MASK: u64 = (1 << NEXT_SHIFT) - 1;

/// What the word holds besides while `rank` is next.
const fn entry(rank: u32) -> u64 {
    (1 << NEXT_SHIFT | held_by(rank)) << NEXT_SHIFT
}

/// Whom a word waits for: the rank that holds the lock, or else the one that is next.
pub(super) fn awaited(word: u64) -> Option<u32> {
    let (holder, next) = (word & RANK_MASK, word >> NEXT_SHIFT);
    let named = match next >> NEXT_SHIFT {
        // Several entries add up to nobody's.
        1 if holder == 0 => next & RANK_MASK,
        _ => holder,
    };
    named.checked_sub(1).map(|rank| rank as u32)
}

/// What came of one more try to take the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccumulateAttempt {
    Taken,
    /// Not yet, but nobody else will have it before this rank, once who holds it has released it.
    Next,
    Busy,
}

/// Tries to take a free lock that nobody waits for.
#[inline(always)]
pub(super) fn try_take(word: &impl LockWord, rank: u32) -> Result<bool> {
    Ok(word.compare_swap(0, held_by(rank))? == 0)
}

/// One more try of a rank that waits: looks first, so that those who wait do not write. `long`: it
/// enters itself as the next, if nobody is. `is_next`: it was, at the last try; an entry of the rank is
/// else one of its other threads.
pub(super) fn retry(
    word: &impl LockWord,
    rank: u32,
    long: bool,
    is_next: bool,
) -> Result<AccumulateAttempt> {
    let (mine, entry) = (held_by(rank), entry(rank));
    let seen = word.load()?;
    let next = seen >> NEXT_SHIFT << NEXT_SHIFT;
    let swap = |wanted, attempt| -> Result<AccumulateAttempt> {
        let found = word.compare_swap(seen, wanted)?;
        Ok(if found == seen {
            attempt
        } else {
            AccumulateAttempt::Busy
        })
    };
    if is_next {
        // What was added stays until it is taken, whatever others add meanwhile.
        let stays = !word.is_mapped();
        if seen == entry {
            return Ok(match swap(mine, AccumulateAttempt::Taken)? {
                AccumulateAttempt::Busy if stays => AccumulateAttempt::Next,
                attempt => attempt,
            });
        }
        if stays || next == entry {
            return Ok(AccumulateAttempt::Next);
        }
    }
    if next != 0 {
        return Ok(AccumulateAttempt::Busy);
    }
    if long && !word.is_mapped() {
        let found = word.fetch_add(entry)?;
        if found >> NEXT_SHIFT == 0 {
            return Ok(AccumulateAttempt::Next);
        }
        word.fetch_add(entry.wrapping_neg())?;
        return Ok(AccumulateAttempt::Busy);
    }
    match seen {
        0 => swap(mine, AccumulateAttempt::Taken),
        _ if long => swap(seen | entry, AccumulateAttempt::Next),
        _ => Ok(AccumulateAttempt::Busy),
    }
}

/// Releases a mapped lock that `rank` holds.
#[inline]
pub(super) fn release(word: &impl StoredWord, rank: u32) {
    if word.glance() == held_by(rank) {
        word.clear();
    } else {
        word.add(release_by(rank));
    }
}

/// What to add to the word to release it.
pub(super) const fn release_by(rank: u32) -> u64 {
    held_by(rank).wrapping_neg()
}

/// A mapped word.
pub(super) trait StoredWord: SharedWord {
    /// Loads, and orders nothing.
    fn glance(&self) -> u64;
    /// Stores 0, behind all that this thread stored before.
    fn clear(&self);
}

impl StoredWord for AtomicU64 {
    #[inline(always)]
    fn glance(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn clear(&self) {
        self.publish(0);
    }
}

#[cfg(all(test, loom))]
mod loom_model;

#[cfg(test)]
mod tests {
    use super::*;

    struct Word {
        word: AtomicU64,
        is_mapped: bool,
    }

    impl LockWord for Word {
        fn load(&self) -> Result<u64> {
            Ok(self.word.look())
        }

        fn compare_swap(&self, expect: u64, new: u64) -> Result<u64> {
            Ok(self.word.replace_if(expect, new))
        }

        fn fetch_add(&self, add: u64) -> Result<u64> {
            Ok(self.word.add(add))
        }

        fn is_mapped(&self) -> bool {
            self.is_mapped
        }
    }

    fn who_has_waited_long_is_next(is_mapped: bool) {
        let word = Word {
            word: AtomicU64::new(0),
            is_mapped,
        };
        let release = |rank| match is_mapped {
            true => release(&word.word, rank),
            false => drop(word.fetch_add(release_by(rank)).unwrap()),
        };
        let retry = |rank, long, is_next| retry(&word, rank, long, is_next).unwrap();
        let (next, both) = (entry(7), entry(7) | 5);
        assert!(try_take(&word, 4).unwrap());
        assert_eq!(retry(7, false, false), AccumulateAttempt::Busy);
        assert_eq!(retry(7, true, false), AccumulateAttempt::Next);
        assert_eq!(retry(7, false, true), AccumulateAttempt::Next);
        assert_eq!(retry(9, true, false), AccumulateAttempt::Busy);
        assert_eq!(awaited(both), Some(4));
        release(4);
        assert!(!try_take(&word, 4).unwrap());
        assert_eq!(retry(4, true, false), AccumulateAttempt::Busy);
        // Another thread of the same rank.
        assert_eq!(retry(7, true, false), AccumulateAttempt::Busy);
        assert_eq!(awaited(next), Some(7));
        assert_eq!(retry(7, true, true), AccumulateAttempt::Taken);
        assert_eq!(retry(9, true, false), AccumulateAttempt::Next);
        release(7);
        assert_eq!(retry(9, false, true), AccumulateAttempt::Taken);
        release(9);
        assert_eq!(word.word.look(), 0);
        assert_eq!(awaited(0), None, "what was just released");
    }

    #[test]
    fn two_entries_are_no_third_ranks() {
        for (first, second) in [(0, 0), (1, 2), (1 << 23, 1 << 23), (5, (1 << 24) - 2)] {
            let both = entry(first) + entry(second);
            assert_ne!(both >> (2 * NEXT_SHIFT), 1, "{first} {second}");
            assert_eq!(awaited(both), None);
        }
    }

    #[test]
    fn who_is_next_through_the_device_stays_so_beside_others_entries() {
        let word = Word {
            word: AtomicU64::new(entry(7) + entry(3)),
            is_mapped: false,
        };
        assert_eq!(
            retry(&word, 7, true, true).unwrap(),
            AccumulateAttempt::Next
        );
        word.fetch_add(entry(3).wrapping_neg()).unwrap();
        assert_eq!(
            retry(&word, 7, true, true).unwrap(),
            AccumulateAttempt::Taken
        );
    }

    #[test]
    fn who_has_waited_long_is_next_and_nobody_else() {
        who_has_waited_long_is_next(true);
        who_has_waited_long_is_next(false);
    }
}
