//! Lock_all: a shared lock of every target, taken when it is needed.

use std::sync::atomic::{Ordering, fence};

use rdma_sys_shim::Fetch;
use rdma_sys_shim::memory::full_fence;

use super::lock::{give_back, known_word};
use super::{Assert, lock_word};
use crate::diagnostics::TracedEpoch;
use crate::error::{Error, Misuse, Result};
use crate::peers::{is_forked, not_forked};
use crate::terms::{Aim, Flavor};
use crate::window::target::Route;
use crate::window::{Held, Mode, OnTarget, Window};

const OPERATION: &str = "lock_all";

impl Window {
    /// One-sided. Begins a passive-target epoch of all targets with a shared lock (MPI-4.1, section
    /// 12.5.3).
    ///
    /// Loads and stores are not operations and take no lock. So the locks of all parts that this rank may access by
    /// them are taken at once, in the order of ranks: its own part, those that [`Window::shared_query`] has returned,
    /// and in a window of [`Window::allocate_shared`] all parts.
    ///
    /// Other locks are taken at the first operation on their target, so targets that are never used cost nothing. These
    /// locks are taken in the order of first use: if ranks hold exclusive locks of some targets while they begin such
    /// an epoch, a cycle of waits can arise. The hint `transom_eager_lock_all` takes all locks here, in the order of
    /// ranks. With [`Assert::NO_CHECK`] no lock is taken: the program ensures that there are no conflicts.
    ///
    /// # Errors
    /// A lock is held; an epoch of fence, `start` or `post` or another `lock_all` is open; the window has the hint
    /// `no_locks`; the assertion is not [`Assert::NO_CHECK`]; a rank that could hold a lock died.
    #[inline]
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        match assert == Assert::NONE && lock_all_at_once(self) {
            true => Ok(()),
            false => self.lock_all_any(assert),
        }
    }

    #[inline(never)]
    fn lock_all_any(&self, assert: Assert) -> Result<()> {
        assert.check(OPERATION, Assert::OF_LOCK)?;
        not_forked(OPERATION)?;
        if self.refuses_locks {
            return Err(Error::new(OPERATION, Misuse::NoLocks));
        }
        let epochs = &self.epochs;
        if !epochs.may_lock_all() {
            return Err(epochs.refuse_lock_all(OPERATION));
        }
        if self.locks_aside {
            self.log_lock(OPERATION);
            self.yield_time_slice();
        }
        let _call = self.in_shown_call(OPERATION, None);
        epochs.next_serial();
        if assert.contains(Assert::NO_CHECK) {
            // Makes visible what other ranks did before this rank was told that it need not check.
            fence(Ordering::Acquire);
            epochs.lock_all(true);
        } else if self.eager_lock_all() || self.flavor() == Flavor::Shared {
            self.lock_in_order(0..self.ranks())?;
        } else if self.has_handed_out() {
            self.lock_in_order(self.handed_out_and_own())?;
        } else {
            self.lock_own()?;
            epochs.lock_all(false);
        }
        self.count_by(|counters| counters.begin_epoch(TracedEpoch::LockAll));
        Ok(())
    }

    #[inline(always)]
    fn lock_own(&self) -> Result<()> {
        let own = self.on(Aim::new(OPERATION, self.rank()));
        own.take(Held::Shared, own.route()?)?;
        self.epochs.lock_own(own.epoch());
        Ok(())
    }

    /// Begins the epoch with the locks of some ranks, including this one. If all ranks use the same order, no cycle of
    /// waits arises. On failure, no lock is held.
    #[cold]
    fn lock_in_order(&self, ranks: impl IntoIterator<Item = u32>) -> Result<()> {
        self.epochs.lock_all(false);
        for rank in ranks {
            let locked = match rank == self.rank() {
                true => self.lock_own(),
                false => self.enter(Aim::new(OPERATION, rank)).map(drop),
            };
            if let Err(error) = locked {
                // The first failure says more than later failures of releases.
                let _ = self.leave_entered(OPERATION);
                let own = self.on(Aim::new(OPERATION, self.rank()));
                if own.epoch().held().is_held() {
                    let _ = own.leave();
                }
                self.epochs.end_access();
                return Err(error);
            }
        }
        Ok(())
    }

    /// One-sided. Ends the epoch that [`Window::lock_all`] began. On return, all of this rank's operations are complete
    /// at their targets (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// No epoch of `lock_all` is open; an operation failed; a target died, or the job was aborted because another rank
    /// did: then the epoch has ended nevertheless.
    #[inline]
    pub fn unlock_all(&self) -> Result<()> {
        match unlock_all_at_once(self) {
            true => Ok(()),
            false => self.unlock_all_any(),
        }
    }

    #[inline(never)]
    fn unlock_all_any(&self) -> Result<()> {
        const OPERATION: &str = "unlock_all";
        let (epochs, mode) = (&self.epochs, self.epochs.mode());
        not_forked(OPERATION)?;
        if !mode.is_lock_all() {
            return Err(epochs.refuse_unlock_all(OPERATION));
        }
        let aborted = self.context().is_aborted();
        let _call = self.in_shown_call(OPERATION, None);
        self.count_by(|counters| counters.end_epoch(TracedEpoch::LockAll));
        let completed = match self.device_used() {
            true => self.each_posted(OPERATION, OnTarget::complete_before_release),
            false => Ok(()),
        };
        epochs.end_access();
        if mode == Mode::LockAllUnchecked {
            full_fence();
            completed?;
        } else {
            let others = self.leave_entered(OPERATION);
            // Released last: its memory may be the origin buffer of operations on the others.
            let own = self.on(Aim::new(OPERATION, self.rank()));
            let posted = own.target.posted.last();
            let left = own.leave();
            if left.is_ok() {
                own.target.posted.forget(posted);
            }
            completed.and(others).and(left)?;
        }
        match aborted {
            true => self.context().check_aborted(OPERATION),
            false => Ok(()),
        }
    }

    /// Releases every target that was entered, even after a failure.
    fn leave_entered(&self, operation: &'static str) -> Result<()> {
        let mut result = Ok(());
        let mut by_device = Vec::new();
        for rank in self.epochs.take_entered() {
            let on = self.on(Aim::new(operation, rank));
            match on.route() {
                Ok(route) if route.lock.atomic().is_none() => by_device.push((on, route, 0)),
                _ => result = result.and(on.leave()),
            }
        }
        if !by_device.is_empty() {
            result = result.and(self.leave_by_device(by_device));
        }
        result
    }

    /// Posts all releases before it waits for any, so that all of them take as long as one. Each takes effect after
    /// this rank's operations on its target.
    #[cold]
    fn leave_by_device(&self, mut entered: Vec<(OnTarget<'_>, &Route, u64)>) -> Result<()> {
        full_fence();
        let mut result = Ok(());
        let mut posted = Vec::with_capacity(entered.len());
        for (on, route, old) in &mut entered {
            self.epochs.release(on.epoch());
            // SAFETY: `entered` keeps the word until every operation is waited for below.
            match unsafe { (route.lock).begin_fetch(Fetch::Add(lock_word::SHARED_RELEASE), old) } {
                Ok(ticket) => {
                    route.lock.send(ticket);
                    posted.push((*on, *route, on.target.posted.last(), ticket));
                }
                Err(error) => result = result.and(Err(on.stranded(error))),
            }
        }
        for (on, route, before, ticket) in posted {
            match route.lock.complete(ticket) {
                Ok(()) => on.target.posted.forget(before),
                Err(error) => result = result.and(Err(on.stranded(error))),
            }
        }
        result
    }
}

