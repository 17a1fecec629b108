//! What is known of the processes that this one has connections with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// The state of a peer's process, shared by both sides of its connections.
#[derive(Debug, Default)]
pub(crate) struct Status(AtomicU8);

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    /// It has closed its device in good order.
    Closed,
    /// A connection has ended without a farewell.
    Gone,
}

impl Status {
    pub(crate) fn presence(&self) -> Presence {
        match self.0.load(Ordering::Acquire) {
            0 => Presence::Here,
            1 => Presence::Closed,
            _ => Presence::Gone,
        }
    }

    /// Fails unless process `pid` on `host` runs, as [`Endpoint::liveness`](crate::Endpoint::liveness) does.
    pub(crate) fn liveness(&self, pid: u32, host: &Arc<str>) -> Result<()> {
        let host = || Some(host.clone());
        match self.presence() {
            Presence::Here => Ok(()),
            Presence::Closed => Err(Error::PeerClosed { pid, host: host() }),
            Presence::Gone => Err(Error::PeerGone { pid }),
        }
    }

    /// Changes the state. Only the first change counts.
    pub(crate) fn becomes(&self, presence: Presence) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self
            .0
            .compare_exchange(Presence::Here as u8, presence as u8, success, failure);
    }
}

/// The peers by the instance of their device.
#[derive(Default)]
pub(crate) struct KnownPeers(Mutex<HashMap<u64, Arc<Status>>>);

impl KnownPeers {
    /// The same status for all connections with a process, in either direction.
    pub(crate) fn status(&self, instance: u64) -> Arc<Status> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(instance).or_default().clone()
    }
}
