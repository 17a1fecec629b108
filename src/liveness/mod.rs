//! Whether the other ranks are alive, and what happens when one is not.
//!
//! A rank that waits calls [`Context::check`] every [`LIVENESS_INTERVAL`] (`wait`, or [`Polls`] for callers that poll):
//! was the job aborted, and is the awaited rank alive? If the check fails, the wait tests once more whether the awaited
//! event has happened. Only then does it call `confirm` (`abort`), which writes the abort words of the ranks to which
//! it is connected and of others, which pass the cause on, and returns the error that names the rank at fault. Calls
//! that do not wait read this rank's own abort word ([`Context::check_aborted`]), and check their target at the same
//! interval (`unawaited`).
//!
//! A rank that gives up writes the abort words of all ranks to which it is connected, and of the ranks 1, 2, 4 and so
//! on ahead; if it is the first to know, those of all other ranks too. It takes at most two seconds for this, since a
//! stopped rank does not answer. A rank that finds its own word written passes the cause on in the same way, so all
//! ranks learn it eventually, however many are dead. The word changes from 0 by compare-and-swap, so the first cause
//! stays.
//!
//! Over a network, the end of a peer's TCP connection shows its death. If that connection was lost before, a check over
//! verbs posts a write of length zero and reads the peer's state word; both fail after all retries, and the error says
//! that the rank does not answer, since a broken link looks the same. A lock word does not name its shared holders:
//! each check of such a wait tests the next few ranks, for up to 2 ms.
//!
//! A rank that does not wait checks its target in `flush` and `unlock`, now and then. In these, the other flushes,
//! `sync`, `fence`, `post` and `start`, and when it completes a request, it also looks at some connected ranks. So a
//! loop of such calls ends even if no rank waits for the dead one. Of those others it asks none: one may be stopped. Put
//! and get check nothing.

mod abort;
mod check;
mod fate;
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
