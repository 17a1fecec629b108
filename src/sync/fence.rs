//! Fence: the operations of all ranks are complete, and all ranks know this.

use super::Assert;
use crate::comm::Purpose;
use crate::diagnostics::TracedEpoch;
use crate::error::Result;
use crate::peers::not_forked;
use crate::window::Window;

impl Window {
    /// Collective. Ends the access epoch that the last fence began, and begins the next. On return, all operations of
    /// the ended epoch are complete at their targets (MPI-4.1, section 12.5.1).
    ///
    /// [`Assert::NO_PRECEDE`] only skips the wait for this rank's own operations. [`Assert::NO_SUCCEED`] leaves no
    /// epoch open. Both together (on all ranks) skip the barrier too. The other assertions have no effect: an RDMA
    /// access cannot be delayed until its target has entered the epoch, so the barrier stays. Each rank's own promises
    /// are checked: no operation before `NO_PRECEDE`, and none after `NO_SUCCEED`. It is not checked that all ranks
    /// promise the same two, nor are the other promises.
    ///
    /// # Errors
    /// A lock is held; an epoch of `start` or `post` is open; a rank died or left, or called `free`; an operation
    /// failed; the assertion is [`Assert::NO_CHECK`], or is [`Assert::NO_PRECEDE`] after an operation of this rank
    /// (even a refused one) since the last fence: then the epoch continues.
    #[inline]
    pub fn fence(&self, assert: Assert) -> Result<()> {
        assert.check("fence", Assert::OF_FENCE)?;
        let precede = !assert.contains(Assert::NO_PRECEDE);
        let succeed = !assert.contains(Assert::NO_SUCCEED);
        not_forked("fence")?;
        self.epochs.check_fence(precede)?;
        self.context().check_unaccompanied("fence")?;
        if precede {
            self.complete_all("fence")
                .map_err(|error| self.give_up(error))?;
        }
        if precede || succeed {
            self.synchronise("fence", Purpose::Fence)?;
        }
        self.epochs.fence(succeed);
        self.count_by(|counters| {
            counters.end_epoch(TracedEpoch::Fence);
            if succeed {
                counters.begin_epoch(TracedEpoch::Fence);
            }
        });
        Ok(())
    }
}
