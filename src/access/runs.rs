//! Elements that are only moved, where neighbours at the target do not follow each other in a buffer: the elements are
//! gathered first, so that each run of the target's goes in whole words, or as one request.

use rdma_sys_shim::Ticket;

use super::layout_work::{ElementBlock, LayoutWork, cut};
use super::spot::Spot;
use super::work::Work;
use crate::datatype::{BasicType, Piece};
use crate::error::Result;
use crate::window::OnTarget;

/// About the number of bytes that are gathered at a time.
const CHUNK: usize = 64 << 10;

impl Spot<'_> {
    /// Whether elements of a type may take effect one by one, or block by block. If not, they are all updated under the
    /// accumulate lock at once, or have padding.
    pub(super) fn takes_blocks(&self, ty: BasicType) -> bool {
        match self {
            Spot::Mapped(place) => place.widths.word(ty, 0).is_some(),
            Spot::Device(_) | Spot::Apart(_) => !ty.is_padded(),
        }
    }

    /// The address at which the target's layout is placed.
    fn base(&self) -> u64 {
        match self {
            Spot::Mapped(place) => place.there.addr() as u64,
            Spot::Device(place) => place.at.address,
            Spot::Apart(disp) => disp.0,
        }
    }
}

impl OnTarget<'_> {
    /// As [`OnTarget::accumulate_pieces`], run by run of the target's elements.
    #[cold]
    pub(super) fn accumulate_runs(self, spot: &Spot<'_>, parts: &LayoutWork<'_>) -> Result<Ticket> {
        for list in lists(parts.blocks(), spot.base(), parts.what.ty.size()) {
            let Some(runs) = Piece::list(runs(&list)) else {
                continue;
            };
            let combine = |work: &Work| {
                let dense = Piece::run(0, (work.count * parts.what.ty.size()) as u64);
                // SAFETY: the copies stay until all is complete.
                let gathered = unsafe { LayoutWork::of(work, &dense, &runs) };
                let ticket = self.accumulate_blocks(spot, &gathered, || gathered.blocks())?;
                let endpoint = &*self.route()?.endpoint;
                let complete = self.window.context().patience().complete(endpoint, ticket);
                complete.map_err(|error| self.failed(error))
            };
            // SAFETY: `combine` waits until all is complete.
            unsafe { parts.densely(&list, combine)? };
        }
        Ok(Ticket::DONE)
    }
}

/// Lists of blocks of about [`CHUNK`] bytes. Between two lists, no aligned word of a run is split, and no element.
/// `base`: where the target's layout is placed; `size`: of an element.
fn lists(
    blocks: impl Iterator<Item = ElementBlock>,
    base: u64,
    size: usize,
) -> impl Iterator<Item = Vec<ElementBlock>> {
    cut(blocks, move |last, bytes, block| {
        let room = CHUNK.saturating_sub(bytes);
        let goes_on = last.is_some_and(|last| last.is_before(block));
        let address = base.wrapping_add_signed(block.target) as usize;
        match address.is_multiple_of(size) {
            _ if room == 0 && !goes_on => 0,
            true => (address % 8 + room).next_multiple_of(8) - address % 8,
            false => room.next_multiple_of(size),
        }
    })
}

/// The runs that blocks make at the target.
fn runs(blocks: &[ElementBlock]) -> Vec<Piece> {
    let runs = blocks.chunk_by(ElementBlock::is_before);
    let len = |run: &[ElementBlock]| run.iter().map(|block| block.len as u64).sum();
    runs.map(|run| Piece::run(run[0].target, len(run)))
        .collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lists_split_no_word_of_a_run() {
        for (base, size, len, step) in [
            (3_u64, 1, 1, 1),
            (2, 2, 2, 2),
            (4, 4, 4, 4),
            (2, 2, 30, 40),
            (1, 1, 3 * CHUNK + 5, 4 * CHUNK),
            (6, 2, CHUNK, CHUNK),
            // No element of these is aligned.
            (1, 2, 2, 2),
            (3, 4, 3 * CHUNK + 8, 4 * CHUNK),
        ] {
            let count = (3 * CHUNK + 100) / len + 2;
            let all = (0..count).map(|at| ElementBlock::of(at * len, (at * step) as i64, len));
            let mut next = 0;
            let parts: Vec<_> = lists(all, base, size).collect();
            for (index, list) in parts.iter().enumerate() {
                let bytes: usize = list.iter().map(|block| block.len).sum();
                assert!(bytes > 0 && bytes < CHUNK + 16 + size, "{bytes}");
                for run in runs(list) {
                    let run_len = run.as_run().unwrap() as usize;
                    // Where a dense buffer has this run.
                    let (block, within) = (next / len, next % len);
                    assert_eq!(run.at, (block * step + within) as i64);
                    next += run_len;
                    assert!(run_len.is_multiple_of(size));
                }
                let goes_on = parts
                    .get(index + 1)
                    .is_some_and(|next| list.last().unwrap().is_before(&next[0]));
                let end = base.wrapping_add_signed(list.last().unwrap().part(0, 0).target)
                    + list.last().unwrap().len as u64;
                if goes_on && base.is_multiple_of(size as u64) {
                    assert!(end.is_multiple_of(8), "{base} {size} {len}: {end}");
                }
            }
            assert_eq!(next, count * len);
        }
    }
}
