//! Who this rank's peers were when the job started: for finding those that live after a death.

use std::sync::{Arc, Weak};

use transom_launch::survivors::SurvivorSocket;

use super::Context;

/// The ranks of a job, as those of the job that started.
#[derive(Clone)]
pub(crate) struct Membership {
    pub(crate) socket: Arc<SurvivorSocket>,
    /// How many agreements about who goes on came before.
    pub(crate) round: u32,
    /// In ascending order.
    ranks: Members,
    /// The job that started, if this is another one.
    first: Option<Weak<Context>>,
}

#[derive(Clone, Debug)]
enum Members {
    All(u32),
    Some(Arc<[u32]>),
}

impl Membership {
    /// All ranks of a job that starts.
    pub(super) fn first(socket: SurvivorSocket, size: u32) -> Self {
        Self {
            socket: Arc::new(socket),
            round: 0,
            ranks: Members::All(size),
            first: None,
        }
    }

    /// Those who go on after this round. `first`: the job that started.
    pub(crate) fn after(&self, round: u32, ranks: &[u32], first: &Arc<Context>) -> Self {
        Self {
            socket: self.socket.clone(),
            round: round + 1,
            ranks: Members::Some(ranks.into()),
            first: Some(Arc::downgrade(first)),
        }
    }

    /// The job that started, if `own` is another one and it has not ended for this rank. Its device stays open until
    /// this rank leaves, so that its end is seen there.
    pub(crate) fn first_job(&self, own: &Arc<Context>) -> Option<Arc<Context>> {
        match &self.first {
            Some(first) => first.upgrade(),
            None => Some(own.clone()),
        }
    }

    /// Their ranks when the job started.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        match &self.ranks {
            Members::All(size) => (0..*size).collect(),
            Members::Some(ranks) => ranks.to_vec(),
        }
    }
}
