//! Groups: ordered sets of ranks of the world.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Misuse, Result};
use crate::terms::WorldRank;

/// Groups of up to this many members are searched linearly.
const FEW_MEMBERS: usize = 16;

/// An ordered set of ranks of the world (MPI-4.1, section 7.2.1). Clones are cheap.
#[derive(Clone, Debug)]
pub struct Group(Ranks);

#[derive(Clone, Debug)]
enum Ranks {
    /// Ranks 0 to n − 1 of the world.
    World(u32),
    Some(Arc<Members>),
}

#[derive(Debug)]
struct Members {
    /// Unique to this group.
    number: u64,
    world_ranks: Box<[u32]>,
    /// The rank in the group of each rank of the world, for groups too long to search linearly.
    places: OnceLock<HashMap<u32, u32>>,
}

/// How two groups are related (MPI-4.1, section 7.3.1, `MPI_Group_compare`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same members in the same order.
    Identical,
    /// The same members.
    Similar,
    /// Different members.
    Unequal,
}

impl Group {
    pub(crate) fn world(size: u32) -> Self {
        Self(Ranks::World(size))
    }

    pub(crate) fn of(world_ranks: impl Into<Box<[u32]>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Ranks::Some(Arc::new(Members {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            world_ranks: world_ranks.into(),
            places: OnceLock::new(),
        })))
    }

    /// Local. The group without members.
    #[must_use]
    pub fn empty() -> Self {
        Self(Ranks::World(0))
    }

    /// Local. The number of ranks.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Ranks::World(size) => *size,
            Ranks::Some(members) => members.world_ranks.len() as u32,
        }
    }

    /// Groups of the same number are identical; the number is not 0.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        match &self.0 {
            Ranks::World(size) => 1 << 63 | u64::from(*size),
            Ranks::Some(members) => members.number,
        }
    }

    /// Local. The rank of the world that is `rank` in this group.
    #[must_use]
    #[inline]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        match &self.0 {
            Ranks::World(size) => (rank < *size).then_some(rank),
            Ranks::Some(members) => members.world_ranks.get(rank as usize).copied(),
        }
    }

    /// Local. The rank in this group of a rank of the world.
    #[must_use]
    #[inline]
    pub fn rank_of_world(&self, world_rank: u32) -> Option<u32> {
        match &self.0 {
            Ranks::World(size) => (world_rank < *size).then_some(world_rank),
            Ranks::Some(members) => members.find(world_rank),
        }
    }

    /// See [`Group::world_rank`].
    #[inline]
    pub(crate) fn in_world(&self, rank: u32) -> Option<WorldRank> {
        self.world_rank(rank).map(WorldRank)
    }

    /// See [`Group::rank_of_world`].
    #[inline]
    pub(crate) fn place_of(&self, rank: WorldRank) -> Option<u32> {
        self.rank_of_world(rank.0)
    }

    /// Local. The rank in `other` of each of the ranks `ranks` of this group; `None` for ranks that
    /// are not in `other` (MPI-4.1, section 7.3.1, `MPI_Group_translate_ranks`).
    ///
    /// # Errors
    /// A rank is not in this group.
    pub fn translate(&self, ranks: &[u32], other: &Self) -> Result<Vec<Option<u32>>> {
        ranks
            .iter()
            .map(|&rank| Ok(other.rank_of_world(self.member("translate", rank)?)))
            .collect()
    }

    /// Local. How this group and `other` are related (MPI-4.1, section 7.3.1,
    /// `MPI_Group_compare`).
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.members().eq(other.members()) {
            Comparison::Identical
        } else if self.members().all(|rank| other.contains(rank)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Local. The ranks `chosen` of this group, in that order (MPI-4.1, section 7.3.2,
    /// `MPI_Group_incl`).
    ///
    /// # Errors
    /// A rank is not in this group, or occurs twice.
    pub fn include(&self, chosen: &[u32]) -> Result<Self> {
        self.choose("include", chosen.iter().copied())
    }

    /// Local. The ranks of this group except `left_out`, in the order of this group (MPI-4.1,
    /// section 7.3.2, `MPI_Group_excl`).
    ///
    /// # Errors
    /// A rank is not in this group, or occurs twice.
    pub fn exclude(&self, left_out: &[u32]) -> Result<Self> {
        let left_out = self.choose("exclude", left_out.iter().copied())?;
        Ok(self.difference(&left_out))
    }

    /// Local. The ranks `first`, `first + stride`, … up to `last` of this group, for each `(first,
    /// last, stride)` of `ranges`. A negative stride counts down (MPI-4.1, section 7.3.2,
    /// `MPI_Group_range_incl`).
    ///
    /// # Errors
    /// A stride is 0; a rank is not in this group, or occurs twice.
    pub fn include_ranges(&self, ranges: &[(u32, u32, i32)]) -> Result<Self> {
        self.choose_ranges("include_ranges", ranges)
    }

    /// Local. The ranks of this group except those of `ranges`, as in [`Group::include_ranges`]
    /// (MPI-4.1, section 7.3.2, `MPI_Group_range_excl`).
    ///
    /// # Errors
    /// As for [`Group::include_ranges`].
    pub fn exclude_ranges(&self, ranges: &[(u32, u32, i32)]) -> Result<Self> {
        let left_out = self.choose_ranges("exclude_ranges", ranges)?;
        Ok(self.difference(&left_out))
    }

    /// Local. The ranks of this group, followed by those of `other` that are not in it (MPI-4.1,
    /// section 7.3.2, `MPI_Group_union`).
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let more = other.members().filter(|&rank| !self.contains(rank));
        Self::of(self.members().chain(more).collect::<Vec<_>>())
    }

    /// Local. The ranks of this group that are also in `other`, in the order of this group
    /// (MPI-4.1, section 7.3.2, `MPI_Group_intersection`).
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.members().filter(|&rank| other.contains(rank));
        Self::of(both.collect::<Vec<_>>())
    }

    /// Local. The ranks of this group that are not in `other`, in the order of this group (MPI-4.1,
    /// section 7.3.2, `MPI_Group_difference`).
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let rest = self.members().filter(|&rank| !other.contains(rank));
        Self::of(rest.collect::<Vec<_>>())
    }

    /// The members, as ranks of the world.
    fn members(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter_map(|rank| self.world_rank(rank))
    }

    fn contains(&self, world_rank: u32) -> bool {
        self.rank_of_world(world_rank).is_some()
    }

    fn member(&self, operation: &'static str, rank: u32) -> Result<u32> {
        let size = self.size();
        self.world_rank(rank)
            .ok_or_else(|| Error::new(operation, Misuse::RankOutOfRange { rank, size }))
    }

    fn choose(&self, operation: &'static str, chosen: impl Iterator<Item = u32>) -> Result<Self> {
        let mut taken = vec![false; self.size() as usize];
        let mut ranks = Vec::with_capacity(chosen.size_hint().0);
        for rank in chosen {
            let world_rank = self.member(operation, rank)?;
            if std::mem::replace(&mut taken[rank as usize], true) {
                return Err(Error::new(operation, Misuse::RankTwice { rank }));
            }
            ranks.push(world_rank);
        }
        Ok(Self::of(ranks))
    }

    fn choose_ranges(&self, operation: &'static str, ranges: &[(u32, u32, i32)]) -> Result<Self> {
        let mut chosen = Vec::new();
        for &(first, last, stride) in ranges {
            if stride == 0 {
                return Err(Error::new(operation, Misuse::NoStride { first, last }));
            }
            // Both ends are ranks of the group, so a range has at most as many ranks as the group.
            self.member(operation, first)?;
            self.member(operation, last)?;
            let steps = i64::from(stride);
            let mut at = i64::from(first);
            while (steps > 0 && at <= last.into()) || (steps < 0 && at >= last.into()) {
                chosen.push(at as u32);
                at += steps;
            }
        }
        self.choose(operation, chosen.into_iter())
    }
}

