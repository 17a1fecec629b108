//! The ranks of a job, each with a clock.

use std::collections::HashMap;

use super::transfer::Transfer;
use super::{Costs, LinkCosts, Model, Prediction};
use crate::diagnostics::{Sent, Traffic};

/// A procedure in progress.
pub(super) struct Simulation<'m> {
    pub(super) model: &'m Model,
    costs: &'m Costs,
    ranks: Vec<Rank>,
    traffic: Vec<Traffic>,
    /// By length, and whether both ranks are on one host.
    transfers: HashMap<(u64, bool), Transfer>,
}

#[derive(Clone, Copy, Default)]
struct Rank {
    clock: f64,
    /// The time at which its next message can be sent.
    free: f64,
}

impl<'m> Simulation<'m> {
    pub(super) fn new(model: &'m Model, costs: &'m Costs) -> Self {
        let ranks = model.hosts.len();
        Self {
            model,
            costs,
            ranks: vec![Rank::default(); ranks],
            traffic: vec![Traffic::default(); ranks],
            transfers: HashMap::new(),
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.model.hosts.len() as u32
    }

    fn host(&self, rank: u32) -> usize {
        self.model.hosts[rank as usize] as usize
    }

    /// The number of ranks on the host of `rank`.
    pub(super) fn ranks_beside(&self, rank: u32) -> u32 {
        self.model.of_hosts[self.host(rank)].1
    }

    fn share_host(&self, one: u32, other: u32) -> bool {
        self.host(one) == self.host(other)
    }

    pub(super) fn link(&self, from: u32, to: u32) -> &'m LinkCosts {
        match self.share_host(from, to) {
            true => &self.costs.here,
            false => &self.costs.between,
        }
    }

    /// A rank stores a word of another; returns when the other can see it.
    pub(super) fn flag(&mut self, from: u32, to: u32) -> f64 {
        let link = self.link(from, to);
        let way = self.way(from, to);
        way.add_flags(1);
        self.post(from, link)
    }

    /// A rank begins an operation on another; returns when it arrives.
    pub(super) fn post(&mut self, from: u32, link: &LinkCosts) -> f64 {
        let rank = &mut self.ranks[from as usize];
        let start = rank.clock.max(rank.free);
        rank.clock = start + link.overhead;
        rank.free = start + link.gap;
        rank.clock + link.latency
    }

    /// A rank waits until `arrived`, without further work then.
    pub(super) fn wait_until(&mut self, rank: u32, arrived: f64) {
        let delay = self.delay(rank);
        let clock = &mut self.ranks[rank as usize].clock;
        if arrived > *clock {
            *clock = arrived + delay;
        }
    }

    /// How long a rank waits for a processor.
    fn delay(&self, rank: u32) -> f64 {
        let ranks = f64::from(self.ranks_beside(rank));
        match self.costs.sharing {
            Some(sharing) if sharing.processors < ranks => {
                sharing.switch * ranks / sharing.processors
            }
            _ => 0.0,
        }
    }

    /// A rank waits for a message of another and takes it in.
    pub(super) fn hear(&mut self, rank: u32, from: u32, arrived: f64) {
        self.wait_until(rank, arrived);
        self.ranks[rank as usize].clock += self.link(from, rank).overhead;
    }

    /// A rank sends a message; returns when the receiver has all of it, if it takes it in at once. `clock`: the
    /// receiver's, before what it sends itself meanwhile.
    pub(super) fn message(&mut self, from: u32, to: u32, bytes: u64, clock: f64) -> f64 {
        let transfer = self.transfer(from, to, bytes);
        self.way(from, to).add_message(bytes);
        let rank = &mut self.ranks[from as usize];
        let mut start = rank.clock.max(rank.free);
        if transfer.needs_receiver {
            start = start.max(clock);
        }
        rank.clock = start + transfer.sender_time;
        rank.free = start + transfer.port_time;
        start + transfer.time
    }

    /// A rank waits for a message.
    pub(super) fn receive(&mut self, rank: u32, from: u32, bytes: u64, arrived: f64) {
        let transfer = self.transfer(from, rank, bytes);
        self.wait_until(rank, arrived - transfer.receiver_work);
        self.ranks[rank as usize].clock += transfer.receiver_work;
    }

    pub(super) fn clock(&self, rank: u32) -> f64 {
        self.ranks[rank as usize].clock
    }

    fn transfer(&mut self, from: u32, to: u32, bytes: u64) -> Transfer {
        let (link, is_here) = (self.link(from, to), self.share_host(from, to));
        let transfer = self.transfers.entry((bytes, is_here));
        *transfer.or_insert_with(|| Transfer::new(bytes, link))
    }

    fn way(&mut self, from: u32, to: u32) -> &mut Sent {
        let is_here = self.share_host(from, to);
        let traffic = &mut self.traffic[from as usize];
        match is_here {
            true => &mut traffic.mapped,
            false => &mut traffic.device,
        }
    }

    /// The time at which the last rank has finished.
    pub(super) fn end(self) -> Prediction {
        let last = self.ranks.iter().map(|rank| rank.clock);
        let nanoseconds = last.fold(0.0, f64::max);
        Prediction {
            nanoseconds,
            traffic: self.traffic,
        }
    }
}
