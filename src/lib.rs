//! One-sided communication over RDMA: ranks of a parallel job expose windows of memory, and
//! other ranks put, get and accumulate into them directly.

mod error;
mod job;

pub use error::{
    AbortCause, EpochState, Error, ErrorClass, ErrorKind, Misuse, PeerError, Result, SystemError,
};
pub use job::{PmiError, launcher};
