//! Flush: operations are complete at their targets, while the epoch goes on.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::full_fence;
use rdma_sys_shim::{Endpoint, Ticket};

use crate::diagnostics::Counters;
use crate::error::{Error, Misuse, Result};
use crate::peers::{is_forked, not_forked};
use crate::terms::Aim;
use crate::wait::Patience;
use crate::window::target::Target;
use crate::window::{OnTarget, Window};

impl Window {
    /// One-sided. Returns when all of this rank's operations on `target` are complete there
    /// (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// `target` is not locked or not a rank; an operation failed; the target died, or the job was aborted because
    /// another rank did.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<()> {
        match flush_at_once(self, target) {
            true => Ok(()),
            false => self.flush_any(target),
        }
    }

    /// The target, if no operation of this rank is pending there and there is no error. This rank's own loads may still
    /// overtake its stores.
    #[inline(always)]
    fn complete_at_once(&self, target: u32) -> Option<&Target> {
        let target = self.targets.get(target as usize)?;
        let at_once = self.epochs.is_passive(target.epoch())
            && !is_forked()
            && target.posted.last() == Ticket::DONE
            && target.checks().counts();
        behind_gets();
        at_once.then_some(target)
    }

    #[inline(never)]
    fn flush_any(&self, target: u32) -> Result<()> {
        let on = self.on_passive(Aim::new("flush", target))?;
        on.flush()?;
        on.check_liveness()
    }

    /// One-sided. Returns when the origin buffers of all of this rank's operations on `target` may
    /// be used again (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<()> {
        match flush_local_at_once(self, target) {
            true => Ok(()),
            false => self.flush_local_any(target),
        }
    }

    #[inline(never)]
    fn flush_local_any(&self, target: u32) -> Result<()> {
        let on = self.on_passive(Aim::new("flush_local", target))?;
        on.flush_locally()?;
        on.check_liveness()
    }

    /// One-sided. As [`Window::flush`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked; an operation failed; a rank died.
    pub fn flush_all(&self) -> Result<()> {
        self.needs_any_lock("flush_all")?;
        let _call = self.in_shown_call("flush_all", None);
        self.count_by(Counters::count_flush);
        self.complete_all("flush_all")?;
        full_fence();
        self.context().check_unaccompanied("flush_all")
    }

    /// One-sided. As [`Window::flush_local`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// As for [`Window::flush_all`].
    pub fn flush_local_all(&self) -> Result<()> {
        const OPERATION: &str = "flush_local_all";
        self.needs_any_lock(OPERATION)?;
        let _call = self.in_shown_call(OPERATION, None);
        self.count_by(Counters::count_flush);
        if self.device_used() {
            self.each_posted(OPERATION, OnTarget::release_posted)?;
        }
        behind_gets();
        self.context().check_unaccompanied(OPERATION)
    }

    /// Local. Makes this rank's own loads and stores and its peers' operations on its memory visible to each other
    /// (MPI-4.1, section 12.5.4, `MPI_Win_sync`). Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked; the job was aborted; a rank died.
    pub fn sync(&self) -> Result<()> {
        match self.needs_any_lock("sync") {
            Err(error) if !self.tolerates_any_epoch || is_forked() => return Err(error),
            Err(_) => self.log_epoch("sync"),
            Ok(()) => {}
        }
        full_fence();
        self.context().check_unaccompanied("sync")
    }

    /// The target, if operations on it may proceed in a passive-target epoch.
    #[inline]
    fn on_passive(&self, aim: Aim) -> Result<OnTarget<'_>> {
        let target = match self.targets.get(aim.rank as usize) {
            Some(target) if self.epochs.is_passive(target.epoch()) && !is_forked() => target,
            _ => return Err(aim.aside(|aim| self.not_passive(aim))),
        };
        Ok(self.on_known(aim, target))
    }

    #[cold]
    fn not_passive(&self, aim: Aim) -> Error {
        if let Err(error) = self.team.check_rank(aim.operation, aim.rank) {
            return error;
        }
        if is_forked() {
            return Error::new(aim.operation, Misuse::Forked);
        }
        let target = self.targets[aim.rank as usize].epoch();
        self.epochs.refuse_flush(aim, target)
    }

    fn needs_any_lock(&self, operation: &'static str) -> Result<()> {
        not_forked(operation)?;
        self.epochs.check_flush_all(operation)
    }

    /// Completes this rank's operations on all targets.
    #[inline]
    pub(crate) fn complete_all(&self, operation: &'static str) -> Result<()> {
        match self.device_used() {
            true => self.each_posted(operation, OnTarget::complete_posted),
            false => Ok(()),
        }
    }

    /// Sends all posted operations, so that those for one target do not wait for the answer of another.
    #[cold]
    fn send_posted(&self) {
        if is_forked() {
            return;
        }
        for (_, target) in self.targets.used() {
            let last = target.posted.last();
            if let Some(route) = target.route().filter(|_| last != Ticket::DONE) {
                // If it has failed, the wait for it returns the error.
                let _ = route.endpoint.completed(last);
            }
        }
    }

    /// Calls `wait` for every target with posted operations, even after a failure; returns the first failure.
    #[cold]
    pub(super) fn each_posted<'w>(
        &'w self,
        operation: &'static str,
        wait: impl Fn(OnTarget<'w>) -> Result<()>,
    ) -> Result<()> {
        self.send_posted();
        let mut result = Ok(());
        for on in self.on_used(operation) {
            if on.target.posted.last() != Ticket::DONE {
                result = result.and(wait(on));
            }
        }
        result
    }
}

