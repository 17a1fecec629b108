//! If single atomics update narrow elements, runs of such elements that are only replaced or fetched are moved in wider
//! words. Programs that publish several bytes at once rely on this, as with other MPIs.
//!
//! An atomic on a wide word and an atomic on an element in it are atomic with respect to each other. So a rank that
//! accesses single elements, as other operations do, sees and leaves only whole elements. The reason is that narrow
//! atomics are always the processor's (this one's, or that of the target's agent), and that x86-64 and AArch64 keep one
//! order of all accesses to each byte, whatever their size. On a device without narrow atomics, runs of narrow elements
//! are moved as a whole under the lock.
//!
//! Several words are not moved at once. But if a run of at most 64 bytes that begins and ends at multiples of eight bytes
//! is replaced and nothing is fetched, the processor at the target or this one stores its words from the last to the
//! first, each by a release. Words are fetched from the first to the last, each by an acquire. So a rank that finds a
//! new word finds the following ones new, too (or newer).

use rdma_sys_shim::Width;

use super::work::Work;
use crate::datatype::Op;

/// From the widest to the narrowest.
const WIDTHS: [Width; 4] = [Width::W8, Width::W4, Width::W2, Width::W1];

/// Whether neighbouring elements of `bytes` bytes may go in one word.
pub(super) fn go_together(op: Op, bytes: usize) -> bool {
    matches!(op, Op::Replace | Op::NoOp) && bytes < Width::W8.bytes()
}

/// Splits `len` bytes from an address on into naturally aligned words, each as wide as possible: offset, bytes, and
/// width of the words. Address and length are multiples of an element's width.
pub(super) fn words(address: u64, len: usize) -> impl Iterator<Item = (usize, usize, Width)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (start, left) = (next, len - next);
        if left == 0 {
            return None;
        }
        let fits = |width: &Width| {
            let bytes = width.bytes();
            bytes <= left && (address + start as u64).is_multiple_of(bytes as u64)
        };
        let width = WIDTHS.into_iter().find(fits)?;
        // There may be many of the widest words.
        let bytes = match width {
            Width::W8 => left / 8 * 8,
            narrow => narrow.bytes(),
        };
        next += bytes;
        Some((start, bytes, width))
    })
}

impl Work {
    /// Splits work on elements of this width, from an address on, into words, with the offset of each part. The type
    /// stays that of the elements; these operations do not use it. `None`: element by element.
    #[inline]
    pub(super) fn in_words(
        &self,
        address: u64,
        width: Width,
    ) -> Option<impl Iterator<Item = (usize, Width, Self)>> {
        let element = width.bytes();
        if self.count == 1 || !go_together(self.op, element) {
            return None;
        }
        let words = words(address, self.count * element);
        Some(words.map(move |(offset, bytes, width)| {
            (offset, width, self.part(offset, bytes / width.bytes()))
        }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_wide_as_alignment_and_length_allow() {
        for address in 0..17 {
            for len in 0..40 {
                let mut next = 0;
                for (offset, bytes, width) in words(address, len) {
                    let (size, place) = (width.bytes(), address + offset as u64);
                    assert_eq!(offset, next);
                    assert!(bytes > 0 && bytes.is_multiple_of(size));
                    assert!(place.is_multiple_of(size as u64));
                    let left = (len - offset) as u64;
                    let wider = 2 * size as u64;
                    assert!(size == 8 || wider > left || !place.is_multiple_of(wider));
                    next += bytes;
                }
                assert_eq!(next, len);
                // No aligned word is cut.
                for word in [2, 4, 8] {
                    for start in (0..address + len as u64).step_by(word) {
                        if start < address || start + word as u64 > address + len as u64 {
                            continue;
                        }
                        let inside = |(offset, bytes, width): (usize, usize, Width)| {
                            let first = address + offset as u64;
                            let whole = width.bytes() >= word;
                            whole && first <= start && start + word as u64 <= first + bytes as u64
                        };
                        assert!(words(address, len).any(inside), "{word} at {start}");
                    }
                }
            }
        }
    }
}
