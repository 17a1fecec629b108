//! Who this rank's peers were when the job started: for finding those that live after a death.

use std::sync::Arc;

use transom_launch::survivors::SurvivorSocket;

/// The ranks of a job, as those of the job that started.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) socket: Arc<SurvivorSocket>,
    /// How many agreements about who goes on came before.
    pub(crate) round: u32,
    /// In ascending order.
    ranks: Members,
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
        }
    }

    /// Those who go on after this round.
    pub(crate) fn after(&self, round: u32, ranks: &[u32]) -> Self {
        Self {
            socket: self.socket.clone(),
            round: round + 1,
            ranks: Members::Some(ranks.into()),
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
