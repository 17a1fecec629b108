//! The collectives over pipes: among all ranks at once, or where ranks share hosts in two steps, so that between hosts
//! only their leaders exchange anything.

use std::array::IntoIter;
use std::iter::Flatten;
use std::mem;
use std::sync::Arc;

use super::algorithms::in_order;
use super::barrier::{Barrier, barrier_bytes};
use super::blocks::RankBlocks;
use super::by_host::ByHost;
use super::call::Call;
use super::carrier::Carrier;
use super::collective::{BARRIER_AT, Core};
use super::ring_channel::{InRingChannel, RingChannel, ring_channel_bytes};
use super::schedule::{Algorithm, Among, LEADER, Phase, Phases};
use super::team::{Rings, Team};
use crate::error::Result;
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;

/// Bytes of the control block that a communicator takes on each rank.
pub(crate) fn block_bytes(rings: &Rings) -> u64 {
    let channels = match rings.by_host.as_ref() {
        None => ring_channel_bytes(rings.all.rounds()),
        Some(hosts) => {
            ring_channel_bytes(hosts.rounds_here()) + ring_channel_bytes(hosts.rounds_of_leaders())
        }
    };
    BARRIER_AT + barrier_bytes(rings) + channels
}

/// The part of a communicator that one collective at a time uses.
pub(crate) struct Engine {
    core: Core,
    /// Present if collectives take two steps.
    hosts: Option<Arc<ByHost>>,
    /// The channel of the ranks of this host, or of all ranks if there is one step.
    here: RingChannel,
    /// The channel of the leaders, if this rank is one.
    leaders: Option<RingChannel>,
}

impl Engine {
    pub(crate) fn new(
        team: &Team,
        block: &Arc<ControlBlock>,
        blocks: &Arc<Column<u64>>,
        barrier: &Arc<Barrier>,
    ) -> Self {
        let rings = &team.rings;
        let start = BARRIER_AT + barrier_bytes(rings);
        let hosts = rings.by_host.as_ref();
        let ring_here = hosts.map_or(&rings.all, |hosts| &hosts.here);
        Self {
            core: Core::new(team, block, blocks, barrier),
            hosts: hosts.cloned(),
            here: RingChannel::new(ring_here.clone(), block, start),
            leaders: hosts.and_then(|hosts| {
                let start = start + ring_channel_bytes(hosts.rounds_here());
                Some(RingChannel::new(hosts.leaders.clone()?, block, start))
            }),
        }
    }

    fn here(&mut self) -> InRingChannel<'_> {
        self.here.with(&mut self.core)
    }

    fn among(&mut self, among: Among) -> InRingChannel<'_> {
        let channel = match among {
            Among::Here => &mut self.here,
            Among::Leaders => {
                let leaders = self.leaders.as_mut();
                leaders.expect("only a leader has phases among leaders")
            }
        };
        channel.with(&mut self.core)
    }

    fn phases(&self, of: impl Fn(&Rings) -> Phases) -> Flatten<IntoIter<Option<Phase>, 3>> {
        of(&self.core.team.rings).into_iter().flatten()
    }

    /// Runs phases with one value. `combine` folds received values into the local one.
    fn fold(
        &mut self,
        of: impl Fn(&Rings) -> Phases,
        bytes: &mut [u8],
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        for phase in self.phases(of) {
            let mut channel = self.among(phase.among);
            match phase.algorithm {
                Algorithm::Reduce => channel.reduce(bytes, phase.root, combine)?,
                Algorithm::Merge => channel.merge(bytes, combine)?,
                Algorithm::Bcast | Algorithm::Gather | Algorithm::Allgather => {
                    channel.bcast(bytes, phase.root)?;
                }
            }
        }
        Ok(())
    }

    /// The lengths by place in the ring `here`.
    fn lens_here(&self, lens: &[usize]) -> Vec<usize> {
        let ring = &self.here.ring;
        let places = 0..ring.size();
        places
            .map(|place| lens[ring.rank_at(place) as usize])
            .collect()
    }
}

impl Carrier for Engine {
    fn begin(&mut self, operation: &'static str, call: Call, fit: Result<()>) -> Result<()> {
        self.core.begin(operation, call, fit)
    }

    fn bcast(&mut self, bytes: &mut [u8], root: u32) -> Result<()> {
        for phase in self.phases(|rings| rings.bcast(root)) {
            self.among(phase.among).bcast(bytes, phase.root)?;
        }
        Ok(())
    }

