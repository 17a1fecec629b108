//! What a call says that is not legal from where it was made.

use super::{Epochs, Held, Mode, TargetEpoch};
use crate::error::{EpochState, Error, Misuse};
use crate::terms::Aim;

impl Epochs {
    /// The state of the window, for an error.
    fn state(&self) -> EpochState {
        match self.mode() {
            Mode::Fence | Mode::FenceUnused => EpochState::Fence,
            Mode::LockAll | Mode::LockAllUnchecked => EpochState::LockAll,
            Mode::Started | Mode::StartedUnchecked => EpochState::Started,
            Mode::Idle if self.locks() > 0 => EpochState::Locks,
            Mode::Idle if self.is_exposed() => EpochState::Exposed,
            Mode::Idle => EpochState::None,
        }
    }

    /// The same, for a call that concerns one target.
    fn state_at(&self, rank: u32, target: Option<&TargetEpoch>) -> EpochState {
        let is_started = || target.is_some_and(|target| target.held() == Held::Started);
        match self.state() {
            EpochState::Started if !is_started() => EpochState::NotStarted(rank),
            EpochState::Locks => EpochState::NotLocked(rank),
            state => state,
        }
    }

    #[cold]
    pub(super) fn refuse(&self, operation: &'static str, needs: &'static str) -> Error {
        refusal(operation, needs, self.state())
    }

    #[cold]
    pub(super) fn refuse_operation(&self, aim: Aim, target: &TargetEpoch) -> Error {
        let needs =
            "an operation needs an access epoch of its target (fence, start, lock or lock_all)";
        refusal(aim.operation, needs, self.state_at(aim.rank, Some(target)))
    }

    /// `target` is `None` if `rank` is not in the window.
    #[cold]
    pub(crate) fn refuse_request(&self, aim: Aim, target: Option<&TargetEpoch>) -> Error {
        let needs = "an operation with a request needs a lock of its target or lock_all";
        refusal(aim.operation, needs, self.state_at(aim.rank, target))
    }

    #[cold]
    pub(super) fn refuse_post(&self, aim: Aim, own: &TargetEpoch) -> Error {
        let needs = "it needs a window without exposure epoch, whose own part is not locked";
        let state = if self.is_exposed() {
            EpochState::Exposed
        } else if own.held().is_held() && !self.mode().is_lock_all() {
            EpochState::Locked(aim.rank)
        } else {
            self.state()
        };
        refusal(aim.operation, needs, state)
    }

    #[cold]
    pub(crate) fn refuse_unlock(&self, aim: Aim, target: &TargetEpoch) -> Error {
        let state = match self.state_at(aim.rank, Some(target)) {
            EpochState::None => EpochState::NotLocked(aim.rank),
            state => state,
        };
        let needs = "it needs a target that lock has locked";
        refusal(aim.operation, needs, state)
    }

    #[cold]
    pub(crate) fn refuse_lock_all(&self, operation: &'static str) -> Error {
        let needs = "it needs a window without locks and without an epoch of fence, start or post";
        self.refuse(operation, needs)
    }

    #[cold]
    pub(crate) fn refuse_unlock_all(&self, operation: &'static str) -> Error {
        self.refuse(operation, "it needs lock_all")
    }

    #[cold]
    pub(crate) fn refuse_flush(&self, aim: Aim, target: &TargetEpoch) -> Error {
        let needs = "it needs a lock of its target or lock_all";
        refusal(aim.operation, needs, self.state_at(aim.rank, Some(target)))
    }
}

#[cold]
pub(super) fn refusal(operation: &'static str, needs: &'static str, state: EpochState) -> Error {
    Error::new(operation, Misuse::Epoch { needs, state })
}
