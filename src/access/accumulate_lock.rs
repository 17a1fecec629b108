//! The accumulate lock: a word at a target. One origin at a time holds it while it combines elements.
//!
//! | bits | |
//! |---|---|
//! | 0–23 | the holder's rank + 1, or 0 |
//! | 24–47 | the next holder's rank + 1, or 0; only in a mapped word |
//! | 63 | reserved for the first rank in the queue; only through the device |
//!
//! Any rank takes a free lock. This is fast, but unfair to ranks that sleep while the last holder
//! takes the lock again. So a rank that has waited for long enters itself as the next holder. Then no
//! other rank takes the lock before it. Through the device, waiting ranks join a queue instead.
//!
//! If no next holder is entered, a mapped word is released by a store. An entry that is made at that
//! moment is lost, and its owner makes it again.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::memory::word::{LockWord, SharedWord};

/// The word while `rank` holds the lock and no rank is next.
#[inline]
pub(super) const fn held_by(rank: u32) -> u64 {
    rank as u64 + 1
}

const NEXT_SHIFT: u32 = 24;
const RANK_MASK: u64 = (1 << NEXT_SHIFT) - 1;

/// A bit of the word while it is reserved for the first in its queue.
pub(super) const RESERVED: u64 = 1 << 63;

/// A part of the word while `rank` is next.
const fn entry(rank: u32) -> u64 {
    held_by(rank) << NEXT_SHIFT
}

/// Whether a word may be an accumulate lock.
pub(super) const fn is_lock(word: u64) -> bool {
    (word & !RESERVED) >> (2 * NEXT_SHIFT) == 0
}

/// The rank that a waiting rank depends on: the holder of the lock, or else the next one.
pub(super) fn awaited(word: u64) -> Option<u32> {
    let (holder, next) = (word & RANK_MASK, word >> NEXT_SHIFT & RANK_MASK);
    let named = if holder == 0 { next } else { holder };
    named.checked_sub(1).map(|rank| rank as u32)
}

/// The result of one more attempt to take the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccumulateAttempt {
    Taken,
    /// Not yet, but this rank will get it as soon as its holder has released it.
    Next,
    Busy,
}

/// Tries to take a lock that is free and that no rank waits for.
#[inline(always)]
pub(super) fn try_take(word: &impl LockWord, rank: u32) -> Result<bool> {
    Ok(word.compare_swap(0, held_by(rank))? == 0)
}

/// One more attempt of a rank that waits for a mapped word. Reads first, so that waiting ranks do not write. `long`:
/// the rank enters itself as the next, if no rank is. `is_next`: the rank was the next at the last attempt; if not, an
/// entry of this rank is by another of its threads.
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
    match seen {
        _ if is_next && seen == entry => swap(mine, AccumulateAttempt::Taken),
        _ if is_next && next == entry => Ok(AccumulateAttempt::Next),
        _ if next != 0 => Ok(AccumulateAttempt::Busy),
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

/// The value that releases the word when it is added.
pub(super) const fn release_by(rank: u32) -> u64 {
    held_by(rank).wrapping_neg()
}

/// A mapped word.
pub(super) trait StoredWord: SharedWord {
    /// Loads without ordering.
    fn glance(&self) -> u64;
    /// Stores 0, after all earlier stores of this thread.
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

    struct Word(AtomicU64);

    impl LockWord for Word {
        fn load(&self) -> Result<u64> {
            Ok(self.0.look())
        }

        fn compare_swap(&self, expect: u64, new: u64) -> Result<u64> {
            Ok(self.0.replace_if(expect, new))
        }

        fn fetch_add(&self, add: u64) -> Result<u64> {
            Ok(self.0.add(add))
        }
    }

    #[test]
    fn who_has_waited_long_is_next_and_nobody_else() {
        let word = Word(AtomicU64::new(0));
        let release = |rank| release(&word.0, rank);
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
        assert_eq!(word.0.look(), 0);
        assert_eq!(awaited(0), None, "what was just released");
    }

    #[test]
    fn a_reserved_word_names_its_holder_alone() {
        assert_eq!(awaited(RESERVED), None);
        assert_eq!(awaited(RESERVED | held_by(7)), Some(7));
        let word = Word(AtomicU64::new(RESERVED));
        assert!(!try_take(&word, 4).unwrap());
    }
}
