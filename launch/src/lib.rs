//! How the ranks of a Transom job are started, learn their numbers, and find each other. This crate does not know
//! windows.
//!
//! How ranks find each other is a [`Bootstrap`]: [`pmi`] and [`pmix`] ask the launcher that started them, and
//! [`rendezvous`] connects ranks that no launcher started together. [`start`] finds out from the environment which of
//! these joins the job. Other programs that start ranks provide an [`Allgather`]. [`launcher`] is a launcher for this
//! machine, which speaks PMI with its ranks, and tells them by [`notice`] that one has died. [`oversubscription`] says
//! whether ranks share processors. Programs use this crate through `transom`, whose `launcher` is this one.

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
