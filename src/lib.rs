//! One-sided communication over RDMA: ranks of a parallel job expose windows of memory, and
//! other ranks put, get and accumulate into them directly.

mod access;
mod comm;
mod datatype;
mod error;
mod job;
mod memory;
pub mod raw;
mod sync;
mod wait;
mod window;

pub use comm::{Communicator, Group};
pub use datatype::{Accumulate, Atomic, BasicType, Element, Op, Reduce};
pub use error::{
    AbortCause, EpochState, Error, ErrorClass, ErrorKind, Misuse, PeerError, Result, SystemError,
};
pub use job::{Job, PmiError, ThreadLevel, launcher};
pub use sync::LockKind;
pub use window::Info;