impl OnTarget<'_> {
    /// Completes this rank's operations there, in an epoch of any kind.
    #[inline]
    pub(crate) fn flush(self) -> Result<()> {
        self.complete()?;
        // A store of this rank may still be in the processor's store buffer, where its later load would overtake it.
        self.target.stored.flush(full_fence);
        Ok(())
    }

    /// As [`OnTarget::flush`], as far as other ranks can tell: this rank's own loads may still overtake its stores.
    #[inline]
    pub(crate) fn complete(self) -> Result<()> {
        if self.target.posted.last() != Ticket::DONE {
            self.by_call(Self::complete_posted)?;
        }
        behind_gets();
        Ok(())
    }

    /// Waits until the origin buffers of this rank's operations there may be used again, in an epoch of any kind.
    #[inline]
    pub(crate) fn flush_locally(self) -> Result<()> {
        if self.target.posted.last() != Ticket::DONE {
            self.by_call(Self::release_posted)?;
        }
        behind_gets();
        Ok(())
    }

    /// Waits for operations that the device has not yet reported complete.
    pub(crate) fn complete_posted(self) -> Result<()> {
        not_forked(self.aim.operation)?;
        let _call = self.window.in_call(self.aim);
        let endpoint = &*self.route()?.endpoint;
        let patience = self.window.context().patience();
        (self.target.posted)
            .complete(|posted| patience.complete(endpoint, posted))
            .map_err(|error| self.failed(error))
    }

    /// Waits for origin buffers that the device has not yet released.
    fn release_posted(self) -> Result<()> {
        not_forked(self.aim.operation)?;
        let _call = self.window.in_call(self.aim);
        let endpoint = &*self.route()?.endpoint;
        let patience = self.window.context().patience();
        let released = patience.release(endpoint, self.target.posted.last());
        released.map_err(|error| self.failed(error))
    }
}

/// Orders later loads after earlier gets. A get of mapped memory is complete, but is only a load, which a later load
/// might overtake.
#[inline(always)]
pub(crate) fn behind_gets() {
    fence(Ordering::Acquire);
}

/// Waits until an operation has completed or failed. Returns false if `go_on` returns false before.
fn ends_while(
    endpoint: &dyn Endpoint,
    ticket: Ticket,
    patience: Patience,
    go_on: impl Fn() -> bool,
) -> bool {
    let ended = || Ok(endpoint.completed(ticket).unwrap_or(true));
    let check = || match go_on() {
        true => Ok(()),
        false => Err(Error::new("quiesce", Misuse::Poisoned).into()),
    };
    patience.wait(ended, check).is_ok()
}

/// One-sided. [`Window::flush`], if there is nothing to wait for and no error; else returns false without effect.
#[inline(always)]
#[must_use]
pub fn flush_at_once(window: &Window, target: u32) -> bool {
    let complete = window.complete_at_once(target);
    if let Some(target) = complete {
        target.stored.flush(full_fence);
    }
    complete.is_some()
}

/// One-sided. [`Window::flush_local`], if there is nothing to wait for and no error; else returns false without effect.
#[inline(always)]
#[must_use]
pub fn flush_local_at_once(window: &Window, target: u32) -> bool {
    window.complete_at_once(target).is_some()
}

/// Local. Waits until the device no longer uses the buffers of any of this rank's operations, whether they failed or
/// not; false if that takes longer than `limit`. Does not wait for other ranks. True in a process that was forked from
/// the rank: no device uses its copies of the buffers.
#[must_use]
pub fn quiesce(window: &Window, limit: Duration) -> bool {
    if is_forked() {
        return true;
    }
    let begun = Instant::now();
    let ended = |target: &Target| match target.route() {
        Some(route) if target.posted.last() != Ticket::DONE => ends_while(
            &*route.endpoint,
            target.posted.last(),
            window.context().patience(),
            || begun.elapsed() < limit,
        ),
        _ => true,
    };
    if !window.device_used() {
        return true;
    }
    window.send_posted();
    window.targets.used().all(|(_, target)| ended(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::scripted::Scripted;

    fn ends_within(done_after: u32, fails: bool, limit: Duration) -> (bool, u32) {
        let slow = Scripted {
            done_after,
            fails,
            ..Scripted::default()
        };
        let begun = Instant::now();
        let go_on = || begun.elapsed() < limit;
        let ended = ends_while(&slow, Ticket(1), Patience::new(1), go_on);
        (ended, slow.asked.into_inner())
    }

    #[test]
    fn a_wait_ends_with_a_connection_that_never_answers() {
        let silent = Scripted {
            done_after: u32::MAX,
            ..Scripted::default()
        };
        let error = Patience::new(1).complete(&silent, Ticket(1)).unwrap_err();
        assert!(error.to_string().contains("process 2 is gone"), "{error}");
    }

    #[test]
    fn quiet_is_success_and_failure_but_not_silence() {
        let long = Duration::from_secs(60);
        assert_eq!(ends_within(3000, false, long), (true, 3001));
        assert_eq!(ends_within(3000, true, long), (true, 3001));
        assert!(!ends_within(u32::MAX, false, Duration::from_millis(1)).0);
    }
}
