//! The collectives among the ranks of a ring, on bytes: ceil(log2(p)) steps each. Roots and parts are by place.
//!
//! All bytes go ahead around the ring: in round k to the rank 2^k ahead, from the rank 2^k behind.

use super::ring_channel::InRingChannel;
use crate::error::Result;
use crate::peers::around;

impl InRingChannel<'_> {
    /// How far `to` is ahead of `from`.
    fn distance(&self, from: u32, to: u32) -> u32 {
        around(to, self.ring().size() - from, self.ring().size())
    }

    /// Binomial tree: in round k, each of the 2^k ranks that have the bytes sends them 2^k ahead.
    pub(super) fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        let size = self.ring().size();
        let behind = self.distance(root, self.ring().place);
        let mut first = 0;
        if behind > 0 {
            let round = behind.ilog2();
            self.exchange(round, None, Some(bytes))?;
            first = round + 1;
        }
        for round in first..self.ring().rounds() {
            if u64::from(behind) + (1 << round) < u64::from(size) {
                self.exchange(round, Some(bytes), None)?;
            }
        }
        Ok(())
    }

    /// Binomial tree, towards the root: in round k, the ranks whose distance to the root has k as its lowest set bit
    /// send what they have gathered. `lens` are the lengths by place; at the root, returns all bytes in the order of
    /// places.
    pub(super) fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let size = self.ring().size();
        let ahead = self.distance(self.ring().place, root);
        let mut held = mine.to_vec();
        for round in 0..self.ring().rounds() {
            let step = 1 << round;
            if ahead & step != 0 {
                self.exchange(round, Some(&held), None)?;
                return Ok(Vec::new());
            }
            let from = ahead + step;
            if from < size {
                let parts = from..(from + step).min(size);
                let incoming: usize = back_from(root, size, parts).map(|place| lens[place]).sum();
                let start = held.len();
                held.resize(start + incoming, 0);
                self.exchange(round, None, Some(&mut held[start..]))?;
            }
        }
        Ok(in_order(&held, back_from(root, size, 0..size), lens))
    }

    /// Bruck's algorithm: before round k, each rank has the parts of itself and of the 2^k − 1
    /// ranks behind; it passes on as many as are still missing. Returns all parts in the order of
    /// places.
    pub(super) fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        let (size, place) = (self.ring().size(), self.ring().place);
        let total = |parts| {
            back_from(place, size, parts)
                .map(|owner| lens[owner])
                .sum::<usize>()
        };
        let mut held = mine.to_vec();
        for round in 0..self.ring().rounds() {
            let have = 1 << round;
            let more = have.min(size - have);
            // What the rank behind has first: its own part and those behind it.
            let incoming = total(have..have + more);
            let outgoing = total(0..more);
            let start = held.len();
            held.resize(start + incoming, 0);
            let (old, new) = held.split_at_mut(start);
            self.exchange(round, Some(&old[..outgoing]), Some(new))?;
        }
        Ok(in_order(&held, back_from(place, size, 0..size), lens))
    }

    /// Binomial tree, towards the root; `combine` folds what arrives into what is held. At the
    /// root, `bytes` is the result.
    pub(super) fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let size = self.ring().size();
        let ahead = self.distance(self.ring().place, root);
        let mut incoming = vec![0; bytes.len()];
        for round in 0..self.ring().rounds() {
            if ahead & (1 << round) != 0 {
                return self.exchange(round, Some(bytes), None);
            }
            if u64::from(ahead) + (1 << round) < u64::from(size) {
                self.exchange(round, None, Some(&mut incoming))?;
                combine(bytes, &incoming);
            }
        }
        Ok(())
    }
}

/// The places that are so far behind `place`.
fn back_from(
    place: u32,
    size: u32,
    distances: std::ops::Range<u32>,
) -> impl Iterator<Item = usize> {
    distances.map(move |distance| around(place, size - distance, size) as usize)
}

/// Parts that are `held` one behind the other, each once, in the order of their owners' numbers.
pub(super) fn in_order(
    held: &[u8],
    owners: impl Iterator<Item = usize>,
    lens: &[usize],
) -> Vec<u8> {
    let mut next = 0;
    let starts: Vec<usize> = lens
        .iter()
        .map(|len| {
            next += len;
            next - len
        })
        .collect();
    let mut ordered = vec![0; next];
    let mut rest = held;
    for owner in owners {
        let part;
        (part, rest) = rest.split_at(lens[owner]);
        ordered[starts[owner]..][..part.len()].copy_from_slice(part);
    }
    ordered
}
