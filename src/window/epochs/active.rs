//! Active target: fence; start and complete; post and wait.

use std::sync::atomic::Ordering;

use super::refusal::refusal;
use super::{Epochs, Held, Mode, TargetEpoch};
use crate::error::{EpochState, Result};
use crate::terms::Aim;

/// Fence (section 12.5.1).
impl Epochs {
    /// Allowed if no access epoch other than a fence epoch and no exposure epoch of post is open. Without `precede`,
    /// the program asserts that this rank has called no operation since the last fence.
    #[inline]
    pub(crate) fn check_fence(&self, precede: bool) -> Result<()> {
        let mode = self.mode();
        let closed = matches!(mode, Mode::Idle | Mode::FenceUnused | Mode::Fence);
        if !closed || self.locks() > 0 || self.is_exposed() {
            let needs = "it needs a window without locks and without epochs of start or post";
            return Err(self.refuse("fence", needs));
        }
        if !precede && mode == Mode::Fence {
            let needs = "NO_PRECEDE needs a rank that has called no operation since the last fence";
            return Err(refusal("fence", needs, EpochState::FenceUsed));
        }
        Ok(())
    }

    /// Ends one epoch and, with `succeed`, opens the next.
    #[inline]
    pub(crate) fn fence(&self, succeed: bool) {
        self.next_serial();
        self.set_mode(match succeed {
            true => Mode::FenceUnused,
            false => Mode::Idle,
        });
    }

    /// If no operation was called since, the last fence has begun no epoch. Another thread may open one meanwhile.
    #[inline]
    fn end_unused_fence(&self) {
        let (unused, idle) = (Mode::FenceUnused as u8, Mode::Idle as u8);
        if self.mode() == Mode::FenceUnused {
            let order = Ordering::Relaxed;
            let _ = self.mode.compare_exchange(unused, idle, order, order);
        }
    }
}

/// Start and complete, the access epoch of a group (section 12.5.2).
impl Epochs {
    /// Allowed if no access epoch is open.
    pub(crate) fn check_start(&self, operation: &'static str) -> Result<()> {
        match self.mode().is_none() && self.locks() == 0 {
            true => Ok(()),
            false => Err(self.refuse(operation, "it needs a window without access epoch")),
        }
    }

    pub(crate) fn start_on(&self, target: &TargetEpoch) {
        target.set_held(Held::Started);
    }

    /// Lets the targets of the group be entered, each after its post or, if `unchecked`, at once.
    pub(crate) fn start(&self, unchecked: bool) {
        self.set_mode(match unchecked {
            true => Mode::StartedUnchecked,
            false => Mode::Started,
        });
    }

    /// Allowed in an epoch of start.
    pub(crate) fn check_complete(&self, operation: &'static str) -> Result<()> {
        match self.mode().is_started() {
            true => Ok(()),
            false => Err(self.refuse(operation, "it needs start")),
        }
    }
}

/// Post and wait, the exposure epoch of this rank's part (section 12.5.2).
impl Epochs {
    #[inline]
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Relaxed)
    }

    /// Allowed if no exposure epoch is open, neither one of post nor an implicit one of fence or `lock_all`, and if
    /// this rank has not locked its own part, `own`.
    #[inline]
    pub(crate) fn check_post(&self, own_aim: Aim, own: &TargetEpoch) -> Result<()> {
        let mode = self.mode();
        let conflict = mode == Mode::Fence || mode.is_lock_all();
        match conflict || self.is_exposed() || own.held().is_held() {
            true => Err(own_aim.aside(|aim| self.refuse_post(aim, own))),
            false => Ok(()),
        }
    }

    pub(crate) fn post(&self) {
        self.end_unused_fence();
        self.completed.store(0, Ordering::Relaxed);
        self.exposed.store(true, Ordering::Relaxed);
    }

    /// Allowed in an exposure epoch of post: for wait and test.
    pub(crate) fn check_wait(&self, operation: &'static str) -> Result<()> {
        match self.is_exposed() {
            true => Ok(()),
            false => Err(refusal(operation, "it needs post", EpochState::NotExposed)),
        }
    }

    /// Ends the exposure epoch: every origin has completed.
    pub(crate) fn wait(&self) {
        self.exposed.store(false, Ordering::Relaxed);
    }

    /// The number of origins, counted from the first, that are known to have completed.
    #[inline]
    pub(crate) fn completed(&self) -> u32 {
        self.completed.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_completed(&self, origins: u32) {
        self.completed.store(origins, Ordering::Relaxed);
    }
}
