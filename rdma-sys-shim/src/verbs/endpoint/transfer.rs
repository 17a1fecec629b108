//! Writes and reads: which way the data takes between the caller's buffer and the device.

use std::sync::atomic::Ordering;

use super::VerbsEndpoint;
use super::failure::Operation;
use super::queue::{PIECE_BYTES, SendQueue};
use super::request::{Local, Request};
use crate::memory::copy;
use crate::{RemoteAddress, Result, Ticket};

/// Data up to this length is copied, since a search for its region would take longer.
pub(super) const COPIED_AT_ONCE: usize = 256;

impl VerbsEndpoint {
    /// A write or a read. Its key has been checked.
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`](crate::Endpoint::transfer).
    pub(super) unsafe fn transfer_on(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        let written = operation == Operation::Read;
        if !written && len <= queue.inline() {
            let local = Local::carried(base, len);
            // SAFETY: the caller's promise.
            return unsafe { self.post(queue, &Request::whole(operation, at, local)) };
        }
        let mut lkey = match len > COPIED_AT_ONCE {
            true => self.find_region(queue, base, len, written),
            false => None,
        };
        if lkey.is_none() && len > self.adapter.settings.copied {
            // SAFETY: the caller's promise.
            lkey = unsafe { queue.lend(base, len, written) }
                // Memory that cannot be registered is copied in pieces instead.
                .inspect_err(|error| tracing::debug!(%error, "an origin buffer is copied instead"))
                .ok();
        }
        let Some(lkey) = lkey else {
            // SAFETY: the caller's promise.
            return unsafe { self.through_ring(queue, operation, base, len, at) };
        };
        // SAFETY: the caller's promise; the key is of a region or of a loan that contains the buffer, which the queue
        // keeps until these requests are complete.
        let posted = unsafe { self.in_place(queue, operation, base, len, at, lkey) };
        queue.note_use(lkey, base, len);
        posted
    }

    /// The key of a region that contains the buffer, if there is one.
    fn find_region(
        &self,
        queue: &mut SendQueue,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Option<u32> {
        let regions = &self.adapter.regions;
        regions.find(base, len, written, |region| queue.hold(region))
    }

    /// Lets the device use the caller's buffer itself.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::transfer_on`]; `lkey` covers the buffer.
    unsafe fn in_place(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
        lkey: u32,
    ) -> Result<Ticket> {
        let longest = self.longest();
        let mut ticket = Ticket::DONE;
        for start in (0..len).step_by(longest) {
            let local = Local::at(base.wrapping_add(start), longest.min(len - start), lkey);
            let place = at.moved(start as i64);
            // SAFETY: a part of what the caller vouches for.
            ticket = unsafe { self.post(queue, &Request::whole(operation, place, local))? };
            // At once: if a later part cannot be posted, this one is nevertheless under way.
            self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
        }
        Ok(ticket)
    }

    /// Copies data through the ring.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::transfer_on`].
    unsafe fn through_ring(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let mut ticket = Ticket::DONE;
        let longest = PIECE_BYTES.min(self.longest());
        for start in (0..len).step_by(longest) {
            let part = longest.min(len - start);
            let (space, local) = self.take_space(queue, part as u32)?;
            let here = base.wrapping_add(start);
            let mut request = Request::whole(operation, at.moved(start as i64), local);
            request.space = space;
            if operation == Operation::Read {
                request.copy_to = here;
            } else {
                // SAFETY: `take_space` gave this many bytes of the ring; `here` is a part of what
                // the caller vouches for.
                unsafe { copy(local.base, here, part) };
            }
            // SAFETY: the ring lives as long as the queue, and this piece is not given to others
            // before the request is complete.
            ticket = unsafe { self.post(queue, &request)? };
            if operation == Operation::Read {
                self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
            }
        }
        Ok(ticket)
    }
}
