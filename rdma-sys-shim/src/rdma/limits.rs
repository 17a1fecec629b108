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

/// What an adapter locks for the queues of a connection that has room for so many send requests, in bytes. It is
/// computed as the driver of mlx5 does for requests that carry 220 bytes inline, and is about as much on others.
#[must_use]
pub fn queue_bytes(send_requests: u32) -> u64 {
    const REQUEST: u64 = 448;
    const COMPLETION: u64 = 64;
    const PAGE: u64 = 4096;
    let send_requests = u64::from(send_requests);
    let queue = (REQUEST * send_requests).next_power_of_two();
    // One completion more, for what is received.
    let completions = COMPLETION * (send_requests + 1).next_power_of_two();
    let doorbell = PAGE;
    queue.next_multiple_of(PAGE) + completions.next_multiple_of(PAGE) + doorbell
}

/// Send requests that a connection has room for, where the environment does not say.
pub const SEND_QUEUE: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_lock_whole_pages_of_a_power_of_two() {
        assert_eq!(queue_bytes(SEND_QUEUE), 164 << 10);
        assert_eq!(queue_bytes(64), 44 << 10);
        assert_eq!(queue_bytes(1), 12 << 10);
    }
}
