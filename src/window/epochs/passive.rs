//! Passive target: lock and unlock, lock_all and unlock_all, flush.

use std::mem;
use std::sync::atomic::Ordering;

use super::refusal::refusal;
use super::{Epochs, Held, Mode, TargetEpoch};
use crate::error::{EpochState, Result};
use crate::terms::Aim;

/// Lock and unlock of one target (section 12.5.3).
impl Epochs {
    /// Whether any target that is not locked can be locked: no other access epoch is open, and
    /// nothing is exposed. If false, [`Epochs::prepare_lock`] decides.
    #[inline]
    pub(crate) fn takes_locks(&self) -> bool {
        self.mode() == Mode::Idle && !self.is_exposed()
    }

    /// Allowed if no other access epoch is open, and for this rank's `own` part if it is not
    /// exposed. A fence without an operation has begun no epoch.
    #[cold]
    pub(crate) fn prepare_lock(&self, operation: &'static str, own: bool) -> Result<()> {
        if own && self.is_exposed() {
            let needs = "a rank's own part must not be exposed";
            return Err(refusal(operation, needs, EpochState::Exposed));
        }
        match self.mode() {
            Mode::Idle => Ok(()),
            Mode::FenceUnused => {
                self.set_mode(Mode::Idle);
                Ok(())
            }
            _ => {
                let needs =
                    "it needs a window without an epoch of fence or start and without lock_all";
                Err(self.refuse(operation, needs))
            }
        }
    }

    /// Keeps other threads from locking a target. [`Epochs::lock`] or [`Epochs::let_go`] has to
    /// follow.
    #[inline]
    pub(crate) fn begin_lock(
        &self,
        aim: Aim,
        target: &TargetEpoch,
        concurrent: bool,
    ) -> Result<()> {
        match self.try_begin_lock(target, concurrent) {
            true => Ok(()),
            false => Err(aim.aside(|Aim { operation, rank }| {
                let needs = "it needs a target that this rank has not locked";
                refusal(operation, needs, EpochState::Locked(rank))
            })),
        }
    }

    /// As [`Epochs::begin_lock`], but returns false instead of an error.
    #[inline]
    pub(crate) fn try_begin_lock(&self, target: &TargetEpoch, concurrent: bool) -> bool {
        target.change_held(Held::No, Held::Changing, concurrent)
    }

    /// Records that the lock has been acquired.
    #[inline]
    pub(crate) fn lock(&self, target: &TargetEpoch, held: Held, concurrent: bool) {
        target.set_held(held);
        self.count_lock(1, concurrent);
        self.enter(target);
    }

    /// How the target is locked, if lock has locked it.
    #[inline]
    pub(crate) fn locked_by_lock(&self, target: &TargetEpoch) -> Option<Held> {
        if self.mode().is_lock_all() {
            return None;
        }
        let held = target.held();
        held.is_held().then_some(held)
    }

    /// Ends the epoch before the lock is released, and keeps other threads from releasing it.
    /// [`Epochs::let_go`] has to follow. False if another thread was faster.
    #[inline]
    pub(crate) fn begin_unlock(&self, target: &TargetEpoch, held: Held, concurrent: bool) -> bool {
        let begun = target.change_held(held, Held::Changing, concurrent);
        if begun {
            target.set_left();
            self.count_lock(1_u32.wrapping_neg(), concurrent);
        }
        begun
    }
}

/// Lock_all and unlock_all (section 12.5.3).
impl Epochs {
    /// Whether no access epoch and no exposure epoch of post is open.
    #[inline]
    pub(crate) fn may_lock_all(&self) -> bool {
        self.is_closed()
    }

    /// Records that this rank's own lock has been acquired.
    #[inline]
    pub(crate) fn lock_own(&self, own: &TargetEpoch) {
        own.change_held(Held::No, Held::Shared, false);
        self.enter(own);
    }

    /// Lets all targets be entered, each with its lock or, if `unchecked`, without.
    #[inline]
    pub(crate) fn lock_all(&self, unchecked: bool) {
        self.set_mode(match unchecked {
            true => Mode::LockAllUnchecked,
            false => Mode::LockAll,
        });
    }

    /// Whether targets other than this rank were entered with a lock.
    #[inline]
    pub(crate) fn any_entered(&self) -> bool {
        self.any_entered.load(Ordering::Relaxed)
    }

    /// Returns and forgets these targets, which are to be released.
    pub(crate) fn take_entered(&self) -> Vec<u32> {
        self.any_entered.store(false, Ordering::Relaxed);
        mem::take(&mut *self.entered())
    }

    /// Records that a lock that was taken under `lock_all` is about to be released.
    #[inline]
    pub(crate) fn release(&self, target: &TargetEpoch) {
        target.change_held(Held::Shared, Held::No, false);
    }
}

/// Flush and sync (section 12.5.4).
impl Epochs {
    /// Whether a passive-target epoch of the target is open: for flush.
    #[inline]
    pub(crate) fn is_passive(&self, target: &TargetEpoch) -> bool {
        target.held().is_held() || self.mode().is_lock_all()
    }

    /// Allowed in a passive-target epoch of any target: for the calls that flush all targets, and
    /// for sync.
    pub(crate) fn check_flush_all(&self, operation: &'static str) -> Result<()> {
        match self.mode().is_lock_all() || self.locks() > 0 {
            true => Ok(()),
            false => Err(self.refuse(operation, "it needs a lock or lock_all")),
        }
    }
}
