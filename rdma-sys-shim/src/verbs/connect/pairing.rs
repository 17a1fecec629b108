//! What this process knows of its connections, for the threads that make them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Queues;
use super::address::Address;
use super::message::Numbers;
use crate::channel::Status;
use crate::{Error, Result};

/// The pause before the device looks for a peer's address again.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// This process's ends of connections, for threads that ask and for the thread that answers.
pub(crate) struct Ends {
    pub(crate) own: Address,
    pub(crate) queues: Box<dyn Queues>,
    /// How long a peer may take to answer.
    pub(crate) timeout: Duration,
    pub(crate) pairings: Mutex<HashMap<u64, Arc<Pairing>>>,
}

impl Ends {
    /// The connection with the process whose device has this instance.
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
    /// The state of the peer, which the endpoint shares.
    pub(crate) status: Arc<Status>,
}

#[derive(Default)]
pub(crate) struct PairState {
    ours: Option<Numbers>,
    /// The peer's numbers, once our queue pair is ready to receive from it.
    theirs: Option<Numbers>,
    /// The peer's queue pair is ready to receive from ours: this process may send.
    pub(crate) is_heard: bool,
    /// Since when the device has not found the peer's address.
    unresolved: Option<Instant>,
    /// Why there will be no connection.
    pub(crate) broken: Option<Error>,
    /// Whether a thread of this process is asking the peer.
    pub(crate) asks: bool,
    /// The error of the last attempt to ask, if it failed.
    pub(crate) failure: Option<Error>,
    /// How often the peer has asked and was answered, without a further message.
    pub(crate) asked: u32,
}

impl Pairing {
    pub(crate) fn state(&self) -> MutexGuard<'_, PairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the waiting threads.
    pub(crate) fn note(&self, change: impl FnOnce(&mut PairState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until the condition is false, or the limit is over.
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
    /// The numbers of our queue pair for this peer, which is made if necessary.
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

    /// Makes our queue pair ready to receive from the one that the numbers name. False if the device has not found the
    /// peer's address yet: then this is to be called again, after [`PAUSE`].
    pub(crate) fn listen(&mut self, ends: &Ends, peer: &Address, theirs: &Numbers) -> Result<bool> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        match self.theirs {
            Some(known) if known == *theirs => return Ok(true),
            Some(known) => {
                return Err(peer.unreachable(&format!(
                    "its queue pair is {:#x} now and was {:#x} before",
                    theirs.qpn, known.qpn
                )));
            }
            None => {}
        }
        let Err(error) = ends.queues.bring_up(peer, theirs) else {
            self.theirs = Some(*theirs);
            return Ok(true);
        };
        if error.os_code() == Some(libc::ETIMEDOUT) {
            let is_first = self.unresolved.is_none();
            let since = *self.unresolved.get_or_insert_with(Instant::now);
            if is_first {
                tracing::info!(%error, host = peer.record.host, "trying again");
            }
            if since.elapsed() < ends.timeout {
                return Ok(false);
            }
        }
        self.broken = Some(error.clone());
        Err(error)
    }
}
