//! What the verbs library says of a device's limits.

use crate::{AtomicDomain, Capabilities, TargetThread};

/// What a device can do whose atomics are of this domain.
pub(crate) fn capabilities(atomic_domain: AtomicDomain, max_message: u64) -> Capabilities {
    Capabilities {
        atomic_domain,
        narrow_atomics: false,
        max_message,
        target_thread: TargetThread::Never,
        pins_memory: true,
    }
}

/// The limits of a verbs device, and of the port that the rule chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsLimits {
    /// To what its atomics are atomic; `None` if it has none.
    pub atomic_scope: Option<AtomicDomain>,
    /// Bytes that a work request can carry in itself.
    pub max_inline: u32,
    /// The longest message in bytes.
    pub max_message: u64,
    /// Queue pairs.
    pub max_qp: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Reads and atomics that a queue pair can have under way at the target.
    pub max_qp_rd_atom: u32,
    /// Bytes of payload of a packet.
    pub active_mtu: u32,
}
