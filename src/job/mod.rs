//! Who am I: rank, size, and the way to the other ranks.

pub mod launcher;
mod pmi;

pub use pmi::PmiError;
