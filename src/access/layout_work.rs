//! What an operation of the accumulate family does, where its elements lie in layouts.

use std::collections::HashMap;
use std::{iter, mem, ptr};

use super::whole_words::go_together;
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op, Piece, Together, copy_elements};
use crate::diagnostics::OperationKind;
use crate::error::Result;

/// Elements of one predefined type in three layouts (operands, results, target), up to the end of the shortest.
///
/// Its makers promise that the buffers are valid until the operation is complete. So what takes one is safe to call, with
/// its own blocks or parts of them.
pub(super) struct LayoutWork<'a> {
    /// What is done, with the address of each layout's first byte; its count is not used. What is compared has the layout
    /// of the operands.
    pub(super) what: Work,
    /// The layouts of operands, results and target; those without memory are walked too.
    layouts: [&'a Piece; 3],
    /// The number of bytes to skip at the start: whole strips.
    skip: u64,
}

/// Elements that are contiguous in each of the three layouts.
#[derive(Clone, Copy)]
pub(super) struct ElementBlock {
    /// Relative to the first byte of the operands.
    operands: i64,
    /// The same of the results.
    result: i64,
    /// Relative to the place of the target's layout.
    pub(super) target: i64,
    /// Bytes, including padding.
    pub(super) len: usize,
}

impl ElementBlock {
    /// `len` bytes that begin at `at` in the buffers, and at `target` at the target.
    pub(super) fn of(at: usize, target: i64, len: usize) -> Self {
        Self {
            operands: at as i64,
            result: at as i64,
            target,
            len,
        }
    }

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

    /// Whether `next` follows this block at the target.
    pub(super) fn is_before(&self, next: &Self) -> bool {
        self.target + self.len as i64 == next.target
    }
}

/// The blocks, and the offset of each in a buffer that holds them contiguously.
pub(super) fn packed(blocks: &[ElementBlock]) -> impl Iterator<Item = (usize, &ElementBlock)> {
    blocks.iter().scan(0, |next, block| {
        let at = *next;
        *next += block.len;
        Some((at, block))
    })
}

/// Splits a list into parts in which no place occurs twice. If they are carried out one after the other, so are the
/// items of each place, in their order.
pub(super) fn without_repeats<T>(
    list: impl IntoIterator<Item = T>,
    place: impl Fn(&T) -> i64,
) -> Vec<Vec<T>> {
    let mut times = HashMap::new();
    let mut parts: Vec<Vec<T>> = Vec::new();
    for item in list {
        let time = times.entry(place(&item)).or_insert(0);
        if *time == parts.len() {
            parts.push(Vec::new());
        }
        parts[*time].push(item);
        *time += 1;
    }
    parts
}

/// Lists of blocks. `most` says how many bytes of a block go into the list with this last block and so many bytes.
pub(super) fn cut(
    mut blocks: impl Iterator<Item = ElementBlock>,
    most: impl Fn(Option<&ElementBlock>, usize, &ElementBlock) -> usize,
) -> impl Iterator<Item = Vec<ElementBlock>> {
    let mut rest = None;
    iter::from_fn(move || {
        let (mut list, mut bytes) = (Vec::new(), 0);
        while let Some(block) = rest.take().or_else(|| blocks.next()) {
            let len = block.len.min(most(list.last(), bytes, &block));
            if len > 0 {
                list.push(block.part(0, len));
            }
            bytes += len;
            if len < block.len {
                rest = Some(block.part(len, block.len - len));
                break;
            }
        }
        (!list.is_empty()).then_some(list)
    })
}

