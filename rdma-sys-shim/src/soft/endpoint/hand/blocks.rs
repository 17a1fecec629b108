//! Equal blocks at equal distances by hand. Nobody goes through them beforehand, so that the peer has the first request at
//! once, and each says in few words where its own are.

use super::{SHORT, SoftEndpoint};
use crate::Result;
use crate::device::batch::Blocks;
use crate::soft::request::{Operation, Request};
use crate::soft::scattered::{self, MOST, MOST_BYTES};

/// As many blocks as go by one request, of which each lies beyond the last; `None` if hands are not for them.
fn of_a_request(blocks: &Blocks) -> Option<usize> {
    if !(1..=SHORT).contains(&blocks.len) {
        return None;
    }
    let stride = u32::try_from(blocks.stride_there).ok()?;
    let most = MOST.min(MOST_BYTES / blocks.len);
    let extent = u64::from(stride) * (most as u64 - 1) + blocks.len as u64;
    (extent <= u32::MAX.into()).then_some(most)
}

impl SoftEndpoint {
    /// Moves what the peer's hands take up: how many of the blocks, from the first on. They may have refused the next.
    ///
    /// # Safety
    /// The blocks are readable (for a write) or writable (for a read).
    pub(in crate::soft::endpoint) unsafe fn blocks_by_hand(
        &self,
        operation: Operation,
        blocks: Blocks,
    ) -> Result<usize> {
        let (Some(most), true) = (of_a_request(&blocks), self.options.hands) else {
            return Ok(0);
        };
        let Some(patience) = self.experience.patience(&*self.port, blocks.count) else {
            return Ok(0);
        };
        let is_write = operation == Operation::Write;
        let operation = match is_write {
            true => Operation::Scatter,
            false => Operation::Gather,
        };
        let part = |which: usize| {
            let part = blocks.from(which * most);
            let count = part.count.min(most);
            Blocks { count, ..part }
        };
        let fill = |which, slot| {
            let Blocks {
                here,
                at,
                len,
                count,
                ..
            } = part(which);
            let stride = blocks.stride_there as usize;
            // SAFETY: the slot is claimed, and these are no more than allowed, by `of_a_request`; they are the caller's promise.
            unsafe {
                scattered::fill_blocks(
                    self.port.slot_data(slot),
                    [len, stride, count].map(|word| word as u32),
                    (here, blocks.stride_here),
                    is_write,
                );
            }
            let extent = stride * (count - 1) + len;
            // A list of one.
            Request::of(operation, 1, at, 0, extent).sign(&self.port, slot);
            true
        };
        let take = |which, slot| {
            if !is_write {
                let Blocks {
                    here, len, count, ..
                } = part(which);
                // SAFETY: the slot was filled with these, and is answered; the caller's promise.
                unsafe {
                    scattered::take_blocks(
                        self.port.slot_data(slot),
                        [len, count],
                        (here, blocks.stride_here),
                    );
                }
            }
        };
        let left = self.ask_hands(patience, blocks.count.div_ceil(most), fill, take)?;
        Ok(left.first().map_or(blocks.count, |first| first * most))
    }
}
