//! Whether the other ranks live, and what happens when one does not.
//!
//! A rank that waits calls [`Context::check`] every [`LIVENESS_INTERVAL`] (`wait`, or [`Polls`] where it is asked
//! again and again): was the job aborted, and does the awaited rank run? If not, the wait tests once more
//! whether what it awaits has happened. Only then does it call `confirm` (`abort`), which writes the abort words of the
//! ranks that it is connected to and of others, who pass it on, and returns the error that names the rank at fault. Calls
//! that wait for nothing read this rank's own abort word ([`Context::check_aborted`]), and look at their target at the same
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
