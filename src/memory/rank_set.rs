//! Sets of ranks that only grow, and are looked through in a time that depends on their members.

use std::sync::atomic::{AtomicU64, Ordering};

const BITS: u32 = u64::BITS;

/// A set of ranks below a number. Any thread may add one. All zero is the empty set, so memory is touched only for
/// added ranks.
pub(crate) struct RankSet {
    /// A bit for each rank.
    ranks: Box<[AtomicU64]>,
    /// A bit for each word of `ranks` that is not zero.
    words: Box<[AtomicU64]>,
}

impl RankSet {
    pub(crate) fn new(ranks: u32) -> Self {
        let bits = |count: u32| bytemuck::zeroed_slice_box(count.div_ceil(BITS) as usize);
        Self {
            ranks: bits(ranks),
            words: bits(ranks.div_ceil(BITS)),
        }
    }

    /// The memory that a set takes, once all of it is touched.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        let words = ranks.div_ceil(BITS);
        (words + words.div_ceil(BITS)) as u64 * size_of::<AtomicU64>() as u64
    }

    /// A thread that acquires what this thread does afterwards finds `rank` here.
    pub(crate) fn add(&self, rank: u32) {
        set(&self.ranks, rank);
        set(&self.words, rank / BITS);
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = (0..).zip(self.words.iter()).flat_map(bits);
        words.flat_map(move |word| bits((word, &self.ranks[word as usize])))
    }
}

fn set(words: &[AtomicU64], bit: u32) {
    words[(bit / BITS) as usize].fetch_or(1 << (bit % BITS), Ordering::Relaxed);
}

/// The numbers of the bits that are set in a word, which has index `number` among several.
fn bits((number, word): (u32, &AtomicU64)) -> impl Iterator<Item = u32> + use<> {
    let mut rest = word.load(Ordering::Relaxed);
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(number * BITS + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_order() {
        for ranks in [1, 64, 65, 5000] {
            let set = RankSet::new(ranks);
            assert_eq!(set.iter().next(), None);
            let some = [4999, 0, 63, 64, 0, 4096].into_iter();
            let some: Vec<u32> = some.filter(|&rank| rank < ranks).collect();
            some.iter().for_each(|&rank| set.add(rank));
            let mut expected = some;
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(set.iter().collect::<Vec<_>>(), expected);
        }
    }
}
