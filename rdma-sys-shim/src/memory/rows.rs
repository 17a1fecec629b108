//! Copying equal blocks at equal distances: columns of matrices, mostly.

use super::{Rows, arch, copy as copy_block};

/// Destinations at this distance are in different cache lines.
const LINE: usize = 64;
/// How many blocks ahead to prefetch. Columns fall into few sets of a cache, which have no room for more.
const AHEAD: isize = 4;

/// # Safety
/// As for [`super::copy_rows`].
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, rows: Rows) {
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
