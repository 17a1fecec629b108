//! Flush: operations are complete at their targets, while the epoch goes on.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::full_fence;
use rdma_sys_shim::{Endpoint, Ticket};

use crate::error::{Error, Misuse, Result};
use crate::peers::{is_forked, not_forked};
use crate::wait::Patience;
use crate::window::Window;
use crate::window::target::Target;

impl Window {
    /// One-sided. Returns when all of this rank's operations on `target` are complete there
    /// (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// `target` is not locked or not a rank; an operation failed; the target died, or the job was
    /// aborted because another rank did.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<()> {
        let open = self.passive_target("flush", target)?;
        self.flush_target("flush", target, open)?;
        self.heed_target("flush", target, open)
    }

    /// One-sided. Returns when the origin buffers of all of this rank's operations on `target` may
    /// be used again (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<()> {
        let open = self.passive_target("flush_local", target)?;
        self.flush_target_locally("flush_local", target, open)?;
        self.heed_target("flush_local", target, open)
    }

    /// One-sided. As [`Window::flush`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked; an operation failed; a target died.
    pub fn flush_all(&self) -> Result<()> {
        self.needs_any_lock("flush_all")?;
        self.complete_all("flush_all")?;
        full_fence();
        self.context().heed("flush_all")
    }

    /// One-sided. As [`Window::flush_local`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// As for [`Window::flush_all`].
    pub fn flush_local_all(&self) -> Result<()> {
        const OPERATION: &str = "flush_local_all";
        self.needs_any_lock(OPERATION)?;
        if self.device_used() {
            self.each_posted(|rank, target| self.release_posted(OPERATION, rank, target))?;
        }
        behind_gets();
        self.context().heed(OPERATION)
    }

    /// Local. Makes this rank's own loads and stores and its peers' operations on its memory see
    /// each other (MPI-4.1, section 12.5.4, `MPI_Win_sync`). Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked; the job was aborted.
    pub fn sync(&self) -> Result<()> {
        self.needs_any_lock("sync")?;
        full_fence();
        self.context().heed("sync")
    }

    /// Completes this rank's operations on a target, in an epoch of any kind.
    #[inline]
    pub(crate) fn flush_target(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        self.complete_target(operation, rank, target)?;
        // A store of ours may still sit in the processor's store buffer, where a later load of
        // ours would overtake it.
        target.stored().flush(full_fence);
        Ok(())
    }

    /// As [`Window::flush_target`], as far as other ranks can tell: this rank's own loads may still
    /// overtake its stores.
    #[inline]
    pub(crate) fn complete_target(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        if target.posted() != Ticket::DONE {
            self.complete_posted(operation, rank, target)?;
        }
        behind_gets();
        Ok(())
    }

    /// Makes the origin buffers of this rank's operations on a target its own again, in an epoch
    /// of any kind.
    #[inline]
    pub(super) fn flush_target_locally(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        if target.posted() != Ticket::DONE {
            self.release_posted(operation, rank, target)?;
        }
        behind_gets();
        Ok(())
    }

    /// The target, if operations on it go ahead in a passive-target epoch.
    #[inline]
    fn passive_target(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        match self.targets().get(rank as usize) {
            Some(target) if self.epochs().is_passive(target.epoch()) && !is_forked() => Ok(target),
            _ => Err(self.not_passive(operation, rank)),
        }
    }

    #[cold]
    fn not_passive(&self, operation: &'static str, rank: u32) -> Error {
        if let Err(error) = self.team().check_rank(operation, rank) {
            return error;
        }
        if is_forked() {
            return Error::new(operation, Misuse::Forked);
        }
        let target = self.targets()[rank as usize].epoch();
        self.epochs().refuse_flush(operation, rank, target)
    }

    fn needs_any_lock(&self, operation: &'static str) -> Result<()> {
        not_forked(operation)?;
        self.epochs().check_flush_all(operation)
    }

    /// Waits until the device has done with every origin buffer of this rank, be it by success or
    /// failure. False if it does not say so within `limit`.
    pub(crate) fn quiesce(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        let settled = |target: &Target| match target.route() {
            Some(route) if target.posted() != Ticket::DONE => settle(
                &*route.endpoint,
                target.posted(),
                self.context().patience(),
                || begun.elapsed() < limit,
            ),
            _ => true,
        };
        !self.device_used() || self.targets().iter().all(settled)
    }

    /// Waits for what the device has not reported complete yet, on one target.
    #[inline(never)]
    pub(crate) fn complete_posted(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        let route = self.route_of(operation, rank)?;
        let (endpoint, patience) = (&*route.endpoint, self.context().patience());
        target
            .complete_posted(|posted| patience.complete(endpoint, posted))
            .map_err(|error| self.failed(operation, rank, error))
    }

    /// Waits for the origin buffers that the device has not given back yet, on one target.
    #[inline(never)]
    fn release_posted(&self, operation: &'static str, rank: u32, target: &Target) -> Result<()> {
        let route = self.route_of(operation, rank)?;
        let endpoint = &*route.endpoint;
        self.context()
            .patience()
            .release(endpoint, target.posted())
            .map_err(|error| self.failed(operation, rank, error))
    }

    /// Completes this rank's operations on all targets.
    #[inline]
    pub(crate) fn complete_all(&self, operation: &'static str) -> Result<()> {
        if self.device_used() {
            self.each_posted(|rank, target| self.complete_posted(operation, rank, target))?;
        }
        Ok(())
    }

    /// Applies `wait` to every target that something was posted to, also after a failure, of which
    /// the first is returned.
    #[cold]
    pub(super) fn each_posted(&self, wait: impl Fn(u32, &Target) -> Result<()>) -> Result<()> {
        let mut result = Ok(());
        for (rank, target) in (0..).zip(self.targets()) {
            if target.posted() != Ticket::DONE {
                result = result.and(wait(rank, target));
            }
        }
        result
    }
}

