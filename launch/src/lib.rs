//! How the ranks of a Transom job are started, learn who they are, and find each other. What they then do
//! with each other's memory is not known here.
//!
//! [`launcher`] starts a job on this machine, and [`pmi`] is how a rank speaks to that launcher or
//! another, or [`pmix`] to those that offer nothing else. Ranks that nobody started together meet at a
//! [`rendezvous`]. [`start`] finds out from the environment which it is; whoever else starts ranks lends
//! them an [`Allgather`]. A rank that has joined learns by [`oversubscription`] whether it shares its processors, and
//! by [`notice`] that another has died. Programs use this crate through `transom`, whose `launcher` is this
//! one.

mod allgather;
mod environment;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod launcher;
pub mod notice;
pub mod oversubscription;
pub mod pmi;
pub mod pmix;
mod processors;
pub mod rendezvous;
pub mod start;
mod sys;

pub use allgather::{Allgather, AllgatherError};
pub use environment::EnvironmentError;
pub use sys::say;
