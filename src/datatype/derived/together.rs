//! Walking layouts together: which bytes of one belong to which of the others.

use super::cursor::Cursor;
use super::piece::Piece;
use super::row::Row;

/// Walks several layouts in the order of their type maps, up to the end of the shortest. Strips are as long as all
/// layouts allow.
pub(crate) struct Together<'a, const N: usize>([Side<'a>; N]);

/// `count` blocks of `len` bytes in each of the layouts, with one stride for each layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip<const N: usize> {
    pub(crate) len: u64,
    pub(crate) count: u64,
    pub(crate) at: [i64; N],
    pub(crate) stride: [i64; N],
}

impl<const N: usize> Strip<N> {
    /// How many bytes there are in each layout.
    pub(crate) fn bytes(&self) -> u64 {
        self.len * self.count
    }

    /// The place of each block in every layout.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = [i64; N]> + use<N> {
        let Self { at, stride, .. } = *self;
        (0..self.count as i64)
            .map(move |block| std::array::from_fn(|side| at[side] + block * stride[side]))
    }
}

struct Side<'a> {
    cursor: Cursor<'a>,
    /// The rest of the current row.
    row: Row,
    /// Bytes of its first block that are done.
    done: u64,
}

impl<'a, const N: usize> Together<'a, N> {
    pub(crate) fn new(layouts: [&'a Piece; N]) -> Self {
        Self(layouts.map(|piece| Side {
            cursor: Cursor::new(piece),
            row: Row::EMPTY,
            done: 0,
        }))
    }
}

impl Side<'_> {
    /// False at the end of the layout.
    fn refill(&mut self) -> bool {
        if self.row.count > 0 {
            return true;
        }
        self.done = 0;
        match self.cursor.next() {
            Some(row) => {
                self.row = row;
                true
            }
            None => false,
        }
    }

    /// Bytes to the end of the first block.
    fn rest(&self) -> u64 {
        self.row.len - self.done
    }

    /// How many parts of `len` bytes follow one another at equal distances, and this distance. The rest of the first
    /// block has at least `len` bytes.
    fn parts(&self, len: u64) -> (u64, i64) {
        let Row { count, stride, .. } = self.row;
        match self.rest() {
            rest if rest > len => (rest / len, len as i64),
            _ if self.done > 0 => (1, 0),
            _ => (count, stride),
        }
    }

    /// Whether exactly `len` bytes are left.
    fn is_last_of(&self, len: u64) -> bool {
        self.row.count == 1 && self.rest() == len
    }

    fn at(&self) -> i64 {
        self.row.at + self.done as i64
    }

    /// Advances by `len` bytes of the first block.
    fn advance_in_block(&mut self, len: u64) {
        self.done += len;
        if self.done < self.row.len {
            return;
        }
        self.done = 0;
        self.row.count -= 1;
        if self.row.count > 0 {
            self.row.at += self.row.stride;
        }
    }

    fn advance(&mut self, len: u64, count: u64) {
        let row = &mut self.row;
        // Whole blocks, or parts of the first.
        let blocks_done = if self.done == 0 && len == row.len {
            count
        } else {
            self.done += len * count;
            if self.done < row.len {
                return;
            }
            1
        };
        self.done = 0;
        row.count -= blocks_done;
        if row.count > 0 {
            row.at += row.stride * blocks_done as i64;
        }
    }
}

impl<const N: usize> Iterator for Together<'_, N> {
    type Item = Strip<N>;

    fn next(&mut self) -> Option<Strip<N>> {
        if !self.0.iter_mut().all(Side::refill) {
            return None;
        }
        let len = self.0.iter().map(Side::rest).min()?;
        // For a list of single blocks, a walk block by block needs fewer checks.
        if self.0.iter().any(|side| side.is_last_of(len)) {
            let strip = Strip {
                len,
                count: 1,
                at: self.0.each_ref().map(Side::at),
                stride: [0; N],
            };
            self.0
                .iter_mut()
                .for_each(|side| side.advance_in_block(len));
            return Some(strip);
        }
        let parts = self.0.each_ref().map(|side| side.parts(len));
        let count = parts.iter().map(|&(count, _)| count).min()?;
        let strip = Strip {
            len,
            count,
            at: self.0.each_ref().map(Side::at),
            stride: parts.map(|(_, stride)| stride),
        };
        for side in &mut self.0 {
            side.advance(len, count);
        }
        Some(strip)
    }
}
