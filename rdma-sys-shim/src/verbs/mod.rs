//! The verbs provider: InfiniBand, RoCE and soft-RoCE devices through libibverbs.

mod adapter;
mod connect;
mod device;
mod endpoint;
mod events;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod limits;
mod memory;
mod objects;
mod peer;
mod port;
mod rings;
mod self_test;
mod settings;
mod terms;

pub(crate) use device::VerbsDevice;
pub(crate) use limits::{has_atomics, limits};
