//! PMI-1.1: how the ranks of a job learn who they are and find each other.

mod error;

pub use error::PmiError;
