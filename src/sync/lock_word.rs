//! The lock word of a target: shared and exclusive locks by single atomics from the origins.
//!
//! | bits | |
//! |---|---|
//! | 63 | X: held exclusively |
//! | 62 | W: a rank waits to hold it exclusively |
//! | 32–61 | the exclusive holder's rank |
//! | 0–31 | how many ranks hold it shared, or tried to and are about to withdraw |
//!
//! A release subtracts what the acquisition added, and never stores: a store would lose the increment of a
//! reader that is about to withdraw. Readers stay away while W is set, so they cannot starve a writer; the
//! writer that gets the exclusive lock clears W, and writers that still wait set it again. Through the
//! device, only the first writer in the queue sets it.
//!
//! This alone could cause a cycle of waits. So readers may overtake waiting writers after some time;
//! `reader_overtaking` says which readers, and when.
//!
//! Readers that wait only load the word. Through the device they poll: at first every two round trips, then at twice
//! the distance each time, up to one round trip for each rank of the window, or 50 ms, so that all of them together
//! have about one request under way.

use crate::error::Result;
use crate::memory::word::LockWord;

pub(crate) const EXCLUSIVE: u64 = 1 << 63;
pub(crate) const WAITING: u64 = 1 << 62;
const RANK_SHIFT: u32 = 32;
const RANK_MASK: u64 = (1 << 30) - 1;

/// The word while `rank` holds it exclusively and no other rank holds or wants it.
pub(crate) const fn exclusive(rank: u32) -> u64 {
    EXCLUSIVE | (rank as u64 & RANK_MASK) << RANK_SHIFT
}

/// The rank that holds the word exclusively.
pub(crate) fn holder(word: u64) -> Option<u32> {
    (word & EXCLUSIVE != 0).then_some((word >> RANK_SHIFT & RANK_MASK) as u32)
}

/// Whether the word is held, but not exclusively.
pub(crate) fn is_shared(word: u64) -> bool {
    word & EXCLUSIVE == 0 && word & !WAITING != 0
}

/// Tries to take a shared lock.
#[inline(always)]
pub(crate) fn try_shared(word: &impl LockWord) -> Result<bool> {
    try_shared_against(word, EXCLUSIVE | WAITING)
}

#[inline]
fn try_shared_against(word: &impl LockWord, obstacles: u64) -> Result<bool> {
    let old = word.fetch_add(1)?;
    if old & obstacles == 0 {
        return Ok(true);
    }
    word.fetch_add(1_u64.wrapping_neg())?;
    Ok(false)
}

/// One more attempt of a waiting reader. Reads first, so that waiting readers do not write. `overtakes`: whether it may
/// go before waiting writers; called only if there are any.
pub(crate) fn retry_shared(word: &impl LockWord, overtakes: impl FnOnce() -> bool) -> Result<bool> {
    let seen = word.load()?;
    let obstacles = match seen & (EXCLUSIVE | WAITING) {
        0 => EXCLUSIVE | WAITING,
        WAITING if overtakes() => EXCLUSIVE,
        _ => return Ok(false),
    };
    try_shared_against(word, obstacles)
}

/// Tries to take a free lock exclusively.
#[inline(always)]
pub(crate) fn try_exclusive(word: &impl LockWord, rank: u32) -> Result<bool> {
    let old = word.compare_swap(0, exclusive(rank))?;
    Ok(old == 0)
}

/// One more attempt of a waiting writer: takes the word if it only has a wait in it, and otherwise makes sure that this
/// wait is in it.
pub(crate) fn retry_exclusive(word: &impl LockWord, rank: u32) -> Result<bool> {
    let seen = word.load()?;
    let wanted = match seen {
        0 | WAITING => exclusive(rank),
        _ if seen & WAITING == 0 => seen | WAITING,
        _ => return Ok(false),
    };
    let old = word.compare_swap(seen, wanted)?;
    Ok(old == seen && wanted == exclusive(rank))
}

/// The value that releases a shared lock when it is added to the word.
pub(crate) const SHARED_RELEASE: u64 = 1_u64.wrapping_neg();

/// The value that releases an exclusive lock when it is added to the word.
pub(crate) const fn exclusive_release(rank: u32) -> u64 {
    exclusive(rank).wrapping_neg()
}

#[cfg(all(test, loom))]
mod loom_model;
