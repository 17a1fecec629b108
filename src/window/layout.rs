//! Where in a window's control block its words stand: the same place on every rank.

use crate::memory::control::LINE;

pub(crate) const LOCK_AT: u64 = 0;
/// The collective call in which a rank waits. It is seldom written, so it needs no line of its own.
pub(crate) const CALL_AT: u64 = 8;
/// The rank's entry, which is written once.
pub(super) const ENTRY_AT: u64 = 24;
pub(super) const ENTRY_WORDS: usize = 5;
pub(crate) const ACCUMULATE_LOCK_AT: u64 = LINE;
/// The distance from each of the two locks to the counts of its queue.
pub(crate) const QUEUE_BEHIND: u64 = 16;
/// Whether bulk mode is on at this rank. Seldom written, but read by every single atomic.
pub(crate) const BULK_MODE_AT: u64 = 2 * LINE;
/// The maximal number of chunks of contacts.
pub(super) const CHUNKS: u64 = 12;
/// The places of the chunks, one word each.
pub(crate) const CONTACTS_AT: u64 = 3 * LINE;
pub(crate) const BARRIER_AT: u64 = CONTACTS_AT + (8 * CHUNKS).next_multiple_of(LINE);

/// The offsets that depend on the number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLayout {
    notifications: u64,
}

impl BlockLayout {
    /// `barrier`: the bytes of the barrier's flags.
    pub(crate) fn new(barrier: u64) -> Self {
        let notifications = BARRIER_AT + barrier;
        Self { notifications }
    }

    /// The offset of one of this rank's notification counters.
    #[inline]
    pub(crate) fn notification(self, counter: u32) -> u64 {
        self.notifications + LINE * u64::from(counter)
    }

    /// The length of a block with `counters` notification counters.
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
