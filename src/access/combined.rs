//! What an operation of the accumulate family does, where its elements lie in layouts.

use super::whole_words::go_together;
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op, Piece, Together};

/// Elements of one predefined type in three layouts, up to the end of the shortest: operands,
/// results, target.
pub(super) struct Combined<'a> {
    pub(super) ty: BasicType,
    pub(super) op: Op,
    /// `None` for [`Op::NoOp`].
    pub(super) operands: Option<*const u8>,
    /// Where the old elements go.
    pub(super) result: Option<*mut u8>,
    /// Those that have no memory are walked all the same.
    pub(super) layouts: [&'a Piece; 3],
    /// So many bytes from the start on have nothing done to them: a number of whole strips.
    pub(super) skip: u64,
}

/// Elements, one after the other in each of the three.
#[derive(Clone, Copy)]
pub(super) struct ElementBlock {
    operands: i64,
    result: i64,
    /// From where the target's layout is placed.
    pub(super) target: i64,
    /// Bytes, padding included.
    pub(super) len: usize,
}

impl ElementBlock {
    /// The part from byte `start` on.
    pub(super) fn part(&self, start: usize, len: usize) -> Self {
        let ahead = |at: i64| at + start as i64;
        Self {
            operands: ahead(self.operands),
            result: ahead(self.result),
            target: ahead(self.target),
            len,
        }
    }
}

/// The blocks, and where each begins in a buffer that holds one behind the other.
pub(super) fn packed(blocks: &[ElementBlock]) -> impl Iterator<Item = (usize, &ElementBlock)> {
    blocks.iter().scan(0, |next, block| {
        let at = *next;
        *next += block.len;
        Some((at, block))
    })
}

impl Combined<'_> {
    pub(super) fn blocks(&self) -> impl Iterator<Item = ElementBlock> {
        let (skip, mut walked) = (self.skip, 0);
        let strips = Together::new(self.layouts).filter(move |strip| {
            walked += strip.bytes();
            walked > skip
        });
        strips.flat_map(|strip| {
            let len = strip.len as usize;
            strip
                .blocks()
                .map(move |[operands, result, target]| ElementBlock {
                    operands,
                    result,
                    target,
                    len,
                })
        })
    }

    /// The blocks whose elements single atomics update, or the others. `base` is where the target's
    /// layout is placed.
    pub(super) fn blocks_of(
        &self,
        widths: AtomicWidths,
        base: u64,
        words: bool,
    ) -> impl Iterator<Item = ElementBlock> {
        let ty = self.ty;
        self.blocks().filter(move |block| {
            let address = base.wrapping_add_signed(block.target);
            widths.word(ty, address).is_some() == words
        })
    }

    pub(super) fn operands_at(&self, block: &ElementBlock) -> *const u8 {
        let at = |base: *const u8| base.wrapping_offset(block.operands as isize);
        self.operands.map_or(std::ptr::null(), at)
    }

    pub(super) fn result_at(&self, block: &ElementBlock) -> *mut u8 {
        let at = |base: *mut u8| base.wrapping_offset(block.result as isize);
        self.result.map_or(std::ptr::null_mut(), at)
    }

    /// The work on one block.
    pub(super) fn work(&self, block: &ElementBlock) -> Work {
        let (operands, result) = (self.operands_at(block), self.result_at(block));
        self.work_on(operands, result, block.len)
    }

    /// The work on `len` bytes of elements in these buffers.
    pub(super) fn work_on(&self, operands: *const u8, result: *mut u8, len: usize) -> Work {
        Work {
            ty: self.ty,
            op: self.op,
            count: len / self.ty.extent(),
            operands,
            compare: std::ptr::null(),
            result,
        }
    }

    /// Whether the buffers' layouts cut runs of the target's elements that would go in wider words than these are.
    pub(super) fn cuts_runs(&self) -> bool {
        let [operands, results, target] = self.layouts;
        let cuts = |has: bool, layout: &Piece| has && !layout.is_as_coarse_as(target);
        let size = self.ty.size();
        go_together(self.op, size)
            && !target.is_of_blocks(size as u64)
            && (cuts(self.operands.is_some(), operands) || cuts(self.result.is_some(), results))
    }

    /// Whether nothing is fetched and nothing changes.
    pub(super) fn is_nothing(&self) -> bool {
        self.op == Op::NoOp && self.result.is_none()
    }

    /// Whether what the target has does not matter.
    pub(super) fn overwrites(&self) -> bool {
        self.op == Op::Replace && self.result.is_none()
    }
}
