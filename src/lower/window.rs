//! Windows, beyond the calls of MPI: what epochs of another shape are made of.

use crate::access::PROC_NULL;
use crate::comm::Purpose;
use crate::error::{AbortCause, Error, Misuse, Result};
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

/// Collective. Waits until every rank of the window has called this. Fails on every rank if one called it for another
/// purpose. Completes no operations, and is not an epoch.
///
/// # Errors
/// A rank makes another call, died or left; an earlier barrier of the window failed.
pub fn synchronise(window: &Window, operation: &'static str, purpose: Purpose) -> Result<()> {
    window.context().check_aborted(operation)?;
    window.synchronise(operation, purpose)
}

/// One-sided. Completes this rank's operations on a target at the target, in an epoch of any kind. Later loads of this
/// rank see the stored data. Returns at once for [`PROC_NULL`].
///
/// # Errors
/// The target is not a rank of the window; an operation failed, or the target died.
#[inline]
pub fn flush(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.flush())
}

/// One-sided. As [`flush`], but only fetched data is sure to be visible: loads of this rank may still overtake its
/// stores.
///
/// # Errors
/// As for [`flush`].
#[inline]
pub fn complete(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.complete())
}

/// One-sided. Returns when the origin buffers of this rank's operations on a target may be used again, in an epoch of
/// any kind: at once if the device has copied them. Returns at once for [`PROC_NULL`].
///
/// # Errors
/// As for [`flush`]; then the device no longer uses the buffers either.
#[inline]
pub fn release(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.flush_locally())
}

/// Local. Checks now and then whether the target lives and the job is not aborted, as a flush does. For calls that a
/// program may repeat until another rank has acted.
///
/// # Errors
/// The target died, or the job was aborted; the target is not a rank of the window.
#[inline(always)]
pub fn check_liveness(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.check_liveness())
}

/// Local. Returns an error of `operation` once this process has left its job: a collective call on the window would
/// wait for ranks that consider this one gone.
///
/// # Errors
/// This process has left its job.
pub fn in_job(window: &Window, operation: &'static str) -> Result<()> {
    match is_in_job(window) {
        true => Ok(()),
        false => Err(Error::new(operation, Misuse::JobLeft)),
    }
}

/// Local. Whether this process has not left its job yet.
#[inline(always)]
#[must_use]
pub fn is_in_job(window: &Window) -> bool {
    !window.context().has_left_itself()
}

/// Local. The lowest rank whose displacement unit differs from this rank's, and that unit in bytes.
#[must_use]
pub fn other_unit(window: &Window) -> Option<(u32, u64)> {
    window.other_unit()
}

/// Local. Whether any thread of this rank may call at any time: the job has
/// [`ThreadLevel::Multiple`](crate::ThreadLevel).
#[must_use]
pub fn is_concurrent(window: &Window) -> bool {
    window.context().concurrent()
}

/// Runs `body` on a target, if that is a rank of the window.
#[inline(always)]
fn on_target<'w>(
    window: &'w Window,
    aim: Aim,
    act: impl FnOnce(OnTarget<'w>) -> Result<()>,
) -> Result<()> {
    match window.targets.get(aim.rank as usize) {
        Some(target) => act(window.on_known(aim, target)),
        None => aim.aside(|aim| match aim.rank {
            PROC_NULL => Ok(()),
            rank => window.team.check_rank(aim.operation, rank),
        }),
    }
}

/// Local. Tells the other ranks of the job that this rank gave up, so that none waits for it forever. Does nothing in a
/// process that was forked from the rank.
pub fn give_up(window: &Window, cause: AbortCause) {
    window.context().abort_everywhere(cause);
}

/// Local. Lets this rank lock the window although all ranks gave the hint `no_locks`. The log reports the first lock,
/// and freeing waits for all ranks. All ranks have to call this before the window is used.
pub fn tolerate_locks(window: &mut Window) {
    window.refuses_locks = false;
}

/// Local. Lets this rank's requests and `sync`, which MPI allows only in passive-target epochs (MPI-4.1, sections 12.3.5
/// and 12.5.4), be called in other epochs too, and `sync` without any. The log reports the first such call.
pub fn tolerate_any_epoch(window: &mut Window) {
    window.tolerates_any_epoch = true;
}
