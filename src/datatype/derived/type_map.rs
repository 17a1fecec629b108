//! Walking the predefined types of a layout in the order of its type map.

use super::super::BasicType;
use super::tree::{Block, Contents, Datatype};

/// Returns each predefined type and where it stands. Needs memory for the depth of the type alone.
pub(crate) struct TypeMap<'t>(Vec<Frame<'t>>);

/// What is still to come of a part of the tree.
enum Frame<'t> {
    Elements(Elements<'t>),
    /// Blocks of `len` elements.
    Strided {
        blocks: Elements<'t>,
        len: u64,
    },
    Blocks {
        at: i64,
        blocks: &'t [Block],
        of: &'t Datatype,
    },
    Members {
        at: i64,
        members: &'t [(Block, Datatype)],
    },
}

/// `left` of them, the first at `at`.
struct Elements<'t> {
    of: &'t Datatype,
    at: i64,
    left: u64,
    stride: i64,
}

impl<'t> Elements<'t> {
    fn of(of: &'t Datatype, at: i64, left: u64) -> Self {
        Self {
            of,
            at,
            left,
            stride: of.extent(),
        }
    }

    /// Where the next stands.
    fn step(&mut self) -> i64 {
        let at = self.at;
        self.left -= 1;
        // Behind the last, where nothing stands, it may leave 64 bits.
        self.at = at.wrapping_add(self.stride);
        at
    }
}

impl Block {
    /// Placed at `at`. Where data lies is within 64 bits, but not always what it lies below of.
    fn elements<'t>(&self, of: &'t Datatype, at: i64) -> Elements<'t> {
        Elements::of(of, at.wrapping_add(self.at), self.len)
    }
}

impl<'t> TypeMap<'t> {
    /// Of a layout that was measured.
    pub(crate) fn new(ty: &'t Datatype, count: u64) -> Self {
        let mut map = Self(Vec::new());
        map.push(Frame::Elements(Elements::of(ty, 0, count)));
        map
    }

    /// Leaves out what has no data, which may come any number of times.
    fn push(&mut self, frame: Frame<'t>) {
        let has_data = |of: &Datatype| of.size() > 0;
        let is_some = match &frame {
            Frame::Elements(elements) => elements.left > 0 && has_data(elements.of),
            Frame::Strided { blocks, len } => blocks.left > 0 && *len > 0 && has_data(blocks.of),
            Frame::Blocks { blocks, of, .. } => !blocks.is_empty() && has_data(of),
            Frame::Members { members, .. } => !members.is_empty(),
        };
        if is_some {
            self.0.push(frame);
        }
    }

    /// Goes into one element.
    fn enter(&mut self, ty: &'t Datatype, at: i64) -> Option<BasicType> {
        self.push(match &ty.0.contents {
            Contents::Basic(basic) => return Some(*basic),
            Contents::Same(of) => Frame::Elements(Elements::of(of, at, 1)),
            Contents::Strided {
                count,
                block_len,
                stride,
                of,
            } => Frame::Strided {
                blocks: Elements {
                    of,
                    at,
                    left: *count,
                    stride: *stride,
                },
                len: *block_len,
            },
            Contents::Blocks { blocks, of } => Frame::Blocks { at, blocks, of },
            Contents::Members(members) => Frame::Members { at, members },
        });
        None
    }
}

impl Iterator for TypeMap<'_> {
    type Item = (i64, BasicType);

    fn next(&mut self) -> Option<(i64, BasicType)> {
        // A frame goes before its last part is entered, so that chains of types are not kept.
        loop {
            match self.0.pop()? {
                Frame::Elements(mut elements) => {
                    let (of, at) = (elements.of, elements.step());
                    self.push(Frame::Elements(elements));
                    if let Some(basic) = self.enter(of, at) {
                        return Some((at, basic));
                    }
                }
                Frame::Strided { mut blocks, len } => {
                    let block = Elements::of(blocks.of, blocks.step(), len);
                    self.push(Frame::Strided { blocks, len });
                    self.push(Frame::Elements(block));
                }
                Frame::Blocks { at, blocks, of } => {
                    if let Some((first, blocks)) = blocks.split_first() {
                        self.push(Frame::Blocks { at, blocks, of });
                        self.push(Frame::Elements(first.elements(of, at)));
                    }
                }
                Frame::Members { at, members } => {
                    if let Some(((first, of), members)) = members.split_first() {
                        self.push(Frame::Members { at, members });
                        self.push(Frame::Elements(first.elements(of, at)));
                    }
                }
            }
        }
    }
}
