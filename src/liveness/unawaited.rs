//! Liveness checks of ranks that this rank does not wait for. If memory is mapped, operations on it do not fail when its
//! rank dies, and only `transom run` reports deaths.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use rdma_sys_shim::{LIVENESS_INTERVAL, milliseconds};

use crate::error::Result;
use crate::peers::Context;
use crate::terms::WorldRank;
use crate::wait::unawaited;

const INTERVAL: u32 = LIVENESS_INTERVAL.as_millis() as u32;
/// The clock is read once in this many calls in quick succession.
const CALLS_PER_CHECK: u8 = 64;
/// The least number of milliseconds between two checks of any targets: each costs some microseconds, or a round trip.
const LEAST_APART: u32 = 5;

/// The most connected ranks that are looked at together: each costs some system calls.
const AT_A_TIME: usize = 4;

/// The schedule of a rank's checks of one target. All zero: it has not checked it yet.
#[derive(Clone, Copy)]
pub(crate) struct Checks<'t> {
    /// The number of calls until the next check.
    pub(crate) count: &'t AtomicU8,
    /// The time of the last check, in milliseconds; 0: none yet.
    pub(crate) at: &'t AtomicU32,
}

impl Checks<'_> {
    /// Counts a call that does not itself notice a death. False if a check is due; the check schedules the
    /// next one.
    #[inline(always)]
    pub(crate) fn counts(self) -> bool {
        let left = self.count.load(Ordering::Relaxed);
        if left != 0 {
            self.count.store(left - 1, Ordering::Relaxed);
        }
        left != 0
    }

    /// Checks whether the job was aborted and, if the interval has passed, whether `target` and some other ranks are
    /// alive. `always_due`: the next call comes here, too.
    pub(crate) fn check(
        self,
        context: &Context,
        operation: &'static str,
        target: impl FnOnce() -> WorldRank,
        always_due: bool,
    ) -> Result<()> {
        // After an error, the next call checks again.
        self.count.store(0, Ordering::Relaxed);
        context.check_aborted(operation)?;
        let now = milliseconds();
        let passed = self.since_last(now);
        if !is_due(self.count, passed, INTERVAL, always_due) || !context.begins_check(now) {
            return Ok(());
        }
        self.at.store(now, Ordering::Relaxed);
        unawaited(context.check_unawaited(operation, target()))?;
        context.look_around(operation, now)
    }

    /// The time since the last check; at first, the time starts now.
    fn since_last(self, now: u32) -> u32 {
        match self.at.load(Ordering::Relaxed) {
            0 => {
                self.at.store(now, Ordering::Relaxed);
                0
            }
            before => now.wrapping_sub(before),
        }
    }
}

/// Whether the interval has passed since the last check. Schedules the call that asks next; `always`: it is the next.
fn is_due(count: &AtomicU8, passed: u32, interval: u32, always: bool) -> bool {
    // If calls are rare, each can afford reading the clock.
    let is_next = always || passed >= 2 * interval;
    count.store(
        if is_next { 0 } else { CALLS_PER_CHECK - 1 },
        Ordering::Relaxed,
    );
    passed >= interval
}

impl Context {
    /// Fails if the job was aborted. Now and then also checks whether other ranks are alive: for calls that wait for
    /// nobody and have no single target.
    #[inline]
    pub(crate) fn check_unaccompanied(&self, operation: &'static str) -> Result<()> {
        self.check_aborted(operation)?;
        match self.calls_to_look.load(Ordering::Relaxed) {
            0 => self.look_around(operation, milliseconds()),
            left => {
                self.calls_to_look.store(left - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Checks whether some connected ranks are alive, unless that was done a short time ago.
    #[cold]
    fn look_around(&self, operation: &'static str, now: u32) -> Result<()> {
        let interval = self.patience().check_interval().as_millis() as u32;
        let passed = now.wrapping_sub(self.looked_at.load(Ordering::Relaxed));
        if !is_due(&self.calls_to_look, passed, interval, false) {
            return Ok(());
        }
        self.looked_at.store(now, Ordering::Relaxed);
        unawaited(self.check_connected(operation, AT_A_TIME))
    }

    /// Notes that this rank now checks a further target; false if that is too soon after the last check.
    fn begins_check(&self, now: u32) -> bool {
        let before = self.last_check.load(Ordering::Relaxed);
        let begins = now.wrapping_sub(before) >= LEAST_APART;
        if begins {
            self.last_check.store(now, Ordering::Relaxed);
        }
        begins
    }
}
