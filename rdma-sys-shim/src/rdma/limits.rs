//! What the verbs library says of a device's limits.

use std::fmt;

use crate::{AtomicDomain, Capabilities, TargetThread};

/// To what a device's atomics are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicScope {
    /// It has none.
    None,
    /// To atomics through the same device.
    Device,
    /// To those, and to the processor's.
    Global,
}

impl AtomicScope {
    /// What a device can do whose atomics are of this scope.
    pub(crate) fn capabilities(self, max_message: u64) -> Capabilities {
        Capabilities {
            atomic_domain: match self {
                Self::Global => AtomicDomain::Global,
                Self::None | Self::Device => AtomicDomain::Device,
            },
            narrow_atomics: false,
            max_message,
            target_thread: TargetThread::Never,
            pins_memory: true,
        }
    }
}

impl fmt::Display for AtomicScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Device => "device",
            Self::Global => "global",
        })
    }
}

/// The limits of a verbs device, and of the port that the rule chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsLimits {
    /// To what its atomics are atomic.
    pub atomic_scope: AtomicScope,
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
