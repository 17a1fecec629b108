//! Fence: the operations of all ranks are complete, and all ranks know this.

use super::Assert;
use crate::comm::Purpose;
use crate::diagnostics::TracedEpoch;
use crate::error::Result;
use crate::peers::not_forked;
use crate::window::Window;

impl Window {
    /// Collective. Ends the access epoch that the last fence began, in which every operation is
    /// then complete at its target, and begins the next (MPI-4.1, section 12.5.1).
    ///
    /// [`Assert::NO_PRECEDE`] skips only the waiting for this rank's own operations;
    /// [`Assert::NO_SUCCEED`] leaves no epoch open; both together (on all ranks) skip the barrier
    /// too. The others change nothing here: an access by RDMA cannot be put off until its target
    /// has entered the epoch, so the barrier stays. What this rank sees by itself is checked: that it
    /// called no operation before `NO_PRECEDE`, and calls none after `NO_SUCCEED`. That all ranks
    /// promise the same two is not, nor what the others promise.
    ///
    /// # Errors
    /// A lock is held, an epoch of `start` or `post` is open, a rank died or left, or has come to
    /// `free`; an operation failed; the assertion [`Assert::NO_CHECK`], or [`Assert::NO_PRECEDE`] after an
    /// operation of this rank (a refused one, too) since the last fence: then the epoch goes on.
    #[inline]
    pub fn fence(&self, assert: Assert) -> Result<()> {
        assert.check("fence", Assert::OF_FENCE)?;
        let precede = !assert.contains(Assert::NO_PRECEDE);
        let succeed = !assert.contains(Assert::NO_SUCCEED);
        not_forked("fence")?;
        self.epochs.check_fence(precede)?;
        self.context().check_aborted("fence")?;
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
