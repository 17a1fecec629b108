//! PMI-1.1: how the ranks of a job learn who they are and find each other.

mod client;
mod environment;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod hosts;
mod mapping;
mod server;
mod siblings;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

pub use client::Client;
pub(crate) use environment::{Launcher, detect};
pub use error::PmiError;
pub use hosts::exchange_hosts;
pub use mapping::NodeMap;
pub(crate) use server::{Action, Server, left_key};
