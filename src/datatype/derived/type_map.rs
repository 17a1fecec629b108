//! Walking the predefined types of a layout in the order of its type map.

use super::super::BasicType;
use super::tree::{Contents, Datatype};

/// Returns each predefined type and where it stands. Needs memory for the depth of the type alone.
pub(crate) struct TypeMap<'t>(Vec<Frame<'t>>);

/// What is still to come of a part of the tree.
enum Frame<'t> {
    /// So many elements, the first at `at`.
    Elements {
        of: &'t Datatype,
        at: i64,
        left: u64,
    },
    /// The blocks of an element at `at`, from this one on.
    Blocks {
        contents: &'t Contents,
        at: i64,
        index: u64,
    },
}

impl<'t> TypeMap<'t> {
    /// Of a layout that was measured.
    pub(crate) fn new(ty: &'t Datatype, count: u64) -> Self {
        let mut map = Self(Vec::new());
        map.push_elements(ty, 0, count);
        map
    }

    /// Leaves out what has no data, which may come any number of times.
    fn push_elements(&mut self, of: &'t Datatype, at: i64, left: u64) {
        if left > 0 && of.size() > 0 {
            self.0.push(Frame::Elements { of, at, left });
        }
    }
}

impl Iterator for TypeMap<'_> {
    type Item = (i64, BasicType);

    fn next(&mut self) -> Option<(i64, BasicType)> {
        // A frame goes before its last part is entered, so that chains of types are not kept. Where data lies is within 64
        // bits, but not always what it lies above or below of.
        loop {
            match self.0.pop()? {
                Frame::Elements { of, at, left } => {
                    self.push_elements(of, at.wrapping_add(of.extent()), left - 1);
                    let contents = &of.0.contents;
                    if let Contents::Basic(basic) = contents {
                        return Some((at, *basic));
                    }
                    let index = 0;
                    self.0.push(Frame::Blocks {
                        contents,
                        at,
                        index,
                    });
                }
                Frame::Blocks {
                    contents,
                    at,
                    index,
                } => {
                    let Some((block, of)) = contents.block(index) else {
                        continue;
                    };
                    let index = index + 1;
                    if contents.block(index).is_some() {
                        self.0.push(Frame::Blocks {
                            contents,
                            at,
                            index,
                        });
                    }
                    self.push_elements(of, at.wrapping_add(block.at), block.len);
                }
            }
        }
    }
}
