//! The base for other front ends of the library. Such a front end is for another language, or is part of another
//! communication library, and makes windows for its programs as the typed interface of this crate does.
//!
//! The untyped interface, [`raw`](crate::raw), is most of what a front end needs. This module is the rest. The typed
//! interface also uses no other internals of the crate:
//!
//! - **A job whose ranks another program started.** [`Job::over`](crate::Job::over) joins it, and learns this rank's
//!   number from an [`Allgather`]; [`Job::communicator`](crate::Job::communicator) makes a communicator of some of its
//!   ranks from another allgather, which then carries the creation of its windows;
//!   [`Job::on_abort`](crate::Job::on_abort) passes on an abort, and [`Job::finish`](crate::Job::finish) ends the job
//!   by a call; [`start_limits`] says how long to wait for its ranks, and [`several_ranks`] whether a launcher has
//!   started several.
//! - **Waiting.** [`Job::on_wait`](crate::Job::on_wait) makes every long wait call a hook, in which a host makes
//!   progress; [`Job::wait_until`](crate::Job::wait_until) and [`wait_on`] wait for any condition in the same way, and
//!   find dead ranks as other calls do. While a program waits in a host, threads of the host call
//!   [`serve_in_passing`], unless ranks share processors ([`Job::is_oversubscribed`](crate::Job::is_oversubscribed)).
//! - **Operations between [`Row`]s**, which need no datatype: [`put_row`] and the functions like it.
//! - **Memory that the device knows**: [`Memory`], and [`register`] for memory that exists.
//! - **Epochs of another shape**: a barrier of the window's ranks ([`synchronise`]), operations that are
//!   complete in an epoch of any kind ([`flush`], [`complete`], [`release`]), a look at the target
//!   ([`check_liveness`]), at the ranks' displacement units ([`other_unit`]) and at the job ([`in_job`], [`is_in_job`]), locks despite a hint ([`tolerate_locks`]), requests
//!   outside passive-target epochs ([`tolerate_any_epoch`]), an end whatever was
//!   forgotten ([`unlock_everything`], [`quiesce`], [`give_up`]), and a window's memory at its last moment
//!   ([`free_with`]), or attributes that somebody else keeps ([`try_free_after`]).
//! - **Quick calls**: [`at_once`] has the frequent case of each call, and says if there is more to do.
//! - **What collective calls send** to other ranks: [`count_traffic`], [`traffic`].
//! - **The log** on standard error: [`log_to_stderr`].
//! - **Errors**: [`error`] makes one; [`Error::class`](crate::Error::class) is MPI's.
//!
//! # Stability
//! None yet: everything in this module, and everything that it lists of other types, may change in any release, until
//! this section says otherwise. A front end must name the exact version for which it was made.
//!
//! # Example
//! A job of one rank, over a host without other ranks.
//!
//! ```
//! use transom::lower::{Allgather, AllgatherError};
//! use transom::raw::{Assert, Window};
//! use transom::{Info, Job, ThreadLevel};
//!
//! struct Host;
//!
//! // SAFETY: the one block is what the one rank passed.
//! unsafe impl Allgather for Host {
//!     fn rank(&self) -> u32 {
//!         0
//!     }
//!     fn size(&self) -> u32 {
//!         1
//!     }
//!     fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, AllgatherError> {
//!         Ok(vec![mine.to_vec()])
//!     }
//! }
//!
//! # fn main() -> transom::Result<()> {
//! let job = Job::over(&Host, ThreadLevel::Serialized)?;
//! job.on_wait(|| { /* the host makes progress */ });
//! let comm = job.communicator(job.world().group(), Host)?;
//! let window = Window::allocate(&comm, 64, 1, &Info::new())?;
//! window.fence(Assert::NONE)?;
//! window.fence(Assert::NO_SUCCEED)?;
//! window.free()?;
//! drop(comm);
//! job.finish()
//! # }
//! ```

pub mod at_once;
mod memory;
mod wait;
mod window;

pub use memory::{Memory, register};
pub use wait::wait_on;
pub use window::{
    check_liveness, complete, flush, give_up, in_job, is_concurrent, is_in_job, other_unit,
    release, synchronise, tolerate_any_epoch, tolerate_locks,
};

