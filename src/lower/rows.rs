//! Operations between rows of equal blocks, for callers that know their elements.

use crate::access::Request;
use crate::datatype::{BasicType, Op, Row};
use crate::error::Result;
use crate::terms::Aim;
use crate::window::Window;

/// One-sided. Copies the bytes of `near`, from `origin` on, to those of `far`, from the start of the
/// target's memory on, in their order: [`Window::put_layout`] without a datatype. If one has fewer, it
/// ends the transfer. A row without bytes, too, has to begin inside the target's memory, or at its end.
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
    // SAFETY: the caller's promise.
    unsafe { window.put_row(aim, origin, near, far) }
}

/// One-sided. As [`put_row`], the other way.
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
    unsafe { window.get_row(aim, origin, near, far) }
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
    // SAFETY: the caller's promise.
    unsafe { window.rput_row(aim, origin, near, far) }
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
    // SAFETY: the caller's promise.
    unsafe { window.rget_row(aim, origin, near, far) }
}

/// One-sided. Combines the elements of `near`, from `origin` on, into those of `far`, from the start
/// of the target's memory on, atomically for each.
///
/// # Errors
/// As for [`Window::accumulate_layout`]; a row that leaves 63 bits.
///
/// # Safety
/// As for [`Window::accumulate_layout`]; the blocks of both rows are whole elements of `ty`, which has no
/// padding.
#[inline]
pub unsafe fn accumulate_row(
    window: &Window,
    aim: Aim,
    origin: *const u8,
    near: Row,
    far: Row,
    ty: BasicType,
    op: Op,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { window.accumulate_row(aim, origin, near, far, ty, op) }
}
