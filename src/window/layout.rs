//! Where in a window's control block its words stand: the same place on every rank.

use crate::memory::control::LINE;

pub(crate) const LOCK_AT: u64 = 0;
/// In which collective call a rank waits; seldom written, so that it needs no line of its own.
pub(crate) const CALL_AT: u64 = 8;
/// What the rank says of its part, which is written once.
pub(super) const ENTRY_AT: u64 = 24;
pub(super) const ENTRY_WORDS: usize = 5;
pub(crate) const ACCUMULATE_LOCK_AT: u64 = LINE;
/// How far behind each of the two locks the counts of its queue stand.
pub(crate) const QUEUE_BEHIND: u64 = 16;
/// Whether bulk mode is on here; seldom written, and read by every single atomic.
pub(crate) const BULK_MODE_AT: u64 = 2 * LINE;
/// So many chunks of contacts there can be.
pub(super) const CHUNKS: u64 = 12;
/// Where they are, a word for each.
pub(crate) const CONTACTS_AT: u64 = 3 * LINE;
pub(crate) const BARRIER_AT: u64 = CONTACTS_AT + (8 * CHUNKS).next_multiple_of(LINE);

/// The places that depend on the number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLayout {
    notifications: u64,
}

impl BlockLayout {
    /// `barrier`: the bytes of its flags.
    pub(crate) fn new(barrier: u64) -> Self {
        let notifications = BARRIER_AT + barrier;
        Self { notifications }
    }

    /// One of this rank's notification counters.
    #[inline]
    pub(crate) fn notification(self, counter: u32) -> u64 {
        self.notifications + LINE * u64::from(counter)
    }

    /// The length of a block with so many notification counters.
    pub(crate) fn bytes(self, counters: u32) -> u64 {
        self.notification(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_words_share_a_place() {
        let layout = BlockLayout::new(5 * LINE);
        let flags = (0..5).map(|number| BARRIER_AT + number * LINE);
        let locks = [LOCK_AT, ACCUMULATE_LOCK_AT];
        let mut places: Vec<u64> = [CALL_AT, BULK_MODE_AT]
            .into_iter()
            .chain((ENTRY_AT..).step_by(8).take(ENTRY_WORDS))
            .chain(locks)
            .chain(locks.map(|lock| lock + QUEUE_BEHIND))
            .chain((0..CHUNKS).map(|number| CONTACTS_AT + 8 * number))
            .chain(flags)
            .chain((0..3).map(|counter| layout.notification(counter)))
            .collect();
        let len = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), len);
        assert!(places.iter().all(|at| at % 8 == 0));
        assert!(places[len - 1] + 8 <= layout.bytes(3));
    }
}
