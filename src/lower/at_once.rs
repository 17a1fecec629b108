//! The frequent case of each call, for front ends whose calls have to be fast. A function here does everything that its
//! call does, at once and without waiting. If there is more to do, or something is wrong, it does nothing. Then the
//! caller makes the general call, which does the work or returns the error. No function here calls a function that is
//! not inlined. So a caller that then makes the general call with the same arguments need not save registers.

pub use crate::access::{
    InPlace, add_at_once as add, fetch_at_once as fetch_and_op, swap_at_once as compare_and_swap,
};
pub use crate::sync::{
    flush_at_once as flush, flush_local_at_once as flush_local, lock_all_at_once as lock_all,
    lock_at_once as lock, unlock_all_at_once as unlock_all, unlock_at_once as unlock,
};

use rdma_sys_shim::Direction;

use crate::window::Window;

/// One-sided. The mapped bytes for a put of `len` bytes, if the put is only a copy: then [`InPlace::put`] does all that
/// [`Window::put`] does.
#[inline(always)]
#[must_use]
pub fn to_put(window: &Window, len: usize, target: u32, disp: u64) -> Option<InPlace<'_>> {
    window.in_place(Direction::Write, len, target, disp)
}

/// One-sided. The mapped bytes for a get of `len` bytes, if the get is only a copy: then [`InPlace::get`] does all that
/// [`Window::get`] does.
#[inline(always)]
#[must_use]
pub fn to_get(window: &Window, len: usize, target: u32, disp: u64) -> Option<InPlace<'_>> {
    window.in_place(Direction::Read, len, target, disp)
}
