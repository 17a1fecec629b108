//! What a failed completion means, in words.

use std::ffi::CStr;

use ibverbs_sys::{self as ffi, ibv_wc_status as status};

use super::super::events::Fault;
use super::super::peer::Peer;
use crate::{Access, Direction, Error, Fetch, RemoteAddress};

/// The purpose of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
    FetchAdd,
    CompareSwap,
    Store,
    /// A write of no bytes, or a trailing read. Its answer shows that the peer's device works and has carried out
    /// everything before it.
    Probe,
}

impl From<Direction> for Operation {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Write => Self::Write,
            Direction::Read => Self::Read,
        }
    }
}

impl From<Fetch> for Operation {
    fn from(fetch: Fetch) -> Self {
        match fetch {
            Fetch::Add(_) => Self::FetchAdd,
            Fetch::CompareSwap { .. } => Self::CompareSwap,
        }
    }
}

impl Operation {
    /// The right that it needs at the target.
    pub(super) fn right(self) -> Access {
        match self {
            Self::Write | Self::Probe => Access::WRITE,
            Self::Store => Access::WRITE.and(Access::ATOMIC),
            Self::Read => Access::READ,
            Self::FetchAdd | Self::CompareSwap => Access::ATOMIC,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::Store => "store",
            Self::Probe => "probe",
        }
    }
}

/// The first failure of an endpoint. All later operations fail for the same reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The ticket of the failed request.
    pub(super) ticket: u64,
    pub(super) operation: Operation,
    pub(super) at: RemoteAddress,
    pub(super) len: u64,
    pub(super) status: status::Type,
    pub(super) vendor: u32,
    /// How many later requests were flushed because of it.
    pub(super) flushed: u64,
}

impl Failure {
    /// Whether the cause may be an event that the device reports separately: an error of this queue pair, or its port
    /// going down.
    pub(super) fn is_consequence(&self) -> bool {
        matches!(
            self.status,
            status::IBV_WC_WR_FLUSH_ERR | status::IBV_WC_LOC_QP_OP_ERR
        )
    }

    /// Whether the peer's device did not answer.
    pub(super) fn is_silence(&self) -> bool {
        self.status == status::IBV_WC_RETRY_EXC_ERR
    }

    /// The failure as an error of an operation on `peer`. `trouble` is a known fault of this process's own queue pair
    /// or port.
    pub(super) fn error(&self, peer: &Peer, trouble: Option<&Fault>) -> Error {
        let need = self.operation.name();
        let RemoteAddress { address, rkey } = self.at;
        let len = self.len;
        let port_failed = matches!(trouble, Some(Fault::Port(_)));
        match self.status {
            status::IBV_WC_REM_ACCESS_ERR => Error::RemoteAccess {
                need,
                address,
                len,
                pid: peer.pid,
                host: Some(peer.host.clone()),
                rkey,
                reason: "the target's device refused it: outside of the region, without the \
                         right, misaligned, or deregistered",
            },
            // If our own port failed, the peer is not the cause, and may still work.
            status::IBV_WC_RETRY_EXC_ERR | status::IBV_WC_RNR_RETRY_EXC_ERR if !port_failed => {
                Error::NoAnswer {
                    operation: need,
                    pid: peer.pid,
                    host: peer.host.clone(),
                    why: match trouble {
                        Some(fault) => fault.words(),
                        None if self.ticket == 1 => nothing_arrived_at(&peer.port).into(),
                        None => "it died, or the link between the hosts is down".into(),
                    },
                }
            }
            other => Error::Completion {
                operation: need,
                address,
                len,
                pid: peer.pid,
                host: peer.host.clone(),
                status: words(other),
                code: other,
                vendor: self.vendor,
                why: trouble.map(Fault::words),
                port_failed,
            },
        }
    }
}

fn nothing_arrived_at(port: &str) -> String {
    format!(
        "nothing has arrived at {port}; does the process still run, and does the network carry RDMA both ways (RoCE v2: UDP \
         port 4791)?"
    )
}

