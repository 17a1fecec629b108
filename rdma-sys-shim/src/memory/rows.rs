//! Copying equal blocks at equal distances: columns of matrices, mostly.

use std::cell::Cell;

use super::{Rows, arch, copy as copy_block};

/// Destinations so far apart are in different cache lines.
const LINE: usize = 64;
/// How many blocks ahead their lines are asked for: columns fall into few sets of a cache, which
/// have no room for more.
const AHEAD: isize = 4;
/// Sweeps over fewer lines find them in some cache anyway.
const LONG: usize = 64;

thread_local! {
    /// The block that ended this thread's last long sweep.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// # Safety
/// As for [`super::copy_rows`].
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, rows: Rows) {
    let (to, from, rows) = directed(to, from, rows);
    // SAFETY: the caller's promise, with the length that was found.
    unsafe {
        match rows.len {
            1 => fixed::<1>(to, from, rows),
            2 => fixed::<2>(to, from, rows),
            4 => fixed::<4>(to, from, rows),
            8 => fixed::<8>(to, from, rows),
            16 => fixed::<16>(to, from, rows),
            _ => each(to, from, rows),
        }
    }
}

/// The end to begin with: a sweep over more lines than their sets of a cache hold finds none of
/// what an equal sweep before it left there, if both go the same way. One that goes back finds the
/// lines of the end, be it the same column or the next.
fn directed(to: *mut u8, from: *const u8, rows: Rows) -> (*mut u8, *const u8, Rows) {
    let (to_stride, from_stride) = (rows.to_stride, rows.from_stride);
    if rows.count < LONG || to_stride.unsigned_abs() < LINE {
        return (to, from, rows);
    }
    let steps = rows.count as isize - 1;
    let end = to.wrapping_offset(steps.wrapping_mul(to_stride));
    if LAST.get().abs_diff(end.addr()) < LINE {
        LAST.set(to.addr());
        let backwards = Rows {
            to_stride: -to_stride,
            from_stride: -from_stride,
            ..rows
        };
        return (
            end,
            from.wrapping_offset(steps.wrapping_mul(from_stride)),
            backwards,
        );
    }
    LAST.set(end.addr());
    (to, from, rows)
}

/// # Safety
/// As for [`super::copy_rows`]; the blocks have `LEN` bytes.
#[inline(always)]
unsafe fn fixed<const LEN: usize>(to: *mut u8, from: *const u8, rows: Rows) {
    let Rows {
        count,
        to_stride,
        from_stride,
        ..
    } = rows;
    let (mut to, mut from) = (to, from);
    let far_apart = to_stride.unsigned_abs() >= LINE && arch::gains_by_prefetch();
    let ahead = to_stride.wrapping_mul(AHEAD);
    for _ in 0..count {
        if far_apart {
            arch::prefetch_for_write(to.wrapping_offset(ahead));
        }
        // SAFETY: one of the blocks.
        unsafe { arch::copy_fixed::<LEN>(to, from) };
        to = to.wrapping_offset(to_stride);
        from = from.wrapping_offset(from_stride);
    }
}

/// # Safety
/// As for [`super::copy_rows`].
unsafe fn each(mut to: *mut u8, mut from: *const u8, rows: Rows) {
    for _ in 0..rows.count {
        // SAFETY: one of the blocks.
        unsafe { copy_block(to, from, rows.len) };
        to = to.wrapping_offset(rows.to_stride);
        from = from.wrapping_offset(rows.from_stride);
    }
}
