//! Connections by TCP between the processes of a job, for providers that need them.
//!
//! Each process has a thread, the [`ChannelAgent`]. It listens, requires each process that connects to prove that it
//! knows the key of this process's [`Record`], and serves it by a provider's [`Serve`]. An origin finds a target with
//! [`dial()`].
//!
//! A process that leaves says so on each connection, in both directions. If a connection ends without this message, the
//! process is gone. If it is reset instead, whoever has an endpoint to the process dials it again: a process that does
//! not prove itself any more is gone.

mod agent;
mod bind;
mod call_bell;
mod dial;
mod interfaces;
mod lending;
mod listen;
mod peers;
mod place;
mod record;
mod socket;
mod stream;

pub(crate) use agent::{ChannelAgent, Next, Serve};
pub(crate) use dial::{Dialling, Redialled, dial, redial};
#[cfg(any(test, fuzzing))]
pub(crate) use interfaces::Network;
pub(crate) use interfaces::{Interface, all, named_interface, published, why_none};
pub(crate) use listen::{Opened, open};
pub(crate) use peers::{KnownPeers, Presence, Status};
#[cfg(any(test, fuzzing))]
pub(crate) use place::Namespace;
pub use place::NetworkPlace;
pub(crate) use record::Record;
#[cfg(all(test, feature = "verbs"))]
pub(crate) use record::tests::record as longest_record;
#[cfg(any(test, fuzzing))]
pub(crate) use record::{KEY, MAGIC};
#[cfg(any(test, fuzzing))]
pub(crate) use socket::OwnDescriptor;
pub(crate) use socket::Stream;
#[cfg(feature = "verbs")]
pub(crate) use stream::Until;
pub(crate) use stream::{Moved, SILENCE, Silence, receive, receive_to, send, send_parts};
#[cfg(test)]
pub(crate) use stream::{Side, prepare};
