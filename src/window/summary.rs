//! What the ranks of a window agree on when they make it: of what all of them say, as much as each has to know.

use bytemuck::{Pod, Zeroable};

use super::compared::{Compared, NO_RANK};
use super::entry::Entry;
use super::hints::{Common, Hints, SAME_SIZE_BIT, SAME_UNIT_BIT};
use super::info::{SAME_DISP_UNIT, SAME_SIZE};
use crate::error::Misuse;

/// The merged data of some ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Summary {
    /// The lowest of the ranks.
    lowest: u64,
    /// The flags of hints and [`ABILITIES`] that all of the ranks have.
    pub(super) of_all: u64,
    /// The flags that any of the ranks has.
    pub(super) of_any: u64,
    /// The least and the greatest granularity.
    granularity: [u64; 2],
    /// The lowest and the highest place of a block.
    blocks: [u64; 2],
    /// The least number of notification counters.
    pub(super) counters: u64,
    pub(super) sizes: Compared,
    pub(super) units: Compared,
}

/// The flags that are not hints.
pub(super) const ABILITIES: u64 = !0 << 32;

impl Summary {
    /// The summary of one rank.
    pub(super) fn of(rank: u32, entry: &Entry, block: u64, hints: Common, abilities: u64) -> Self {
        let flags = hints.flags | abilities;
        Self {
            lowest: rank.into(),
            of_all: flags,
            of_any: flags,
            granularity: [hints.granularity; 2],
            blocks: [block; 2],
            counters: entry.counters,
            sizes: Compared::of(entry.size),
            units: Compared::of(entry.unit),
        }
    }