    fn gather(&mut self, mine: &[u8], lens: &[usize], root: u32) -> Result<Vec<u8>> {
        let Some(hosts) = self.hosts.clone() else {
            return self.here().gather(mine, lens, root);
        };
        let of_root = hosts.host_of(root);
        let is_here = self.here.ring.place_of(root).is_some();
        let mut lens_here = self.lens_here(lens);
        let mut of_others = lens_of_hosts(&hosts, lens);
        of_others[of_root as usize] = 0;
        if is_here {
            // Bytes from other hosts go to the root as a part of its leader's.
            lens_here[LEADER as usize] += of_others.iter().sum::<usize>();
        }
        let mut held = if is_here { Vec::new() } else { mine.to_vec() };
        for phase in self.phases(|rings| rings.gather(root)) {
            let lens = match phase.among {
                Among::Here => &lens_here,
                Among::Leaders => &of_others,
            };
            if is_here && phase.among == Among::Here {
                held.extend(mine);
            }
            held = self.among(phase.among).gather(&held, lens, phase.root)?;
        }
        if self.core.team.rank != root {
            return Ok(Vec::new());
        }
        Ok(in_order(&held, hosts.ranks_by_host(Some(of_root)), lens))
    }

    fn allgather(&mut self, mine: &[u8], lens: &[usize]) -> Result<Vec<u8>> {
        let Some(hosts) = self.hosts.clone() else {
            return self.here().allgather(mine, lens);
        };
        let (lens_here, of_hosts) = (self.lens_here(lens), lens_of_hosts(&hosts, lens));
        let mut held = mine.to_vec();
        for phase in self.phases(Rings::allgather) {
            let mut channel = self.among(phase.among);
            match phase.algorithm {
                Algorithm::Gather => held = channel.gather(&held, &lens_here, phase.root)?,
                Algorithm::Allgather => held = channel.allgather(&held, &of_hosts)?,
                _ => {
                    held.resize(lens.iter().sum(), 0);
                    channel.bcast(&mut held, phase.root)?;
                }
            }
        }
        Ok(in_order(&held, hosts.ranks_by_host(None), lens))
    }

    /// Blocks for other hosts go through the leaders.
    fn alltoall(&mut self, blocks: RankBlocks) -> Result<RankBlocks> {
        let Some(hosts) = self.hosts.clone() else {
            return self.here().alltoall(blocks, |to| to);
        };
        let ring = self.here.ring.clone();
        let place = |to| ring.place_of(to).unwrap_or(LEADER);
        let mut held = self.here().alltoall(blocks, place)?;
        if let Some(leaders) = &mut self.leaders {
            let walk = &mut leaders.with(&mut self.core);
            held = walk.alltoall(held, |to| hosts.host_of(to))?;
        }
        self.here().alltoall(held, place)
    }

    fn reduce(
        &mut self,
        bytes: &mut [u8],
        root: u32,
        combine: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        self.fold(|rings| rings.reduce(root), bytes, combine)
    }

    fn merge(&mut self, bytes: &mut [u8], merge: &mut dyn FnMut(&mut [u8], &[u8])) -> Result<()> {
        self.fold(Rings::merge, bytes, merge)
    }
}

impl Drop for Engine {
    /// A rank may finish its last call and drop the communicator before its receivers have read everything. They still
    /// write acknowledgements into this rank's block.
    fn drop(&mut self) {
        if self.core.failed {
            mem::forget(self.core.block.clone());
            return;
        }
        let channels = [Some(&self.here), self.leaders.as_ref()];
        let words = channels
            .into_iter()
            .flatten()
            .flat_map(RingChannel::last_words);
        self.core.block.retire_until(words);
    }
}

/// The total length of each host's ranks.
fn lens_of_hosts(hosts: &ByHost, lens: &[usize]) -> Vec<usize> {
    let mut of_hosts = vec![0; hosts.hosts() as usize];
    for (rank, len) in (0..).zip(lens) {
        of_hosts[hosts.host_of(rank) as usize] += len;
    }
    of_hosts
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
                        let parts = if at_root { &every[..] } else { &[] };
                        assert_eq!(world.scatterv(parts, root).unwrap(), part(rank));
                        let sum = world.reduce(&[1_u64, rank.into()], Op::Sum, root).unwrap();
                        let sums = [u64::from(size), (0..u64::from(size)).sum()];
                        assert_eq!(sum, if at_root { sums.to_vec() } else { vec![] });
                    }
                    assert_eq!(world.allgatherv(&part(rank)).unwrap(), *every);
                    let numbers: Vec<u32> = (0..size).collect();
                    assert_eq!(world.allgather(&[rank]).unwrap(), numbers);
                    assert_eq!(world.allreduce(&[rank], Op::Max).unwrap(), [size - 1]);
                    assert_eq!(world.scan(&[rank], Op::Max).unwrap(), [rank]);
                    let pair = |from: u32, to: u32| [part(from), part(to)].concat();
                    let outgoing: Vec<_> = (0..size).map(|to| pair(rank, to)).collect();
                    let incoming: Vec<_> = (0..size).map(|from| pair(from, rank)).collect();
                    assert_eq!(world.alltoallv(&outgoing).unwrap(), incoming);
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
