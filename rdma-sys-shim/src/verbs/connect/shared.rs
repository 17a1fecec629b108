//! What the connector's thread and those who wait for it have in common.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::address::{Address, PeerId};
use super::bell::Bell;
use super::failure::ConnectFailure;
use super::protocol::Counters;
use crate::Result;

/// What the connector's thread and those who wait for it have in common.
pub(super) struct Shared {
    state: Mutex<ConnectState>,
    pub(super) changed: Condvar,
    pub(super) bell: Bell,
}

/// Held for a few instructions only, and never while anything is called.
#[derive(Default)]
pub(super) struct ConnectState {
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
    pub(super) waiters: u32,
    pub(super) outcome: Option<std::result::Result<(), ConnectFailure>>,
}

pub(super) enum Order {
    Connect(Arc<Address>),
    Abandon(PeerId),
    Leave(Duration),
}

impl Shared {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            bell: Bell::new()?,
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConnectState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    pub(super) fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, ConnectState>,
        condition: impl FnMut(&mut ConnectState) -> bool,
    ) -> MutexGuard<'a, ConnectState> {
        let woken = self.changed.wait_while(state, condition);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectState {
    /// What became of the attempt that the caller waits for; the last one takes it away.
    pub(super) fn take_outcome(&mut self, id: PeerId) -> std::result::Result<(), ConnectFailure> {
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
