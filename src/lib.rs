//! One-sided communication over RDMA: ranks of a parallel job expose windows of memory, and
//! other ranks put, get and accumulate into them directly.
//!
//! This process takes part in a [`Job`]. A [`Communicator`] contains ranks of the job, and a [`Window`]
//! consists of memory on all of them. Accesses are made in epochs. [`Window::fence`] opens and closes an epoch
//! on all ranks together. In [`Window::passive`], each rank locks any rank at any time, and the locked rank
//! need not call the library.
//!
//! ```
//! use transom::{Job, LockKind, Result, Window};
//!
//! # fn main() -> Result<()> {
//! let job = Job::init()?;
//! let world = job.world();
//! let (rank, size) = (world.rank(), world.size());
//!
//! // Eight elements on every rank.
//! let mut window = Window::<u64>::allocate(world, 8)?;
//! let mine = [u64::from(rank); 2];
//! window.fence(|epoch| epoch.target((rank + 1) % size)?.put(6, &mine))?;
//! let left = u64::from((rank + size - 1) % size);
//! assert_eq!(window.local()?[4..], [0, 0, left, left]);
//!
//! // A counter on rank 0.
//! window.passive(|epoch| {
//!     let lock = epoch.lock(0, LockKind::Shared)?;
//!     lock.fetch_add(0, 1)?;
//!     lock.unlock()
//! })?;
//! if rank == 0 {
//!     assert_eq!(window.local()?[0], u64::from(size));
//! }
//! window.free()
//! # }
//! ```
//!
//! The same program is a job of one rank if it is started by itself. It is a job of eight ranks under
//! `transom run -n 8`, `mpiexec.hydra -n 8` or Open MPI's `mpirun -n 8`, or if eight processes are told where
//! to meet ([`Job::init`]). A process can join only one job, once.
//!
//! The closures of epochs prevent buffers in flight from being accessed or freed: the buffer of an
//! operation is borrowed until the end of the epoch. For buffers that are made inside the closure,
//! there are operations that complete before they return, and requests that return their buffer
//! ([`Target`]). [`Window::fence`] and similar calls return what the closure returns, or the error
//! of the epoch. A value that holds its window needs an [`OwnedWindow`].
//!
//! [`raw`] is the untyped interface below, with MPI's semantics and all checks at run time. [`lower`] is what
//! other front ends need in addition.

mod access;
mod comm;
mod datatype;
#[doc(hidden)]
pub mod devices;
mod diagnostics;
mod error;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod job;
mod liveness;
pub mod lower;
mod memory;
#[doc(hidden)]
pub mod model;
mod peers;
pub mod raw;
mod survivors;
mod sync;
mod terms;
mod typed;
mod wait;
mod window;

pub use comm::{Communicator, Comparison, Grid, Group, IntoRank, IntoTarget, block};
pub use datatype::{Accumulate, Atomic, BasicType, Complex, Element, Op, Reduce, ValueIndex};
pub use diagnostics::{Accesses, OperationKind, Sent, Statistics, TargetKind, Traffic, Waits};
pub use error::{
    AbortCause, DatatypeMisuse, EpochState, Error, ErrorClass, ErrorKind, Misuse, PeerError,
    Result, SystemError,
};
pub use job::Job;
pub use rdma_sys_shim::{Usage, Via};
pub use survivors::Survivors;
pub use terms::{LockKind, ThreadLevel};
pub use transom_launch::rendezvous::{Fault as RendezvousFault, RendezvousError};
pub use transom_launch::{
    EnvironmentError, launcher, pmi::PmiError, pmix::PmixError, start::StartError,
};
pub use typed::{
    Active, AllTargets, Batch, Block2d, Buffer, Epoch, Exchange, Loads, Lock, LockAll,
    LockedTarget, OwnedWindow, Passive, Region, Registered, Request, Session, Strided, Target,
    Window,
};
pub use window::Info;

/// The program in README.md is compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    #[cfg(loom)]
    pub(crate) mod waiting_model;
}
