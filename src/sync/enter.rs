//! Entering a target: the first operation on it in an epoch, or what comes of one that needs an epoch
//! and finds none.

use crate::error::Result;
use crate::peers::not_forked;
use crate::window::target::Target;
use crate::window::{Admission, Window};

impl Window {
    /// A target that operations may go to; see [`Window::enter`].
    #[inline]
    pub(crate) fn open_or_enter(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        match self.open_target(rank) {
            Some(target) => Ok(target),
            None => self.enter(operation, rank),
        }
    }

    /// Enters a target: checks that an epoch is open, finds the ways to its memory and, under
    /// `lock_all`, takes its lock.
    #[cold]
    pub(crate) fn enter(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        self.team().check_rank(operation, rank)?;
        not_forked(operation)?;
        let target = &self.targets()[rank as usize];
        let epochs = self.epochs();
        let admission = epochs.admit(operation, rank, target.epoch())?;
        if admission == Admission::Entered {
            return Ok(target);
        }
        if admission == Admission::Open && target.route().is_some() {
            epochs.enter(target.epoch());
            return Ok(target);
        }
        self.while_entering(target, || {
            if epochs.is_entered(target.epoch()) {
                return Ok(());
            }
            let route = self.route(operation, rank, target)?;
            if admission == Admission::AwaitsLock {
                self.heed_target(operation, rank, target)?;
                self.take_shared(operation, rank, route)?;
                epochs.enter_locked(rank, target.epoch());
                return Ok(());
            }
            if admission == Admission::AwaitsPost {
                self.await_post(operation, rank)?;
            }
            epochs.enter(target.epoch());
            Ok(())
        })?;
        Ok(target)
    }
}
