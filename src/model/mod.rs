//! A model of large jobs. It simulates, in one process, the steps that all ranks of a job take in collective calls and
//! in epochs: how many messages each rank sends, and when it is finished according to LogGP. The model calls the same
//! functions as the ranks, so it has no second description of the steps.

mod barrier;
mod epochs;
mod fit;
mod memory;
mod rings;
mod simulation;
mod transfer;

use crate::comm::{Communicator, Group, Rings};
use crate::datatype::Op;
use crate::diagnostics::Traffic;
use crate::error::Result;
use crate::peers::Hosts;
use crate::window;

pub use fit::{MeasuredTime, fit};
pub use memory::{MemoryRow, memory};
use simulation::Simulation;

/// The costs of a message, as in LogGP, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCosts {
    /// L: from the sender to the receiver, for the shortest message.
    pub latency: f64,
    /// o: processor time for a message, of the sender and of the receiver.
    pub overhead: f64,
    /// g: the least time from one message of a sender to the next.
    pub gap: f64,
    /// G: for each further byte.
    pub gap_per_byte: f64,
}

/// The costs of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Between ranks of one host.
    pub here: LinkCosts,
    /// Between ranks of two hosts.
    pub between: LinkCosts,
    /// Present if ranks share processors.
    pub sharing: Option<Sharing>,
}

/// How ranks share the processors of a host. After a wait, a rank continues once all other ranks of its host had a
/// processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// For each host; less than one if hosts are namespaces of one machine.
    pub processors: f64,
    /// How long a rank that only polls keeps a processor, in nanoseconds.
    pub switch: f64,
}

/// The ranks of a job, in order, with the same number on each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The number of ranks, at least 1.
    pub ranks: u32,
    /// The number of ranks on each host, at least 1.
    pub per_host: u32,
}

/// An operation of all ranks at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// `Communicator::barrier`.
    Barrier,
    /// `Communicator::allreduce` of this many bytes.
    Allreduce(u64),
    /// `Communicator::allgather` of this many bytes of each rank.
    Allgather(u64),
    /// `Communicator::dup`.
    Dup,
    /// `Communicator::split`.
    Split,
    /// The creation of a window.
    Create,
    /// `Window::fence` without an operation before it.
    Fence,
    /// `Window::free`.
    Free,
    /// Post, start, complete and wait, with this many ranks before and after this one.
    Pscw(u32),
    /// `lock_all`, a put to each of this many ranks, `flush_all`, and `unlock_all`.
    LockAll(u32),
}

/// The result of the model for a procedure.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The time at which the last rank has finished, in nanoseconds.
    pub nanoseconds: f64,
    /// The traffic of each rank: `mapped` to ranks of its host, and `device` to others.
    pub traffic: Vec<Traffic>,
}

impl Prediction {
    /// Flags and messages of the rank that sends the most.
    #[must_use]
    pub fn most_sent(&self) -> u64 {
        let all = self.traffic.iter().map(|sent| {
            let ways = [sent.mapped, sent.device];
            ways.iter().map(|way| way.flags + way.messages).sum()
        });
        all.max().unwrap_or(0)
    }

    /// Flags and messages between hosts.
    #[must_use]
    pub fn between_hosts(&self) -> u64 {
        let all = self.traffic.iter().map(|sent| sent.device);
        all.map(|way| way.flags + way.messages).sum()
    }
}

/// A job.
pub struct Model {
    /// The host of each rank.
    hosts: Vec<u32>,
    /// For each host: its first rank, and its number of ranks.
    of_hosts: Vec<(u32, u32)>,
    rings: Rings,
    /// Whether its windows know that all ranks are oversubscribed.
    oversubscribed: bool,
}

impl Model {
    /// A job with this placement of ranks. `oversubscribed`: all ranks share processors with others.
    #[must_use]
    pub fn new(placement: Placement, oversubscribed: bool) -> Self {
        let Placement { ranks, per_host } = placement;
        let hosts = (0..ranks).map(|rank| rank / per_host);
        Self::of_hosts(hosts.collect(), oversubscribed)
    }

