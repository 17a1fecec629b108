//! The collectives among the ranks of a ring, on bytes, as their [`schedule`](super::schedule) says. Roots and parts are by
//! place.
//!
//! Trees are binomial, and the allgather is Bruck's. Each message has a header with the digest of the call and the
//! length. Blocks for single ranks (scatter, alltoall) have labels: in round k a rank sends to the rank 2^k ahead the
//! blocks whose remaining distance has bit k set, and checks what it receives before it uses it.

use std::ops::Range;

use super::ring_channel::InRingChannel;
use super::schedule::{Algorithm, Round};
use crate::error::Result;
use crate::peers::around;

impl InRingChannel<'_> {
    fn in_round(&self, algorithm: Algorithm, root: u32, round: u32) -> Round {
        let ring = self.ring();
        algorithm.round(ring.size(), ring.place, root, round)
    }

    pub(super) fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        for round in 0..self.ring().rounds() {
            let Round { sends, receives } = self.in_round(Algorithm::Bcast, root, round);
            if receives.is_some() {
                self.exchange(round, None, Some(bytes))?;
            } else if sends.is_some() {
                self.exchange(round, Some(bytes), None)?;
            }
        }
        Ok(())
    }

    /// `lens` are the lengths by place. The root gets all bytes in the order of places.
    pub(super) fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let size = self.ring().size();
        let mut held = mine.to_vec();
        for round in 0..self.ring().rounds() {
            let Round { sends, receives } = self.in_round(Algorithm::Gather, root, round);
            if sends.is_some() {
                self.exchange(round, Some(&held), None)?;
                return Ok(Vec::new());
            }
            if let Some(parts) = receives {
                let incoming: usize = back_from(root, size, parts).map(|place| lens[place]).sum();
                let start = held.len();
                held.resize(start + incoming, 0);
                self.exchange(round, None, Some(&mut held[start..]))?;
            }
        }
        Ok(in_order(&held, back_from(root, size, 0..size), lens))
    }

    /// Returns all parts in the order of places.
    pub(super) fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        let (size, place) = (self.ring().size(), self.ring().place);
        let total = |parts: Option<Range<u32>>| {
            back_from(place, size, parts.unwrap_or(0..0))
                .map(|owner| lens[owner])
                .sum::<usize>()
        };
        let mut held = mine.to_vec();
        for round in 0..self.ring().rounds() {
            let Round { sends, receives } = self.in_round(Algorithm::Allgather, place, round);
            let (outgoing, incoming) = (total(sends), total(receives));
            let start = held.len();
            held.resize(start + incoming, 0);
            let (old, new) = held.split_at_mut(start);
            self.exchange(round, Some(&old[..outgoing]), Some(new))?;
        }
        Ok(in_order(&held, back_from(place, size, 0..size), lens))
    }

    /// `combine` folds received values into the local one. At the root, `bytes` is the result.
    pub(super) fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let mut incoming = vec![0; bytes.len()];
        for round in 0..self.ring().rounds() {
            let Round { sends, receives } = self.in_round(Algorithm::Reduce, root, round);
            if sends.is_some() {
                return self.exchange(round, Some(bytes), None);
            }
            if receives.is_some() {
                self.exchange(round, None, Some(&mut incoming))?;
                combine(bytes, &incoming);
            }
        }
        Ok(())
    }

    /// `merge` folds received values into the local one. On every rank, `bytes` is the result.
    pub(super) fn merge(
        &mut self,
        bytes: &mut [u8],
        merge: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let mut incoming = vec![0; bytes.len()];
        for round in 0..self.ring().rounds() {
            self.exchange(round, Some(bytes), Some(&mut incoming))?;
            merge(bytes, &incoming);
        }
        Ok(())
    }
}

/// The places that are `distances` behind `place`.
fn back_from(place: u32, size: u32, distances: Range<u32>) -> impl Iterator<Item = usize> {
    distances.map(move |distance| around(place, size - distance, size) as usize)
}

/// The parts of `held`, which are contiguous: each once, in the order of their owners' numbers.
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
