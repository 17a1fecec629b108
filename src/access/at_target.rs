//! Accumulates that a thread of the target carries out ([`Endpoint::combine`](rdma_sys_shim::Endpoint::combine)): one request
//! for each contiguous block, and none of them is waited for.

use rdma_sys_shim::{CombinedElements, Ticket};

use super::bounds::Place;
use super::combiner::combination;
use super::layout_work::{ElementBlock, LayoutWork};
use crate::error::Result;
use crate::window::OnTarget;

impl OnTarget<'_> {
    /// Has a thread of the target carry out the work on blocks, one after the other, which may overlap. Returns the block
    /// from which on no thread does it, or the rest of it, and the ticket of the work before.
    pub(super) fn accumulate_at_target(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        blocks: &mut impl Iterator<Item = ElementBlock>,
    ) -> Result<(Option<ElementBlock>, Ticket)> {
        let _call = self.window.in_call(self.aim);
        let route = place.route;
        let lock = route.accumulate_lock.address();
        let (mut last, mut rest) = (Ticket::DONE, None);
        for block in blocks {
            let work = parts.work(&block);
            let elements = CombinedElements {
                count: work.count,
                operands: work.operands,
                compare: work.compare,
                old: work.result,
            };
            let what = combination(&work, place.widths);
            let at = place.at.moved(block.target);
            // SAFETY: whoever made `parts` promises that the buffers are valid until the operation is complete.
            let posted = unsafe { route.endpoint.combine(what, lock, at, elements) };
            let (done, ticket) = posted.map_err(|error| {
                self.await_end(last);
                self.failed(error)
            })?;
            last = last.max(ticket);
            if done < work.count {
                let skip = done * parts.what.ty.extent();
                rest = Some(block.part(skip, block.len - skip));
                break;
            }
        }
        // What is complete already was not stored by this thread.
        if last != Ticket::DONE {
            self.note_posted(last);
        }
        Ok((rest, last))
    }
}
