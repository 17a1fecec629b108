//! The ranks that take part in something, as one of them sees it.

use std::sync::Arc;

use super::Group;
use crate::error::{Error, Misuse, Result};
use crate::memory::columns::Column;
use crate::memory::remote::RemoteWord;
use crate::peers::{Context, Fabric, Peer, rounds};
use crate::terms::WorldRank;

/// A group and this process's place in it.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) context: Arc<Context>,
    /// How its members reach each other.
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) group: Group,
    pub(crate) rank: u32,
}

impl Team {
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.group.size()
    }

    /// Rounds of an algorithm of ceil(log2(size)) steps.
    pub(crate) fn rounds(&self) -> u32 {
        rounds(self.size())
    }

    /// `rank` as a rank of the world; `rank` is in the team.
    pub(crate) fn world_rank(&self, rank: u32) -> WorldRank {
        let of_the_world = self.group.in_world(rank);
        of_the_world.expect("the caller's rank is in the team")
    }

    pub(crate) fn peer(&self, rank: u32) -> Result<&Peer> {
        self.context.peer_by(&self.fabric, self.world_rank(rank))
    }

    /// The rank `distance` further on, around the circle.
    pub(crate) fn ahead(&self, distance: u32) -> u32 {
        let size = u64::from(self.size());
        ((u64::from(self.rank) + u64::from(distance)) % size) as u32
    }

    /// The rank `distance` back, around the circle.
    pub(crate) fn behind(&self, distance: u32) -> u32 {
        self.ahead(self.size() - distance % self.size())
    }

    /// What to report when an operation that needs `rank` failed.
    #[cold]
    pub(crate) fn blame(&self, operation: &'static str, rank: u32, error: Error) -> Error {
        let error = self.context.blame(self.world_rank(rank), error);
        error.during(operation)
    }

    pub(crate) fn check_rank(&self, operation: &'static str, rank: u32) -> Result<()> {
        let size = self.size();
        if rank < size {
            return Ok(());
        }
        Err(Error::new(operation, Misuse::RankOutOfRange { rank, size }))
    }

    /// The word `at` bytes into `rank`'s block; `blocks` says where those are.
    pub(crate) fn word(&self, rank: u32, blocks: &Column<u64>, at: u64) -> Result<RemoteWord> {
        let peer = self.peer(rank)?;
        Ok(peer.control().word(blocks.get(rank) + at))
    }
}
