//! PMI-1.1: how the ranks of a job learn who they are and find each other.

mod client;
mod environment;
mod error;
mod mapping;
mod server;
#[cfg(test)]
mod tests;
mod wire;

#[allow(unused_imports, reason = "the job uses them")]
pub(crate) use client::Client;
pub use error::PmiError;
#[allow(unused_imports, reason = "the job uses them")]
pub(crate) use mapping::NodeMap;
pub(crate) use server::{Action, Server};
