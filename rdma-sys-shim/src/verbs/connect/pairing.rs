//! What this process knows of its connections, for the threads that make them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Queues;
use super::address::Address;
use super::message::Numbers;
use crate::channel::Status;
use crate::{Error, Result};

/// This process's ends of connections, for those that ask and the one that answers.
pub(crate) struct Ends {
    pub(crate) own: Address,
    pub(crate) queues: Box<dyn Queues>,
    /// How long a peer may take to answer.
    pub(crate) timeout: Duration,
    pub(crate) pairings: Mutex<HashMap<u64, Arc<Pairing>>>,
}

impl Ends {
    /// What is known of the connection with the process whose device has this instance.
    pub(crate) fn pairing(&self, instance: u64) -> Arc<Pairing> {
        let mut all = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(instance).or_default().clone()
    }
}

/// The connection to one peer.
#[derive(Default)]
pub(crate) struct Pairing {
    state: Mutex<PairState>,
    changed: Condvar,
    /// What the peer has come to, which the endpoint knows, too.
    pub(crate) status: Arc<Status>,
}

#[derive(Default)]
pub(crate) struct PairState {
    ours: Option<Numbers>,
    /// Known, and ours listens to it.
    theirs: Option<Numbers>,
    /// Theirs listens to ours: this process may send.
    pub(crate) is_heard: bool,
    /// Why there will be no connection.
    pub(crate) broken: Option<Error>,
    /// A thread of this process asks the peer.
    pub(crate) asks: bool,
    /// What became of the last time that one did.
    pub(crate) failure: Option<Error>,
    /// So many times the peer has asked, was answered, and has not said more.
    pub(crate) asked: u32,
}

impl Pairing {
    pub(crate) fn state(&self) -> MutexGuard<'_, PairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has those who wait look again.
    pub(crate) fn note(&self, change: impl FnOnce(&mut PairState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until the condition is no longer so, or the limit is over.
    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, PairState>,
        limit: Duration,
        mut condition: impl FnMut(&PairState) -> bool,
    ) -> MutexGuard<'a, PairState> {
        let changed = &self.changed;
        let woken = changed.wait_timeout_while(state, limit, |state| condition(state));
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl PairState {
    /// The numbers of our queue pair, which is made if need be, for the peer of this status.
    pub(crate) fn numbers(
        &mut self,
        queues: &dyn Queues,
        peer: &Address,
        status: &Arc<Status>,
    ) -> Result<Numbers> {
        if let Some(numbers) = self.ours {
            return Ok(numbers);
        }
        let numbers = queues.create(peer, status)?;
        self.ours = Some(numbers);
        Ok(numbers)
    }

    /// Has our queue pair listen to the one that the numbers name.
    pub(crate) fn listen(
        &mut self,
        queues: &dyn Queues,
        peer: &Address,
        theirs: &Numbers,
    ) -> Result<()> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        match self.theirs {
            Some(known) if known == *theirs => Ok(()),
            Some(known) => Err(peer.unreachable(&format!(
                "its queue pair is {:#x} now and was {:#x} before",
                theirs.qpn, known.qpn
            ))),
            None => match queues.bring_up(peer, theirs) {
                Ok(()) => {
                    self.theirs = Some(*theirs);
                    Ok(())
                }
                Err(error) => {
                    self.broken = Some(error.clone());
                    Err(error)
                }
            },
        }
    }
}
