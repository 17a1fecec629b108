//! Requests for many short pieces of a peer's memory: what stands in a slot's data. First a list of where they are
//! and how long, and then the bytes of all, in that order.

use super::request::Operation;
use super::segment::SLOT_BYTES;
use crate::device::batch::StridedBlocks;
use crate::memory::{Rows, copy, copy_rows};

/// The most pieces of one request.
pub(super) const MOST: usize = 128;
/// The most bytes in all pieces of one request.
pub(super) const MOST_BYTES: usize = 4 << 10;

const BYTES: usize = MOST * size_of::<Run>();
const _: () = assert!(BYTES + MOST_BYTES <= SLOT_BYTES);

/// Pieces of one length at equal distances, such as a column of a matrix; or a single piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Run {
    /// From the request's address to the first piece.
    offset: u32,
    /// Length of each piece.
    len: u32,
    stride: u32,
    count: u32,
}

impl Run {
    /// This run with the piece of `next` added. `None` unless `next` is a single piece with the same length at the same
    /// distance.
    fn extended(self, next: Self) -> Option<Self> {
        let beyond = next.offset.checked_sub(self.offset)?;
        let stride = if self.count == 1 { beyond } else { self.stride };
        let is_next = next.count == 1
            && next.len == self.len
            && u64::from(beyond) == u64::from(stride) * u64::from(self.count);
        is_next.then_some(Self {
            stride,
            count: self.count + 1,
            ..self
        })
    }

    /// The number of bytes, and the end of the last piece relative to the request's address.
    fn extent(self) -> Option<(u64, u64)> {
        let [offset, len, stride, count] =
            [self.offset, self.len, self.stride, self.count].map(u64::from);
        let last = stride * count.checked_sub(1)?;
        let end = offset.checked_add(last)?.checked_add(len)?;
        Some((len * count, end))
    }
}

/// The place of list entry `which` in a slot's data.
fn entry(data: *mut u8, which: usize) -> *mut Run {
    data.cast::<Run>().wrapping_add(which)
}

/// Writes a list of parts into a slot's data, and their bytes if they are sent. Returns the length of the list. No part
/// begins before `address`, which is the request's.
///
/// # Safety
/// `data` is writable for [`SLOT_BYTES`]. The parts have at most [`MOST`] blocks with [`MOST_BYTES`] in all. None of
/// them ends more than 4 GiB after the address. They are readable if they are sent.
pub(super) unsafe fn fill(
    data: *mut u8,
    address: u64,
    parts: impl Iterator<Item = StridedBlocks>,
    are_sent: bool,
) -> usize {
    let mut list = Run::default();
    let mut count = 0;
    let mut next = data.wrapping_add(BYTES);
    for part in parts {
        let run = Run {
            offset: (part.at.address - address) as u32,
            len: part.len as u32,
            stride: part.stride_there as u32,
            count: part.count as u32,
        };
        match list.extended(run).filter(|_| count > 0) {
            Some(longer) => list = longer,
            None => {
                list = run;
                count += 1;
            }
        }
        // SAFETY: there are no more runs than blocks, for which there is room; the entries are aligned since the data
        // is, to cache lines. The caller promises the blocks and the limits by which their bytes fit into the data.
        unsafe {
            entry(data, count - 1).write(list);
            if are_sent {
                copy_blocks(
                    next,
                    part.here,
                    rows(&part, part.len as isize, part.stride_here),
                );
            }
        }
        next = next.wrapping_add(part.len * part.count);
    }
    count
}

/// Copies the bytes of an answer to the parts.
///
/// # Safety
/// `data` is readable for [`SLOT_BYTES`], and was filled with a list of parts like these, which are writable.
pub(super) unsafe fn take(data: *mut u8, parts: impl Iterator<Item = StridedBlocks>) {
    let mut next = data.wrapping_add(BYTES);
    for part in parts {
        // SAFETY: the caller's promise.
        unsafe {
            copy_blocks(
                part.here,
                next,
                rows(&part, part.stride_here, part.len as isize),
            )
        };
        next = next.wrapping_add(part.len * part.count);
    }
}

fn rows(part: &StridedBlocks, to_stride: isize, from_stride: isize) -> Rows {
    Rows {
        len: part.len,
        count: part.count,
        to_stride,
        from_stride,
    }
}

