//! What the program's threads see of the connector: they ask its thread, and wait.

use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::address::{Address, PeerId};
use super::datagram::Datagrams;
use super::protocol::{Counters, Protocol};
use super::service::Service;
use super::shared::{Order, Shared};
use super::{Queues, Timing};
use crate::signals::without_signals;
use crate::verbs::adapter::Adapter;
use crate::verbs::events::EventSource;
use crate::{Error, Result};

const STACK_BYTES: usize = 128 << 10;

/// Beyond the limit of a goodbye, for the thread to come to it.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Connector {
    own: Arc<Address>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Connector {
    /// Opens the queue pair for requests, whose number completes `own`, and starts the thread that
    /// answers there.
    ///
    /// # Errors
    /// The device or the system refuses.
    pub(crate) fn start(
        adapter: &Adapter,
        mut own: Address,
        queues: impl Queues + 'static,
        timing: Timing,
        watch: Option<EventSource>,
    ) -> Result<Self> {
        let datagrams = Datagrams::open(adapter, &mut own)?;
        let own = Arc::new(own);
        let shared = Arc::new(Shared::new()?);
        let protocol = Protocol::new(own.clone(), timing, queues);
        let service = Service::new(shared.clone(), protocol, datagrams, watch);
        let thread = without_signals(|| {
            thread::Builder::new()
                .name("transom-connect".into())
                .stack_size(STACK_BYTES)
                .spawn(move || service.run())
        });
        let thread = thread.map_err(|error| Error::os("starting the connection thread", error))?;
        Ok(Self {
            own,
            shared,
            thread: Some(thread),
        })
    }

    /// What this process publishes.
    pub(crate) fn address(&self) -> &Arc<Address> {
        &self.own
    }

    /// Returns when both queue pairs are connected and this side may send. The process itself is
    /// a legal peer.
    ///
    /// # Errors
    /// The peer cannot be reached, refuses, has left, or is silent for longer than the limit.
    pub(crate) fn connect(&self, peer: &Arc<Address>) -> Result<()> {
        let id = peer.instance;
        let mut state = self.shared.state();
        if state.connected.contains(&id) {
            return Ok(());
        }
        if !state.attempts.contains_key(&id) {
            state.orders.push_back(Order::Connect(peer.clone()));
            self.shared.bell.ring();
        }
        state.attempts.entry(id).or_default().waiters += 1;
        let mut state = self.shared.wait_while(state, |state| {
            let attempt = state.attempts.get(&id);
            attempt.is_some_and(|attempt| attempt.outcome.is_none()) && !state.stopped
        });
        let outcome = state.take_outcome(id);
        drop(state);
        outcome.map_err(|failure| failure.into_error(peer))
    }

    /// Does not wait for this peer's answer to a goodbye: the connection to it has failed.
    pub(crate) fn abandon(&self, peer: PeerId) {
        self.shared.state().orders.push_back(Order::Abandon(peer));
        self.shared.bell.ring();
    }

    /// Tells all peers that were in touch that this process leaves, and waits until they have
    /// heard it, but no longer than about `limit`. Requests are still answered where there is a
    /// connection; new ones are refused.
    pub(crate) fn close(&self, limit: Duration) {
        let end = Instant::now() + limit + GRACE;
        let mut state = self.shared.state();
        state.orders.push_back(Order::Leave(limit));
        self.shared.bell.ring();
        while !state.has_left && !state.stopped {
            let Some(rest) = end.checked_duration_since(Instant::now()) else {
                return;
            };
            let woken = self.shared.changed.wait_timeout(state, rest);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What had passed when the thread last woke.
    pub(super) fn counters(&self) -> Counters {
        self.shared.state().counters
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        tracing::debug!(counters = ?self.counters(), "stopped connecting");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Connector {
        /// Begins to connect, for a later [`Connector::connect`] to find it done.
        pub(in crate::verbs::connect) fn begin(&self, peer: &Arc<Address>) {
            let mut state = self.shared.state();
            let id = peer.instance;
            if !state.connected.contains(&id) && !state.attempts.contains_key(&id) {
                state.orders.push_back(Order::Connect(peer.clone()));
                self.shared.bell.ring();
            }
        }
    }
}
