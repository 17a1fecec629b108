//! PMI-1.1: how the ranks of a job learn who they are and find each other.

#[expect(dead_code, reason = "the job will join through it")]
mod client;
mod environment;
mod error;
#[cfg_attr(not(test), expect(dead_code, reason = "the job will ask for it"))]
mod mapping;
mod server;
#[cfg(test)]
mod tests;
mod wire;

#[cfg_attr(
    not(test),
    expect(unused_imports, reason = "the job will join through it")
)]
pub(crate) use client::Client;
pub use error::PmiError;
#[expect(unused_imports, reason = "the job will ask for it")]
pub(crate) use mapping::NodeMap;
pub(crate) use server::{Action, Server};
