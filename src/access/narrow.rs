//! Runs of narrow elements that single atomics update go in wider words: those that are only moved by loads, stores and
//! swaps, the others by a compare-and-swap. These are atomic with respect to atomics on one of the elements: see
//! `whole_words`.

use std::mem::MaybeUninit;
use std::ops::Range;

use rdma_sys_shim::Width;

use super::elementwise::{Fetching, compare_swap, fetch_op, update_by, update_each};
use super::whole_words::words;
use super::work::Work;
use crate::datatype::Op;

/// The bytes that are combined at a time.
const CHUNK: usize = 256;

/// Carries out work on the elements from `there` on, which single atomics of this width update. Several narrow elements
/// go in wider words.
///
/// # Safety
/// As for [`fetch_op`], for each element; the buffers of `work` are valid.
pub(super) unsafe fn update_words(there: *mut u8, width: Width, work: &Work) {
    match work.in_words(there.addr() as u64, width) {
        Some(parts) => parts.for_each(|(offset, width, part)| {
            // SAFETY: a part of what the caller promises.
            unsafe { update_each(there.wrapping_add(offset), width, &part) };
        }),
        // SAFETY: the caller's promise.
        None if work.count > 1 && is_narrow(width) => unsafe { update_narrow(there, work) },
        // SAFETY: the caller's promise.
        None => unsafe { update_each(there, width, work) },
    }
}

/// Whether neighbouring elements of this width are combined in one word. Wider elements have instructions that are as
/// fast.
fn is_narrow(width: Width) -> bool {
    matches!(width, Width::W1 | Width::W2)
}

/// Carries out work on the elements from `there` on.
///
/// # Safety
/// As for [`fetch_op`], for each element; the buffers of `work` are valid.
unsafe fn update_narrow(there: *mut u8, work: &Work) {
    let size = work.ty.size();
    for (start, bytes, width) in words(there.addr() as u64, work.count * size) {
        if work.op == Op::Sum {
            // SAFETY: a part of what the caller promises; aligned, as `words` says.
            unsafe { add_words(there, width, start..start + bytes, work) };
            continue;
        }
        let end = start + bytes;
        for start in (start..end).step_by(CHUNK) {
            let len = CHUNK.min(end - start);
            let part = work.part(start, len / size);
            // SAFETY: a part of what the caller promises; aligned, as `words` says.
            unsafe { swap_words(there.wrapping_add(start), width, len, &part) };
        }
    }
}

/// As [`update_narrow`], for a sum in some bytes that are whole words: the elements of a word are added at once.
///
/// # Safety
/// As for [`update_narrow`].
unsafe fn add_words(there: *mut u8, width: Width, bytes: Range<usize>, work: &Work) {
    // The highest bit of each element. Without it, no carry reaches the next element.
    let top: u64 = match work.ty.size() {
        1 => 0x8080_8080_8080_8080,
        _ => 0x8000_8000_8000_8000,
    };
    let mut offset = bytes.start;
    while offset < bytes.end {
        // SAFETY: a word of what the caller promises.
        unsafe {
            let operand = width.load(work.operands.add(offset));
            let old = update_by(there.wrapping_add(offset), width, |held| {
                ((held & !top) + (operand & !top)) ^ ((held ^ operand) & top)
            });
            if !work.result.is_null() {
                width.store(work.result.add(offset), old);
            }
        }
        offset += width.bytes();
    }
}

