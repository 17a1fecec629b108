//! Which rank has which element.

use std::ops::Range;

use crate::{Error, Result};

/// How the elements of a [`DistArray`](crate::DistArray) are distributed over the ranks. With 10 elements on 3 ranks:
///
/// | | rank 0 | rank 1 | rank 2 |
/// |---|---|---|---|
/// | `Block` | 0 1 2 3 | 4 5 6 7 | 8 9 |
/// | `Cyclic` | 0 3 6 9 | 1 4 7 | 2 5 8 |
/// | `BlockCyclic(2)` | 0 1 6 7 | 2 3 8 9 | 4 5 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// One block for each rank. All have the same length, except for the last that has elements; the last ranks may
    /// have none. So these are not the parts of [`transom::block`]. See
    /// [`DistArray::own_indices`](crate::DistArray::own_indices).
    Block,
    /// Consecutive elements are on consecutive ranks.
    Cyclic,
    /// Consecutive blocks of this many elements are on consecutive ranks.
    BlockCyclic(usize),
}

/// A distribution of a number of elements over a number of ranks. A block distribution is a block-cyclic one in which
/// no rank has two blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    len: usize,
    block: Divisor,
    ranks: Divisor,
}

/// Consecutive elements of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) rank: u32,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Layout {
    /// # Errors
    /// The blocks have no elements.
    pub(crate) fn new(
        operation: &'static str,
        len: usize,
        distribution: Distribution,
        ranks: u32,
    ) -> Result<Self> {
        let block = match distribution {
            Distribution::Block => len.div_ceil(ranks as usize).max(1),
            Distribution::Cyclic => 1,
            Distribution::BlockCyclic(0) => {
                let what = "blocks of 0 elements".to_owned();
                return Err(Error::BadArgument { operation, what });
            }
            Distribution::BlockCyclic(block) => block,
        };
        Ok(Self {
            len,
            block: Divisor::new(block),
            ranks: Divisor::new(ranks as usize),
        })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Elements in a whole block.
    pub(crate) fn block(&self) -> usize {
        self.block.by
    }

    /// The rank that has an element, and the index in its part.
    #[inline(always)]
    pub(crate) fn place(&self, index: usize) -> (u32, usize) {
        let (block, within) = self.block.divide(index);
        let (round, rank) = self.ranks.divide(block);
        (rank as u32, round * self.block.by + within)
    }

    pub(crate) fn own_len(&self, rank: u32) -> usize {
        let (whole, rest) = self.block.divide(self.len);
        let (rounds, more) = self.ranks.divide(whole);
        let before = rounds * self.block.by;
        match (rank as usize).cmp(&more) {
            std::cmp::Ordering::Less => before + self.block.by,
            std::cmp::Ordering::Equal => before + rest,
            std::cmp::Ordering::Greater => before,
        }
    }

    /// The elements of a rank, in the order of its part.
    pub(crate) fn own_ranges(self, rank: u32) -> impl Iterator<Item = Range<usize>> + Clone {
        let own_len = self.own_len(rank);
        (0..own_len.div_ceil(self.block.by)).map(move |round| {
            let start = (round * self.ranks.by + rank as usize) * self.block.by;
            let len = self.block.by.min(own_len - round * self.block.by);
            start..start + len
        })
    }

    /// The elements of some ranks, which are in ascending order: no range ends where the next one begins.
    pub(crate) fn ranges_of(
        self,
        ranks: Vec<u32>,
    ) -> impl Iterator<Item = Range<usize>> + Clone + use<> {
        let blocks = self.len.div_ceil(self.block.by);
        let rounds = blocks.div_ceil(self.ranks.by);
        let mut all = (0..rounds * ranks.len())
            .map(move |at| {
                let (round, which) = (at / ranks.len(), at % ranks.len());
                round * self.ranks.by + ranks[which] as usize
            })
            .take_while(move |&block| block < blocks)
            .peekable();
        std::iter::from_fn(move || {
            let first = all.next()?;
            let mut last = first;
            while let Some(next) = all.next_if_eq(&(last + 1)) {
                last = next;
            }
            let start = first * self.block.by;
            let of_last = last * self.block.by;
            Some(start..of_last + self.block.by.min(self.len - of_last))
        })
    }

    /// The runs of consecutive elements in the range. The array has all of them.
    pub(crate) fn runs(self, range: Range<usize>) -> impl Iterator<Item = Run> + Clone {
        let mut start = range.start;
        std::iter::from_fn(move || {
            if start >= range.end {
                return None;
            }
            let (rank, at) = self.place(start);
            let (_, within) = self.block.divide(start);
            let len = (self.block.by - within).min(range.end - start);
            start += len;
            Some(Run { rank, at, len })
        })
    }
}

