//! What a flush of a target has to complete: operations that the device may still be carrying out, and
//! stores that a later load may overtake. Any thread of a rank records its operations here, and any
//! thread may flush: what one thread has completed is complete for all threads.

use bytemuck::Zeroable;
use rdma_sys_shim::Ticket;
use rdma_sys_shim::memory::TOTAL_STORE_ORDER;

use crate::error::Result;
use crate::memory::word::{SharedFlag, SharedWord};

/// The last operation that was posted and is not known to be complete; 0 for none.
///
/// If a thread finds none, another thread's flush may have completed it. So a thread forgets an operation only after
/// its completion, and a thread that finds none sees the effects of completed operations, including fetched bytes.
#[derive(Zeroable)]
#[repr(transparent)]
pub(crate) struct LastPosted<W>(W);

impl<W: SharedWord> LastPosted<W> {
    pub(crate) fn note(&self, ticket: Ticket) {
        self.0.raise(ticket.0);
    }

    #[inline]
    pub(crate) fn last(&self) -> Ticket {
        Ticket(self.0.observe())
    }

    /// The operation that `last` named is complete, and so are all earlier ones. Another thread may have posted one
    /// since.
    pub(crate) fn forget(&self, completed: Ticket) {
        self.0.clear_if(completed.0);
    }

    /// Calls `wait` for the last operation, if there is one.
    pub(crate) fn complete(&self, wait: impl FnOnce(Ticket) -> Result<()>) -> Result<()> {
        let last = self.last();
        if last != Ticket::DONE {
            wait(last)?;
            self.forget(last);
        }
        Ok(())
    }
}

/// Whether something was stored since the last flush, which a later load of this rank could overtake.
///
/// A flag is useful only where loads may overtake stores and nothing else is reordered (`IN_ORDER`). There, a thread
/// sees its own flag cleared only after the flag and everything before it have left the processor's store buffer, so it
/// does not matter which thread cleared it. On other processors, a flag does not imply that earlier stores are visible,
/// and loads overtake loads too: after a get of a flag, data that another rank put before the flag might be missing. So
/// every flush there is a full fence.
#[derive(Zeroable)]
#[repr(transparent)]
pub(crate) struct Stored<M, const IN_ORDER: bool = TOTAL_STORE_ORDER>(M);

impl<M: SharedFlag, const IN_ORDER: bool> Stored<M, IN_ORDER> {
    #[inline(always)]
    pub(crate) fn note(&self) {
        if IN_ORDER {
            self.0.set();
        }
    }

    /// All stores so far precede this thread's later loads, by other means.
    #[inline(always)]
    pub(crate) fn forget(&self) {
        if IN_ORDER {
            self.0.clear();
        }
    }

    /// Makes all stores and loads so far precede this thread's later loads.
    #[inline(always)]
    pub(crate) fn flush(&self, full_fence: impl FnOnce()) {
        if !IN_ORDER {
            full_fence();
        } else if self.0.is_set() {
            self.0.clear();
            full_fence();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_model;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn what_is_complete_is_forgotten_and_nothing_later() {
        let posted = LastPosted::<AtomicU64>::zeroed();
        assert_eq!(posted.last(), Ticket::DONE);
        posted.note(Ticket(3));
        let first = posted.last();
        posted.note(Ticket(5));
        posted.note(Ticket(4));
        posted.forget(first);
        assert_eq!(posted.last(), Ticket(5));
        posted.forget(Ticket(5));
        assert_eq!(posted.last(), Ticket::DONE);
        posted.forget(Ticket::DONE);
        posted.note(Ticket(6));
        assert_eq!(posted.last(), Ticket(6));
    }
}
