//! Windows, beyond the calls of MPI: what epochs of another shape are made of.

use std::time::Duration;

use crate::access::PROC_NULL;
use crate::comm::{Communicator, Group, Purpose};
use crate::error::{AbortCause, Error, Misuse, Result};
use crate::terms::Aim;
use crate::window::{Info, OnTarget, Window};

/// Collective. As [`Window::allocate`], with a copy of `bytes` in the memory.
///
/// # Errors
/// As for [`Window::allocate`].
pub fn create_copied(
    comm: &Communicator,
    bytes: &[u8],
    disp_unit: u64,
    info: &Info,
) -> Result<Window> {
    Window::create_copied(comm, bytes, disp_unit, info)
}

/// Local. These hints, with allocated memory aligned to `align` at least.
#[must_use]
pub fn aligned_for(info: &Info, align: usize) -> Info {
    info.aligned_for(align)
}

/// Collective. Waits until every rank of the window has come here, and fails on every rank if one is
/// in a fence or in free instead. Completes nothing, and is no epoch.
///
/// # Errors
/// A rank makes another call, died or left; an earlier barrier of the window failed.
pub fn synchronise(window: &Window, operation: &'static str) -> Result<()> {
    window.synchronise(operation, Purpose::Passive)
}

/// One-sided. Completes this rank's operations on a target there, in an epoch of any kind; later loads
/// of this rank see what they stored. Nothing of [`PROC_NULL`] is under way.
///
/// # Errors
/// The target is not a rank of the window; an operation failed, or the target died.
#[inline]
pub fn flush(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.flush())
}

/// One-sided. As [`flush`], for what was fetched: loads of this rank may still overtake what it
/// stored.
///
/// # Errors
/// As for [`flush`].
#[inline]
pub fn complete(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.complete())
}

/// One-sided. Returns when the origin buffers of this rank's operations on a target may be used again, in an
/// epoch of any kind: at once where the device has copies of them. Nothing of [`PROC_NULL`] is under way.
///
/// # Errors
/// As for [`flush`]; then the device has done with the buffers, too.
#[inline]
pub fn release(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.flush_locally())
}

/// Local. Now and then looks whether the target lives and the job goes on, as a flush does: for calls that a
/// program may repeat until another rank has done something.
///
/// # Errors
/// The target died, or the job was aborted; the target is not a rank of the window.
#[inline]
pub fn check_liveness(window: &Window, aim: Aim) -> Result<()> {
    on_target(window, aim, |on| on.check_liveness())
}

/// Local. Fails, in the name of `operation`, once this process has left its job: a collective call on the window
/// would wait for ranks that take it for gone.
///
/// # Errors
/// It has.
pub fn in_job(window: &Window, operation: &'static str) -> Result<()> {
    match window.context().has_left_itself() {
        false => Ok(()),
        true => Err(Error::new(operation, Misuse::JobLeft)),
    }
}

/// Does something on a target, if that is a rank of the window.
#[inline(always)]
fn on_target<'w>(
    window: &'w Window,
    aim: Aim,
    act: impl FnOnce(OnTarget<'w>) -> Result<()>,
) -> Result<()> {
    match window.targets.get(aim.rank as usize) {
        Some(target) => act(window.on_known(aim, target)),
        None => aim.aside(|aim| nobody(window, aim)),
    }
}

#[cold]
fn nobody(window: &Window, aim: Aim) -> Result<()> {
    match aim.rank {
        PROC_NULL => Ok(()),
        rank => {
            let size = window.ranks();
            let misuse = Misuse::RankOutOfRange { rank, size };
            Err(Error::new(aim.operation, misuse))
        }
    }
}

/// One-sided. Completes all of this rank's operations, and gives back every lock that it holds of the
/// window, of `lock_all` too.
///
/// # Errors
/// An operation failed: then no lock is given back, since one target's memory may be the origin of
/// another's operation. An unlock failed, of which the first is told; the others took place.
pub fn unlock_everything(window: &Window, operation: &'static str) -> Result<()> {
    window.unlock_everything(operation)
}

/// Local. Waits until the device has done with the buffers of all of this rank's operations, whether
/// they failed or not; false if that takes longer than `limit`. Waits for no other rank. True in a process
/// that was forked from the rank, whose copies of the buffers no device uses.
#[must_use]
pub fn quiesce(window: &Window, limit: Duration) -> bool {
    window.quiesce(limit)
}

/// Local. Tells the other ranks of the job that this one gave up, so that none waits for it for ever.
/// Does nothing in a process that was forked from the rank.
pub fn give_up(window: &Window, cause: AbortCause) {
    window.context().abort_everywhere(cause);
}

/// Local. Lets this rank lock the window although all ranks gave the hint `no_locks`; the log says so at the first
/// lock, and freeing waits for all ranks. For all ranks alike, before the window is used.
pub fn tolerate_locks(window: &mut Window) {
    window.tolerate_locks();
}

/// Local. Checks the groups of an epoch in which this rank posts to `origins` and starts for
/// `targets`.
///
/// # Errors
/// A rank of a group is not in the window; this one is in one of the groups only, and would wait for
/// itself.
pub fn check_groups(
    window: &Window,
    operation: &'static str,
    origins: &Group,
    targets: &Group,
) -> Result<()> {
    window.check_group(operation, origins)?;
    window.check_group(operation, targets)?;
    window.check_own_part(operation, origins, targets)
}

/// Collective. As [`Window::free`], with a last look at this rank's memory, its first byte and how many there
/// are, once all ranks have come here and nobody changes it any more. Waits for all ranks whatever the
/// hints, and returns what `last_look` did.
///
/// # Errors
/// As for [`Window::free`]; then nothing was looked at.
pub fn free_with<R>(window: Window, last_look: impl FnOnce(*const u8, u64) -> R) -> Result<R> {
    window.free_with(last_look)
}

/// Collective. As [`Window::try_free`], for a window whose attributes the caller has: `delete` is called before anything else is
/// done, and before the other ranks hear of it. Waits for all ranks whatever the hints.
///
/// # Errors
/// As for [`Window::try_free`]. `delete` failed, or an epoch was open, so that it was not called: then the window is as it
/// was.
pub fn try_free_after<E: From<Error>>(
    window: Window,
    delete: impl FnOnce() -> std::result::Result<(), E>,
) -> std::result::Result<(), (Box<Window>, E)> {
    window.try_free_after(delete)
}
