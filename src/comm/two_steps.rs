//! The collectives of all ranks: among all at once, or where ranks share hosts in two steps, so that between hosts
//! only their leaders exchange anything.

use super::by_host::ByHost;
use super::collective::{Core, Engine, RingChannels};
use super::ring_channel::{InRingChannel, RingChannel};
use crate::error::Result;

/// The place of a leader among the ranks of its host.
const LEADER: u32 = 0;

/// How a collective goes.
enum Course<'e> {
    All(InRingChannel<'e>),
    TwoSteps(TwoSteps<'e>),
}

impl Engine {
    fn course(&mut self) -> Course<'_> {
        let core = &mut self.core;
        match &mut self.channels {
            RingChannels::All(all) => Course::All(all.with(core)),
            RingChannels::ByHost {
                hosts,
                here,
                leaders,
            } => Course::TwoSteps(TwoSteps {
                core,
                here,
                leaders: leaders.as_mut(),
                hosts,
            }),
        }
    }

    /// Copies `root`'s bytes to all.
    pub(crate) fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        match self.course() {
            Course::All(mut walk) => walk.bcast(bytes, root),
            Course::TwoSteps(mut steps) => steps.bcast(bytes, root),
        }
    }

    /// `lens` are the lengths by rank; at the root, returns all bytes in the order of ranks.
    pub(crate) fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        match self.course() {
            Course::All(mut walk) => walk.gather(mine, lens, root),
            Course::TwoSteps(mut steps) => steps.gather(mine, lens, root),
        }
    }

    /// The same, on every rank.
    pub(crate) fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        match self.course() {
            Course::All(mut walk) => walk.allgather(mine, lens),
            Course::TwoSteps(mut steps) => steps.allgather(mine, lens),
        }
    }

    /// `combine` folds what arrives into what is held. At the root, `bytes` is the result.
    pub(crate) fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        match self.course() {
            Course::All(mut walk) => walk.reduce(bytes, root, combine),
            Course::TwoSteps(mut steps) => steps.reduce(bytes, root, combine),
        }
    }
}

/// A collective by hosts.
struct TwoSteps<'e> {
    core: &'e mut Core,
    here: &'e mut RingChannel,
    /// None for who leads none.
    leaders: Option<&'e mut RingChannel>,
    hosts: &'e ByHost,
}

