//! Walking the blocks of a layout in their order.

use super::piece::{Parts, Piece, Shape};
use super::row::Row;

/// Returns rows of equal blocks, in order of their first bytes. A layout of one row needs no memory
/// for the walk.
pub(crate) struct Cursor<'a> {
    next: Option<(i64, &'a Shape)>,
    stack: Vec<Frame<'a>>,
}

struct Frame<'a> {
    parts: &'a Parts,
    /// The next part.
    index: usize,
    /// The place of this repetition.
    at: i64,
    /// Repetitions after this one.
    left: u64,
    stride: i64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(piece: &'a Piece) -> Self {
        Self {
            next: Some((piece.at, &piece.shape)),
            stack: Vec::new(),
        }
    }

    /// The shape after the one that was walked last.
    fn step(&mut self) -> Option<(i64, &'a Shape)> {
        loop {
            let frame = self.stack.last_mut()?;
            let parts = frame.parts;
            if let Some(part) = parts.0.get(frame.index) {
                frame.index += 1;
                let at = frame.at + part.at;
                // The last part of the last repetition does not need its frame. This keeps the
                // stack of a chain of nests short.
                if frame.left == 0 && frame.index == parts.0.len() {
                    self.stack.pop();
                }
                return Some((at, &part.shape));
            }
            if frame.left == 0 {
                self.stack.pop();
                continue;
            }
            frame.left -= 1;
            frame.at += frame.stride;
            frame.index = 0;
        }
    }
}

impl Iterator for Cursor<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let mut next = self.next.take().or_else(|| self.step());
        loop {
            match next? {
                (at, Shape::Blocks(blocks)) => {
                    return Some(Row {
                        at,
                        len: blocks.len,
                        count: blocks.count,
                        stride: blocks.stride,
                    });
                }
                (at, Shape::Nest(nest)) => {
                    self.stack.push(Frame {
                        parts: &nest.parts,
                        index: 0,
                        at,
                        left: nest.count - 1,
                        stride: nest.stride,
                    });
                    next = self.step();
                }
            }
        }
    }
}
