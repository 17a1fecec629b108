//! Collectives over an allgather that the caller provides, for communicators without control
//! memory.
//!
//! Such a communicator has no block, no pipes and no barrier; its windows and the communicators derived from it have
//! them. Each collective makes two allgathers: one of the call and the members, and one of the data. Scatter and
//! alltoall make two for each distance between ranks: of the lengths, and of the blocks for that distance.

use std::iter;

use bytemuck::{Pod, Zeroable};
use transom_launch::Allgather;

use super::barrier::mismatch;
use super::blocks::RankBlocks;
use super::call::{Call, Shown, digest_of, disagreement};
use super::carrier::Carrier;
use super::team::Team;
use crate::error::{AbortCause, Error, Misuse, PeerError, Result};
use crate::peers::{around, gather_parts_by, not_forked};

/// An allgather that the caller provides.
pub(super) struct Lent {
    team: Team,
    by: Box<dyn Allgather + Send>,
    /// The digest of the members, as ranks of the world.
    members: u64,
    /// Numbers the collectives, for ranks that are out of step, and wraps for all of them at the same call.
    calls: u32,
    operation: &'static str,
    /// Whether a call failed here. Then no later call is made, since the ranks are out of step.
    failed: bool,
}

/// What each rank sends when it begins a call.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Presented {
    members: u64,
    world_rank: u64,
    shown: Shown,
}

impl Lent {
    /// `by` has as many ranks as the team, and gives this rank the same number.
    pub(super) fn new(team: &Team, by: Box<dyn Allgather + Send>) -> Self {
        let world_ranks = (0..team.size()).map(|rank| u64::from(team.world_rank(rank).0));
        Self {
            team: team.clone(),
            by,
            members: digest_of(iter::once(team.size().into()).chain(world_ranks)),
            calls: 0,
            operation: "collective",
            failed: false,
        }
    }

    /// What each rank passes; all ranks know the lengths. Only this rank notices a failure, while others may continue
    /// to wait for it. So a failure aborts the job.
    fn gather_parts(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<Vec<u8>>> {
        let ranks = (self.team.rank, self.team.size());
        let gathered = gather_parts_by(self.operation, &*self.by, ranks, mine, lens);
        if gathered.is_err() {
            self.failed = true;
            (self.team.context).abort_everywhere(AbortCause::CollectiveFailed);
        }
        gathered
    }

    /// The same, with equal lengths on all ranks.
    fn equal_parts(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lens = vec![mine.len(); self.team.size() as usize];
        self.gather_parts(mine, &lens)
    }

    /// The lengths that the ranks sent each other. The allgather needs memory for the longest one times all ranks.
    fn checked_lens(&mut self, told: &[Vec<u8>]) -> Result<Vec<usize>> {
        let longest = isize::MAX as u64 / u64::from(self.team.size());
        let lens = told.iter().map(|len| bytemuck::pod_read_unaligned(len));
        let lens: Vec<u64> = lens.collect();
        let Some(from) = lens.iter().position(|&len| len > longest) else {
            return Ok(lens.into_iter().map(|len| len as usize).collect());
        };
        self.failed = true;
        (self.team.context).abort_everywhere(AbortCause::FoundGarbled);
        let rank = self.team.world_rank(from as u32).0;
        let what = "the length of the data";
        Err(Error::new(
            self.operation,
            PeerError::Garbled { rank, what },
        ))
    }
}

impl Carrier for Lent {
    /// The ranks also check that each has the rank that the others expect.
    fn begin(&mut self, operation: &'static str, mut call: Call, fit: Result<()>) -> Result<()> {
        not_forked(operation)?;
        if self.failed {
            return Err(Error::new(operation, Misuse::OutOfStep));
        }
        self.operation = operation;
        self.calls = self.calls.wrapping_add(1);
        let shown = Shown::new(&mut call, self.calls, &fit);
        let mine = Presented {
            members: self.members,
            world_rank: u64::from(self.team.context.rank().0),
            shown,
        };
        let all = self.equal_parts(bytemuck::bytes_of(&mine))?;
        for (rank, other) in (0..).zip(&all) {
            let other: Presented = bytemuck::pod_read_unaligned(other);
            let here = u64::from(self.team.world_rank(rank).0);
            let mismatched = if (other.members, other.world_rank) != (mine.members, here) {
                let place = |members, rank| format!("rank {rank} of the world, among {members:x}");
                let (ours, theirs) = (
                    place(mine.members, here),
                    place(other.members, other.world_rank),
                );
                mismatch(operation, rank, ours, theirs)
            } else if other.shown.differs(&call) {
                disagreement(operation, rank, call, &other.shown)
            } else {
                continue;
            };
            // All ranks have the same answers, so all of them come here.
            self.failed = true;
            fit?;
            return Err(mismatched);
        }
        fit
    }

    fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        let all = self.equal_parts(bytes)?;
        bytes.copy_from_slice(&all[root as usize]);
        Ok(())
    }

    fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let all = self.gather_parts(mine, lens)?;
        let is_root = self.team.rank == root;
        Ok(if is_root { all.concat() } else { Vec::new() })
    }

    fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        Ok(self.gather_parts(mine, lens)?.concat())
    }

    /// Sends to the rank at each distance in turn: all blocks at once would need memory for all pairs of ranks.
    fn alltoall(&mut self, blocks: RankBlocks) -> Result<RankBlocks> {
        let (me, size) = (self.team.rank, self.team.size());
        let mut mine: Vec<&[u8]> = vec![&[]; size as usize];
        for (_, to, bytes) in blocks.iter() {
            mine[to as usize] = bytes;
        }
        let mut arrived = RankBlocks::default();
        for distance in 0..size {
            let outgoing = mine[around(me, distance, size) as usize];
            let lens = self.equal_parts(&(outgoing.len() as u64).to_ne_bytes())?;
            let lens = self.checked_lens(&lens)?;
            let parts = self.gather_parts(outgoing, &lens)?;
            let from = around(me, size - distance, size);
            arrived.add(from, me, &parts[from as usize]);
        }
        Ok(arrived)
    }

    fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let mut all = self.equal_parts(bytes)?;
        all.rotate_left(root as usize);
        if let Some((first, others)) = all.split_first() {
            bytes.copy_from_slice(first);
            others.iter().for_each(|other| combine(bytes, other));
        }
        Ok(())
    }

    /// Each rank merges the values of all ranks by itself.
    fn merge(&mut self, bytes: &mut [u8], merge: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()> {
        self.reduce(bytes, 0, merge)
    }
}
