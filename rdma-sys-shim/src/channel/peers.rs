//! What is known of the processes that this one has connections with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// What is known of a peer's process, to both sides of its connections.
#[derive(Debug, Default)]
pub(crate) struct Status(AtomicU8);

/// What a process has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    /// It has closed its device in good order.
    Closed,
    /// A connection has ended without that.
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

    /// As an endpoint says it, of process `pid` on `host`.
    pub(crate) fn liveness(&self, pid: u32, host: &Arc<str>) -> Result<()> {
        let host = || Some(host.clone());
        match self.presence() {
            Presence::Here => Ok(()),
            Presence::Closed => Err(Error::PeerClosed { pid, host: host() }),
            Presence::Gone => Err(Error::PeerGone { pid }),
        }
    }

    /// The first counts.
    pub(crate) fn becomes(&self, presence: Presence) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self
            .0
            .compare_exchange(Presence::Here as u8, presence as u8, success, failure);
    }
}

/// By the instance of their device.
#[derive(Default)]
pub(crate) struct KnownPeers(Mutex<HashMap<u64, Arc<Status>>>);

impl KnownPeers {
    /// The same for all connections with a process, of either direction.
    pub(crate) fn status(&self, instance: u64) -> Arc<Status> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(instance).or_default().clone()
    }
}
