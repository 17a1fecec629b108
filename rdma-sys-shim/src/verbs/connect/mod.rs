//! Reliable connections, made when first needed, by either side or both at once.
//!
//! Every process publishes one unreliable-datagram queue pair ([`Address`]). A thread that sleeps
//! on its completion channel ([`Connector`]) sends requests, answers those of others, also while
//! the program computes, and repeats itself until it has been heard. What is said when is decided
//! by [`protocol`], which knows neither clocks nor devices; the device's part, making and
//! connecting queue pairs, is behind [`Queues`].
//!
//! Locks: the thread calls [`Queues`] without holding one of its own. A thread that waits in
//! [`Connector::connect`] or [`Connector::close`] must hold none that [`Queues`] takes.

mod address;
mod bell;
mod connector;
mod datagram;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod message;
mod peer;
mod protocol;
mod retry;
mod service;
mod shared;
#[cfg(test)]
mod tests;
mod timing;
mod wire;

use std::sync::Arc;

pub(crate) use address::{Address, PeerId};
pub(crate) use connector::Connector;
pub(crate) use message::Numbers;
pub(crate) use timing::Timing;

use crate::Result;

pub(crate) const DEVICE: &str = "verbs";

/// Who makes and connects the queue pairs: one per peer, ever. Called by the connector's thread
/// alone, which answers nobody meanwhile.
///
/// The process itself is a peer too: `bring_up` is then given the numbers that `create` returned.
/// Whether one queue pair is connected to itself or a second one to it is the implementor's choice.
pub(crate) trait Queues: Send {
    /// Makes the queue pair for `peer`, in the state INIT. Not called again for this peer after
    /// it has succeeded.
    ///
    /// # Errors
    /// Out of queue pairs or memory. It will be tried again at the next request.
    fn create(&mut self, peer: &Arc<Address>) -> Result<Numbers>;

    /// Connects it to the peer's queue pair: INIT to RTR to RTS. From here on it answers; it may
    /// send once [`Connector::connect`] says so. Called once.
    ///
    /// # Errors
    /// The device refuses. The connection has failed for good.
    fn bring_up(&mut self, peer: &Arc<Address>, theirs: &Numbers) -> Result<()>;

    /// The peer has closed its device in good order, and may be gone by now. Called once at most,
    /// and only for peers with a queue pair.
    fn peer_closed(&mut self, peer: PeerId);
}
