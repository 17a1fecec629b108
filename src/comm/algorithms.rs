//! The collectives among the ranks of a ring, on bytes: ceil(log2(p)) steps each. Roots and parts are by place.

use super::ring_channel::{Direction, InRingChannel};
use crate::error::Result;
use crate::peers::around;

impl InRingChannel<'_> {
    /// This rank's place in a tree with `root` at 0.
    fn relative(&self, root: u32) -> u32 {
        let (place, size) = (self.ring().place(), self.ring().size());
        around(place, size - root, size)
    }

    /// Binomial tree: in round k, each of the 2^k ranks that have the bytes sends them 2^k ahead.
    pub(super) fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        let (size, relative) = (self.ring().size(), self.relative(root));
        let mut first = 0;
        if relative > 0 {
            let round = relative.ilog2();
            self.exchange(Direction::Ahead, round, None, Some(bytes))?;
            first = round + 1;
        }
        for round in first..self.ring().rounds() {
            if u64::from(relative) + (1 << round) < u64::from(size) {
                self.exchange(Direction::Ahead, round, Some(bytes), None)?;
            }
        }
        Ok(())
    }

    /// Binomial tree, towards the root: in round k, the ranks whose lowest set bit is k send what
    /// they have gathered 2^k back. `lens` are the lengths by place; at the root, returns all bytes
    /// in the order of places.
    pub(super) fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let (size, relative) = (self.ring().size() as usize, self.relative(root) as usize);
        let len_of = |relative: usize| lens[(relative + root as usize) % size];
        let mut held = mine.to_vec();
        for round in 0..self.ring().rounds() {
            let distance = 1 << round;
            if relative & distance != 0 {
                self.exchange(Direction::Back, round, Some(&held), None)?;
                return Ok(Vec::new());
            }
            let from = relative + distance;
            if from < size {
                let to = (from + distance).min(size);
                let start = held.len();
                held.resize(start + (from..to).map(len_of).sum::<usize>(), 0);
                self.exchange(Direction::Back, round, None, Some(&mut held[start..]))?;
            }
        }
        // Held in the order of places in the tree: rotate the ring until rank 0 comes first.
        let before_zero: usize = (root as usize..size).map(|rank| lens[rank]).sum();
        held.rotate_left(before_zero);
        Ok(held)
    }

    /// Bruck's algorithm: before round k, each rank has the parts of itself and of the 2^k − 1
    /// ranks behind; it passes on as many as are still missing. Returns all parts in the order of
    /// ranks.
    pub(super) fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        let (size, rank) = (self.ring().size() as usize, self.ring().place() as usize);
        let back = |distance: usize| (rank + size - distance) % size;
        let total: usize = lens.iter().sum();
        // Parts of rank, rank − 1, rank − 2, …
        let mut held = Vec::with_capacity(total);
        held.extend_from_slice(mine);
        for round in 0..self.ring().rounds() {
            let have = 1_usize << round;
            let more = have.min(size - have);
            // What the rank behind has first: its own part and those behind it.
            let incoming: usize = (0..more).map(|i| lens[back(have + i)]).sum();
            let outgoing: usize = (0..more).map(|i| lens[back(i)]).sum();
            let start = held.len();
            held.resize(start + incoming, 0);
            let (old, new) = held.split_at_mut(start);
            self.exchange(Direction::Ahead, round, Some(&old[..outgoing]), Some(new))?;
        }
        let mut ordered = vec![0; total];
        let mut starts = Vec::with_capacity(size);
        let mut at = 0;
        for len in lens {
            starts.push(at);
            at += len;
        }
        let mut from = 0;
        for distance in 0..size {
            let owner = back(distance);
            let len = lens[owner];
            ordered[starts[owner]..starts[owner] + len].copy_from_slice(&held[from..from + len]);
            from += len;
        }
        Ok(ordered)
    }

    /// Binomial tree, towards the root; `combine` folds what arrives into what is held. At the
    /// root, `bytes` is the result.
    pub(super) fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let (size, relative) = (self.ring().size(), self.relative(root));
        let mut incoming = vec![0; bytes.len()];
        for round in 0..self.ring().rounds() {
            if relative & (1 << round) != 0 {
                return self.exchange(Direction::Back, round, Some(bytes), None);
            }
            if u64::from(relative) + (1 << round) < u64::from(size) {
                self.exchange(Direction::Back, round, None, Some(&mut incoming))?;
                combine(bytes, &incoming);
            }
        }
        Ok(())
    }
}
