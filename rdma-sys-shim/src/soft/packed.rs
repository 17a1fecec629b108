//! Cutting transfers into requests, for assist and for the agent: a request asks for a run, or for a list of pieces.

use super::iovec;
use super::request::{Operation, Request};
use super::segment::Segment;
use super::select::RequestSize;
use crate::device::batch::StridedBlocks;

/// Splits the parts of a transfer so that each fits into a request. Keeps their order.
pub(super) fn cut<P>(parts: P, most: RequestSize) -> impl Iterator<Item = StridedBlocks> + Clone
where
    P: Iterator<Item = StridedBlocks> + Clone,
{
    parts.flat_map(move |blocks| {
        let of_each = (most.list / blocks.len.max(1)).clamp(1, iovec::MOST);
        let chunks = blocks.chunks(of_each);
        // Only a single block can be longer than the list limit.
        chunks.flat_map(move |some| some.shortened(most.run))
    })
}

/// Parts of a transfer, packed into one request.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub(super) request: Request,
    /// The number of parts.
    pub(super) count: usize,
    pub(super) is_list: bool,
}

impl Packed {
    /// Packs as many of the first `parts` as fit. `None` if there are none, or if the first one does not fit.
    pub(super) fn of(
        operation: Operation,
        mut parts: impl Iterator<Item = StridedBlocks>,
        most: RequestSize,
    ) -> Option<Self> {
        let first = parts.next()?;
        let (mut low, mut high) = first.extent().filter(is_near)?;
        let (mut bytes, mut blocks) = (first.len * first.count, first.count);
        let mut count = 1;
        let list = match operation {
            Operation::Write => Some(Operation::Scatter),
            Operation::Read => Some(Operation::Gather),
            _ => None,
        };
        for part in parts {
            bytes += part.len * part.count;
            blocks += part.count;
            let fits = bytes <= most.list && blocks <= iovec::MOST && part.at.rkey == first.at.rkey;
            if list.is_none() || !fits {
                break;
            }
            let together = part
                .extent()
                .map(|(from, to)| (low.min(from), high.max(to)));
            let Some(extent) = together.filter(is_near) else {
                break;
            };
            (low, high) = extent;
            count += 1;
        }
        let is_list = count > 1 || first.count > 1;
        let request = Request {
            operation: list.filter(|_| is_list).unwrap_or(operation),
            width: 0,
            rkey: first.at.rkey,
            address: low,
            len: (high - low) as usize,
            operands: [0; 2],
        };
        Some(Self {
            request,
            count,
            is_list,
        })
    }

    /// Writes the request and the data that it sends into a slot.
    ///
    /// # Safety
    /// The slot is claimed. `parts` are those that were packed, and are readable if the request sends them.
    pub(super) unsafe fn fill(
        &self,
        segment: &Segment,
        slot: usize,
        mut parts: impl Iterator<Item = StridedBlocks>,
    ) {
        let sends = !matches!(self.request.operation, Operation::Read | Operation::Gather);
        if self.is_list {
            // SAFETY: the slot's data is its claimer's, and the parts fit into it; the caller's promise.
            let runs =
                unsafe { iovec::fill(segment.slot_data(slot), self.request.address, parts, sends) };
            let width = runs as u32;
            Request {
                width,
                ..self.request
            }
            .sign(segment, slot);
        } else {
            let from = parts.next().filter(|_| sends);
            let from = from.map_or(std::ptr::null(), |part| part.here.cast_const());
            // SAFETY: the caller's promise.
            unsafe { self.request.fill(segment, slot, from) };
        }
    }

    /// Copies the answer to the parts.
    ///
    /// # Safety
    /// The slot was filled with this request, and is answered. `parts` are as long as the packed ones, and writable.
    pub(super) unsafe fn take(
        &self,
        segment: &Segment,
        slot: usize,
        mut parts: impl Iterator<Item = StridedBlocks>,
    ) {
        if self.is_list {
            // SAFETY: an answered slot's data is its claimer's; the caller's promise.
            unsafe { iovec::take(segment.slot_data(slot), parts) };
        } else if let Some(part) = parts.next() {
            // SAFETY: the caller's promise.
            unsafe { self.request.take(segment, slot, part.here) };
        }
    }
}

/// Whether a list can express offsets over this range.
fn is_near(&(low, high): &(u64, u64)) -> bool {
    high - low <= u32::MAX.into()
}
