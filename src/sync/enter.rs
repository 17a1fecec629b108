//! Entering a target: the first operation on it in an epoch, or the error if no epoch is open.

use crate::error::Result;
use crate::peers::not_forked;
use crate::terms::Aim;
use crate::window::target::Target;
use crate::window::{Admission, Held, OnTarget, Window};

impl Window {
    /// A target on which operations may proceed; see [`Window::enter`].
    #[inline]
    pub(crate) fn open_or_enter(&self, aim: Aim) -> Result<OnTarget<'_>> {
        let target = match self.open_target(aim.rank) {
            Some(target) => target,
            None => self.entered(aim)?,
        };
        Ok(self.on_known(aim, target))
    }

    /// Enters a target: checks that an epoch is open, finds the route to its memory and, under
    /// `lock_all`, takes its lock.
    #[inline]
    pub(crate) fn enter(&self, aim: Aim) -> Result<OnTarget<'_>> {
        let target = self.entered(aim)?;
        Ok(self.on_known(aim, target))
    }

    #[cold]
    fn entered(&self, aim: Aim) -> Result<&Target> {
        self.team.check_rank(aim.operation, aim.rank)?;
        not_forked(aim.operation)?;
        let on = self.on(aim);
        let epochs = &self.epochs;
        let admission = epochs.admit(aim, on.epoch())?;
        if admission == Admission::Entered {
            return Ok(on.target);
        }
        if admission == Admission::Open && on.target.route().is_some() {
            epochs.enter(on.epoch());
            return Ok(on.target);
        }
        self.while_entering(on.target, move || {
            let _call = self.in_call(aim);
            if epochs.is_entered(on.epoch()) {
                return Ok(());
            }
            let route = on.find_route()?;
            if admission == Admission::AwaitsLock {
                on.check_liveness()?;
                on.take(Held::Shared, route)?;
                epochs.enter_locked(aim.rank, on.epoch());
                return Ok(());
            }
            if admission == Admission::AwaitsPost {
                self.await_post(aim)?;
            }
            epochs.enter(on.epoch());
            Ok(())
        })?;
        Ok(on.target)
    }
}
