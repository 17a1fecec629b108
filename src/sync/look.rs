//! Looking at a target that this rank does not wait for. Where its memory is mapped, no operation shows
//! that it died; and no launcher but `transom run` tells.

use crate::error::Result;
use rdma_sys_shim::milliseconds;

use crate::wait::unawaited;
use crate::window::OnTarget;

/// How often to look at a target, in milliseconds.
const OFTEN: u32 = 50;
/// Of so many calls in quick succession, one looks at the clock.
const CALLS: u8 = 64;

impl OnTarget<'_> {
    /// Now and then looks whether the job was aborted and whether the target lives. For calls that have
    /// accessed it: of quick ones few look at more than the count.
    #[inline]
    pub(crate) fn check_liveness(self) -> Result<()> {
        match self.target.counts() {
            true => Ok(()),
            false => self.aside(Self::look),
        }
    }

    #[cold]
    fn look(self) -> Result<()> {
        let Self {
            window,
            target,
            aim,
        } = self;
        let context = window.context();
        // An error stays one.
        target.set_count(0);
        self.count_call();
        context.check_liveness(aim.operation)?;
        let now = milliseconds();
        let passed = target.since_liveness_check(now);
        // Where calls are rare, each can afford the clock; where they are watched, each has to come here.
        let rarely = passed < 2 * OFTEN && window.counters().is_none();
        target.set_count(if rarely { CALLS - 1 } else { 0 });
        if passed < OFTEN || !context.may_check_liveness(now) {
            return Ok(());
        }
        target.set_liveness_checked(now);
        let world_rank = window.team().world_rank(aim.rank);
        unawaited(context.check_unawaited(aim.operation, world_rank))
    }
}
