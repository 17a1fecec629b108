//! PMI-1.1: how the ranks of a job learn who they are and find each other.

mod client;
mod environment;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod mapping;
mod server;
mod siblings;
#[cfg(test)]
mod tests;
mod wire;

pub use client::Client;
pub(crate) use environment::{Launcher, detect};
pub use error::PmiError;
pub(crate) use server::{Action, Server};

/// The prefix of the names of the key-value spaces of `transom run`.
pub(crate) const OUR_SPACE: &str = "transom-";
/// The key under which `transom run` publishes where its bootstrap segment is.
pub(crate) const NOTICE_KEY: &str = "transom-notice";

/// The key that `transom run` keeps from the time when `rank` finalizes until it joins again.
fn left_key(rank: u32) -> String {
    format!("transom-left-{rank}")
}
