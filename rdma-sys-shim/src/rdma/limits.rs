//! What the verbs library says of a device's limits.

use crate::{AtomicDomain, Capabilities, TargetThread};

/// The capabilities of a device with this atomic domain.
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
    /// The unit to which its atomics are atomic; `None` if it has none.
    pub atomic_scope: Option<AtomicDomain>,
    /// Inline bytes in a work request.
    pub max_inline: u32,
    /// The longest message in bytes.
    pub max_message: u64,
    /// Queue pairs.
    pub max_qp: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// The most reads and atomics of a queue pair under way at the target.
    pub max_qp_rd_atom: u32,
    /// Payload bytes of a packet.
    pub active_mtu: u32,
}

/// The bytes that an adapter locks for the queues of a connection with this many send requests. It is computed as in
/// the mlx5 driver, for requests with 188 inline bytes, and is about as much on other adapters.
#[must_use]
pub fn queue_bytes(send_requests: u32) -> u64 {
    const REQUEST: u64 = 384;
    const COMPLETION: u64 = 64;
    const PAGE: u64 = 4096;
    let send_requests = u64::from(send_requests);
    // The receive queue is behind it.
    let queue = (REQUEST * send_requests).next_power_of_two() + 64;
    // One more completion for receiving, and one that the driver does not use.
    let completions = COMPLETION * (send_requests + 2).next_power_of_two();
    // Many queues share a page of doorbells.
    let doorbells = 2 * 64;
    queue.next_multiple_of(PAGE) + completions.next_multiple_of(PAGE) + doorbells
}

/// The default number of send requests of a connection: they fit into 32 KiB, and their completions into 8 KiB.
pub const SEND_QUEUE: u32 = 85;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_lock_whole_pages_of_a_power_of_two() {
        let queues = |send_requests| queue_bytes(send_requests) - 128;
        assert_eq!(queues(SEND_QUEUE), 44 << 10);
        assert_eq!(queues(86), 76 << 10);
        assert_eq!(queues(42), 24 << 10);
        assert_eq!(queues(1), 8 << 10);
    }
}
