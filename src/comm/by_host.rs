//! A team whose ranks run on several hosts, with several on one: what all of them have to tell each other goes
//! from the ranks of a host to the first of them, its leader, among the leaders, and back.

use super::ring::Ring;
use crate::peers::{Hosts, rounds};

/// The hosts of a team, as one of its ranks sees them.
#[derive(Debug)]
pub(crate) struct ByHost {
    /// The host of each rank, numbered as they come: the first rank of a number leads.
    hosts: Box<[u32]>,
    /// The leaders, by host.
    leaders: Box<[u32]>,
    /// The ranks of this one's host, the leader first.
    pub(super) here: Ring,
    /// The most ranks on any host.
    most: u32,
}

impl ByHost {
    /// `hosts`: by ranks of the team. None where that makes two steps of one: all on one host, or each on its own.
    pub(super) fn new(hosts: &Hosts, size: u32, rank: u32) -> Option<Self> {
        if hosts.is_one() {
            return None;
        }
        let hosts: Box<[u32]> = (0..size).map(|rank| hosts.host_of(rank)).collect();
        let mut leaders = Vec::new();
        let mut counts = Vec::new();
        for (rank, &host) in (0..).zip(&hosts) {
            if host as usize == leaders.len() {
                leaders.push(rank);
                counts.push(0);
            }
            counts[host as usize] += 1;
        }
        let most = counts.into_iter().max()?;
        if most == 1 {
            return None;
        }
        let mine = hosts[rank as usize];
        let here = (0..size).filter(|&other| hosts[other as usize] == mine);
        Some(Self {
            here: Ring::of(here.collect(), rank)?,
            leaders: leaders.into(),
            hosts,
            most,
        })
    }

    /// The leaders by host, for one of them.
    pub(super) fn leaders(&self, rank: u32) -> Option<Ring> {
        Ring::of(self.leaders.to_vec(), rank)
    }

    pub(super) fn host_of(&self, rank: u32) -> u32 {
        self.hosts[rank as usize]
    }

    /// All ranks, host by host; those of the host `last` behind the others.
    pub(super) fn ranks_by_host(&self, last: Option<u32>) -> impl Iterator<Item = usize> {
        let mut ranks: Vec<usize> = (0..self.hosts.len()).collect();
        ranks.sort_by_key(|&rank| (Some(self.hosts[rank]) == last, self.hosts[rank]));
        ranks.into_iter()
    }

    pub(super) fn hosts(&self) -> u32 {
        self.leaders.len() as u32
    }

    /// Rounds of an algorithm among the ranks of a host: on the host with most.
    pub(super) fn rounds_here(&self) -> u32 {
        rounds(self.most)
    }

    /// Rounds of an algorithm among the leaders.
    pub(super) fn rounds_of_leaders(&self) -> u32 {
        rounds(self.hosts())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As the rank sees it whose hosts are these.
    pub(in crate::comm) fn by_host(hosts: &[u32], rank: u32) -> Option<ByHost> {
        ByHost::new(&Hosts::of(hosts), hosts.len() as u32, rank)
    }

    #[test]
    fn each_host_is_led_by_its_first_rank() {
        // Round-robin, as some launchers place ranks.
        let third = by_host(&[0, 1, 2, 0, 1, 2, 0], 3).unwrap();
        let here: Vec<u32> = (0..third.here.size())
            .map(|place| third.here.rank_at(place))
            .collect();
        assert_eq!((here, third.here.place), (vec![0, 3, 6], 1));
        assert_eq!((third.hosts(), third.rounds_here()), (3, 2));
        assert!(third.leaders(3).is_none());
        let first = third.leaders(1).unwrap();
        assert_eq!((first.place, first.ahead(2)), (1, 0));
        assert_eq!(
            third.ranks_by_host(None).collect::<Vec<_>>(),
            [0, 3, 6, 1, 4, 2, 5]
        );
        let last: Vec<usize> = third.ranks_by_host(Some(1)).collect();
        assert_eq!(last, [0, 3, 6, 2, 5, 1, 4]);
    }

    #[test]
    fn where_two_steps_would_be_one_there_is_one() {
        assert!(by_host(&[7, 7, 7], 0).is_none());
        assert!(by_host(&[0, 1, 2], 1).is_none());
        assert!(by_host(&[4], 0).is_none());
        assert!(by_host(&[0, 1, 1], 1).is_some());
    }
}
