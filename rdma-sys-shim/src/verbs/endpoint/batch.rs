//! Batches: chains of requests that share one doorbell. A request moves one run of the target's
//! memory, or a part; its pieces here are gathered on the way, short ones by copying them, those in
//! registered memory by the device.

use std::ptr;
use std::sync::atomic::Ordering;

use ibverbs_sys as ffi;

use super::VerbsEndpoint;
use super::check::check_key;
use super::failure::Operation;
use super::locked::Locked;
use super::queue::SendQueue;
use super::request::{Elements, Local, Request};
use super::ring::RingPiece;
use super::transfer::COPIED_AT_ONCE;
use super::unposted::CHAIN;
use crate::device::batch::{BatchError, LocalPiece, TransferBatch};
use crate::memory::copy;
use crate::{RemoteAddress, Result, Ticket};

/// The most pieces of one request: as many as fit into a request's room for inline data.
pub(super) const ELEMENTS: usize = 12;
/// The longest data that is gathered by copying.
const GATHERED: usize = 2048;

/// Requests that are prepared and not posted. While there are any, the queue stays locked, since space in its ring is
/// taken and given back in one order.
struct Chain<'e> {
    endpoint: &'e VerbsEndpoint,
    operation: Operation,
    /// `None` while it is unlocked.
    queue: Option<Locked<'e>>,
    requests: Vec<Request>,
    elements: Box<[[ffi::ibv_sge; ELEMENTS]; CHAIN]>,
    /// The keys of the regions that requests use, until the queue notes that use.
    held: Vec<u32>,
    posted: Ticket,
}

impl VerbsEndpoint {
    /// # Safety
    /// As for [`Endpoint::transfer_batch`](crate::Endpoint::transfer_batch).
    pub(super) unsafe fn post_batch(
        &self,
        operation: Operation,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        for (at, pieces) in batch.parts() {
            let len: usize = pieces.iter().map(|piece| piece.len).sum();
            check_key(&self.peer, operation, at, len as u64)?;
        }
        let mut chain = Chain {
            endpoint: self,
            operation,
            queue: Some(self.open_queue()?),
            requests: Vec::with_capacity(CHAIN),
            elements: Box::new([[ffi::ibv_sge::default(); ELEMENTS]; CHAIN]),
            held: Vec::new(),
            posted: Ticket::DONE,
        };
        let mut runs = batch.parts();
        // SAFETY: the caller's promise.
        let added = runs.try_for_each(|(at, pieces)| unsafe { chain.add_run(at, pieces) });
        // SAFETY: the caller's promise.
        let result = added.and_then(|()| unsafe { chain.post() });
        chain.note_uses();
        let posted = chain.posted;
        match result {
            Ok(()) => Ok(posted),
            Err(error) => Err(BatchError { posted, error }),
        }
    }
}

