//! Elements that are only moved, where neighbours at the target do not follow each other in a buffer: each run of the
//! target's elements is gathered first, so that it goes in whole words.

use rdma_sys_shim::Ticket;

use super::combined::{Combined, ElementBlock};
use super::spot::Spot;
use super::work::Work;
use crate::datatype::{BasicType, Piece};
use crate::error::Result;
use crate::window::OnTarget;

/// What is gathered of a longer run at a time: no word is cut.
const CHUNK: usize = 4 << 10;

impl OnTarget<'_> {
    /// Whether single atomics update aligned elements of a type there.
    pub(super) fn has_words(self, spot: &Spot<'_>, ty: BasicType) -> bool {
        let widths = match spot {
            Spot::Mapped { widths, .. } => *widths,
            Spot::Device(place) => place.widths,
            // Some of the regions may have them.
            Spot::Apart(_) => self.window.atomic_widths(),
        };
        widths.word(ty, 0).is_some()
    }

    /// As [`OnTarget::combine_pieces`], run by run of the target's elements.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_pieces`]; the elements have no padding.
    #[cold]
    pub(super) unsafe fn combine_runs(
        self,
        spot: &Spot<'_>,
        parts: &Combined<'_>,
    ) -> Result<Ticket> {
        let base = match spot {
            Spot::Mapped { there, .. } => there.addr() as u64,
            Spot::Device(place) => place.at.address,
            Spot::Apart(disp) => disp.0,
        };
        let mut run = Run {
            blocks: Vec::new(),
            len: 0,
            most: 0,
        };
        for mut block in parts.blocks() {
            while block.len > 0 {
                if !run.goes_on_with(&block) {
                    // SAFETY: the caller's promise.
                    unsafe { run.combine(self, spot, parts)? };
                    // No element either, also where they are not aligned and go under the lock.
                    let skew = (base.wrapping_add_signed(block.target) % 8) as usize;
                    run.most = CHUNK - skew.next_multiple_of(parts.ty.size());
                }
                let len = block.len.min(run.most - run.len);
                run.len += len;
                run.blocks.push(block.part(0, len));
                block = block.part(len, block.len - len);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { run.combine(self, spot, parts)? };
        Ok(Ticket::DONE)
    }
}

/// Blocks that follow one another at the target.
struct Run {
    blocks: Vec<ElementBlock>,
    len: usize,
    /// So many bytes are combined at a time.
    most: usize,
}

impl Run {
    fn goes_on_with(&self, block: &ElementBlock) -> bool {
        self.len < self.most && self.blocks.last().is_some_and(|last| last.is_before(block))
    }

    /// Combines it, and empties it.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_runs`].
    unsafe fn combine(
        &mut self,
        on: OnTarget<'_>,
        spot: &Spot<'_>,
        parts: &Combined<'_>,
    ) -> Result<()> {
        let Some(&first) = self.blocks.first() else {
            return Ok(());
        };
        let len = self.len as u64;
        let (dense, there) = (Piece::run(0, len), Piece::run(first.target, len));
        let combine = |work: &Work| {
            let gathered = Combined {
                layouts: [&dense, &dense, &there],
                ..Combined::of(work, &dense)
            };
            // SAFETY: the copies stay until all is complete.
            let ticket = unsafe { on.combine_blocks(spot, &gathered)? };
            let endpoint = &*on.route()?.endpoint;
            let complete = on.window.context().patience().complete(endpoint, ticket);
            complete.map_err(|error| on.failed(error))
        };
        // SAFETY: the caller's promise.
        unsafe { parts.densely(&self.blocks, combine)? };
        self.blocks.clear();
        self.len = 0;
        Ok(())
    }
}