impl OnTarget<'_> {
    /// Releases the lock that was taken under `lock_all`.
    #[inline(always)]
    fn leave(self) -> Result<()> {
        self.window.epochs.release(self.epoch());
        self.target.stored.forget();
        self.release(Held::Shared, self.route()?)
    }
}

/// One-sided. [`Window::lock_all`] without assertions, if this rank's own lock is free and the only one to take, and
/// there is no error; else returns false without effect.
#[inline(always)]
#[must_use]
pub fn lock_all_at_once(window: &Window) -> bool {
    let epochs = &window.epochs;
    let in_order = window.eager_lock_all() || window.flavor() == Flavor::Shared;
    if !epochs.may_lock_all() || window.locks_aside || is_forked() {
        return false;
    }
    if in_order || window.has_handed_out() {
        return false;
    }
    let own = &window.targets[window.rank() as usize];
    let Some(word) = known_word(own) else {
        return false;
    };
    let at_once = matches!(lock_word::try_shared(word), Ok(true));
    if at_once {
        epochs.next_serial();
        epochs.lock_own(own.epoch());
        epochs.lock_all(false);
    }
    at_once
}

/// One-sided. [`Window::unlock_all`], if this rank's own lock is the only one to release, and there is no error; else
/// returns false without effect.
#[inline(always)]
#[must_use]
pub fn unlock_all_at_once(window: &Window) -> bool {
    let epochs = &window.epochs;
    if epochs.mode() != Mode::LockAll || is_forked() || window.context().is_aborted() {
        return false;
    }
    if window.device_used() || epochs.any_entered() {
        return false;
    }
    let own = &window.targets[window.rank() as usize];
    let Some(word) = known_word(own) else {
        return false;
    };
    epochs.end_access();
    epochs.release(own.epoch());
    own.stored.forget();
    // An addition by the processor does not fail.
    let given_back = give_back(word, Held::Shared, window.context().rank().0);
    debug_assert!(given_back.is_ok());
    true
}
