//! Ranks of a team that exchange messages among themselves, in a ring.

use crate::peers::{around, rounds};

/// Some ranks of a team in order, as one of them sees them.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    members: Members,
    /// Where this rank stands among them.
    place: u32,
}

#[derive(Clone, Debug)]
enum Members {
    /// As many as there are in the team.
    All(u32),
    Some(Box<[u32]>),
}

impl Ring {
    pub(super) fn all(size: u32, rank: u32) -> Self {
        let members = Members::All(size);
        Self {
            members,
            place: rank,
        }
    }

    /// Of `members`, of which `rank` has to be one.
    pub(super) fn of(members: Vec<u32>, rank: u32) -> Option<Self> {
        let place = members.iter().position(|&member| member == rank)? as u32;
        let members = Members::Some(members.into());
        Some(Self { members, place })
    }

    #[inline]
    pub(super) fn size(&self) -> u32 {
        match &self.members {
            Members::All(size) => *size,
            Members::Some(members) => members.len() as u32,
        }
    }

    pub(super) fn place(&self) -> u32 {
        self.place
    }

    /// The rank at `place`, which is less than the size.
    #[inline]
    pub(super) fn rank_at(&self, place: u32) -> u32 {
        match &self.members {
            Members::All(_) => place,
            Members::Some(members) => members[place as usize],
        }
    }

    /// The place of a rank of the team, if it stands here.
    pub(super) fn place_of(&self, rank: u32) -> Option<u32> {
        match &self.members {
            Members::All(size) => (rank < *size).then_some(rank),
            Members::Some(members) => {
                let place = members.iter().position(|&member| member == rank)?;
                Some(place as u32)
            }
        }
    }

    /// Rounds of an algorithm of ceil(log2(size)) steps.
    pub(super) fn rounds(&self) -> u32 {
        rounds(self.size())
    }

    /// The rank `distance` further on, around the ring.
    pub(super) fn ahead(&self, distance: u32) -> u32 {
        self.rank_at(around(self.place, distance, self.size()))
    }

    /// The rank `distance` back, around the ring.
    pub(super) fn behind(&self, distance: u32) -> u32 {
        self.ahead(self.size() - distance % self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_stand_around_the_ring() {
        let all = Ring::all(5, 3);
        assert_eq!(
            [all.ahead(1), all.ahead(2), all.ahead(4), all.behind(4)],
            [4, 0, 2, 4]
        );
        let some = Ring::of(vec![1, 4, 6], 4).unwrap();
        assert_eq!((some.place(), some.size(), some.rounds()), (1, 3, 2));
        assert_eq!(
            [
                some.ahead(1),
                some.ahead(2),
                some.behind(1),
                some.behind(2),
                some.behind(3)
            ],
            [6, 1, 1, 6, 4]
        );
        assert_eq!((some.place_of(6), some.place_of(5)), (Some(2), None));
        assert!(Ring::of(vec![1, 4], 5).is_none());
    }
}