/// # Safety
/// As for [`copy_rows`].
pub(super) unsafe fn copy_blocks(to: *mut u8, from: *const u8, rows: Rows) {
    let Rows { len, count, .. } = rows;
    // SAFETY: the caller's promise.
    unsafe {
        match count == 1 || [rows.to_stride, rows.from_stride] == [len as isize; 2] {
            true => copy(to, from, len * count),
            false => copy_rows(to, from, rows),
        }
    }
}

/// Copies the bytes of a list of `count` runs to or from the memory at `at`. `None` if the list exceeds the data, or a
/// piece exceeds the `len` bytes of memory; the pieces before it have been copied.
///
/// # Safety
/// `at` is mapped for `len` bytes, and all other accesses to them meanwhile are those of memory shared with peers.
/// `data` is writable for [`SLOT_BYTES`].
pub(super) unsafe fn apply(
    operation: Operation,
    at: *mut u8,
    len: u64,
    count: usize,
    data: *mut u8,
) -> Option<()> {
    if count > MOST {
        return None;
    }
    let (mut bytes_left, mut pieces_left) = (MOST_BYTES as u64, MOST as u32);
    let mut next = data.wrapping_add(BYTES);
    for which in 0..count {
        // SAFETY: inside the data, since the number of entries is limited; aligned, as the data is, to cache lines.
        let pieces = unsafe { entry(data, which).read_volatile() };
        let (bytes, end) = pieces.extent()?;
        bytes_left = bytes_left.checked_sub(bytes)?;
        pieces_left = pieces_left.checked_sub(pieces.count)?;
        if end > len {
            return None;
        }
        let there = at.wrapping_add(pieces.offset as usize);
        let (piece, stride) = (pieces.len as usize, pieces.stride as isize);
        let (to, from, to_stride, from_stride) = match operation {
            Operation::Scatter => (there, next, stride, piece as isize),
            _ => (next, there, piece as isize, stride),
        };
        let rows = Rows {
            len: piece,
            count: pieces.count as usize,
            to_stride,
            from_stride,
        };
        // SAFETY: the pieces were just found in the memory, and their bytes in the data.
        unsafe { copy_rows(to, from, rows) };
        next = next.wrapping_add(bytes as usize);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteAddress;

    const ADDRESS: u64 = 1 << 40;

    /// As aligned as a slot's data.
    #[repr(align(4096))]
    struct Data([u8; SLOT_BYTES]);

    fn data() -> Box<Data> {
        Box::new(Data([0xee; SLOT_BYTES]))
    }

    /// Sends pieces of `sent`, one behind the other but for some gaps, to `memory`, and gets them back.
    fn there_and_back(pieces: &[(u32, u32)], runs: usize) {
        let mut data = data();
        let data = data.0.as_mut_ptr();
        let sent: Vec<u8> = (1..=255).collect();
        let mut starts = Vec::new();
        let mut next = 0;
        for (which, &(_, len)) in pieces.iter().enumerate() {
            next += usize::from(which % 3 == 2);
            starts.push(next);
            next += len as usize;
        }
        let mut memory = [0_u8; 256];
        let base = memory.as_mut_ptr();
        let each = || pieces.iter().zip(&starts);
        let part = |(&(offset, len), &start): (&(u32, u32), &usize), here: *mut u8| {
            let at = RemoteAddress {
                address: ADDRESS + u64::from(offset),
                rkey: 1,
            };
            StridedBlocks::run(here.wrapping_add(start), len as usize, at)
        };
        // SAFETY: the data has its size, and the pieces lie in `sent` and in `memory`.
        unsafe {
            let parts = each().map(|piece| part(piece, sent.as_ptr().cast_mut()));
            assert_eq!(fill(data, ADDRESS, parts, true), runs, "{pieces:?}");
            apply(Operation::Scatter, base, 256, runs, data).unwrap();
        }
        let mut expected = [0; 256];
        for (&(offset, len), &at) in each() {
            let (offset, len) = (offset as usize, len as usize);
            expected[offset..offset + len].copy_from_slice(&sent[at..at + len]);
        }
        assert_eq!(memory, expected, "{pieces:?}");

        let mut back = [0_u8; 256];
        let to = back.as_mut_ptr();
        // SAFETY: as above.
        unsafe {
            assert_eq!(
                fill(data, ADDRESS, each().map(|piece| part(piece, to)), false),
                runs
            );
            apply(Operation::Gather, base, 256, runs, data).unwrap();
            take(data, each().map(|piece| part(piece, to)));
        }
        for (&(_, len), &at) in each() {
            let range = at..at + len as usize;
            assert_eq!(back[range.clone()], sent[range], "{pieces:?}");
        }
    }

    #[test]
    fn pieces_go_where_they_belong_and_come_back() {
        there_and_back(&[(40, 3), (0, 1), (10, 8), (20, 0), (60, 4)], 5);
        there_and_back(&[(3, 5)], 1);
        there_and_back(&[], 0);
    }

    #[test]
    fn what_is_regular_is_told_in_short() {
        there_and_back(&[(0, 8), (16, 8), (32, 8), (48, 8)], 1);
        // Another length, another distance, and back.
        there_and_back(
            &[
                (0, 8),
                (16, 8),
                (32, 4),
                (48, 4),
                (100, 4),
                (152, 4),
                (60, 4),
            ],
            4,
        );
    }

    #[test]
    fn blocks_are_one_run_however_they_lie_here() {
        let mut data = data();
        let data = data.0.as_mut_ptr();
        let sent: Vec<u8> = (1..=255).collect();
        for stride_here in [4, 7, -5] {
            let first = if stride_here < 0 { 100 } else { 10 };
            let at = RemoteAddress {
                address: ADDRESS + 3,
                rkey: 1,
            };
            let blocks = |base: *mut u8| StridedBlocks {
                count: 10,
                stride_here,
                stride_there: 20,
                ..StridedBlocks::run(base.wrapping_add(first), 4, at)
            };
            let (mut memory, mut back) = ([0_u8; 256], [0_u8; 256]);
            let (base, to) = (memory.as_mut_ptr(), back.as_mut_ptr());
            // SAFETY: the data has its size, and the blocks lie in `sent`, in `memory` and in `back`.
            unsafe {
                let part = blocks(sent.as_ptr().cast_mut());
                assert_eq!(fill(data, ADDRESS, [part].into_iter(), true), 1);
                apply(Operation::Scatter, base, 256, 1, data).unwrap();
                fill(data, ADDRESS, [blocks(to)].into_iter(), false);
                apply(Operation::Gather, base, 256, 1, data).unwrap();
                take(data, [blocks(to)].into_iter());
            }
            for block in 0..10 {
                let here = first.checked_add_signed(block * stride_here).unwrap();
                let there = 3 + 20 * block as usize;
                assert_eq!(memory[there..there + 4], sent[here..here + 4]);
                assert_eq!(back[here..here + 4], sent[here..here + 4]);
            }
        }
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let mut data = data();
        let data = data.0.as_mut_ptr();
        let mut memory = vec![0_u8; MOST_BYTES + 1];
        let mut applied = |list: &[Run], count, len: usize, operation| {
            for (which, &pieces) in list.iter().enumerate() {
                // SAFETY: few runs, in data that is as long as it is.
                unsafe { entry(data, which).write(pieces) };
            }
            assert!(len <= memory.len());
            // SAFETY: the memory is as long as is said.
            unsafe { apply(operation, memory.as_mut_ptr(), len as u64, count, data) }
        };
        let rows = |offset, len, stride, count| Run {
            offset,
            len,
            stride,
            count,
        };
        let most = MOST_BYTES as u32;
        for operation in [Operation::Scatter, Operation::Gather] {
            for pieces in [
                rows(0, 17, 0, 1),
                rows(16, 1, 0, 1),
                rows(0, 4, 4, 5),
                rows(0, 0, 1, 18),
                rows(0, 1, 0, 0),
                // Nothing, very often.
                rows(0, 0, 0, u32::MAX),
                rows(0, 1, 0, most + 1),
                rows(u32::MAX, u32::MAX, u32::MAX, u32::MAX),
                rows(0, u32::MAX, 0, u32::MAX),
                rows(0, 1, u32::MAX, 2),
            ] {
                let answer = applied(&[pieces], 1, 16, operation);
                assert_eq!(answer, None, "{pieces:?}");
            }
            assert_eq!(applied(&[], MOST + 1, 16, operation), None);
            assert_eq!(applied(&[rows(0, 4, 4, 4)], 1, 16, operation), Some(()));
            // More bytes than there is room for, though each piece is in the memory.
            let all = rows(0, most, 0, 1);
            assert_eq!(applied(&[all], 1, MOST_BYTES, operation), Some(()));
            let more = [all, rows(0, 1, 0, 1)];
            assert_eq!(applied(&more, 2, MOST_BYTES, operation), None);
            let longer = rows(0, most + 1, 0, 1);
            assert_eq!(applied(&[longer], 1, MOST_BYTES + 1, operation), None);
        }
    }
}
