//! Ranks of a team that exchange messages among themselves, in a ring.

use std::sync::Arc;

use crate::peers::{around, rounds};

/// Some ranks of a team in ascending order, as one of them sees them.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    members: Arc<[u32]>,
    /// This rank's place among them.
    pub(super) place: u32,
}

impl Ring {
    /// All ranks of a team of `size`.
    pub(super) fn all(size: u32, rank: u32) -> Self {
        Self {
            members: (0..size).collect(),
            place: rank,
        }
    }

    /// The ranks `members`, in ascending order; `None` unless `rank` is one of them.
    pub(super) fn of(members: Vec<u32>, rank: u32) -> Option<Self> {
        let place = members.binary_search(&rank).ok()? as u32;
        let members = members.into();
        Some(Self { members, place })
    }

    /// The same for the rank at `place`, which is less than the size.
    pub(super) fn at(&self, place: u32) -> Self {
        let members = self.members.clone();
        Self { members, place }
    }

    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The rank at `place`, which is less than the size.
    #[inline]
    pub(crate) fn rank_at(&self, place: u32) -> u32 {
        self.members[place as usize]
    }

    /// The place of a rank of the team, if it is in this ring.
    pub(super) fn place_of(&self, rank: u32) -> Option<u32> {
        let place = self.members.binary_search(&rank).ok()?;
        Some(place as u32)
    }

    /// Rounds of an algorithm of ceil(log2(size)) steps.
    pub(crate) fn rounds(&self) -> u32 {
        rounds(self.size())
    }

    /// The memory that its members take.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.members) as u64
    }

    /// The rank `distance` places ahead in the ring.
    pub(super) fn ahead(&self, distance: u32) -> u32 {
        self.rank_at(around(self.place, distance, self.size()))
    }

    /// The rank `distance` places behind in the ring.
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
        assert_eq!((some.place, some.size(), some.rounds()), (1, 3, 2));
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