/// A divisor of many numbers. A multiplication replaces the division, which costs several times as much.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: usize,
    reciprocal: u64,
}

impl Divisor {
    fn new(by: usize) -> Self {
        Self {
            by,
            reciprocal: u64::MAX / by as u64,
        }
    }

    /// Quotient and remainder.
    #[inline(always)]
    fn divide(self, number: usize) -> (usize, usize) {
        // The reciprocal is too small by less than `by / 2^64`, so this is the quotient or one less.
        let product = u128::from(number as u64) * u128::from(self.reciprocal);
        let quotient = (product >> 64) as usize;
        let rest = number - quotient * self.by;
        match rest < self.by {
            true => (quotient, rest),
            false => (quotient + 1, rest - self.by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_divided_as_by_the_processor() {
        let edges = |base: usize| [base.wrapping_sub(1), base, base.wrapping_add(1)];
        let mut numbers: Vec<usize> = (0..64).flat_map(|bit| edges(1 << bit)).collect();
        numbers.extend([3, 10, 1000, 1_000_003, usize::MAX / 3, usize::MAX]);
        for &by in numbers.iter().filter(|&&by| by > 0) {
            let multiples = [1, 2, 3, 1 << 20].map(|times| by.wrapping_mul(times));
            for &number in numbers.iter().chain(&multiples) {
                for number in edges(number) {
                    let expected = (number / by, number % by);
                    assert_eq!(Divisor::new(by).divide(number), expected, "{number} / {by}");
                }
            }
        }
    }

    #[test]
    fn every_element_has_one_place() {
        use Distribution::{Block, BlockCyclic, Cyclic};
        for distribution in [
            Block,
            Cyclic,
            BlockCyclic(2),
            BlockCyclic(7),
            BlockCyclic(usize::MAX),
        ] {
            for ranks in 1..=5 {
                for len in [0, 1, 2, 9, 10, 40] {
                    let layout = Layout::new("test", len, distribution, ranks).unwrap();
                    let mut seen = vec![0; len];
                    for rank in 0..ranks {
                        let own: Vec<usize> = layout.own_ranges(rank).flatten().collect();
                        assert_eq!(own.len(), layout.own_len(rank));
                        for (at, &index) in own.iter().enumerate() {
                            assert_eq!(layout.place(index), (rank, at), "{distribution:?} {len}");
                            seen[index] += 1;
                        }
                    }
                    assert!(
                        seen.iter().all(|&times| times == 1),
                        "{distribution:?} {len}"
                    );
                    for some in 0..1_u32 << ranks {
                        let some: Vec<u32> =
                            (0..ranks).filter(|rank| some >> rank & 1 == 1).collect();
                        let found: Vec<_> = layout.ranges_of(some.clone()).collect();
                        let is_theirs = |index: &usize| some.contains(&layout.place(*index).0);
                        assert!(
                            found
                                .iter()
                                .cloned()
                                .flatten()
                                .eq((0..len).filter(is_theirs))
                        );
                        assert!(found.iter().all(|range| !range.is_empty()));
                        assert!(found.windows(2).all(|two| two[0].end < two[1].start));
                    }
                    for start in 0..=len {
                        let places = layout.runs(start..len).flat_map(|run| {
                            (run.at..run.at + run.len).map(move |at| (run.rank, at))
                        });
                        assert!(places.eq((start..len).map(|index| layout.place(index))));
                    }
                }
            }
        }
    }
}
