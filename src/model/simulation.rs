//! The ranks of a job, each with a clock.

use std::collections::HashMap;

use super::transfer::Transfer;
use super::{Costs, LinkCosts, Model, Prediction};
use crate::diagnostics::{Sent, Traffic};

/// A procedure under way.
pub(super) struct Simulation<'m> {
    pub(super) model: &'m Model,
    costs: &'m Costs,
    ranks: Vec<Rank>,
    traffic: Vec<Traffic>,
    /// By length, of one host and between two.
    transfers: HashMap<(u64, bool), Transfer>,
}

#[derive(Clone, Copy, Default)]
struct Rank {
    clock: f64,
    /// When its next message can go.
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

    /// How many ranks the host of one has.
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

    /// A rank stores a word of another: when that can see it.
    pub(super) fn flag(&mut self, from: u32, to: u32) -> f64 {
        let link = self.link(from, to);
        let way = self.way(from, to);
        way.add_flags(1);
        self.post(from, link)
    }

    /// A rank begins an operation on another: when it is there.
    pub(super) fn post(&mut self, from: u32, link: &LinkCosts) -> f64 {
        let rank = &mut self.ranks[from as usize];
        let start = rank.clock.max(rank.free);
        rank.clock = start + link.overhead;
        rank.free = start + link.gap;
        rank.clock + link.latency
    }

    /// A rank waits until `arrived`, without anything to do then.
    pub(super) fn wait_until(&mut self, rank: u32, arrived: f64) {
        let delay = self.delay(rank);
        let clock = &mut self.ranks[rank as usize].clock;
        if arrived > *clock {
            *clock = arrived + delay;
        }
    }

    /// What a rank waits for a processor.
    fn delay(&self, rank: u32) -> f64 {
        let ranks = f64::from(self.ranks_beside(rank));
        match self.costs.sharing {
            Some(sharing) if sharing.processors < ranks => {
                sharing.switch * ranks / sharing.processors
            }
            _ => 0.0,
        }
    }

    /// A rank waits for what another has sent, and takes it in.
    pub(super) fn hear(&mut self, rank: u32, from: u32, arrived: f64) {
        self.wait_until(rank, arrived);
        self.ranks[rank as usize].clock += self.link(from, rank).overhead;
    }

    /// A rank sends a message; returns when the receiver has all of it, if that takes it in at once. `clock`: the receiver's,
    /// before what it sends itself meanwhile.
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

    /// When the last rank is through.
    pub(super) fn end(self) -> Prediction {
        let last = self.ranks.iter().map(|rank| rank.clock);
        let nanoseconds = last.fold(0.0, f64::max);
        Prediction {
            nanoseconds,
            traffic: self.traffic,
        }
    }
}
