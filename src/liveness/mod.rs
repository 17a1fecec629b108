//! Whether the other ranks are alive, and what happens when one is not.
//!
//! A rank that waits calls [`Context::check`] every [`LIVENESS_INTERVAL`] (`wait`, or [`Polls`] for callers that poll):
//! was the job aborted, and is the awaited rank alive? If the check fails, the wait tests once more whether the awaited
//! event has happened. Only then does it call `confirm` (`abort`), which writes the abort words of the ranks to which
//! it is connected and of others, which pass the cause on, and returns the error that names the rank at fault. Calls
//! that do not wait read this rank's own abort word ([`Context::check_aborted`]), and check their target at the same
//! interval (`unawaited`).

mod abort;
mod check;
mod long_wait;
mod polls;
mod unawaited;

pub(crate) use check::Awaited;
pub(crate) use polls::Polls;
pub(crate) use unawaited::Checks;

#[cfg(doc)]
use crate::peers::Context;
#[cfg(doc)]
use rdma_sys_shim::LIVENESS_INTERVAL;
