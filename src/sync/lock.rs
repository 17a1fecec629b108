//! Lock and unlock of single targets.

use std::sync::atomic::{Ordering, fence};

use rdma_sys_shim::Ticket;
use rdma_sys_shim::memory::{TOTAL_STORE_ORDER, full_fence};

use super::reader_overtaking::ReaderOvertaking;
use super::{Assert, lock_word};
use crate::diagnostics::TracedEpoch;
use crate::error::{Error, Misuse, Result};
use crate::memory::remote::RemoteWord;
use crate::memory::word::LockWord;
use crate::peers::{is_forked, not_forked};
use crate::terms::{Aim, LockKind};
use crate::window::target::{Route, Target};
use crate::window::{Held, OnTarget, Window};

const LOCK: &str = "lock";

impl Window {
    /// One-sided. Begins a passive-target epoch of `target`: waits for its lock, without the target's help (MPI-4.1,
    /// section 12.5.3). While a rank waits for an exclusive lock, new shared locks wait too: for 20 ms if their rank
    /// holds a lock, of any window, that others wait for, and otherwise for a second. So programs may take shared locks
    /// in any order.
    ///
    /// # Errors
    /// This rank has already locked `target`, or it is not a rank; an epoch of fence, `start` or `lock_all` is open;
    /// `target` is this rank, and exposed by `post`; the window has the hint `no_locks`; the assertion is not
    /// [`Assert::NO_CHECK`]; a rank that could hold the lock died.
    #[inline]
    pub fn lock(&self, kind: LockKind, target: u32, assert: Assert) -> Result<()> {
        match assert == Assert::NONE && lock_at_once(self, kind, target) {
            true => Ok(()),
            false => self.lock_any(kind, target, assert),
        }
    }

    #[inline(never)]
    fn lock_any(&self, kind: LockKind, target: u32, assert: Assert) -> Result<()> {
        assert.check(LOCK, Assert::OF_LOCK)?;
        let ready = self.epochs.takes_locks() && !self.locks_aside && !is_forked();
        if !ready || target >= self.ranks() {
            self.prepare_to_lock(target)?;
        }
        let _call = self.in_shown_call(LOCK, Some(target));
        let on = self.on(Aim::new(LOCK, target));
        let route = on.route()?;
        let held = match assert.contains(Assert::NO_CHECK) {
            true => Held::Unchecked,
            false => Held::by(kind),
        };
        let concurrent = self.context().concurrent();
        (self.epochs).begin_lock(on.aim, on.epoch(), concurrent)?;
        if held == Held::Unchecked {
            // Makes visible what other ranks did before this rank was told that it need not check.
            fence(Ordering::Acquire);
        } else if let Err(error) = on.take(held, route) {
            self.epochs.let_go(on.epoch());
            return Err(error);
        }
        self.epochs.lock(on.epoch(), held, concurrent);
        self.count_by(|counters| counters.begin_epoch(TracedEpoch::Lock(target)));
        Ok(())
    }

    /// One-sided. Ends the epoch that [`Window::lock`] began. On return, all of this rank's operations on `target` are
    /// complete there (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// `target` is not locked by this rank or not a rank; an operation failed; the target died, or the job was aborted
    /// because another rank did: then the epoch has ended nevertheless.
    #[inline]
    pub fn unlock(&self, target: u32) -> Result<()> {
        match unlock_at_once(self, target) {
            true => Ok(()),
            false => self.unlock_any(target),
        }
    }

    #[inline(never)]
    fn unlock_any(&self, target: u32) -> Result<()> {
        let (Some(known), false) = (self.targets.get(target as usize), is_forked()) else {
            return Err(self.cannot_unlock(target));
        };
        let Some(held) = self.epochs.locked_by_lock(known.epoch()) else {
            return Err(self.cannot_unlock(target));
        };
        let on = self.on_known(Aim::new("unlock", target), known);
        match known.posted.last() {
            Ticket::DONE => on.end_lock(held)?,
            posted => on.by_call(|on| on.end_lock_behind(held, posted))?,
        }
        on.check_liveness()
    }

