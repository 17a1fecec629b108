//! How the ranks of a Transom job are started, learn their numbers, and find each other. This crate does not know
//! windows.
//!
//! [`Bootstrap`] is the way in which ranks find each other: [`pmi`] and [`pmix`] ask the launcher that started them,
//! and [`rendezvous`] connects ranks that no launcher started together. [`start`] determines from the environment which
//! of them to use. Other programs that start ranks provide an [`Allgather`]. [`launcher`] is a launcher for this
//! machine: it serves its ranks PMI, and tells them through [`notice`] that one has died. [`oversubscription`] says
//! whether ranks share processors. Programs use this crate through `transom`, which re-exports `launcher`.

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
pub mod survivors;
mod sys;

pub use bootstrap::{Allgather, AllgatherError, Alone, Bootstrap};
pub use environment::EnvironmentError;
pub use sys::say;