    pub(super) fn merge(self, other: Self) -> Self {
        let (low, high) = match self.lowest <= other.lowest {
            true => (self, other),
            false => (other, self),
        };
        let ends = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a.min(c), b.max(d)];
        Self {
            lowest: low.lowest,
            of_all: low.of_all & high.of_all,
            of_any: low.of_any | high.of_any,
            granularity: ends(low.granularity, high.granularity),
            blocks: ends(low.blocks, high.blocks),
            counters: low.counters.min(high.counters),
            sizes: low.sizes.merge(high.sizes, high.lowest),
            units: low.units.merge(high.units, high.lowest),
        }
    }

    /// Two sets of hints whose weaker values are the weakest of all ranks; equal if all ranks gave the same.
    pub(super) fn hints(&self) -> [Common; 2] {
        let [least, most] = self.granularity;
        [(self.of_all, least), (self.of_any, most)].map(|(flags, granularity)| Common {
            flags: flags & !ABILITIES,
            granularity,
        })
    }

    /// Whether the blocks are at different places.
    pub(super) fn blocks_differ(&self) -> bool {
        let [lowest, highest] = self.blocks;
        lowest != highest
    }

    pub(super) fn highest_block(&self) -> u64 {
        self.blocks[1]
    }

    /// Whether all ranks that it names are below `size`.
    pub(super) fn names_ranks_below(&self, size: u32) -> bool {
        let named = [&self.sizes, &self.units].map(|one| one.other_rank);
        named
            .iter()
            .all(|&rank| rank == NO_RANK || rank < size.into())
    }

    /// The lowest rank that breaks one of these hints, which all ranks gave.
    pub(super) fn broken_promise(&self, hints: &Hints) -> Option<Misuse> {
        let promises = [
            (SAME_SIZE_BIT, SAME_SIZE, &self.sizes),
            (SAME_UNIT_BIT, SAME_DISP_UNIT, &self.units),
        ];
        let promises = promises.into_iter().filter(|(bit, ..)| hints.has(*bit));
        let broken = promises.filter_map(|(_, key, of)| Some((key, of.first(), of.other()?)));
        let (key, first, (rank, other)) = broken.min_by_key(|(.., (rank, _))| *rank)?;
        Some(Misuse::BrokenPromise {
            key,
            rank,
            first,
            other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::hints::Hints;
    use super::super::info::{GRANULARITY, Info, NO_LOCKS};
    use super::*;

    fn of(rank: u32, size: u64, unit: u64, info: &Info) -> Summary {
        let entry = Entry {
            size,
            unit,
            counters: 8 + u64::from(rank % 3),
            ..Entry::zeroed()
        };
        Summary::of(rank, &entry, 64, Hints::parse(info).unwrap().common, 0)
    }

    fn merged(all: impl IntoIterator<Item = Summary>) -> Summary {
        all.into_iter().reduce(Summary::merge).unwrap()
    }

    /// Eight ranks, of which some differ in each value.
    fn ranks() -> Vec<Summary> {
        let info = |rank: u32| {
            let info = Info::new().with(GRANULARITY, (64 >> (rank / 3)).to_string());
            info.with(NO_LOCKS, (rank != 5).to_string())
        };
        let size = |rank: u32| [8, 8, 8, 9, 7, 8, 8, 7][rank as usize];
        let unit = |rank: u32| if rank == 6 { 2 } else { 1 };
        (0..8)
            .map(|rank| of(rank, size(rank), unit(rank), &info(rank)))
            .collect()
    }

    #[test]
    fn the_lowest_rank_and_the_first_that_differs_are_found() {
        let all = merged(ranks());
        assert_eq!((all.sizes.first(), all.sizes.other()), (8, Some((3, 9))));
        assert_eq!((all.units.first(), all.units.other()), (1, Some((6, 2))));
        assert_eq!((all.counters, all.granularity), (8, [16, 64]));
        assert!(!all.blocks_differ());
        assert_eq!(all.sizes.other_than(8), Some((3, 9)));
        assert_eq!(all.sizes.other_than(7), Some((0, 8)));
        assert!(all.names_ranks_below(7) && !all.names_ranks_below(6));
        let some = merged(ranks()[..3].to_vec());
        assert!(!some.sizes.differ() && some.sizes.other_than(8).is_none());
        assert!(some.names_ranks_below(0));
    }

    #[test]
    fn the_weakest_hints_hold_and_differences_are_seen() {
        let of = |all: &[Summary]| {
            let [strong, weak] = merged(all.to_vec()).hints();
            let mut weakest = Hints::parse(&Info::new()).unwrap();
            weakest.take_weakest([strong, weak].into_iter());
            (weakest.to_info(), strong != weak)
        };
        let ranks = ranks();
        let (three, differ) = of(&ranks[..3]);
        assert_eq!(
            (three.get(NO_LOCKS), three.get(GRANULARITY)),
            (Some("true"), Some("64"))
        );
        assert!(!differ);
        let (all, differ) = of(&ranks);
        assert_eq!(
            (all.get(NO_LOCKS), all.get(GRANULARITY)),
            (Some("false"), Some("16"))
        );
        assert!(differ);
        // What is no hint may differ.
        let mut able = ranks[1];
        able.of_all |= 1 << 40;
        able.of_any |= 1 << 40;
        assert!(!of(&[ranks[0], able]).1);
    }

    /// Whatever arrives first, in which groups, and how often.
    #[test]
    fn the_order_of_merging_does_not_matter() {
        let ranks = ranks();
        let all = merged(ranks.clone());
        for start in 0..ranks.len() {
            let mut turned = ranks.clone();
            turned.rotate_left(start);
            assert_eq!(merged(turned.clone()), all, "from {start}");
            turned.reverse();
            assert_eq!(merged(turned.clone()), all, "back from {start}");
            for cut in 1..turned.len() {
                let (a, b) = turned.split_at(cut);
                let (a, b) = (merged(a.to_vec()), merged(b.to_vec()));
                assert_eq!(a.merge(b), all, "{start}, cut at {cut}");
                assert_eq!(a.merge(b).merge(a).merge(all), all);
            }
            assert_eq!(all.merge(ranks[start]), all);
        }
        // Groups that overlap, as in a dissemination among numbers of ranks that are no power of two.
        for first in ranks.windows(5) {
            for second in ranks.windows(6) {
                let (first, second) = (first.to_vec(), second.to_vec());
                let once = merged(first.iter().chain(&second).copied());
                assert_eq!(merged(first).merge(merged(second)), once);
            }
        }
    }

    #[test]
    fn the_first_rank_that_breaks_a_promise_is_named() {
        let promises = |keys: &[&str]| {
            let promise = |info: Info, key: &&str| info.with(*key, "true");
            keys.iter().fold(Info::new(), promise)
        };
        let both = promises(&[SAME_SIZE, SAME_DISP_UNIT]);
        let broken = |parts: [(u64, u64); 3], info: &Info| {
            let ranks = (0..).zip(parts);
            let all = merged(ranks.map(|(rank, (size, unit))| of(rank, size, unit, info)));
            let mut hints = Hints::parse(info).unwrap();
            hints.take_weakest(all.hints().into_iter());
            all.broken_promise(&hints)
        };
        let is = |misuse: Option<Misuse>, key, rank, first, other| {
            let wanted = Misuse::BrokenPromise {
                key,
                rank,
                first,
                other,
            };
            assert_eq!(misuse.unwrap().to_string(), wanted.to_string());
        };
        is(broken([(8, 1), (8, 1), (9, 1)], &both), SAME_SIZE, 2, 8, 9);
        is(
            broken([(8, 1), (8, 2), (9, 1)], &both),
            SAME_DISP_UNIT,
            1,
            1,
            2,
        );
        // Of one rank, the size is named.
        is(broken([(8, 1), (9, 2), (9, 2)], &both), SAME_SIZE, 1, 8, 9);
        assert!(broken([(8, 1), (8, 1), (8, 1)], &both).is_none());
        let units = promises(&[SAME_DISP_UNIT]);
        assert!(broken([(8, 1), (9, 1), (7, 1)], &units).is_none());
        // Only one of them promises.
        let some = of(0, 8, 1, &both).merge(of(1, 9, 2, &Info::new()));
        let mut hints = Hints::parse(&both).unwrap();
        hints.take_weakest(some.hints().into_iter());
        assert!(some.broken_promise(&hints).is_none());
    }
}
