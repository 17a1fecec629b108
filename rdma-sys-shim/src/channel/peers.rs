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
    /// A connection was reset: by the kernel of a process that has ended, or by the network. Whoever has its address asks.
    Reset,
}

impl Status {
    pub(crate) fn presence(&self) -> Presence {
        Self::of(self.0.load(Ordering::Acquire))
    }

    fn of(code: u8) -> Presence {
        match code {
            0 => Presence::Here,
            1 => Presence::Closed,
            2 => Presence::Gone,
            _ => Presence::Reset,
        }
    }

    /// Fails unless process `pid` on `host` runs, as [`Endpoint::liveness`](crate::Endpoint::liveness) does.
    pub(crate) fn liveness(&self, pid: u32, host: &Arc<str>) -> Result<()> {
        let host = || Some(host.clone());
        match self.presence() {
            Presence::Here | Presence::Reset => Ok(()),
            Presence::Closed => Err(Error::PeerClosed { pid, host: host() }),
            Presence::Gone => Err(Error::PeerGone { pid }),
        }
    }

    /// Changes the state, unless it is final: a process that has left or is gone stays so.
    pub(crate) fn becomes(&self, presence: Presence) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self.0.fetch_update(success, failure, |now| {
            let is_final = [Presence::Closed, Presence::Gone].contains(&Self::of(now));
            (!is_final).then_some(presence as u8)
        });
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
