//! The barrier of a window, in which `fence` and `free` wait for all ranks.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::comm::Purpose;
use crate::error::{Error, Misuse, Result};
use crate::liveness::Awaited;
use crate::peers::not_forked;
use crate::window::Window;

impl Window {
    /// Collective. Waits until every rank has called this for the same purpose. After a failure it cannot be called
    /// again: that would overwrite the flags that tell the others of the failure.
    #[inline]
    pub(crate) fn synchronise(&self, operation: &'static str, purpose: Purpose) -> Result<()> {
        let _call = self.in_shown_call(operation, None);
        not_forked(operation)?;
        if self.out_of_step.load(Ordering::Relaxed) {
            return Err(Error::new(operation, Misuse::OutOfStep));
        }
        let blocks = &self.parts.blocks;
        let published = Cell::new(false);
        let check = |from| {
            let awaited = Awaited::Rank(self.team.world_rank(from));
            self.check(operation, awaited)?;
            if !published.get() {
                published.set(self.publish_call(purpose));
            }
            Ok(())
        };
        let passed = (self.barrier).wait(operation, &purpose, &self.team, blocks, &check);
        if published.get() {
            self.withdraw_call();
        }
        passed.map_err(|error| {
            self.out_of_step.store(true, Ordering::Relaxed);
            self.give_up(error)
        })
    }
}
