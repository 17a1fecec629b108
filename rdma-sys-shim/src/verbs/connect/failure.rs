//! Why there is no connection.

use std::time::Duration;

use super::DEVICE;
use super::address::Address;
use crate::Error;
use crate::error::IfKnown;
use crate::rdma::Gid;

/// Why a peer cannot be reached. Kept and told to everyone who asks, hence the words in place of
/// the device's own error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectFailure {
    #[error("{0}")]
    Obstacle(String),
    /// This side's device refused.
    #[error("{0}")]
    Here(String),
    #[error("the other side refused: {0}")]
    There(String),
    #[error("it has closed the device")]
    Left,
    #[error(
        "no answer within {} s{} to {sent} connection requests from {from} here to queue pair \
         {qpn:#x} of {} at {}{}; does the process still run, is its port up, and does the network \
         carry datagrams (RoCE v2: UDP port 4791) both ways? TRANSOM_CONNECT_TIMEOUT=SECONDS lets it take longer",
        .limit.as_secs_f64(), After(*.put_off), .device, Place(.gid, *.lid),
        IfKnown(" (the last one could not be sent: ", .trouble, ")")
    )]
    Silence {
        limit: Duration,
        sent: u32,
        /// It has said that it was busy.
        put_off: bool,
        /// This side's device.
        from: String,
        qpn: u32,
        device: String,
        gid: Option<Gid>,
        lid: u16,
        /// Why the last request could not be sent, if it could not.
        trouble: Option<String>,
    },
    #[error("this process has dropped the device")]
    Stopped,
}

impl ConnectFailure {
    pub(crate) fn into_error(self, peer: &Address) -> Error {
        match self {
            Self::Left => Error::PeerClosed {
                pid: peer.pid,
                host: peer.host.as_str().into(),
            },
            silence @ Self::Silence { .. } => Error::NoAnswer {
                operation: "connect",
                pid: peer.pid,
                host: peer.host.as_str().into(),
                why: silence.to_string().into(),
            },
            failure => Error::Unreachable {
                device: DEVICE,
                pid: peer.pid,
                reason: format!("on host {}: {failure}", peer.host),
            },
        }
    }
}

struct After(bool);

impl std::fmt::Display for After {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            true => " after it last said that it was busy with those of others",
            false => "",
        })
    }
}

struct Place<'a>(&'a Option<Gid>, u16);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gid = self.0.map(|gid| format!("GID {gid}"));
        let lid = (self.1 != 0).then(|| format!("LID {}", self.1));
        let places: Vec<_> = gid.into_iter().chain(lid).collect();
        f.write_str(&places.join(", "))
    }
}
