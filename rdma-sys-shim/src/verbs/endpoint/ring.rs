//! Space in a ring for what is under way: taken and given back in the same order.

/// Every piece starts at a multiple of this, so that an atomic's result is aligned.
const ALIGN: u32 = 8;

/// The allocation state of a ring of bytes. The bytes are stored elsewhere.
#[derive(Debug)]
pub(super) struct Ring {
    len: u32,
    head: u32,
    used: u32,
}

/// A part of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RingPiece {
    /// Its start.
    pub(super) at: u32,
    /// The bytes that it takes of the ring, including those skipped before it.
    pub(super) takes: u32,
}

impl Ring {
    pub(super) fn new(len: u32) -> Self {
        Self {
            len: len - len % ALIGN,
            head: 0,
            used: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes `len` contiguous bytes, if there is room.
    pub(super) fn take(&mut self, len: u32) -> Option<RingPiece> {
        let len = len.checked_add(ALIGN - 1)? & !(ALIGN - 1);
        let to_end = self.len - self.head;
        let skipped = if len <= to_end { 0 } else { to_end };
        let takes = skipped.checked_add(len)?;
        if len > self.len || takes > self.len - self.used {
            return None;
        }
        let at = if skipped == 0 { self.head } else { 0 };
        let end = at + len;
        self.head = if end == self.len { 0 } else { end };
        self.used += takes;
        Some(RingPiece { at, takes })
    }

    /// Gives back the oldest piece.
    pub(super) fn give(&mut self, piece: RingPiece) {
        self.used -= piece.takes;
        if self.used == 0 {
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn pieces_never_overlap_and_all_space_comes_back() {
        let mut ring = Ring::new(100);
        let mut held: VecDeque<(RingPiece, u32)> = VecDeque::new();
        let mut seed = 1_u32;
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = 1 + (seed >> 16) % 50;
            match ring.take(len) {
                Some(piece) => {
                    assert!(piece.at % ALIGN == 0 && piece.at + len <= 96);
                    for (other, other_len) in &held {
                        let apart = piece.at + len <= other.at || other.at + other_len <= piece.at;
                        assert!(apart, "{piece:?} of {len} and {other:?} of {other_len}");
                    }
                    held.push_back((piece, len));
                }
                None => {
                    let (oldest, _) = held.pop_front().expect("an empty ring has room");
                    ring.give(oldest);
                }
            }
        }
        for (piece, _) in held {
            ring.give(piece);
        }
        assert_eq!(ring.take(96), Some(RingPiece { at: 0, takes: 96 }));
        assert_eq!(ring.take(1), None);
    }

    #[test]
    fn what_is_longer_than_the_ring_is_refused() {
        let mut ring = Ring::new(64);
        assert_eq!(ring.take(65), None);
        assert_eq!(ring.take(u32::MAX), None);
    }
}