/// The same members in the same order.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Comparison::Identical
    }
}

impl Eq for Group {}

impl Members {
    fn find(&self, world_rank: u32) -> Option<u32> {
        if self.world_ranks.len() <= FEW_MEMBERS {
            let place = self.world_ranks.iter().position(|&rank| rank == world_rank);
            return place.map(|rank| rank as u32);
        }
        let places = self
            .places
            .get_or_init(|| self.world_ranks.iter().copied().zip(0..).collect());
        places.get(&world_rank).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    fn members(group: &Group) -> Vec<u32> {
        group.members().collect()
    }

    #[test]
    fn a_group_of_a_group_names_ranks_of_the_world() {
        let some = Group::world(8).include(&[6, 2, 4]).unwrap();
        let fewer = some.include(&[2, 0]).unwrap();
        assert_eq!(members(&fewer), [4, 6]);
        assert_eq!(fewer.world_rank(2), None);
        assert_eq!(fewer.rank_of_world(6), Some(1));
        assert_eq!(fewer.rank_of_world(2), None);
        assert!(some.include(&[3]).is_err());
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let world = Group::world(8);
        let a = world.include(&[5, 1, 3]).unwrap();
        let b = world.include(&[3, 7, 5]).unwrap();
        assert_eq!(members(&a.union(&b)), [5, 1, 3, 7]);
        assert_eq!(members(&a.intersection(&b)), [5, 3]);
        assert_eq!(members(&a.difference(&b)), [1]);
        assert_eq!(members(&a.exclude(&[0, 2]).unwrap()), [1]);
        assert_eq!(world.exclude(&[]).unwrap(), world);
        assert_eq!(a.difference(&a), Group::empty());
        let translated = a.translate(&[0, 1, 2], &b).unwrap();
        assert_eq!(translated, [Some(2), None, Some(0)]);
    }

    #[test]
    fn ranges_count_up_and_down() {
        let world = Group::world(10);
        let chosen = world.include_ranges(&[(1, 6, 2), (9, 7, -1), (0, 0, 5)]);
        assert_eq!(members(&chosen.unwrap()), [1, 3, 5, 9, 8, 7, 0]);
        let rest = world.exclude_ranges(&[(8, 0, -2)]).unwrap();
        assert_eq!(members(&rest), [1, 3, 5, 7, 9]);
        assert_eq!(world.include_ranges(&[(5, 3, 1)]).unwrap(), Group::empty());
    }

    #[test]
    fn comparison_tells_order_from_members() {
        let world = Group::world(3);
        let same = world.include(&[0, 1, 2]).unwrap();
        let turned = world.include(&[2, 1, 0]).unwrap();
        let fewer = world.include(&[0, 1]).unwrap();
        assert_eq!(world.compare(&same), Comparison::Identical);
        assert_eq!(world.compare(&turned), Comparison::Similar);
        assert_eq!(world.compare(&fewer), Comparison::Unequal);
        assert_eq!(
            fewer.compare(&world.include(&[1, 2]).unwrap()),
            Comparison::Unequal
        );
    }

    #[test]
    fn wrong_ranks_are_named() {
        let some = Group::world(8).include(&[6, 2, 4]).unwrap();
        let twice = some.include(&[1, 0, 1]).unwrap_err();
        assert_eq!(twice.class(), ErrorClass::Rank);
        assert!(twice.to_string().contains("rank 1"), "{twice}");
        assert!(some.exclude(&[2, 2]).is_err());
        let beyond = some.include_ranges(&[(0, 3, 1)]).unwrap_err();
        assert_eq!(beyond.class(), ErrorClass::Rank);
        let still = some.include_ranges(&[(0, 2, 0)]).unwrap_err();
        assert_eq!(still.class(), ErrorClass::Arg);
        assert!(some.translate(&[3], &some).is_err());
    }

    #[test]
    fn long_groups_are_searched_the_same_way() {
        let ranks: Vec<u32> = (0..100).rev().collect();
        let group = Group::world(100).include(&ranks).unwrap();
        for rank in 0..100 {
            assert_eq!(group.rank_of_world(rank), Some(99 - rank));
        }
        assert_eq!(group.rank_of_world(100), None);
        assert_eq!(Group::world(100).compare(&group), Comparison::Similar);
    }
}
