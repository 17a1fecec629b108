//! Elements that are only moved, where neighbours at the target do not follow each other in a buffer: each run of the
//! target's elements is gathered first, so that it goes in whole words.

use rdma_sys_shim::Ticket;

use super::layout_work::{ElementBlock, LayoutWork, cut};
use super::spot::Spot;
use super::work::Work;
use crate::datatype::{BasicType, Piece};
use crate::error::Result;
use crate::window::OnTarget;

/// The number of bytes of a longer run that are gathered at a time.
const CHUNK: usize = 4 << 10;

impl OnTarget<'_> {
    /// Whether the blocks of aligned elements without padding may take effect one by one there, by single atomics or by a
    /// thread of the target. If not, they are updated under the accumulate lock at once.
    pub(super) fn goes_by_block(self, spot: &Spot<'_>, ty: BasicType) -> bool {
        match spot {
            _ if ty.is_padded() => false,
            Spot::Mapped { widths, .. } => {
                widths.word(ty, 0).is_some()
                    || self.route().is_ok_and(|route| !self.locks_mapped(route))
            }
            Spot::Device(_) | Spot::Apart(_) => true,
        }
    }

    /// As [`OnTarget::accumulate_pieces`], run by run of the target's elements.
    ///
    /// # Safety
    /// As for [`OnTarget::accumulate_pieces`]; the elements have no padding.
    #[cold]
    pub(super) unsafe fn accumulate_runs(
        self,
        spot: &Spot<'_>,
        parts: &LayoutWork<'_>,
    ) -> Result<Ticket> {
        let base = match spot {
            Spot::Mapped { there, .. } => there.addr() as u64,
            Spot::Device(place) => place.at.address,
            Spot::Apart(disp) => disp.0,
        };
        // Splits no word, and no element, even if they are unaligned and updated under the lock.
        let most = |first: &ElementBlock| {
            let skew = (base.wrapping_add_signed(first.target) % 8) as usize;
            CHUNK - skew.next_multiple_of(parts.ty.size())
        };
        for run in cut(parts.blocks(), most, ElementBlock::is_before) {
            let combine = |work: &Work| {
                let len = (work.count * parts.ty.size()) as u64;
                let dense = Piece::run(0, len);
                let there = Piece::run(run[0].target, len);
                let gathered = LayoutWork {
                    layouts: [&dense, &dense, &there],
                    ..LayoutWork::of(work, &dense)
                };
                // SAFETY: the copies stay until all is complete.
                let ticket = unsafe { self.accumulate_blocks(spot, &gathered)? };
                let endpoint = &*self.route()?.endpoint;
                let complete = self.window.context().patience().complete(endpoint, ticket);
                complete.map_err(|error| self.failed(error))
            };
            // SAFETY: the caller's promise.
            unsafe { parts.densely(&run, combine)? };
        }
        Ok(Ticket::DONE)
    }
}
