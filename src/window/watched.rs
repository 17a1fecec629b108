//! Windows that count. Nothing of it is on a fast path: a watched window maps its targets' memory as far as
//! [`Route`](super::target::Route) knows, but no target finds it, so that every operation comes to
//! [`OnTarget::place`], where operations are counted. Its locks are taken aside
//! ([`Window::locks_aside`]), it looks at all targets when it completes operations (`device_used`), and each
//! flush and unlock looks up (`counts`). What is not watched makes no other test than it would anyway.

use std::sync::Arc;

use rdma_sys_shim::Via;

use super::target::Route;
use super::{OnTarget, Window};
use crate::seen::{InCall, OperationKind, Statistics, TargetKind, Watch, WatchedEpoch};
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
        self.watch().map(|watch| watch.statistics())
    }

    /// Where it counts.
    #[inline]
    pub(crate) fn watch(&self) -> Option<&Arc<Watch>> {
        self.watch.as_ref()
    }

    /// Whether locks are not for the fast path: there are none, they are seen, or ranks take turns.
    #[inline]
    pub(crate) fn locks_aside(&self) -> bool {
        self.locks_aside
    }

    /// What this thread waits for while the guard lives belongs to this call.
    #[inline]
    pub(crate) fn in_call(&self, aim: Aim) -> CallSeen {
        let Aim { operation, rank } = aim;
        let watch = self.watch();
        CallSeen(watch.map(|watch| enter(watch, operation, Some(rank), false)))
    }

    /// As [`Window::in_call`], for a call that stands in the trace, on `target` or on all.
    #[inline]
    pub(crate) fn in_shown_call(&self, operation: &'static str, target: Option<u32>) -> CallSeen {
        let watch = self.watch();
        CallSeen(watch.map(|watch| enter(watch, operation, target, true)))
    }

    #[inline]
    pub(crate) fn epoch_begun(&self, epoch: WatchedEpoch) {
        if let Some(watch) = self.watch() {
            watch.begin_epoch(epoch);
        }
    }

    #[inline]
    pub(crate) fn epoch_ended(&self, epoch: WatchedEpoch) {
        if let Some(watch) = self.watch() {
            watch.end_epoch(epoch);
        }
    }

    /// A fence has ended one epoch, and begun another if `succeed`.
    #[inline]
    pub(crate) fn fence_seen(&self, succeed: bool) {
        if let Some(watch) = self.watch() {
            fence_seen(watch, succeed);
        }
    }

    /// A flush of all targets.
    pub(crate) fn flush_seen(&self) {
        if let Some(watch) = self.watch() {
            watch.count_flush();
        }
    }
}

/// Kept during a call of a window. Of one that is not watched, it is but a null to look at.
pub(crate) struct CallSeen(Option<Box<InCall>>);

impl Drop for CallSeen {
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
    watch: &Arc<Watch>,
    operation: &'static str,
    target: Option<u32>,
    shown: bool,
) -> Box<InCall> {
    Box::new(InCall::enter(operation, target, Some(watch), shown))
}

#[cold]
fn fence_seen(watch: &Watch, succeed: bool) {
    watch.end_epoch(WatchedEpoch::Fence);
    if succeed {
        watch.begin_epoch(WatchedEpoch::Fence);
    }
}

impl OnTarget<'_> {
    /// An operation that was found a way.
    #[inline]
    pub(crate) fn count(self, kind: OperationKind, via: impl FnOnce() -> Via, bytes: u64) {
        if let Some(watch) = self.window.watch() {
            let target = match self.aim.rank == self.window.rank() {
                true => TargetKind::Own,
                false => TargetKind::Other,
            };
            watch.count(kind, target, via(), bytes);
        }
    }

    /// The end of a flush or of an unlock, where these look up.
    pub(crate) fn call_seen(self) {
        let Some(watch) = self.window.watch() else {
            return;
        };
        let Aim { operation, rank } = self.aim;
        match operation {
            "flush" | "flush_local" => watch.flushed(operation, rank),
            "unlock" => watch.end_epoch(WatchedEpoch::Lock(rank)),
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
