//! What most calls come to, for front ends whose calls have to be as quick as their arguments can be looked at. Each
//! function does all that its call does, at once and without waiting; or it does nothing, where there is more to do or
//! anything is amiss: then the call itself tells, or does it. None makes a call of its own that has to be awaited, so
//! that a caller which goes on by a call with the same arguments saves no register for it.

pub use crate::access::InPlace;

use crate::access::Way;
use crate::datatype::{BasicType, Op};
use crate::terms::LockKind;
use crate::window::Window;

/// One-sided. Where a put of `len` bytes is but a copy, which [`InPlace::put`] makes: then that is all of
/// [`Window::put`].
#[inline(always)]
#[must_use]
pub fn to_put(window: &Window, len: usize, target: u32, disp: u64) -> Option<InPlace<'_>> {
    window.in_place(Way::Put, len, target, disp)
}

/// One-sided. Where a get of `len` bytes is but a copy, which [`InPlace::get`] makes: then that is all of
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
