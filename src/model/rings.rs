//! Collectives: phases in rings, round by round.

use super::simulation::Simulation;
use crate::comm::{Algorithm, Among, HEADER, Phase, Phases, Ring, Rings, Round};
use crate::peers::around;

/// The lengths of messages.
#[derive(Clone, Copy)]
struct Lens {
    /// Of a rank's part.
    part: u64,
    /// Of the whole, if there are no parts.
    whole: u64,
}

impl Simulation<'_> {
    pub(super) fn allreduce(&mut self, bytes: u64) {
        let lens = Lens {
            part: bytes,
            whole: bytes,
        };
        self.barrier(false);
        self.phases(|rings| rings.reduce(0), lens);
        self.phases(|rings| rings.bcast(0), lens);
    }

    pub(super) fn allgather(&mut self, bytes: u64) {
        let lens = Lens {
            part: bytes,
            whole: bytes * u64::from(self.size()),
        };
        self.barrier(false);
        self.phases(Rings::allgather, lens);
    }

    pub(super) fn merge(&mut self, bytes: u64) {
        let lens = Lens {
            part: bytes,
            whole: bytes,
        };
        self.barrier(false);
        self.phases(Rings::merge, lens);
    }

    /// The steps by which the ranks agree on a value of `bytes` bytes of each.
    pub(super) fn agree(&mut self, bytes: u64) {
        self.allgather(1 + bytes);
    }

    fn phases(&mut self, of: impl Fn(&Rings) -> Phases, lens: Lens) {
        let mut rings = self.model.rings.clone();
        let rings_here = match rings.is_by_host() {
            true => self.model.of_hosts.len(),
            false => 1,
        };
        for number in 0..Phases::default().len() {
            let mut leaders_are_through = false;
            for (first, _) in &self.model.of_hosts[..rings_here] {
                rings.see_as(*first);
                let Some(phase) = of(&rings)[number] else {
                    continue;
                };
                if phase.among == Among::Leaders {
                    if leaders_are_through {
                        continue;
                    }
                    leaders_are_through = true;
                }
                if let Some(ring) = rings.ring(phase.among) {
                    self.phase(ring, phase, lens);
                }
            }
        }
    }

    fn phase(&mut self, ring: &Ring, phase: Phase, lens: Lens) {
        let Phase {
            algorithm, root, ..
        } = phase;
        let size = ring.size();
        // The sums of the lengths before each place.
        let mut sums = vec![0];
        for place in 0..size {
            let ranks = match phase.among {
                Among::Here => 1,
                Among::Leaders => self.ranks_beside(ring.rank_at(place)),
            };
            sums.push(sums[place as usize] + lens.part * u64::from(ranks));
        }
        let of_places = |first: u32, count: u32| {
            let (first, end) = (first as usize, (first + count) as usize);
            match end.checked_sub(size as usize) {
                Some(rest) => sums[size as usize] - sums[first] + sums[rest],
                None => sums[end] - sums[first],
            }
        };
        let mut arrived = vec![(0.0, 0); size as usize];
        for round in 0..ring.rounds() {
            let clocks = (0..size).map(|place| self.clock(ring.rank_at(place)));
            let clocks: Vec<f64> = clocks.collect();
            let does = |place| algorithm.round(size, place, root, round);
            for place in 0..size {
                let Round { sends, .. } = does(place);
                let Some(parts) = sends else { continue };
                // The last of these owners is the farthest behind.
                let first = |nearest| around(nearest, size - (parts.end - 1), size);
                let count = parts.end - parts.start;
                let bytes = match algorithm {
                    Algorithm::Bcast | Algorithm::Reduce | Algorithm::Merge => lens.whole,
                    Algorithm::Gather => of_places(first(root), count),
                    Algorithm::Allgather => of_places(first(place), count),
                };
                let (ahead, bytes) = (around(place, 1 << round, size), bytes + HEADER as u64);
                let (from, to) = (ring.rank_at(place), ring.rank_at(ahead));
                let at = self.message(from, to, bytes, clocks[ahead as usize]);
                arrived[ahead as usize] = (at, bytes);
            }
            for place in 0..size {
                if does(place).receives.is_some() {
                    let behind = around(place, size - (1 << round), size);
                    let (from, to) = (ring.rank_at(behind), ring.rank_at(place));
                    let (at, bytes) = arrived[place as usize];
                    self.receive(to, from, bytes, at);
                }
            }
        }
    }
}
