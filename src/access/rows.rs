//! Operations between rows of equal blocks, for callers that know their elements.

use rdma_sys_shim::{Direction, Ticket};

use super::PROC_NULL;
use super::bounds::check_buffer;
use super::layout_work::LayoutWork;
use super::request::{Request, Until};
use super::spot::{Spot, Use};
use super::work::Work;
use crate::datatype::{BasicType, Op, Piece, Row};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

/// One-sided. Copies the bytes of `near`, relative to `origin`, to those of `far`, relative to the start of the
/// target's memory, in their order: [`Window::put_layout`] without a datatype. The shorter one ends the transfer. A row
/// without bytes also has to begin inside the target's memory, or at its end.
///
/// # Errors
/// As for [`Window::put_layout`]; a row that leaves 63 bits.
///
/// # Safety
/// As for [`Window::put_layout`].
#[inline]
pub unsafe fn put_row(
    window: &Window,
    aim: Aim,
    origin: *const u8,
    near: Row,
    far: Row,
) -> Result<()> {
    let rows = [near, far];
    // SAFETY: the caller's promise.
    unsafe { transfer(window, aim, Direction::Write, origin.cast_mut(), rows) }.map(drop)
}

/// One-sided. As [`put_row`], in the other direction.
///
/// # Errors
/// As for [`put_row`].
///
/// # Safety
/// As for [`Window::get_layout`].
#[inline]
pub unsafe fn get_row(
    window: &Window,
    aim: Aim,
    origin: *mut u8,
    near: Row,
    far: Row,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { transfer(window, aim, Direction::Read, origin, [near, far]) }.map(drop)
}

/// One-sided. As [`put_row`], with a request; needs a passive-target epoch.
///
/// # Errors
/// As for [`put_row`].
///
/// # Safety
/// As for [`Window::rput_layout`].
#[inline]
pub unsafe fn rput_row(
    window: &Window,
    aim: Aim,
    origin: *const u8,
    near: Row,
    far: Row,
) -> Result<Request> {
    window.requested(aim, Until::Released, || {
        let from = origin.cast_mut();
        // SAFETY: the caller's promise.
        unsafe { transfer(window, aim, Direction::Write, from, [near, far]) }
    })
}

/// One-sided. As [`get_row`], with a request; needs a passive-target epoch.
///
/// # Errors
/// As for [`put_row`].
///
/// # Safety
/// As for [`Window::rget_layout`].
#[inline]
pub unsafe fn rget_row(
    window: &Window,
    aim: Aim,
    origin: *mut u8,
    near: Row,
    far: Row,
) -> Result<Request> {
    window.requested(aim, Until::Completed, || {
        // SAFETY: the caller's promise.
        unsafe { transfer(window, aim, Direction::Read, origin, [near, far]) }
    })
}

/// One-sided. Combines the elements of `near`, relative to `origin`, into those of `far`, relative to the start of the
/// target's memory, each atomically.
///
/// # Errors
/// As for [`Window::accumulate_layout`]; a row that leaves 63 bits.
///
/// # Safety
/// As for [`Window::accumulate_layout`]; the blocks of both rows are whole elements of `ty`, which has no
/// padding.
pub unsafe fn accumulate_row(
    window: &Window,
    aim: Aim,
    origin: *const u8,
    near: Row,
    far: Row,
    ty: BasicType,
    op: Op,
) -> Result<()> {
    Work::check_changes(aim.operation, op)?;
    let kind = OperationKind::Accumulate;
    between(
        window,
        aim,
        origin,
        [near, far],
        Use::Accumulated { ty, kind },
        move |on, spot, [near, far]| {
            op.check_defined_for(aim.operation, ty)?;
            // There is no result; the target has as many elements.
            let layouts = [near, far, far];
            // SAFETY: the caller's promise.
            let parts = unsafe { LayoutWork::new((kind, ty, op), Some(origin), None, layouts, 0) };
            on.accumulate_pieces(spot, &parts)
        },
    )
    .map(drop)
}

/// # Safety
/// As for [`put_row`] or [`get_row`]; a put only reads `origin`.
pub(super) unsafe fn transfer(
    window: &Window,
    aim: Aim,
    direction: Direction,
    origin: *mut u8,
    rows: [Row; 2],
) -> Result<Ticket> {
    between(
        window,
        aim,
        origin,
        rows,
        Use::Moved(direction),
        move |on, spot, pieces| {
            // SAFETY: the caller's promise.
            unsafe { on.transfer_pieces(direction, origin, spot, pieces) }
        },
    )
}

/// Enters the target, checks both rows, finds the target's, and calls `act` with them, unless there is nothing to do.
#[inline(always)]
fn between<'w>(
    window: &'w Window,
    aim: Aim,
    origin: *const u8,
    [near, far]: [Row; 2],
    usage: Use,
    act: impl FnOnce(OnTarget<'w>, &Spot<'w>, [&Piece; 2]) -> Result<Ticket>,
) -> Result<Ticket> {
    if aim.rank == PROC_NULL {
        return Ok(Ticket::DONE);
    }
    let on = window.open_or_enter(aim)?;
    let (span, far) = far.measure(aim.operation)?;
    let spot = on.spot(Displacement(0), span, far.as_ref(), usage)?;
    let (here, near) = near.measure(aim.operation)?;
    let (Some(near), Some(far)) = (near, far) else {
        return Ok(Ticket::DONE);
    };
    check_buffer(aim.operation, origin, here, here.bytes())?;
    act(on, &spot, [&near, &far])
}