/// A completion status in words. The words are the library's own for reliable datagrams, memory windows and tag
/// matching, which are not used here.
fn words(code: status::Type) -> &'static str {
    match code {
        status::IBV_WC_LOC_LEN_ERR => "local length error: longer than the port can send",
        status::IBV_WC_LOC_QP_OP_ERR => "local queue pair operation error",
        status::IBV_WC_LOC_PROT_ERR => {
            "local protection error: the origin buffer is not registered, or not writable"
        }
        status::IBV_WC_WR_FLUSH_ERR => "flushed: the queue pair was stopped before",
        status::IBV_WC_BAD_RESP_ERR => "bad response: the target's device answered nonsense",
        status::IBV_WC_LOC_ACCESS_ERR => "local access error",
        status::IBV_WC_REM_INV_REQ_ERR => {
            "remote invalid request: the target's queue pair does not take it"
        }
        status::IBV_WC_RETRY_EXC_ERR => "no answer within all retries",
        status::IBV_WC_RNR_RETRY_EXC_ERR => "the target was not ready in any retry",
        status::IBV_WC_REM_OP_ERR => "remote operation error: the target's device failed",
        status::IBV_WC_REM_ABORT_ERR => "aborted by the target",
        status::IBV_WC_FATAL_ERR => "fatal error: the local device does not work any more",
        status::IBV_WC_RESP_TIMEOUT_ERR => "the answer did not come in time",
        status::IBV_WC_GENERAL_ERR => "general error: the device names no other",
        // SAFETY: the library has a constant string for every number.
        other => unsafe { CStr::from_ptr(ffi::ibv_wc_status_str(other)) }
            .to_str()
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: status::Type) -> String {
        failed(status, None).to_string()
    }

    fn failed(status: status::Type, trouble: Option<&Fault>) -> Error {
        let peer = Peer {
            pid: 77,
            host: "n1".into(),
            port: "rxe1, GID ::1".into(),
        };
        let failure = Failure {
            ticket: 1,
            operation: Operation::Read,
            at: RemoteAddress {
                address: 0x1000,
                rkey: 0x2a,
            },
            len: 9,
            status,
            vendor: 0,
            flushed: 0,
        };
        failure.error(&peer, trouble)
    }

    #[test]
    fn every_status_names_operation_peer_and_meaning() {
        for code in status::IBV_WC_LOC_LEN_ERR..=status::IBV_WC_TM_RNDV_INCOMPLETE {
            let text = error(code);
            assert!(text.contains("read"), "{text}");
            assert!(!text.contains("unknown"), "status {code}: {text}");
            let addressed = text.contains("0x1000") && text.contains("9 bytes");
            let named = text.contains("77") && text.contains("n1");
            assert!(addressed || named, "{text}");
        }
        assert!(error(status::IBV_WC_TM_RNDV_INCOMPLETE + 1).contains("unknown"));
        assert!(error(status::IBV_WC_REM_ACCESS_ERR).contains("0x2a"));
        let text = error(status::IBV_WC_RETRY_EXC_ERR);
        assert!(
            text.contains("no answer") && text.contains("arrived at rxe1, GID ::1"),
            "{text}"
        );
        for code in [status::IBV_WC_LOC_QP_OP_ERR, status::IBV_WC_RETRY_EXC_ERR] {
            let error = failed(
                code,
                Some(&Fault::Port("port 1 of rxe0 is down here".into())),
            );
            let text = error.to_string();
            assert!(text.contains("port 1 of rxe0 is down here"), "{text}");
            assert!(
                error.is_own_trouble() && error.absence().is_none(),
                "{text}"
            );
            let error = failed(
                code,
                Some(&Fault::Pair("the peer asked for too much".into())),
            );
            assert!(error.to_string().contains("the peer asked"), "{error}");
            assert!(!error.is_own_trouble(), "{error}");
        }
    }
}
