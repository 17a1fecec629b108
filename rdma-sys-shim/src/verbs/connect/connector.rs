//! What the program's threads see of the connector: they ask its thread, and wait.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::address::{Address, PeerId};
use super::bell::Bell;
use super::datagram::Datagrams;
use super::failure::ConnectFailure;
use super::protocol::{Counters, Protocol};
use super::service::{EventSource, Service};
use super::{Queues, Timing};
use crate::signals::without_signals;
use crate::verbs::adapter::Adapter;
use crate::{Error, Result};

const STACK_BYTES: usize = 128 << 10;

/// Beyond the limit of a goodbye, for the thread to come to it.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Connector {
    own: Arc<Address>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the connector's thread and those who wait for it have in common.
pub(super) struct Shared {
    shared: Mutex<Shared>,
    changed: Condvar,
    pub(super) bell: Bell,
}

/// Held for a few instructions only, and never while anything is called.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) orders: VecDeque<Order>,
    pub(super) connected: HashSet<PeerId>,
    /// Those under way that somebody waits for.
    pub(super) attempts: HashMap<PeerId, Attempt>,
    pub(super) has_left: bool,
    pub(super) counters: Counters,
    /// The thread is to end, or has ended.
    pub(super) stopped: bool,
}

#[derive(Default)]
pub(super) struct Attempt {
    waiters: u32,
    pub(super) outcome: Option<std::result::Result<(), ConnectFailure>>,
}

pub(super) enum Order {
    Connect(Arc<Address>),
    Abandon(PeerId),
    Leave(Duration),
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
        let shared = Arc::new(Shared {
            shared: Mutex::default(),
            changed: Condvar::new(),
            bell: Bell::new()?,
        });
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
        let mut shared = self.shared.shared();
        if shared.connected.contains(&id) {
            return Ok(());
        }
        if !shared.attempts.contains_key(&id) {
            shared.orders.push_back(Order::Connect(peer.clone()));
            self.shared.bell.ring();
        }
        shared.attempts.entry(id).or_default().waiters += 1;
        let mut shared = self.shared.wait_while(shared, |shared| {
            let attempt = shared.attempts.get(&id);
            attempt.is_some_and(|attempt| attempt.outcome.is_none()) && !shared.stopped
        });
        let outcome = shared.take_outcome(id);
        drop(shared);
        outcome.map_err(|failure| failure.into_error(peer))
    }

    /// Begins to connect, for a later [`Connector::connect`] to find it done.
    #[cfg(test)]
    pub(super) fn begin(&self, peer: &Arc<Address>) {
        let mut shared = self.shared.shared();
        let id = peer.instance;
        if !shared.connected.contains(&id) && !shared.attempts.contains_key(&id) {
            shared.orders.push_back(Order::Connect(peer.clone()));
            self.shared.bell.ring();
        }
    }

    /// Does not wait for this peer's answer to a goodbye: the connection to it has failed.
    pub(crate) fn abandon(&self, peer: PeerId) {
        self.shared.shared().orders.push_back(Order::Abandon(peer));
        self.shared.bell.ring();
    }

    /// Tells all peers that were in touch that this process leaves, and waits until they have
    /// heard it, but no longer than about `limit`. Requests are still answered where there is a
    /// connection; new ones are refused.
    pub(crate) fn close(&self, limit: Duration) {
        let end = Instant::now() + limit + GRACE;
        let mut shared = self.shared.shared();
        shared.orders.push_back(Order::Leave(limit));
        self.shared.bell.ring();
        while !shared.has_left && !shared.stopped {
            let Some(rest) = end.checked_duration_since(Instant::now()) else {
                return;
            };
            let woken = self.shared.changed.wait_timeout(shared, rest);
            shared = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What had passed when the thread last woke.
    pub(super) fn counters(&self) -> Counters {
        self.shared.shared().counters
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        self.shared.shared().stopped = true;
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        tracing::debug!(counters = ?self.counters(), "stopped connecting");
    }
}

impl Shared {
    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    fn wait_while<'a>(
        &self,
        shared: MutexGuard<'a, Shared>,
        condition: impl FnMut(&mut Shared) -> bool,
    ) -> MutexGuard<'a, Shared> {
        let woken = self.changed.wait_while(shared, condition);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// What became of the attempt that the caller waits for; the last one takes it away.
    fn take_outcome(&mut self, id: PeerId) -> std::result::Result<(), ConnectFailure> {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return Err(ConnectFailure::Stopped);
        };
        let outcome = attempt.outcome.clone();
        attempt.waiters -= 1;
        if attempt.waiters == 0 {
            self.attempts.remove(&id);
        }
        outcome.unwrap_or(Err(ConnectFailure::Stopped))
    }
}
