//! Code that Transom's test binaries share: the environment, which only this crate reads, the devices, ways to start
//! jobs, and the list of cases, of which a plain run takes a sample.

pub mod adapter;
pub mod devices;
pub mod environment;
pub mod extended;
pub mod fuzzing;
pub mod job;
pub mod launcher;
#[cfg(feature = "model")]
pub mod model;
pub mod ports;
pub mod processes;
pub mod programs;
pub mod random;
pub mod sample;
pub mod suite;
pub mod terminal;