impl Chain<'_> {
    fn queue(&mut self) -> &mut SendQueue {
        self.queue.get_or_insert_with(|| self.endpoint.queue())
    }

    /// # Safety
    /// As for [`VerbsEndpoint::post_batch`].
    unsafe fn add_run(&mut self, mut at: RemoteAddress, mut pieces: &[LocalPiece]) -> Result<()> {
        while let [first, others @ ..] = pieces {
            // SAFETY: the caller's promise.
            let taken = unsafe {
                let gathered = match others {
                    [] => 0,
                    _ => self.gather(at, pieces)?,
                };
                if gathered == 0 {
                    self.add_piece(at, *first)?;
                }
                gathered.max(1)
            };
            let (done, rest) = pieces.split_at(taken);
            at = at.moved(done.iter().map(|piece| piece.len as i64).sum());
            pieces = rest;
        }
        Ok(())
    }

    /// Adds one request for the first few pieces of a run, if that is efficient. Returns how many it took.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::post_batch`].
    unsafe fn gather(&mut self, at: RemoteAddress, pieces: &[LocalPiece]) -> Result<usize> {
        if self.operation == Operation::Write {
            let (count, len) = fitting(pieces, usize::MAX, GATHERED);
            if count > 1 {
                let mut request = self.through_ring(at, len)?;
                let mut to = request.local.base;
                for piece in &pieces[..count] {
                    // SAFETY: the space is as long as the pieces, which the caller vouches for.
                    unsafe { copy(to, piece.base, piece.len) };
                    to = to.wrapping_add(piece.len);
                }
                request.copy_to = ptr::null_mut();
                // SAFETY: the ring lives as long as the queue, and this part of it is not given to others before the
                // request is complete.
                unsafe { self.add(request)? };
                return Ok(count);
            }
        }
        let pair = self.queue().pair();
        let granted = pair.map_or(1, |pair| pair.limits().elements);
        let of_reads = self.endpoint.adapter.context.attributes().max_sge_rd;
        let longest = self.endpoint.longest();
        let most = most_elements(self.operation, granted, of_reads);
        let (count, len) = fitting(pieces, most, longest);
        let pieces = &pieces[..count];
        if count < 2 {
            return Ok(0);
        }
        let Some(lkey) = self.common_key(pieces)? else {
            return Ok(0);
        };
        let list = &mut self.elements[self.requests.len()];
        for (element, piece) in list.iter_mut().zip(pieces) {
            *element = ffi::ibv_sge {
                addr: piece.base.addr() as u64,
                length: piece.len as u32,
                lkey,
            };
        }
        let elements = Elements {
            list: list.as_mut_ptr(),
            count: count as i32,
        };
        let local = Local::at(pieces[0].base, len, lkey);
        let request = Request {
            elements,
            ..Request::whole(self.operation, at, local)
        };
        // SAFETY: the caller's promise; the region is held until its use is noted.
        unsafe { self.add(request)? };
        Ok(count)
    }

    /// The key of a region that contains all the pieces.
    fn common_key(&mut self, pieces: &[LocalPiece]) -> Result<Option<u32>> {
        let starts = pieces.iter().map(|piece| piece.base.addr());
        let ends = pieces.iter().map(|piece| piece.base.addr() + piece.len);
        let (Some(start), Some(end)) = (starts.min(), ends.max()) else {
            return Ok(None);
        };
        let base = ptr::without_provenance(start);
        let written = self.operation == Operation::Read;
        let regions = &self.endpoint.adapter.regions;
        let queue = self.queue();
        let found = regions.find(base, end - start, written, |region| queue.hold(region));
        if let Some(lkey) = found
            && !self.held.contains(&lkey)
        {
            self.held.push(lkey);
        }
        Ok(found)
    }

    /// # Safety
    /// As for [`VerbsEndpoint::post_batch`].
    unsafe fn add_piece(&mut self, at: RemoteAddress, piece: LocalPiece) -> Result<()> {
        let LocalPiece { base, len } = piece;
        if len == 0 {
            return Ok(());
        }
        let writes = self.operation == Operation::Write;
        if writes && len <= self.queue().inline() {
            let local = Local::carried(base, len);
            // SAFETY: the caller's promise.
            return unsafe { self.add(Request::whole(self.operation, at, local)) };
        }
        if len <= COPIED_AT_ONCE {
            let mut request = self.through_ring(at, len)?;
            if writes {
                // SAFETY: the space is as long as the piece, which the caller vouches for.
                unsafe { copy(request.local.base, base, len) };
            } else {
                request.copy_to = base;
            }
            // SAFETY: as in `gather`.
            return unsafe { self.add(request) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.post()?;
            let (endpoint, operation) = (self.endpoint, self.operation);
            let posted = endpoint.transfer_on(self.queue(), operation, base, len, at)?;
            let ticket = match posted {
                Some(ticket) => ticket,
                None => {
                    self.note_uses();
                    self.queue = None;
                    endpoint.in_parts(operation, base, len, at)?
                }
            };
            self.posted = self.posted.max(ticket);
        }
        Ok(())
    }

    /// A request for `len` bytes of the ring.
    fn through_ring(&mut self, at: RemoteAddress, len: usize) -> Result<Request> {
        let (space, local) = self.space(len as u32)?;
        Ok(Request {
            space,
            ..Request::whole(self.operation, at, local)
        })
    }

    /// Takes space in the ring. If it has to wait, it first posts the chain, whose requests may hold the space.
    fn space(&mut self, len: u32) -> Result<(RingPiece, Local)> {
        if let Some(found) = self.queue().space(len)? {
            return Ok(found);
        }
        // SAFETY: the caller of `add` vouched for each request until it is complete.
        unsafe { self.post()? };
        self.endpoint.take_space(self.queue(), len)
    }

    /// Adds a request, and posts the chain if it is then full.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    unsafe fn add(&mut self, request: Request) -> Result<()> {
        self.requests.push(request);
        if self.requests.len() < self.queue().chain() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.post() }
    }

    /// Posts the chain. After an error, the connection has failed, and the ring space of its requests is not needed any
    /// more.
    ///
    /// # Safety
    /// As for [`SendQueue::post`], for every request in the chain.
    unsafe fn post(&mut self) -> Result<()> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let requests = std::mem::take(&mut self.requests);
        let endpoint = self.endpoint;
        endpoint.make_room(self.queue(), requests.len())?;
        // SAFETY: the caller's promise.
        let posted = Ticket(unsafe { self.queue().post(&requests)? });
        self.posted = posted;
        // Data that is neither inline nor in the ring stays in the caller's buffer until completion, as does the
        // destination of reads.
        let borrows = |request: &Request| {
            request.operation == Operation::Read || request.elements != Elements::ONE
        };
        if requests.iter().any(borrows) {
            endpoint.borrowing.fetch_max(posted.0, Ordering::Relaxed);
        }
        self.requests = requests;
        self.requests.clear();
        Ok(())
    }

    /// The regions are held until the posted requests are complete.
    fn note_uses(&mut self) {
        for lkey in std::mem::take(&mut self.held) {
            self.queue().note_use(lkey, ptr::null_mut(), 0);
        }
    }
}

/// The most pieces that a request can name; for a read at most `of_reads`, a separate limit on some devices.
fn most_elements(operation: Operation, granted: u32, of_reads: i32) -> usize {
    let granted = (granted as usize).min(ELEMENTS);
    match operation {
        Operation::Read => granted.min(of_reads.max(1) as usize),
        _ => granted,
    }
}

/// How many of the first pieces, at most `most`, have a total length of at most `limit`; also that length.
fn fitting(pieces: &[LocalPiece], most: usize, limit: usize) -> (usize, usize) {
    let (mut count, mut len) = (0, 0);
    for piece in pieces.iter().take(most) {
        if piece.len > limit - len {
            break;
        }
        len += piece.len;
        count += 1;
    }
    (count, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_names_no_more_pieces_than_the_device_takes_of_reads() {
        for (granted, of_reads, reads, writes) in [
            (12, 30, 12, 12),
            (12, 4, 4, 12),
            (3, 30, 3, 3),
            (30, 30, ELEMENTS, ELEMENTS),
            (12, 0, 1, 12),
        ] {
            let most = |operation| most_elements(operation, granted, of_reads);
            assert_eq!(
                (most(Operation::Read), most(Operation::Write)),
                (reads, writes)
            );
        }
    }
}