pub use crate::access::{accumulate_row, get_row, put_notify_row, put_row, rget_row, rput_row};
pub use crate::comm::Purpose;
pub use crate::datatype::Row;
pub use crate::diagnostics::{count_traffic, traffic};
pub use crate::sync::{check_groups, free_with, quiesce, try_free_after, unlock_everything};
pub use crate::terms::Aim;
pub use crate::window::{aligned_for, create_copied};
pub use rdma_sys_shim::serve_in_passing;
pub use transom_launch::start::several_ranks;
pub use transom_launch::{Allgather, AllgatherError};

use std::time::Duration;

use crate::diagnostics;
use crate::error::{Error, ErrorKind, Result};
use crate::peers;
use crate::window::{self as windows, Info};

/// Local. An error of the call `operation`.
///
/// ```
/// use transom::lower::error;
/// use transom::{ErrorClass, Misuse};
///
/// let error = error("MPI_Put", Misuse::RankOutOfRange { rank: 7, size: 4 });
/// assert_eq!(error.class(), ErrorClass::Rank);
/// assert!(error.to_string().starts_with("MPI_Put: rank 7"));
/// ```
#[must_use]
#[cold]
pub fn error(operation: &'static str, kind: impl Into<ErrorKind>) -> Error {
    Error::new(operation, kind)
}

/// Local. Whether a window accepts this value for this hint. It accepts any value for unknown keys.
#[must_use]
pub fn is_legal_hint(key: &str, value: &str) -> bool {
    check_hints(&Info::new().with(key, value)).is_ok()
}

/// Local. Checks that a window accepts these hints, as far as one rank can tell.
///
/// # Errors
/// A malformed hint.
pub fn check_hints(info: &Info) -> Result<()> {
    info.check()
}

/// Local. The known hint of which `key` may be a misspelling; `None` if `key` is known, or similar to no known hint. If
/// a window gets such a hint, the log has a warning.
#[must_use]
pub fn similar_hint(key: &str) -> Option<&'static str> {
    windows::similar_hint(key)
}

/// Local. Writes the library's log to standard error, one line at a time with time and rank. The level is that of
/// `TRANSOM_LOG` in the environment, or else `default`: `off`, `error`, `warn`, `info`, `debug`, `trace`, or a list
/// such as `info,rdma_sys_shim=debug`. Does nothing if this program already has a subscriber of `tracing`. Needs the
/// feature `log`. [`Job::init`](crate::Job::init) does the same if `TRANSOM_LOG` is set.
///
/// If the value in the environment is invalid, returns one line that says why, and warnings are logged.
#[must_use = "somebody ought to read it"]
pub fn log_to_stderr(default: &str) -> Option<String> {
    diagnostics::install(Some(default))
}

/// Local. Whether a variable of the environment is on (`1`, `true`, `yes`, `on`) or off (`0`, `false`, `no`, `off`);
/// `None` if it is unset or empty.
///
/// # Errors
/// Any other value; one line that says so.
pub fn switch(name: &str) -> std::result::Result<Option<bool>, String> {
    diagnostics::switch(name, &std::env::var_os(name).unwrap_or_default())
}

/// Local. How long ranks wait for each other before the job starts: the first is the time after which a warning is due,
/// the second the time after which it is an error. `None` stands for never. Both are read from the environment
/// (`TRANSOM_WAIT_WARNING`, `TRANSOM_START_TIMEOUT`).
///
/// # Errors
/// `TRANSOM_START_TIMEOUT` is not a number of seconds.
pub fn start_limits() -> Result<[Option<Duration>; 2]> {
    let limit = transom_launch::start::limit()?;
    Ok([diagnostics::wait_warning(), limit])
}

/// Local. Whether this process was forked from a rank. Then the job belongs to its parent, and all calls that would use
/// it fail.
#[must_use]
#[inline]
pub fn is_forked() -> bool {
    peers::is_forked()
}

/// Local. Returns an error of `operation` in a process that was forked from a rank.
///
/// # Errors
/// The process was forked.
#[inline]
pub fn not_forked(operation: &'static str) -> Result<()> {
    peers::not_forked(operation)
}
