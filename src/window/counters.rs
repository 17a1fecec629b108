//! Windows that count. Counting is not on a fast path. In a window that counts, only the
//! [`Route`](super::target::Route) knows that targets' memory is mapped. So every operation reaches
//! [`OnTarget::place`], where operations are counted. Its locks take the slow path (`locks_aside`), it visits
//! all targets when it completes operations (`device_used`), and each flush and unlock takes its slow path
//! (`counts`). A window that does not count makes no additional test.

use std::sync::Arc;

use rdma_sys_shim::Via;

use super::target::Route;
use super::{OnTarget, Window};
use crate::diagnostics::{Counters, InCall, OperationKind, Statistics, TargetKind, TracedEpoch};
use crate::terms::Aim;

impl Window {
    /// Local. What this rank did in this window so far, if the window counts: that has to be asked for
    /// when it is made, by the hint `transom_statistics`, or for all windows by `TRANSOM_REPORT` or
    /// `TRANSOM_TRACE` in the environment. Counting costs each operation some tens of nanoseconds; a
    /// window that does not count costs nothing more.
    ///
    /// Ranks count by themselves, and need not agree on it. Not in MPI.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.counters.as_ref().map(|counters| counters.statistics())
    }

    /// What this thread waits for while the guard lives belongs to this call.
    #[inline]
    pub(crate) fn in_call(&self, aim: Aim) -> CallGuard {
        let Aim { operation, rank } = aim;
        let counters = self.counters.as_ref();
        CallGuard(counters.map(|counters| enter(counters, operation, Some(rank), false)))
    }

    /// As [`Window::in_call`], for a call that stands in the trace, on `target` or on all.
    #[inline]
    pub(crate) fn in_shown_call(&self, operation: &'static str, target: Option<u32>) -> CallGuard {
        let counters = self.counters.as_ref();
        CallGuard(counters.map(|counters| enter(counters, operation, target, true)))
    }

    /// Notes what happened, where the window counts.
    #[inline]
    pub(crate) fn count_by(&self, note: impl FnOnce(&Counters)) {
        if let Some(counters) = &self.counters {
            note(counters);
        }
    }
}

/// Kept during a call of a window. In a window that does not count, it is only a null pointer to test.
pub(crate) struct CallGuard(Option<Box<InCall>>);

impl Drop for CallGuard {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            leave(call);
        }
    }
}

#[cold]
#[inline(never)]
fn leave(call: Box<InCall>) {
    drop(call);
}

#[cold]
fn enter(
    counters: &Arc<Counters>,
    operation: &'static str,
    target: Option<u32>,
    shown: bool,
) -> Box<InCall> {
    Box::new(InCall::enter(operation, target, Some(counters), shown))
}

impl OnTarget<'_> {
    /// An operation that was found a way.
    #[inline]
    pub(crate) fn count(self, kind: OperationKind, via: impl FnOnce() -> Via, bytes: u64) {
        if let Some(counters) = &self.window.counters {
            let target = match self.aim.rank == self.window.rank() {
                true => TargetKind::Own,
                false => TargetKind::Other,
            };
            counters.count(kind, target, via(), bytes);
        }
    }

    /// The end of a flush or of an unlock, where these look up.
    pub(crate) fn count_call(self) {
        let Some(counters) = &self.window.counters else {
            return;
        };
        let Aim { operation, rank } = self.aim;
        match operation {
            "flush" | "flush_local" => counters.flushed(operation, rank),
            "unlock" => counters.end_epoch(TracedEpoch::Lock(rank)),
            _ => {}
        }
    }
}

impl Route {
    /// The way of what goes through the endpoint.
    pub(crate) fn via(&self, atomics: bool) -> Via {
        self.endpoint.via(atomics)
    }
}
