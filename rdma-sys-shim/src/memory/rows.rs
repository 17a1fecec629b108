//! Copying equal blocks at equal distances: columns of matrices, mostly.

use super::{Rows, arch, copy as copy_block};

/// Destinations so far apart are in different cache lines.
const LINE: usize = 64;
/// How many blocks ahead their lines are asked for: columns fall into few sets of a cache, which
/// have no room for more.
const AHEAD: isize = 4;

/// Of a second-level cache, where the processor does not say.
const SECOND_LEVEL: usize = 512 << 10;
/// No cache has fewer places for lines that exclude each other.
const WAYS: usize = 4;

/// Whether the second-level cache holds the lines of so many blocks of `len` bytes with this distance between them.
pub(super) fn are_held(count: usize, len: usize, stride: u64) -> bool {
    count.saturating_mul(len.div_ceil(LINE))
        <= room(arch::second_level().unwrap_or(SECOND_LEVEL), stride)
}

/// For how many lines a cache of `size` bytes has room where these are so far apart: if that is a multiple of many lines, they
/// fall into few of its sets.
fn room(size: usize, stride: u64) -> usize {
    let line = LINE.trailing_zeros();
    let skipped = stride.trailing_zeros().clamp(line, u64::BITS - 1) - line;
    ((size / LINE) >> skipped).max(WAYS)
}

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn columns_have_room_in_as_many_sets_as_they_meet() {
        let cases = [
            (64, 16384),
            (8, 16384),
            (72, 16384),
            (4096 + 64, 16384),
            (4096, 256),
            (8192, 128),
            (3 * 8192, 128),
            (1 << 20, WAYS),
            (1 << 63, WAYS),
            (0, WAYS),
        ];
        for (stride, lines) in cases {
            assert_eq!(room(1 << 20, stride), lines, "{stride}");
        }
        assert_eq!(room(2 << 20, 8192), 256);
    }
}
