//! The frequent case of each call, for front ends whose calls have to be fast. A function does all that its call does, at once
//! and without waiting. Where more has to be done, or something is wrong, it does nothing: then the caller makes the call
//! itself, which does the work or returns the error. No function here calls another one that is not inlined, so that a caller
//! that makes the call with the same arguments afterwards saves no registers.

pub use crate::access::InPlace;

use crate::access::Way;
use crate::datatype::{BasicType, Op};
use crate::terms::LockKind;
use crate::window::Window;

/// One-sided. The bytes of a put of `len` bytes that is only a copy: [`InPlace::put`] makes it, and that is all of
/// [`Window::put`].
#[inline(always)]
#[must_use]
pub fn to_put(window: &Window, len: usize, target: u32, disp: u64) -> Option<InPlace<'_>> {
    window.in_place(Way::Put, len, target, disp)
}

/// One-sided. The bytes of a get of `len` bytes that is only a copy: [`InPlace::get`] makes it, and that is all of
/// [`Window::get`].
#[inline(always)]
#[must_use]
pub fn to_get(window: &Window, len: usize, target: u32, disp: u64) -> Option<InPlace<'_>> {
    window.in_place(Way::Get, len, target, disp)
}

/// One-sided. [`Window::accumulate`] of one element, by [`Op::Sum`].
///
/// # Safety
/// As for [`Window::accumulate`], and `origin` is not null.
#[inline(always)]
#[must_use]
pub unsafe fn add(
    window: &Window,
    origin: *const u8,
    ty: BasicType,
    target: u32,
    disp: u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { window.add_at_once(origin, ty, target, disp) }
}

/// One-sided. [`Window::fetch_and_op`].
///
/// # Safety
/// As for [`Window::fetch_and_op`]; nulls are refused.
#[inline(always)]
#[must_use]
pub unsafe fn fetch_and_op(
    window: &Window,
    origin: *const u8,
    result: *mut u8,
    ty: BasicType,
    target: u32,
    disp: u64,
    op: Op,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { window.fetch_at_once(origin, result, ty, target, disp, op) }
}

/// One-sided. [`Window::compare_and_swap`].
///
/// # Safety
/// As for [`Window::compare_and_swap`]; nulls are refused.
#[inline(always)]
#[must_use]
pub unsafe fn compare_and_swap(
    window: &Window,
    origin: *const u8,
    compare: *const u8,
    result: *mut u8,
    ty: BasicType,
    target: u32,
    disp: u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { window.swap_at_once(origin, compare, result, ty, target, disp) }
}

/// One-sided. [`Window::flush`].
#[inline(always)]
#[must_use]
pub fn flush(window: &Window, target: u32) -> bool {
    window.flush_at_once(target)
}

/// One-sided. [`Window::flush_local`].
#[inline(always)]
#[must_use]
pub fn flush_local(window: &Window, target: u32) -> bool {
    window.flush_local_at_once(target)
}

/// One-sided. [`Window::lock`], without assertions.
#[inline(always)]
#[must_use]
pub fn lock(window: &Window, kind: LockKind, target: u32) -> bool {
    window.lock_at_once(kind, target)
}

/// One-sided. [`Window::unlock`].
#[inline(always)]
#[must_use]
pub fn unlock(window: &Window, target: u32) -> bool {
    window.unlock_at_once(target)
}

/// One-sided. [`Window::lock_all`], without assertions.
#[inline(always)]
#[must_use]
pub fn lock_all(window: &Window) -> bool {
    window.lock_all_at_once()
}

/// One-sided. [`Window::unlock_all`].
#[inline(always)]
#[must_use]
pub fn unlock_all(window: &Window) -> bool {
    window.unlock_all_at_once()
}
