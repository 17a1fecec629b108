//! Where in the table a word may stand.
//!
//! A word's hash names its home, the rank in whose part it stands, and the order in which the
//! places there are tried. Slots are grouped in buckets, which one get fetches whole; buckets in
//! levels, each of which has four times as many as the one before. A word has one bucket in each
//! level; in the last level, it may go on to the following ones. So few words use only the first
//! levels, and the memory of the others is never touched, however large the table was made.

use crate::hash::{mix, reduce};

/// Elements of a slot: a descriptor, which is 0 in a free slot, and a count.
pub(crate) const SLOT: usize = 2;
/// Slots of a bucket.
pub(crate) const BUCKET: usize = 8;
/// Elements of a bucket.
pub(crate) const BUCKET_LEN: usize = SLOT * BUCKET;

/// Buckets of the first level.
const FIRST: usize = 512;

/// One level: its buckets are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) first: usize,
    pub(crate) buckets: usize,
}

/// The part of the table that each rank has.
pub(crate) struct Layout {
    levels: Vec<Level>,
}

impl Layout {
    /// A part of at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let total = slots.div_ceil(BUCKET).max(1);
        let mut levels = Vec::new();
        let (mut first, mut size) = (0, FIRST);
        while first < total {
            let left = total - first;
            // A last level much smaller than those before it would be full before they are.
            let buckets = if left < 2 * size { left } else { size };
            levels.push(Level { first, buckets });
            first += buckets;
            size *= 4;
        }
        Self { levels }
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    fn last(&self) -> Level {
        self.levels[self.levels.len() - 1]
    }

    /// Elements of a part.
    pub(crate) fn len(&self) -> usize {
        (self.last().first + self.last().buckets) * BUCKET_LEN
    }

    /// Slots of a part.
    pub(crate) fn slots(&self) -> usize {
        self.len() / SLOT
    }

    /// The buckets that may hold the word with this hash, in the order in which they fill: for each,
    /// the place of its first element.
    pub(crate) fn probes(&self, hash: u64) -> impl Iterator<Item = usize> + use<'_> {
        let in_level = move |(number, level): (u64, &Level)| {
            let number = mix(hash.wrapping_add(number));
            level.first + reduce(number, level.buckets as u64) as usize
        };
        let own = (0..).zip(&self.levels).map(in_level);
        let last = self.last();
        let start = in_level((self.levels.len() as u64 - 1, &last));
        let following = (start + 1..last.first + last.buckets).chain(last.first..start);
        own.chain(following).map(|bucket| bucket * BUCKET_LEN)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn levels_grow_and_leave_nothing_out() {
        for slots in [1, 8, 9, 8192, 16_384, 40_000, 1 << 20, (1 << 20) + 1] {
            let layout = Layout::new(slots);
            assert!((slots..slots + BUCKET).contains(&layout.slots()));
            let mut next = 0;
            for level in layout.levels() {
                assert_eq!(level.first, next);
                next += level.buckets;
            }
            assert_eq!(next * BUCKET_LEN, layout.len());
        }
    }

    #[test]
    fn probes_visit_one_bucket_of_each_level_then_all_of_the_last() {
        let layout = Layout::new(100_000);
        let levels = layout.levels();
        for hash in (0..100).map(mix) {
            let probes: Vec<_> = layout.probes(hash).collect();
            for (level, &place) in levels.iter().zip(&probes) {
                let range = level.first..level.first + level.buckets;
                assert!(range.contains(&(place / BUCKET_LEN)) && place % BUCKET_LEN == 0);
            }
            let distinct: HashSet<_> = probes.iter().collect();
            assert_eq!(distinct.len(), probes.len());
            assert_eq!(probes.len(), levels.len() - 1 + layout.last().buckets);
        }
    }
}