    /// The conditions for a lock, off the fast path.
    #[cold]
    fn prepare_to_lock(&self, target: u32) -> Result<()> {
        self.team.check_rank(LOCK, target)?;
        not_forked(LOCK)?;
        if self.refuses_locks {
            return Err(Error::new(LOCK, Misuse::NoLocks));
        }
        self.epochs.prepare_lock(LOCK, target == self.rank())?;
        self.log_lock(LOCK);
        self.yield_time_slice();
        Ok(())
    }

    #[cold]
    fn cannot_unlock(&self, target: u32) -> Error {
        if let Err(error) = self.team.check_rank("unlock", target) {
            return error;
        }
        if is_forked() {
            return Error::new("unlock", Misuse::Forked);
        }
        let state = self.targets[target as usize].epoch();
        self.epochs.refuse_unlock(Aim::new("unlock", target), state)
    }
}

impl OnTarget<'_> {
    /// As [`Self::end_lock`], if operations went through the device.
    fn end_lock_behind(self, held: Held, posted: Ticket) -> Result<()> {
        let _call = self.window.in_call(self.aim);
        self.complete_before_release()?;
        self.end_lock(held)?;
        self.target.posted.forget(posted);
        Ok(())
    }

    #[inline(always)]
    fn end_lock(self, held: Held) -> Result<()> {
        let route = self.route()?;
        let (epochs, concurrent) = (&self.window.epochs, self.window.context().concurrent());
        if !epochs.begin_unlock(self.epoch(), held, concurrent) {
            return Err(self.window.cannot_unlock(self.aim.rank));
        }
        let released = self.release(held, route);
        epochs.let_go(self.epoch());
        released
    }

    /// Waits for operations that the release of a lock does not wait for. A release through the device takes effect
    /// after everything that was posted before it, and is itself awaited: then all of that is complete, or the release
    /// fails too.
    #[cold]
    pub(super) fn complete_before_release(self) -> Result<()> {
        let by_device = matches!(self.epoch().held(), Held::Shared | Held::Exclusive)
            && self.route()?.lock.atomic().is_none();
        match by_device {
            true => Ok(()),
            false => self.complete_posted(),
        }
    }

    /// Releases a lock, after all of this rank's stores.
    #[inline(always)]
    pub(crate) fn release(self, held: Held, route: &Route) -> Result<()> {
        match give_back(&route.lock, held, self.me()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.aside(|on| on.stranded(error))),
        }
    }

    #[inline(always)]
    pub(crate) fn take(self, held: Held, route: &Route) -> Result<()> {
        match try_take(&route.lock, held, self.me()) {
            Ok(true) => Ok(()),
            Ok(false) => self.aside(|on| on.await_lock(&route.lock, held)),
            Err(error) => Err(self.aside(|on| on.stranded(error))),
        }
    }

    /// Tries until it has the lock. The holders of a shared lock are unknown, so any rank's death may make the wait
    /// endless.
    #[cold]
    fn await_lock(self, word: &RemoteWord, wanted: Held) -> Result<()> {
        let _call = self.window.in_call(self.aim);
        let patience = self.window.context().patience();
        let check = || self.check_holder(word, lock_word::holder, lock_word::is_shared);
        let exclusive = || self.retried(lock_word::retry_exclusive(word, self.me()));
        let overtaking = ReaderOvertaking::new();
        let shared = || self.retried(lock_word::retry_shared(word, || overtaking.decide()));
        match (word.atomic(), wanted) {
            (Some(_), Held::Exclusive) => patience.among_rivals().wait(exclusive, check),
            (Some(_), _) => patience.among_rivals().wait(shared, check),
            (None, Held::Exclusive) => {
                let mine = lock_word::exclusive(self.me());
                self.wait_in_queue(word, mine, lock_word::WAITING, check)
            }
            (None, _) => self.wait_with_pauses(shared, check),
        }
    }

    fn retried(self, tried: Result<bool>) -> Result<bool> {
        tried.map_err(|error| self.stranded(error))
    }

    /// This rank's number in the world, as in lock words.
    #[inline]
    fn me(self) -> u32 {
        self.window.context().rank().0
    }
}

