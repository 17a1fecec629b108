//! The ranks that take part in something, as one of them sees it.

use std::sync::Arc;

use crate::error::{Error, Misuse, Result};
use crate::job::{Context, Peer};
use crate::memory::columns::Column;
use crate::memory::remote::RemoteWord;

/// An ordered set of ranks of the world (MPI-4.1, section 7.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(Ranks);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Ranks {
    /// Ranks 0 to n − 1 of the world.
    World(u32),
    Some(Arc<[u32]>),
}

impl Group {
    pub(crate) fn world(size: u32) -> Self {
        Self(Ranks::World(size))
    }

    pub(crate) fn of(world_ranks: impl Into<Arc<[u32]>>) -> Self {
        Self(Ranks::Some(world_ranks.into()))
    }

    /// Local. How many ranks.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Ranks::World(size) => *size,
            Ranks::Some(ranks) => ranks.len() as u32,
        }
    }

    /// Local. The rank of the world that is `rank` in this group.
    #[must_use]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        match &self.0 {
            Ranks::World(size) => (rank < *size).then_some(rank),
            Ranks::Some(ranks) => ranks.get(rank as usize).copied(),
        }
    }

    /// Local. The rank in this group of a rank of the world.
    #[must_use]
    pub fn rank_of_world(&self, world_rank: u32) -> Option<u32> {
        match &self.0 {
            Ranks::World(size) => (world_rank < *size).then_some(world_rank),
            Ranks::Some(ranks) => ranks
                .iter()
                .position(|&rank| rank == world_rank)
                .map(|rank| rank as u32),
        }
    }

    /// Local. The ranks `chosen` of this group, in that order (MPI-4.1, section 7.3.2,
    /// `MPI_Group_incl`).
    ///
    /// # Errors
    /// A rank that is not in this group.
    pub fn include(&self, chosen: &[u32]) -> Result<Self> {
        let ranks: Result<Vec<u32>> = chosen
            .iter()
            .map(|&rank| {
                self.world_rank(rank).ok_or_else(|| {
                    let size = self.size();
                    Error::new("include", Misuse::RankOutOfRange { rank, size })
                })
            })
            .collect();
        Ok(Self::of(ranks?))
    }
}

/// A group and this process's place in it.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) context: Arc<Context>,
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
    pub(crate) fn world_rank(&self, rank: u32) -> u32 {
        match &self.group.0 {
            Ranks::World(_) => rank,
            Ranks::Some(ranks) => ranks[rank as usize],
        }
    }

    pub(crate) fn peer(&self, rank: u32) -> Result<&Peer> {
        self.context.peer(self.world_rank(rank))
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

/// ceil(log2(size)).
pub(crate) fn rounds(size: u32) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_the_ceiling_of_the_logarithm() {
        let of = |size| rounds(size);
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(of), [0, 0, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn a_group_of_a_group_names_ranks_of_the_world() {
        let some = Group::world(8).include(&[6, 2, 4]).unwrap();
        let fewer = some.include(&[2, 0]).unwrap();
        assert_eq!(
            [0, 1, 2].map(|rank| fewer.world_rank(rank)),
            [Some(4), Some(6), None]
        );
        assert_eq!(fewer.rank_of_world(6), Some(1));
        assert_eq!(fewer.rank_of_world(2), None);
        assert!(some.include(&[3]).is_err());
    }
}