impl<'a> LayoutWork<'a> {
    /// The buffers are where their layouts are placed; `result` may be null. Without the first `skip` bytes, which are
    /// whole strips.
    ///
    /// # Safety
    /// The buffers are valid for their layouts, the operands do not change and nobody else touches the result, until the
    /// operation is complete.
    pub(super) unsafe fn new(
        (kind, ty, op): (OperationKind, BasicType, Op),
        operands: Option<*const u8>,
        result: Option<*mut u8>,
        layouts: [&'a Piece; 3],
        skip: u64,
    ) -> Self {
        // No data is at the null pointer, even if its layout is placed there.
        let first = |buffer: Option<*const u8>, layout: &Piece| {
            buffer.map_or(ptr::null(), |buffer| {
                buffer.wrapping_offset(layout.at as isize)
            })
        };
        let operands = first(operands, layouts[0]);
        let result = first(result.map(<*mut u8>::cast_const), layouts[1]).cast_mut();
        let what = Work::of(kind, operands, result, 0, ty, op);
        Self {
            what,
            layouts,
            skip,
        }
    }

    /// Work whose buffers have the layout `near`, from its first byte on.
    ///
    /// # Safety
    /// As for [`LayoutWork::new`].
    pub(super) unsafe fn of(work: &Work, near: &'a Piece, far: &'a Piece) -> Self {
        Self {
            what: work.part(0, 0),
            layouts: [near, near, far],
            skip: 0,
        }
    }

    /// All of the work, if it is one block.
    pub(super) fn as_block(&self) -> Option<ElementBlock> {
        let [operands, result, target] = self.layouts;
        let len = (operands.as_run()?)
            .min(result.as_run()?)
            .min(target.as_run()?);
        (self.skip == 0).then_some(ElementBlock::of(0, target.at, len as usize))
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = ElementBlock> {
        let (skip, mut walked) = (self.skip, 0);
        let [first_operand, first_result, _] = self.layouts.map(|layout| layout.at);
        let list = self.list_beside_runs();
        let strips = list.is_none().then(|| Together::new(self.layouts));
        let strips = strips.into_iter().flatten().filter(move |strip| {
            walked += strip.bytes();
            walked > skip
        });
        let blocks = strips.flat_map(move |strip| {
            let len = strip.len as usize;
            strip
                .blocks()
                .map(move |[operands, result, target]| ElementBlock {
                    operands: operands - first_operand,
                    result: result - first_result,
                    target,
                    len,
                })
        });
        list.into_iter().flatten().chain(blocks)
    }

    /// The blocks of an index list at the target with contiguous buffers: this case needs few checks.
    fn list_beside_runs(&self) -> Option<impl Iterator<Item = ElementBlock>> {
        let [operands, result, target] = self.layouts;
        let mut left = operands.as_run()?.min(result.as_run()?);
        let (at, parts) = target.as_list()?;
        if self.skip > 0 || !parts.iter().all(|part| part.as_run().is_some()) {
            return None;
        }
        let mut done = 0;
        Some(parts.iter().map_while(move |part| {
            let len = part.as_run()?.min(left);
            let block = ElementBlock::of(done, at + part.at, len as usize);
            left -= len;
            done += len as usize;
            (len > 0).then_some(block)
        }))
    }

    /// Whether single atomics update the elements of a block. The target's layout is placed at `base`.
    #[inline]
    pub(super) fn is_of_words(
        &self,
        block: &ElementBlock,
        widths: AtomicWidths,
        base: u64,
    ) -> bool {
        let address = base.wrapping_add_signed(block.target);
        widths.word(self.what.ty, address).is_some()
    }

    /// The work on one block.
    #[inline]
    pub(super) fn work(&self, block: &ElementBlock) -> Work {
        let count = block.len / self.what.ty.extent();
        (self.what).part_at(block.operands as isize, block.result as isize, count)
    }

    /// Does work on dense copies of the blocks' operands, and copies its results to their places. The copies stay if `act`
    /// fails.
    ///
    /// # Safety
    /// When `act` returns, nothing uses its buffers any more, or it has failed.
    pub(super) unsafe fn densely<R>(
        &self,
        blocks: &[ElementBlock],
        act: impl FnOnce(&Work) -> Result<R>,
    ) -> Result<R> {
        let (ty, extent) = (self.what.ty, self.what.ty.extent());
        let len: usize = blocks.iter().map(|block| block.len).sum();
        let (mut operands, mut result) = (Vec::new(), Vec::new());
        let mut dense = self.what.part(0, len / extent);
        if !dense.operands.is_null() {
            operands.resize(len, 0_u8);
            dense.operands = operands.as_ptr();
            for (at, block) in packed(blocks) {
                let (to, from) = (operands[at..].as_mut_ptr(), self.work(block).operands);
                // SAFETY: operands, and as much of the copy.
                unsafe { copy_elements(ty, to, from, block.len / extent) };
            }
        }
        if !dense.result.is_null() {
            result.resize(len, 0_u8);
            dense.result = result.as_mut_ptr();
        }
        let done = act(&dense);
        if done.is_err() {
            // Operations in flight may still use them.
            mem::forget((operands, result));
            return done;
        }
        if !dense.result.is_null() {
            for (at, block) in packed(blocks) {
                let (to, from) = (self.work(block).result, result[at..].as_ptr());
                // SAFETY: elements of the result, and as much of the copy.
                unsafe { copy_elements(ty, to, from, block.len / extent) };
            }
        }
        done
    }

    /// Whether the buffers' layouts split runs of the target's elements that could otherwise go in wider words.
    pub(super) fn cuts_runs(&self) -> bool {
        let [operands, results, target] = self.layouts;
        let cuts = |buffer: *const u8, layout: &Piece| {
            !buffer.is_null() && !layout.is_as_coarse_as(target)
        };
        let size = self.what.ty.size();
        go_together(self.what.op, size)
            && !target.is_of_blocks(size as u64)
            && (cuts(self.what.operands, operands) || cuts(self.what.result, results))
    }
}