/// The lock word of a target with a known route, if the processor changes it.
#[inline(always)]
pub(super) fn known_word(target: &Target) -> Option<&RemoteWord> {
    let word = &target.route()?.lock;
    word.atomic().map(|_| word)
}

/// Tries to take a lock for `me`, shared or exclusively.
#[inline(always)]
fn try_take(word: &RemoteWord, held: Held, me: u32) -> Result<bool> {
    match held {
        Held::Exclusive => lock_word::try_exclusive(word, me),
        _ => lock_word::try_shared(word),
    }
}

/// Releases a lock that `me` holds, if it holds one, after all of this rank's stores.
#[inline(always)]
pub(super) fn give_back(word: &impl LockWord, held: Held, me: u32) -> Result<()> {
    if !TOTAL_STORE_ORDER {
        full_fence();
    }
    let add = match held {
        Held::Shared => lock_word::SHARED_RELEASE,
        Held::Exclusive => lock_word::exclusive_release(me),
        _ => {
            full_fence();
            return Ok(());
        }
    };
    word.fetch_add(add).map(drop)
}

/// One-sided. [`Window::lock`] without assertions, if the lock is free and there is no error; else returns false
/// without effect.
#[inline(always)]
#[must_use]
pub fn lock_at_once(window: &Window, kind: LockKind, target: u32) -> bool {
    let (epochs, concurrent) = (&window.epochs, window.context().concurrent());
    if !epochs.takes_locks() || window.locks_aside || is_forked() {
        return false;
    }
    let Some(known) = window.targets.get(target as usize) else {
        return false;
    };
    let Some(word) = known_word(known) else {
        return false;
    };
    if !epochs.try_begin_lock(known.epoch(), concurrent) {
        return false;
    }
    let held = Held::by(kind);
    let taken = try_take(word, held, window.context().rank().0);
    let at_once = matches!(taken, Ok(true));
    match at_once {
        true => epochs.lock(known.epoch(), held, concurrent),
        false => epochs.let_go(known.epoch()),
    }
    at_once
}

/// One-sided. [`Window::unlock`], if there is nothing to wait for and no error; else returns false and changes at most
/// a count.
#[inline(always)]
#[must_use]
pub fn unlock_at_once(window: &Window, target: u32) -> bool {
    let (epochs, concurrent) = (&window.epochs, window.context().concurrent());
    let Some(known) = window.targets.get(target as usize) else {
        return false;
    };
    let Some(held @ (Held::Shared | Held::Exclusive)) = epochs.locked_by_lock(known.epoch()) else {
        return false;
    };
    let Some(word) = known_word(known) else {
        return false;
    };
    let at_once = !is_forked()
        && known.posted.last() == Ticket::DONE
        && known.checks().counts()
        && epochs.begin_unlock(known.epoch(), held, concurrent);
    if at_once {
        let me = window.context().rank().0;
        // An addition by the processor does not fail.
        let given_back = give_back(word, held, me);
        debug_assert!(given_back.is_ok());
        epochs.let_go(known.epoch());
    }
    at_once
}

/// One-sided. Completes all of this rank's operations, and releases every lock of the window that it holds, including
/// those of `lock_all`.
///
/// # Errors
/// An operation failed: then no lock is released, since one target's memory may be the origin of another's operation.
/// An unlock failed: the first failure is returned; the others took place.
pub fn unlock_everything(window: &Window, operation: &'static str) -> Result<()> {
    not_forked(operation)?;
    window.complete_all(operation)?;
    if window.epochs.mode().is_lock_all() {
        return window.unlock_all();
    }
    let mut result = Ok(());
    if window.epochs.locks() > 0 {
        for (rank, target) in (0..).zip(&*window.targets) {
            if target.epoch().held().is_held() {
                result = result.and(window.unlock(rank));
            }
        }
    }
    result
}