    /// Collective. The job of this process, with the ranks of `world`.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn of_job(world: &Communicator) -> Result<Self> {
        let context = &world.team().context;
        let hosts = (0..world.size()).map(|rank| context.hosts().host_of(rank));
        let mine = u8::from(context.patience().is_oversubscribed());
        let of_all = world.allreduce(&[mine], Op::Min)?;
        Ok(Self::of_hosts(hosts.collect(), of_all == [1]))
    }

    /// `hosts`: the host of each rank, numbered in the order of appearance.
    fn of_hosts(hosts: Vec<u32>, oversubscribed: bool) -> Self {
        let mut of_hosts = Vec::new();
        for (rank, &host) in (0..).zip(&hosts) {
            if host as usize == of_hosts.len() {
                of_hosts.push((rank, 0));
            }
            of_hosts[host as usize].1 += 1;
        }
        let group = Group::world(hosts.len() as u32);
        let rings = Rings::new(&Hosts::of(hosts.iter().copied()), &group, 0);
        Self {
            hosts,
            of_hosts,
            rings,
            oversubscribed,
        }
    }

    /// Simulates a procedure that all ranks begin at the same time.
    #[must_use]
    pub fn run(&self, procedure: Procedure, costs: &Costs) -> Prediction {
        let mut simulation = Simulation::new(self, costs);
        match procedure {
            // Every collective of a communicator begins with this step, and a barrier has no other.
            Procedure::Barrier => simulation.barrier(false),
            Procedure::Allreduce(bytes) => simulation.allreduce(bytes),
            Procedure::Allgather(bytes) => simulation.allgather(bytes),
            Procedure::Dup => simulation.agree(8),
            Procedure::Split => {
                simulation.allgather(24);
                simulation.agree(8);
            }
            Procedure::Create => simulation.merge(window::CREATE_BYTES),
            Procedure::Fence | Procedure::Free => simulation.barrier(self.oversubscribed),
            Procedure::Pscw(neighbours) => simulation.pscw(neighbours),
            Procedure::LockAll(targets) => simulation.lock_all(targets),
        }
        simulation.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::HEADER;

    const COSTS: Costs = Costs {
        here: LinkCosts {
            latency: 100.0,
            overhead: 20.0,
            gap: 20.0,
            gap_per_byte: 0.1,
        },
        between: LinkCosts {
            latency: 1600.0,
            overhead: 200.0,
            gap: 200.0,
            gap_per_byte: 0.08,
        },
        sharing: None,
    };

    fn run(ranks: u32, per_host: u32, procedure: Procedure) -> Prediction {
        let placement = Placement { ranks, per_host };
        Model::new(placement, false).run(procedure, &COSTS)
    }

    #[test]
    fn between_hosts_a_barrier_is_a_logarithm_of_their_number() {
        for (hosts, rounds) in [(2, 1), (16, 4), (100, 7)] {
            for per_host in [1, 2, 64] {
                let found = run(hosts * per_host, per_host, Procedure::Barrier);
                assert_eq!(found.between_hosts(), u64::from(hosts * rounds));
                let between = f64::from(rounds) * (1600.0 + 2.0 * 200.0);
                let here = 2.0 * f64::from(per_host.ilog2()) * (100.0 + 3.0 * 20.0);
                assert!(
                    (between..=between + here).contains(&found.nanoseconds),
                    "{hosts} x {per_host}: {}",
                    found.nanoseconds
                );
            }
        }
    }

    #[test]
    fn an_allgather_brings_each_host_the_parts_of_others_once() {
        for (ranks, per_host) in [(5, 5), (16, 16), (6, 1), (12, 4), (11, 4), (96, 8)] {
            let found = run(ranks, per_host, Procedure::Allgather(1000));
            let one_host = per_host == ranks;
            let ways = found.traffic.iter().map(|sent| match one_host {
                true => sent.mapped,
                false => sent.device,
            });
            let bytes = ways.map(|way| way.bytes - way.messages * HEADER as u64);
            let hosts = (0..ranks).step_by(if one_host { 1 } else { per_host as usize });
            let of_others = hosts.map(|first| match one_host {
                true => ranks - 1,
                false => ranks - per_host.min(ranks - first),
            });
            let wanted: u32 = of_others.sum();
            assert_eq!(
                bytes.sum::<u64>(),
                u64::from(wanted) * 1000,
                "{ranks}, {per_host}"
            );
        }
    }

    #[test]
    fn neighbours_hear_of_neighbours_alone() {
        let (few, many) = (
            run(64, 8, Procedure::Pscw(2)),
            run(6400, 8, Procedure::Pscw(2)),
        );
        assert_eq!((few.most_sent(), many.most_sent()), (8, 8));
        assert_eq!(few.nanoseconds, many.nanoseconds);
    }

    #[test]
    fn an_oversubscribed_rank_that_waited_goes_on_after_all_others_of_its_host() {
        let time = |ranks, per_host, processors| {
            let sharing = Some(Sharing {
                processors,
                switch: 2000.0,
            });
            let costs = Costs { sharing, ..COSTS };
            let model = Model::new(Placement { ranks, per_host }, true);
            model.run(Procedure::Fence, &costs).nanoseconds
        };
        // Up and down two levels of a tree.
        assert!(time(64, 64, 2.0) > 4.0 * 32.0 * 2000.0);
        assert!(time(64, 64, 2.0) > 1.9 * time(64, 64, 4.0));
        assert_eq!(
            time(64, 16, 16.0),
            run(64, 16, Procedure::Fence).nanoseconds
        );
    }
}
