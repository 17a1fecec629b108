//! Blocks of bytes for single ranks: the labels that identify them while other ranks pass them on.

use bytemuck::{Pod, Zeroable};

use super::ring_channel::InRingChannel;
use crate::error::Result;
use crate::peers::around;

/// The header of each block.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Label {
    from: u32,
    to: u32,
    len: u64,
}

const LABEL: usize = size_of::<Label>();

/// The sender, the receiver and the bytes.
pub(super) type RankBlock<'a> = (u32, u32, &'a [u8]);

/// Contiguous blocks, each with its label.
#[derive(Default)]
pub(super) struct RankBlocks(Vec<u8>);

impl RankBlocks {
    pub(super) fn add(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let label = Label { from, to, len };
        self.0.extend_from_slice(bytemuck::bytes_of(&label));
        self.0.extend_from_slice(bytes);
    }

    /// Iterates to the end, or to the first malformed block.
    pub(super) fn iter(&self) -> impl Iterator<Item = RankBlock<'_>> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let (block, behind) = first_of(rest)?;
            rest = behind;
            Some(block)
        })
    }

    /// Checks data of peers before use: it consists of well-formed blocks of ranks of `0..size`.
    fn check(&self, size: u32) -> bool {
        let mut rest = self.0.as_slice();
        while let Some(((from, to, _), behind)) = first_of(rest) {
            if from >= size || to >= size {
                return false;
            }
            rest = behind;
        }
        rest.is_empty()
    }

    /// Splits into the blocks whose receiver satisfies `goes`, and the others.
    fn split(self, goes: impl Fn(u32) -> bool) -> (Self, Self) {
        let (mut going, mut staying) = (Self::default(), Self::default());
        for (from, to, bytes) in self.iter() {
            let part = if goes(to) { &mut going } else { &mut staying };
            part.add(from, to, bytes);
        }
        (going, staying)
    }
}

fn first_of(bytes: &[u8]) -> Option<(RankBlock<'_>, &[u8])> {
    let (label, rest) = bytes.split_at_checked(LABEL)?;
    let Label { from, to, len } = bytemuck::pod_read_unaligned(label);
    let (block, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    Some(((from, to, block), behind))
}

impl InRingChannel<'_> {
    /// Bruck's algorithm. In round k, each rank forwards to the rank 2^k ahead those blocks whose remaining distance
    /// has bit k set. Returns the blocks for this place. `place_of`: the place in the ring for the blocks of a rank.
    pub(super) fn alltoall(
        &mut self,
        blocks: RankBlocks,
        place_of: impl Fn(u32) -> u32,
    ) -> Result<RankBlocks> {
        let (size, place) = (self.ring().size(), self.ring().place);
        let mut held = blocks;
        for round in 0..self.ring().rounds() {
            let distance = |to| around(place_of(to), size - place, size);
            let (going, staying) = held.split(|to| distance(to) >> round & 1 == 1);
            held = staying;
            let mut incoming = [0; 8];
            let outgoing = (going.0.len() as u64).to_ne_bytes();
            self.exchange(round, Some(&outgoing), Some(&mut incoming))?;
            let mut came = RankBlocks(self.room_for(round, u64::from_ne_bytes(incoming))?);
            self.exchange(round, Some(&going.0), Some(&mut came.0))?;
            if !came.check(self.team_size()) {
                return Err(self.garbled(round, "what it passed on"));
            }
            held.0.extend_from_slice(&came.0);
        }
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> RankBlocks {
        let mut blocks = RankBlocks::default();
        blocks.add(0, 2, b"five!");
        blocks.add(1, 0, b"");
        blocks.add(2, 1, b"six");
        blocks
    }

    #[test]
    fn blocks_are_told_apart() {
        let blocks = some();
        assert!(blocks.check(3));
        let (going, staying) = blocks.split(|to| to != 1);
        let all: Vec<_> = going.iter().chain(staying.iter()).collect();
        let expected: [RankBlock<'_>; 3] = [(0, 2, b"five!"), (1, 0, b""), (2, 1, b"six")];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_are_no_blocks_is_refused() {
        assert!(RankBlocks::default().check(1));
        assert!(!some().check(2), "rank 2 of 2");
        let whole = some().0;
        for cut in 1..whole.len() {
            let ends = [LABEL + 5, 2 * LABEL + 5];
            let cut_off = RankBlocks(whole[..cut].to_vec());
            assert_eq!(cut_off.check(3), ends.contains(&cut), "{cut}");
        }
        let mut longer = whole;
        longer[8..16].fill(0xff);
        assert!(!RankBlocks(longer).check(3));
    }
}
