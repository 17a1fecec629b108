//! Reliable connections, made when first needed, by either side or both at once.
//!
//! The processes exchange the numbers of their queue pairs by TCP ([`crate::channel`]). The process that needs a peer
//! first dials it, makes its queue pair, and sends a request with its numbers ([`Connector::connect`]). The peer's
//! agent makes its own queue pair, connects it (RTR, RTS), and answers with its numbers ([`answering`]). Then the
//! requesting process connects its own queue pair, and says so. From then on, both may send.
//!
//! A queue pair's numbers never change, so if two processes ask each other at once, the result is the same. The TCP
//! connection stays open, and shows at once that a process leaves or has died.
//!
//! Locks: the one of a [`Pairing`](pairing::Pairing) is held while [`Queues`] is called, and never while a thread waits
//! for a peer.
//!
//! If the TCP connection ends without the message that the process leaves, the process has died. So it has if the
//! connection is reset in the first seconds after it was made: the process may have died before it read the last
//! message. A later reset, or silence, proves nothing, since TCP may use another network than RDMA; from then on only
//! the RDMA network can show that the peer is gone.

mod address;
mod answering;
mod connector;
mod message;
mod pairing;
#[cfg(test)]
mod tests;

pub(crate) use address::Address;
pub(crate) use connector::Connector;
#[cfg(any(test, fuzzing))]
pub(crate) use message::Message;
pub(crate) use message::Numbers;
#[cfg(test)]
pub(crate) use message::tests::messages;

use std::sync::Arc;

use crate::Result;
use crate::channel::Status;

pub(crate) const DEVICE: &str = "verbs";
const OPERATION: &str = "connecting queue pairs by TCP";

/// Makes and connects the queue pairs: at most one per peer, for good.
///
/// The process itself is a peer, too: `bring_up` then gets the numbers that `create` returned. The implementor chooses
/// whether one queue pair is connected to itself or to a second one.
pub(crate) trait Queues: Send + Sync {
    /// Makes the queue pair for `peer`, in the state INIT. After it has succeeded, it is not called again for this
    /// peer. `status` then tells the peer's state.
    ///
    /// # Errors
    /// Out of queue pairs or memory. The next request tries again.
    fn create(&self, peer: &Address, status: &Arc<Status>) -> Result<Numbers>;

    /// Connects it to the peer's queue pair: INIT to RTR to RTS. Then it answers. It may send once
    /// [`Connector::connect`] returns. It is not called again after it has succeeded.
    ///
    /// # Errors
    /// The device refuses. After ETIMEDOUT, it is called again for some time: the device has not found the peer's
    /// address. After other errors, the connection has failed for good.
    fn bring_up(&self, peer: &Address, theirs: &Numbers) -> Result<()>;
}
