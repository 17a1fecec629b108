//! Who am I: rank, size, and the way to the other ranks.

mod pmi;

pub use pmi::PmiError;