impl TwoSteps<'_> {
    fn here(&mut self) -> InRingChannel<'_> {
        self.here.with(self.core)
    }

    /// Lengths by place here.
    fn lens_here(&self, lens: &[usize]) -> Vec<usize> {
        let ring = self.here.ring();
        let places = 0..ring.size();
        places
            .map(|place| lens[ring.rank_at(place) as usize])
            .collect()
    }

    /// What the ranks of each host have together.
    fn lens_of_hosts(&self, lens: &[usize]) -> Vec<usize> {
        let mut of_hosts = vec![0; self.hosts.hosts() as usize];
        for (rank, len) in (0..).zip(lens) {
            of_hosts[self.hosts.host_of(rank) as usize] += len;
        }
        of_hosts
    }

    fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        let of_root = self.hosts.host_of(root);
        let place = self.here.ring().place_of(root);
        if let Some(place) = place {
            self.here().bcast(bytes, place)?;
        }
        if let Some(leaders) = &mut self.leaders {
            leaders.with(self.core).bcast(bytes, of_root)?;
        }
        match place {
            Some(_) => Ok(()),
            None => self.here().bcast(bytes, LEADER),
        }
    }

    fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let of_root = self.hosts.host_of(root);
        let place = self.here.ring().place_of(root);
        let mut lens_here = self.lens_here(lens);
        let mut held = match place {
            Some(_) => Vec::new(),
            None => self.here().gather(mine, &lens_here, LEADER)?,
        };
        let mut of_others = self.lens_of_hosts(lens);
        of_others[of_root as usize] = 0;
        if let Some(leaders) = &mut self.leaders {
            let walk = &mut leaders.with(self.core);
            held = walk.gather(&held, &of_others, of_root)?;
        }
        let Some(place) = place else {
            return Ok(Vec::new());
        };
        // What comes from other hosts goes to the root as a part of its leader's.
        lens_here[LEADER as usize] += of_others.iter().sum::<usize>();
        held.extend(mine);
        let held = self.here().gather(&held, &lens_here, place)?;
        if self.core.team.rank != root {
            return Ok(Vec::new());
        }
        let others = (0..self.hosts.hosts()).filter(|&host| host != of_root);
        Ok(self.in_order(&held, others.chain([of_root]), lens))
    }

    fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        let lens_here = self.lens_here(lens);
        let held = self.here().gather(mine, &lens_here, LEADER)?;
        let of_hosts = self.lens_of_hosts(lens);
        let mut all = match &mut self.leaders {
            Some(leaders) => leaders.with(self.core).allgather(&held, &of_hosts)?,
            None => vec![0; lens.iter().sum()],
        };
        self.here().bcast(&mut all, LEADER)?;
        Ok(self.in_order(&all, 0..self.hosts.hosts(), lens))
    }

    fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        mut combine: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let of_root = self.hosts.host_of(root);
        self.here().reduce(bytes, LEADER, &mut combine)?;
        if let Some(leaders) = &mut self.leaders {
            let walk = &mut leaders.with(self.core);
            walk.reduce(bytes, of_root, &mut combine)?;
        }
        let ring = self.here.ring();
        let leads = ring.place() == LEADER;
        match ring.place_of(root) {
            None | Some(LEADER) => Ok(()),
            Some(place) => {
                let mut lens = vec![0; ring.size() as usize];
                lens[LEADER as usize] = bytes.len();
                let part = if leads { &bytes[..] } else { &[] };
                let result = self.here().gather(part, &lens, place)?;
                if self.core.team.rank == root {
                    bytes.copy_from_slice(&result);
                }
                Ok(())
            }
        }
    }

    /// The parts of all ranks, which are `held` host by host.
    fn in_order(&self, held: &[u8], hosts: impl Iterator<Item = u32>, lens: &[usize]) -> Vec<u8> {
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
        for rank in hosts.flat_map(|host| self.hosts.of_host(host)) {
            let (start, len) = (starts[rank as usize], lens[rank as usize]);
            let part;
            (part, rest) = rest.split_at(len);
            ordered[start..start + len].copy_from_slice(part);
        }
        ordered
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::comm::Communicator;
    use crate::datatype::Op;
    use crate::peers::ranks_on_hosts;
    use crate::wait::Patience;

    /// All collectives, each with every root, where ranks are placed so.
    fn all_collectives(device: &str, hosts: &[u32]) {
        let ranks = ranks_on_hosts(device, hosts, Patience::suspicious());
        let size = hosts.len() as u32;
        // Of different lengths, one of them none; and more than a pipe holds.
        let part = |rank: u32| vec![rank + 1; [3, 0, 5000][rank as usize % 3]];
        let every: Vec<Vec<u32>> = (0..size).map(part).collect();
        thread::scope(|scope| {
            for context in &ranks {
                let every = &every;
                scope.spawn(move || {
                    let world = Communicator::world(context);
                    let rank = world.rank();
                    for root in 0..size {
                        let mut told = vec![if rank == root { 7 + root } else { 0 }; 4000];
                        world.bcast(&mut told, root).unwrap();
                        assert_eq!(told, vec![7 + root; 4000]);
                        let at_root = rank == root;
                        let gathered = world.gatherv(&part(rank), root).unwrap();
                        assert_eq!(gathered, if at_root { every.clone() } else { vec![] });
                        let alike = world.gather(&[rank, root], root).unwrap();
                        let pairs = (0..size).flat_map(|rank| [rank, root]);
                        assert_eq!(alike, if at_root { pairs.collect() } else { vec![] });
                        let sum = world.reduce(&[1_u64, rank.into()], Op::Sum, root).unwrap();
                        let sums = [u64::from(size), (0..u64::from(size)).sum()];
                        assert_eq!(sum, if at_root { sums.to_vec() } else { vec![] });
                    }
                    assert_eq!(world.allgatherv(&part(rank)).unwrap(), *every);
                    let numbers: Vec<u32> = (0..size).collect();
                    assert_eq!(world.allgather(&[rank]).unwrap(), numbers);
                    assert_eq!(world.allreduce(&[rank], Op::Max).unwrap(), [size - 1]);
                    // Communicators of some ranks have hosts of their own.
                    let part = world
                        .split(Some(rank % 2), -(rank as i32))
                        .unwrap()
                        .unwrap();
                    let mut expected: Vec<u32> = (rank % 2..size).step_by(2).collect();
                    expected.reverse();
                    assert_eq!(part.allgather(&[rank]).unwrap(), expected);
                    world.barrier().unwrap();
                });
            }
        });
    }

    #[test]
    fn all_get_what_they_would_get_at_once_however_they_are_placed() {
        for hosts in [
            &[0, 0, 1, 1][..],
            &[0, 1, 0, 1],
            &[0, 1, 1],
            &[0, 0, 0, 0, 1],
            &[0, 1, 2, 2, 1, 2, 0],
            &[0, 1, 1, 1, 1, 1, 2, 3],
        ] {
            all_collectives("soft", hosts);
        }
        all_collectives("soft:adversarial", &[0, 1, 1, 0, 2]);
    }

    #[test]
    fn whoever_came_for_something_else_is_named_on_every_host() {
        let ranks = ranks_on_hosts("soft", &[0, 1, 0, 1, 1], Patience::suspicious());
        let errors: Vec<String> = thread::scope(|scope| {
            let call = |context| {
                let world = Communicator::world(context);
                let error = match world.rank() {
                    4 => world.bcast(&mut [0_u8], 2).unwrap_err(),
                    _ => world.allgather(&[1_u8]).unwrap_err(),
                };
                error.to_string()
            };
            let threads = ranks
                .iter()
                .map(|context| scope.spawn(move || call(context)));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for (rank, error) in errors.iter().enumerate() {
            let named = if rank == 4 { "allgather" } else { "rank 4" };
            assert!(error.contains(named), "rank {rank}: {error}");
        }
    }
}
