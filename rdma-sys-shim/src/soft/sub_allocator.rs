//! Which parts of the sub-allocated part of the segment are lent: small pieces, of sizes that are powers of two, each beside
//! its buddy.

use std::collections::BTreeSet;

/// Two cache lines: processors fetch them in pairs, and ranks write to neighbouring pieces.
const LEAST: usize = 128;
const ORDERS: usize = (SubAllocator::MOST / LEAST).ilog2() as usize + 1;

/// A part of the sub-allocated memory, from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubAllocation {
    pub(super) at: usize,
    order: usize,
}

#[cfg(test)]
impl SubAllocation {
    pub(super) fn len(self) -> usize {
        LEAST << self.order
    }
}

#[derive(Debug, Default)]
pub(super) struct SubAllocator {
    /// The free pieces of each order.
    free: [BTreeSet<usize>; ORDERS],
    /// Start of the part that was never lent: a multiple of the largest size.
    fresh: usize,
    end: usize,
}

impl SubAllocator {
    /// Beyond this size, filling the memory takes so long that the cost of a new mapping hardly matters.
    pub(super) const MOST: usize = 64 << 10;

    /// An allocator over the whole pieces of the largest size in `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            free: Default::default(),
            fresh: 0,
            end: bytes - bytes % Self::MOST,
        }
    }

    /// A piece of at least `len` bytes, aligned to its size. `None` if `len` is too large, or nothing is free.
    pub(super) fn take(&mut self, len: usize) -> Option<SubAllocation> {
        if len > Self::MOST {
            return None;
        }
        let size = len.next_power_of_two().max(LEAST);
        let order = (size / LEAST).ilog2() as usize;
        let found = (order..ORDERS).find(|&larger| !self.free[larger].is_empty());
        let (mut larger, at) = match found {
            Some(larger) => (larger, self.free[larger].pop_first()?),
            None => (ORDERS - 1, self.take_fresh()?),
        };
        while larger > order {
            larger -= 1;
            self.free[larger].insert(at + (LEAST << larger));
        }
        Some(SubAllocation { at, order })
    }

    fn take_fresh(&mut self) -> Option<usize> {
        let at = self.fresh;
        let end = at + Self::MOST;
        (end <= self.end).then(|| {
            self.fresh = end;
            at
        })
    }

    pub(super) fn give(&mut self, piece: SubAllocation) {
        let SubAllocation { mut at, mut order } = piece;
        while order + 1 < ORDERS && self.free[order].remove(&(at ^ (LEAST << order))) {
            at &= !(LEAST << order);
            order += 1;
        }
        self.free[order].insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = SubAllocator::MOST;

    fn free_bytes(sub_allocator: &SubAllocator) -> usize {
        let by_order = sub_allocator.free.iter().enumerate();
        by_order
            .map(|(order, free)| free.len() * (LEAST << order))
            .sum()
    }

    #[test]
    fn pieces_are_aligned_to_their_size_and_apart() {
        let mut sub_allocator = SubAllocator::new(4 * MOST);
        let lens = [1, 5000, LEAST, LEAST + 1, 4096, MOST, 1, 300];
        let mut pieces: Vec<SubAllocation> =
            lens.map(|len| sub_allocator.take(len).unwrap()).to_vec();
        for (piece, len) in pieces.iter().zip(lens) {
            assert!(piece.len() >= len && piece.at.is_multiple_of(piece.len()));
            assert!(len <= LEAST || piece.len() < 2 * len);
        }
        pieces.sort_by_key(|piece| piece.at);
        for pair in pieces.windows(2) {
            assert!(pair[0].at + pair[0].len() <= pair[1].at, "{pair:?}");
        }
    }

    #[test]
    fn what_is_given_back_joins_and_serves_other_sizes() {
        let mut sub_allocator = SubAllocator::new(2 * MOST + 5);
        let small: Vec<SubAllocation> = std::iter::from_fn(|| sub_allocator.take(LEAST)).collect();
        assert_eq!(small.len(), 2 * MOST / LEAST);
        assert_eq!(sub_allocator.take(1), None);
        // In an order in which buddies do not follow each other.
        for step in 0..7 {
            let mine = small.iter().skip(step).step_by(7);
            mine.for_each(|&piece| sub_allocator.give(piece));
        }
        assert_eq!(free_bytes(&sub_allocator), 2 * MOST);
        let large = [MOST; 2].map(|len| sub_allocator.take(len).unwrap());
        assert_eq!(large.map(|piece| piece.at), [0, MOST]);
        assert_eq!(sub_allocator.take(1), None);
    }

    #[test]
    fn what_is_large_has_no_place() {
        assert_eq!(SubAllocator::new(4 * MOST).take(MOST + 1), None);
        assert_eq!(SubAllocator::new(MOST - 1).take(1), None);
    }
}
