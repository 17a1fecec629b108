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
/// the mlx5 driver, for requests with 220 inline bytes, and is about as much on other adapters.
#[must_use]
pub fn queue_bytes(send_requests: u32) -> u64 {
    const REQUEST: u64 = 448;
    const COMPLETION: u64 = 64;
    const PAGE: u64 = 4096;
    let send_requests = u64::from(send_requests);
    let queue = (REQUEST * send_requests).next_power_of_two();
    // One more completion, for receiving.
    let completions = COMPLETION * (send_requests + 1).next_power_of_two();
    let doorbell = PAGE;
    queue.next_multiple_of(PAGE) + completions.next_multiple_of(PAGE) + doorbell
}

/// The default number of send requests of a connection.
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
