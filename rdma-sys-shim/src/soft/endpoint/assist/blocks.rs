//! Equal blocks at equal distances by hand. Nobody goes through them beforehand, so that the peer has the first request at
//! once, and each says in few words where its own are.

use std::ops::Range;

use super::{SHORT, SoftEndpoint};
use crate::Result;
use crate::device::batch::Blocks;
use crate::soft::iovec::{self, MOST, MOST_BYTES};
use crate::soft::request::{Operation, Request};
use crate::soft::segment::Segment;

/// Blocks as requests ask for them: so many by each, in their order, but for the last.
struct Requests {
    blocks: Blocks,
    operation: Operation,
    of_each: usize,
}

impl Requests {
    /// `None` if hands are not for these: each has to lie beyond the last.
    fn new(operation: Operation, blocks: Blocks) -> Option<Self> {
        if !(1..=SHORT).contains(&blocks.len) {
            return None;
        }
        let stride = u32::try_from(blocks.stride_there).ok()?;
        let of_each = MOST.min(MOST_BYTES / blocks.len).min(blocks.count.max(1));
        let extent = u64::from(stride) * (of_each as u64 - 1) + blocks.len as u64;
        let operation = match operation {
            Operation::Write => Operation::Scatter,
            _ => Operation::Gather,
        };
        (extent <= u32::MAX.into()).then_some(Self {
            blocks,
            operation,
            of_each,
        })
    }

    fn count(&self) -> usize {
        self.blocks.count.div_ceil(self.of_each)
    }

    /// The blocks of one.
    fn range(&self, which: usize) -> Range<usize> {
        let start = which * self.of_each;
        start..self.blocks.count.min(start + self.of_each)
    }

    fn part(&self, which: usize) -> Blocks {
        self.blocks.part(self.range(which))
    }

    /// Writes one into a slot.
    ///
    /// # Safety
    /// The slot is claimed; the blocks are readable (for a write).
    unsafe fn fill(&self, segment: &Segment, slot: usize, which: usize) {
        let Blocks {
            here,
            at,
            len,
            count,
            stride_here,
            stride_there,
        } = self.part(which);
        let shape = [len, stride_there as usize, count];
        let are_sent = self.operation == Operation::Scatter;
        // SAFETY: the slot's data is its claimer's; no more blocks and bytes than allowed, by `of_each`, and the caller's promise.
        unsafe {
            iovec::fill_blocks(
                segment.slot_data(slot),
                shape.map(|word| word as u32),
                (here, stride_here),
                are_sent,
            );
        }
        let extent = stride_there as usize * (count - 1) + len;
        // A list of one.
        Request::of(self.operation, 1, at, 0, extent).sign(segment, slot);
    }

    /// Takes what there is in its answer.
    ///
    /// # Safety
    /// The slot was filled with this one, and is answered; the blocks are writable (for a read).
    unsafe fn take(&self, segment: &Segment, slot: usize, which: usize) {
        if self.operation == Operation::Scatter {
            return;
        }
        let part = self.part(which);
        // SAFETY: the caller's promise.
        unsafe {
            iovec::take_blocks(
                segment.slot_data(slot),
                [part.len, part.count],
                (part.here, part.stride_here),
            );
        }
    }
}

impl SoftEndpoint {
    /// Moves what the peer's hands take up: how many of the blocks, from the first on. They may have refused the next. `None`
    /// if hands are not for these as they are.
    ///
    /// # Safety
    /// The blocks are readable (for a write) or writable (for a read).
    pub(in crate::soft::endpoint) unsafe fn blocks_by_assist(
        &self,
        operation: Operation,
        blocks: Blocks,
    ) -> Result<Option<usize>> {
        if !self.options.assist {
            return Ok(Some(0));
        }
        let Some(requests) = Requests::new(operation, blocks) else {
            return Ok(None);
        };
        let Some(patience) = self.experience.patience(&*self.segment, blocks.count) else {
            return Ok(Some(0));
        };
        let fill = |which, slot| {
            // SAFETY: the slot is claimed; the caller's promise.
            unsafe { requests.fill(&self.segment, slot, which) };
            true
        };
        let take = |which, slot| {
            // SAFETY: the slot was filled with this one, and is answered; the caller's promise.
            unsafe { requests.take(&self.segment, slot, which) };
        };
        let left = self.ask_assist(patience, requests.count(), fill, take)?;
        let first_left = left.first().map(|&first| requests.range(first).start);
        Ok(Some(first_left.unwrap_or(blocks.count)))
    }
}
