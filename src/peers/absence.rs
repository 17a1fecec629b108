//! Why a rank cannot be reached: the device's "process is gone" as an error that names the rank.

use rdma_sys_shim::Absence;
use rdma_sys_shim::Error::PeerClosed;

use super::context::Context;
use super::control_header::STATE_LEFT;
use super::fabric::Fabric;
use crate::error::{Error, PeerError};

impl Context {
    /// Names the rank in a device's error "process is gone", or in its refusal because the rank has
    /// withdrawn all its memory.
    pub(crate) fn name_absent(&self, rank: u32, error: Error) -> Error {
        let cause = match error.absence() {
            Some((pid, how)) => self.cause_of_absence(rank, pid, how, &error),
            None if error.is_remote_access() && self.has_withdrawn(rank) => {
                PeerError::Left { rank }
            }
            None => return error,
        };
        Error::new(error.operation(), cause)
    }

    /// Whether the rank, once connected, has said that it left, or no longer exposes its control
    /// region.
    fn has_withdrawn(&self, rank: u32) -> bool {
        let Some(peer) = self.known(rank) else {
            return false;
        };
        match peer.state.load() {
            Ok(state) => state == STATE_LEFT,
            Err(error) => peer.state.is_refused(&error),
        }
    }

    fn cause_of_absence(&self, rank: u32, pid: u32, how: Absence, error: &Error) -> PeerError {
        let said_so = |fabric: &Fabric| {
            fabric.known(rank).is_some_and(|peer| {
                let closed = matches!(peer.endpoint().liveness(), Err(PeerClosed { .. }));
                closed || peer.state.load().is_ok_and(|state| state == STATE_LEFT)
            })
        };
        let said_so = || said_so(&self.fabric) || self.host().is_some_and(|host| said_so(&host));
        match how {
            Absence::Closed => PeerError::Left { rank },
            Absence::Gone | Absence::Replaced if said_so() => PeerError::Left { rank },
            Absence::Gone | Absence::Replaced => match self.launcher_knows_left(rank) {
                Some(true) => PeerError::Left { rank },
                None if self.known(rank).is_none() => PeerError::Gone { rank, pid },
                _ if how == Absence::Replaced => PeerError::Replaced { rank, pid },
                _ => PeerError::Died {
                    rank,
                    pid,
                    host: self.known(rank).and_then(|peer| peer.endpoint().host()),
                },
            },
            Absence::Silent => PeerError::Silent {
                rank,
                reason: error.kind().to_string(),
            },
        }
    }
}
