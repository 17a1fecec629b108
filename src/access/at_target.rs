//! Accumulates that a thread of the target carries out ([`Endpoint::combine`](rdma_sys_shim::Endpoint::combine)): one request
//! for each contiguous block, and none of them is waited for.

use rdma_sys_shim::{CombinedElements, Ticket};

use super::bounds::Place;
use super::combiner::combination;
use super::layout_work::{ElementBlock, LayoutWork};
use super::work::Work;
use crate::datatype::Piece;
use crate::error::Result;
use crate::memory::remote::behind_stores;
use crate::window::OnTarget;

impl OnTarget<'_> {
    /// Has a thread of the target carry out work on contiguous elements; the device does what no thread does.
    ///
    /// # Safety
    /// The buffers of `work` are valid until the operation is complete.
    pub(super) unsafe fn accumulate_run(self, place: &Place<'_>, work: &Work) -> Result<Ticket> {
        behind_stores();
        let (mut done, mut last) = (0, Ticket::DONE);
        if self.may_act_at_target() {
            let _call = self.window.in_call(self.aim);
            // SAFETY: the caller's promise.
            let posted = unsafe { combine_at_target(place, 0, work) };
            (done, last) = posted.map_err(|error| self.failed(error))?;
            self.note_combined(last);
            if done == work.count {
                return Ok(last);
            }
        }
        let extent = work.ty.extent();
        let rest = ElementBlock::of(0, 0, work.count * extent)
            .part(done * extent, (work.count - done) * extent);
        let run = Piece::run(0, (work.count * extent) as u64);
        // SAFETY: the caller's promise.
        let posted = unsafe {
            self.accumulate_blocks_by_device(place, &LayoutWork::of(work, &run), &[rest])
        };
        Ok(last.max(posted.inspect_err(|_| self.await_end(last))?))
    }

    /// Has a thread of the target carry out the work on blocks, one after the other, which may overlap. Returns the block
    /// from which on no thread does it, or the rest of it, and the ticket of the work before.
    ///
    /// # Safety
    /// The buffers of `parts` are valid until the operation is complete.
    pub(super) unsafe fn accumulate_at_target(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        blocks: &mut impl Iterator<Item = ElementBlock>,
    ) -> Result<(Option<ElementBlock>, Ticket)> {
        if !self.may_act_at_target() {
            return Ok((blocks.next(), Ticket::DONE));
        }
        let _call = self.window.in_call(self.aim);
        let (mut last, mut rest) = (Ticket::DONE, None);
        for block in blocks {
            let work = parts.work(&block);
            // SAFETY: the caller's promise.
            let posted = unsafe { combine_at_target(place, block.target, &work) };
            let (done, ticket) = posted.map_err(|error| {
                self.await_end(last);
                self.failed(error)
            })?;
            last = last.max(ticket);
            if done < work.count {
                let skip = done * parts.ty.extent();
                rest = Some(block.part(skip, block.len - skip));
                break;
            }
        }
        self.note_combined(last);
        Ok((rest, last))
    }

    /// The single atomics of a thread without an in-flight flag would meet work on many elements in bulk mode.
    fn may_act_at_target(self) -> bool {
        self.window.flags.is_none()
    }

    fn note_combined(self, last: Ticket) {
        // What is complete already was not stored by this thread.
        if last != Ticket::DONE {
            self.note_posted(last);
        }
    }
}

/// Asks a thread of the target for work on elements that are contiguous, `offset` bytes from the place. Returns the number
/// of elements that a thread does.
///
/// # Safety
/// The buffers of `work` are valid until the operation is complete.
unsafe fn combine_at_target(
    place: &Place<'_>,
    offset: i64,
    work: &Work,
) -> std::result::Result<(usize, Ticket), rdma_sys_shim::Error> {
    let elements = CombinedElements {
        count: work.count,
        operands: work.operands,
        compare: work.compare,
        old: work.result,
    };
    let (what, at) = (combination(work, place.widths), place.at.moved(offset));
    let lock = place.route.accumulate_lock.address();
    // SAFETY: the caller's promise.
    unsafe { place.route.endpoint.combine(what, lock, at, elements) }
}
