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
    /// Local. The operations of this rank in this window so far, if the window counts them. Counting has to be
    /// requested when the window is made, by the hint `transom_statistics`, or for all windows by `TRANSOM_REPORT` or
    /// `TRANSOM_TRACE` in the environment. It costs some tens of nanoseconds for each operation; a window that does not
    /// count costs nothing.
    ///
    /// Each rank decides by itself whether it counts. Not in MPI.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.counters.as_ref().map(|counters| counters.statistics())
    }

    /// Waits of this thread belong to this call while the guard lives.
    #[inline]
    pub(crate) fn in_call(&self, aim: Aim) -> CallGuard {
        let Aim { operation, rank } = aim;
        let counters = self.counters.as_ref();
        CallGuard(counters.map(|counters| enter(counters, operation, Some(rank), false)))
    }

    /// As [`Window::in_call`], for a call that the trace shows, on `target` or on all targets.
    #[inline]
    pub(crate) fn in_shown_call(&self, operation: &'static str, target: Option<u32>) -> CallGuard {
        let counters = self.counters.as_ref();
        CallGuard(counters.map(|counters| enter(counters, operation, target, true)))
    }

    /// Calls `note` if the window counts.
    #[inline]
    pub(crate) fn count_by(&self, note: impl FnOnce(&Counters)) {
        if let Some(counters) = &self.counters {
            note(counters);
        }
    }
}

/// Kept during a call of a window. If the window does not count, the only cost is a test of a null pointer.
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
    /// Counts an operation whose path is known.
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

    /// Counts the end of a flush or an unlock, in calls that check liveness.
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
    /// The path of operations that go through the endpoint.
    pub(crate) fn via(&self, atomics: bool) -> Via {
        self.endpoint.via(atomics)
    }
}