/// What is loaded from here on is no older than what was got before: that is complete, though it was but
/// loaded, which another load might overtake.
#[inline(always)]
pub(crate) fn behind_gets() {
    fence(Ordering::Acquire);
}

/// Waits until an operation has completed or failed. False if `go_on` says no before.
fn settle(
    endpoint: &dyn Endpoint,
    ticket: Ticket,
    patience: Patience,
    go_on: impl Fn() -> bool,
) -> bool {
    let settled = || Ok(endpoint.completed(ticket).unwrap_or(true));
    let check = || match go_on() {
        true => Ok(()),
        false => Err(Error::new("quiesce", Misuse::Poisoned).into()),
    };
    patience.wait(settled, check).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::scripted::Scripted;

    fn settles(done_after: u32, fails: bool, limit: Duration) -> (bool, u32) {
        let slow = Scripted {
            done_after,
            fails,
            ..Scripted::default()
        };
        let begun = Instant::now();
        let go_on = || begun.elapsed() < limit;
        let settled = settle(&slow, Ticket(1), Patience::new(false), go_on);
        (settled, slow.asked.into_inner())
    }

    #[test]
    fn a_wait_ends_with_a_connection_that_never_answers() {
        let silent = Scripted {
            done_after: u32::MAX,
            ..Scripted::default()
        };
        let error = Patience::new(false)
            .complete(&silent, Ticket(1))
            .unwrap_err();
        assert!(error.to_string().contains("process 2 is gone"), "{error}");
    }

    #[test]
    fn quiet_is_success_and_failure_but_not_silence() {
        let long = Duration::from_secs(60);
        assert_eq!(settles(3000, false, long), (true, 3001));
        assert_eq!(settles(3000, true, long), (true, 3001));
        assert!(!settles(u32::MAX, false, Duration::from_millis(1)).0);
    }
}