/// As [`update_narrow`], for at most [`CHUNK`] bytes of whole words.
///
/// # Safety
/// As for [`update_narrow`].
unsafe fn swap_words(there: *mut u8, width: Width, len: usize, work: &Work) {
    let mut chunks = MaybeUninit::<[[u8; CHUNK]; 2]>::uninit();
    let seen = chunks.as_mut_ptr().cast::<u8>();
    let new = seen.wrapping_add(CHUNK);
    let size = work.ty.size();
    let offsets = (0..len).step_by(width.bytes());
    // SAFETY: the words are the caller's promise. They lie inside the chunks, which are written before they are read.
    unsafe {
        for offset in offsets.clone() {
            let word = fetch_op(there.add(offset), width, Fetching::Load, 0);
            width.store(seen.add(offset), word);
            width.store(new.add(offset), word);
        }
        work.combine_held(new, 0, len / size);
        for offset in offsets {
            let (seen, new) = (seen.add(offset), new.add(offset));
            loop {
                let expected = width.load(seen);
                let found = compare_swap(there.add(offset), width, expected, width.load(new));
                if found == expected {
                    break;
                }
                width.store(seen, found);
                width.store(new, found);
                work.combine_held(new, offset / size, width.bytes() / size);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::datatype::BasicType;
    use crate::diagnostics::OperationKind;
    use std::ptr;

    #[repr(align(8))]
    struct Aligned([u8; 8192]);

    #[test]
    fn runs_of_every_length_and_alignment_are_combined_as_elements_are() {
        let operands: Vec<u8> = (0..8192).map(|at| (at * 37 + at / 256) as u8).collect();
        for ty in [BasicType::I8, BasicType::U8, BasicType::I16, BasicType::U16] {
            let size = ty.size();
            for op in Op::ALL.into_iter().filter(|op| op.is_defined_for(ty)) {
                if matches!(op, Op::NoOp | Op::Replace) {
                    continue;
                }
                for (start, count) in
                    (0..9).flat_map(|start| [1, 2, 7, 8, 9, 300, 3000].map(|n| (start, n)))
                {
                    let mut target = Aligned(std::array::from_fn(|at| (at * 91 + at / 256) as u8));
                    let before = target.0;
                    let mut olds = [vec![0; count * size], vec![0; count * size]];
                    let (start, len) = (start * size, count * size);
                    let [result, alone_result] = olds.each_mut().map(|old| match start % 4 {
                        0 => ptr::null_mut(),
                        _ => old.as_mut_ptr(),
                    });
                    let (kind, from) = (OperationKind::Accumulate, operands.as_ptr());
                    let work = Work::of(kind, from, result, count, ty, op);
                    // SAFETY: buffers of this test; the elements are aligned.
                    unsafe { update_narrow(target.0.as_mut_ptr().add(start), &work) };
                    let mut wanted = before;
                    let alone = Work::of(kind, from, alone_result, count, ty, op);
                    // SAFETY: as above.
                    unsafe { alone.combine_in_place(wanted.as_mut_ptr().add(start)) };
                    assert!(target.0 == wanted, "{op:?} of {count} {ty:?} at {start}");
                    if !result.is_null() {
                        let before = &before[start..start + len];
                        assert!(olds == [before; 2], "{op:?} of {count} {ty:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_beside_atomics_on_elements_of_the_same_word_are_all_there() {
        const ROUNDS: usize = 20_000;
        let mut target = Aligned([0; 8192]);
        let at = target.0.as_mut_ptr().addr();
        let ones = [1_u8; 16];
        let add = |start: usize, count: usize| {
            let from = ones.as_ptr();
            let (kind, ty) = (OperationKind::Accumulate, BasicType::U8);
            let work = Work::of(kind, from, ptr::null_mut(), count, ty, Op::Sum);
            let there = ptr::with_exposed_provenance_mut::<u8>(at).wrapping_add(start);
            for _ in 0..ROUNDS {
                // SAFETY: the array outlives the threads, which access it by atomics.
                unsafe {
                    match count {
                        1 => drop(fetch_op(there, Width::W1, Fetching::Add, 1)),
                        _ => update_narrow(there, &work),
                    }
                }
            }
        };
        target.0.as_mut_ptr().expose_provenance();
        std::thread::scope(|scope| {
            for (start, count) in [(0, 16), (3, 9), (5, 1)] {
                let add = &add;
                scope.spawn(move || add(start, count));
            }
        });
        let times: [usize; 16] =
            std::array::from_fn(|at| 1 + usize::from((3..12).contains(&at)) + usize::from(at == 5));
        assert_eq!(target.0[..16], times.map(|times| (times * ROUNDS) as u8));
    }
}
