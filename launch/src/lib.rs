//! How the ranks of a Transom job are started, learn who they are, and find each other. What they then do
//! with each other's memory is not known here.
//!
//! How ranks find each other is a [`Bootstrap`]: [`pmi`] and [`pmix`] ask the launcher that started them, and
//! [`rendezvous`] has ranks meet that nobody started together. [`start`] finds out from the environment which of these
//! joins the job. Whoever else starts ranks lends them an [`Allgather`]. [`launcher`] is a launcher for this machine,
//! which speaks PMI with its ranks, and tells them by [`notice`] that one has died. [`oversubscription`] says whether ranks share
//! processors. Programs use this crate through `transom`, whose `launcher` is this one.

mod bootstrap;
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

pub use bootstrap::{Allgather, AllgatherError, Alone, Bootstrap};
pub use environment::EnvironmentError;
pub use sys::say;
