//! A team whose ranks run on several hosts, with several ranks on one of them. Messages to all ranks go from
//! the ranks of a host to its first rank, the leader, then among the leaders, and back.
//!
//! This is used where a team spans several hosts, a host has several of its ranks, and ranks of a host reach each other
//! faster (`Device::nearest`). All ranks have the same map of hosts, which determines where flags and pipes are in the
//! blocks. For 16 hosts of 64 ranks, a barrier takes 64 flags between hosts, where dissemination among all ranks takes
//! 5,104.

use std::sync::Arc;

use super::ring::Ring;
use crate::peers::{Hosts, rounds};

/// The hosts of a team, as one of its ranks sees them.
#[derive(Clone, Debug)]
pub(crate) struct ByHost {
    order: Arc<Order>,
    /// The ranks of this rank's host, the leader first.
    pub(super) here: Ring,
    /// The leaders in the order of hosts, if this rank is one.
    pub(super) leaders: Option<Ring>,
}

/// The data that are the same for all ranks.
#[derive(Debug)]
struct Order {
    /// The host of each rank; hosts are numbered in the order of appearance.
    hosts: Box<[u32]>,
    /// All ranks, grouped by host and ascending within a host, so that the first one of each host is its leader.
    ranks: Box<[u32]>,
    /// The index in `ranks` at which each host begins, and the end of the last one.
    starts: Box<[u32]>,
    /// The first rank of each host, as the first leader sees them.
    leaders: Ring,
    /// The greatest number of ranks on one host.
    most: u32,
}

impl ByHost {
    /// `hosts`: the host of each rank of the team. `None` if two steps gain nothing: one host, or one rank on each.
    pub(super) fn new(hosts: &Hosts, size: u32, rank: u32) -> Option<Self> {
        if hosts.is_one() {
            return None;
        }
        let hosts: Box<[u32]> = (0..size).map(|rank| hosts.host_of(rank)).collect();
        let starts = starts(&hosts);
        let mut next = starts.clone();
        let mut ranks = vec![0; hosts.len()];
        for (rank, &host) in (0..).zip(&hosts) {
            let at = &mut next[host as usize];
            ranks[*at as usize] = rank;
            *at += 1;
        }
        let most = starts.windows(2).map(|ends| ends[1] - ends[0]).max()?;
        if most == 1 {
            return None;
        }
        let first_ranks = starts[..starts.len() - 1].iter();
        let leaders = first_ranks.map(|&start| ranks[start as usize]);
        let order = Order {
            leaders: Ring::of(leaders.collect(), ranks[0])?,
            most,
            hosts,
            ranks: ranks.into(),
            starts: starts.into(),
        };
        Order::seen_by(&Arc::new(order), rank)
    }

    /// The same for another rank.
    pub(super) fn see_as(&mut self, rank: u32) {
        match self.here.place_of(rank) {
            Some(place) => {
                self.here.place = place;
                self.leaders = self.order.leaders_for(place, rank);
            }
            None => {
                if let Some(seen) = Order::seen_by(&self.order, rank) {
                    *self = seen;
                }
            }
        }
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let Order {
            hosts,
            ranks,
            starts,
            leaders,
            ..
        } = &*self.order;
        let lists = [hosts, ranks, starts].map(|list| size_of_val(&**list) as u64);
        lists.iter().sum::<u64>() + leaders.bytes() + self.here.bytes()
    }

    pub(super) fn host_of(&self, rank: u32) -> u32 {
        self.order.hosts[rank as usize]
    }

    /// All ranks, grouped by host; the host `last` comes last.
    pub(super) fn ranks_by_host(&self, last: Option<u32>) -> impl Iterator<Item = usize> {
        let start = |host: u32| self.order.starts[host as usize] as usize;
        let of_last = last.map_or(0..0, |host| start(host)..start(host + 1));
        let (before, rest) = self.order.ranks.split_at(of_last.start);
        let (of_last, behind) = rest.split_at(of_last.len());
        let all = before.iter().chain(behind).chain(of_last);
        all.map(|&rank| rank as usize)
    }

    pub(super) fn hosts(&self) -> u32 {
        self.order.leaders.size()
    }

    /// Rounds of an algorithm among the ranks of a host, for the host with the most ranks.
    pub(super) fn rounds_here(&self) -> u32 {
        rounds(self.order.most)
    }

    /// Rounds of an algorithm among the leaders.
    pub(super) fn rounds_of_leaders(&self) -> u32 {
        rounds(self.hosts())
    }
}

impl Order {
    fn seen_by(order: &Arc<Self>, rank: u32) -> Option<ByHost> {
        let mine = order.hosts[rank as usize] as usize;
        let here = &order.ranks[order.starts[mine] as usize..order.starts[mine + 1] as usize];
        let here = Ring::of(here.to_vec(), rank)?;
        Some(ByHost {
            order: order.clone(),
            leaders: order.leaders_for(here.place, rank),
            here,
        })
    }

    /// The leaders as `rank` sees them; its place among the ranks of its host is `place`.
    fn leaders_for(&self, place: u32, rank: u32) -> Option<Ring> {
        (place == 0).then(|| self.leaders.at(self.hosts[rank as usize]))
    }
}

/// The index at which each host begins if ranks are grouped by host, and the end of the last one. `hosts`: the host of
/// each rank, numbered in the order of appearance.
fn starts(hosts: &[u32]) -> Vec<u32> {
    let count = hosts.iter().max().map_or(0, |&last| last as usize + 1);
    let mut starts = vec![0; count + 1];
    for &host in hosts {
        starts[host as usize + 1] += 1;
    }
    for host in 0..count {
        starts[host + 1] += starts[host];
    }
    starts
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
        assert!(third.leaders.is_none());
        let first = by_host(&[0, 1, 2, 0, 1, 2, 0], 1).unwrap().leaders.unwrap();
        assert_eq!((first.place, first.ahead(2)), (1, 0));
        let mut seen = by_host(&[0, 1, 2, 0, 1, 2, 0], 0).unwrap();
        for rank in [3, 1, 4, 6, 2, 0] {
            seen.see_as(rank);
            let own = by_host(&[0, 1, 2, 0, 1, 2, 0], rank).unwrap();
            let view = |hosts: &ByHost| {
                let places = [Some(&hosts.here), hosts.leaders.as_ref()];
                places.map(|ring| ring.map(|ring| (ring.place, ring.rank_at(0), ring.size())))
            };
            assert_eq!(view(&seen), view(&own), "{rank}");
        }
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
