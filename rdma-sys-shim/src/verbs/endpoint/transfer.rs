//! Writes and reads: which way the data takes between the caller's buffer and the device.

use std::sync::atomic::Ordering;

use super::VerbsEndpoint;
use super::failure::Operation;
use super::queue::{PIECE_BYTES, SendQueue};
use super::request::{Local, Request};
use crate::memory::copy;
use crate::verbs::memory;
use crate::{RemoteAddress, Result, Ticket};

/// Data up to this length is copied, since a search for its region would take longer.
pub(super) const COPIED_AT_ONCE: usize = 256;
/// So many bytes are registered at a time: the device transfers them while the system registers the next ones.
const PART_BYTES: usize = 4 << 20;
/// Parts end at multiples of this, so that no page is registered for two of them.
const PART_BORDER: usize = 64 << 10;

impl VerbsEndpoint {
    /// Posts a write or a read, whose key has been checked. `None`: nothing was posted, and the operation is one for
    /// [`VerbsEndpoint::in_parts`], which must not be called while the queue is locked.
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
    ) -> Result<Option<Ticket>> {
        if len == 0 {
            return Ok(Some(Ticket::DONE));
        }
        let written = operation == Operation::Read;
        if !written && len <= queue.inline() {
            let local = Local::carried(base, len);
            // SAFETY: the caller's promise.
            return unsafe { self.post(queue, &Request::whole(operation, at, local)) }.map(Some);
        }
        let lkey = match len > COPIED_AT_ONCE {
            true => self.find_region(queue, base, len, written),
            false => None,
        };
        if let Some(lkey) = lkey {
            // SAFETY: the caller's promise; the key is of a region that contains the buffer, which the queue keeps
            // until these requests are complete.
            let posted = unsafe { self.in_place(queue, operation, base, len, at, lkey) };
            queue.note_use(lkey, base, len);
            return posted.map(Some);
        }
        if len > self.adapter.copied.min(self.longest_copy()) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.through_ring(queue, operation, base, len, at) }.map(Some)
    }

    /// Posts a write or a read of unregistered memory in parts. Between them, other threads may post to the peer.
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`](crate::Endpoint::transfer).
    pub(super) unsafe fn in_parts(
        &self,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let mut posted = Ticket::DONE;
        let mut start = 0;
        while start < len {
            let (here, place) = (base.wrapping_add(start), at.moved(start as i64));
            let rest = len - start;
            let is_copied = rest <= self.adapter.copied;
            let part = if is_copied {
                rest
            } else {
                part(here.addr(), rest)
            };
            // SAFETY: a part of what the caller vouches for.
            let done = unsafe {
                match is_copied {
                    true => self.copy_part(operation, here, part, place, &mut posted),
                    false => self.lend_part(operation, here, part, place, &mut posted),
                }
            };
            if let Err(error) = done {
                // The caller may take its buffer back, so nothing may be under way.
                let _ = self.wait(posted);
                return Err(error);
            }
            start += part;
        }
        Ok(posted)
    }

    /// Registers memory for requests that use it in place, while the queue is unlocked. Memory that cannot be
    /// registered is copied instead.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::in_parts`].
    unsafe fn lend_part(
        &self,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
        posted: &mut Ticket,
    ) -> Result<()> {
        let written = operation == Operation::Read;
        let mut queue = self.sound_queue()?;
        let lkey = match queue.find_loan(base, len, written) {
            Some(lkey) => lkey,
            None => {
                // Unlocking then deregisters what has arrived.
                self.poll(&mut queue)?;
                drop(queue);
                // SAFETY: the caller's promise: the queue keeps the region until the newest request that uses it is
                // complete, and no longer.
                let region = unsafe { memory::lend(&self.adapter.domain, base, len, written) };
                let region = match region {
                    Ok(region) => region,
                    Err(error) => {
                        tracing::debug!(%error, "an origin buffer is copied instead");
                        // SAFETY: the caller's promise.
                        return unsafe { self.copy_part(operation, base, len, at, posted) };
                    }
                };
                queue = self.sound_queue()?;
                queue.lend(region, base, len, written)
            }
        };
        // SAFETY: the caller's promise; the key is of a loan that contains the part, which the queue keeps until these
        // requests are complete.
        let done = unsafe { self.in_place(&mut queue, operation, base, len, at, lkey) };
        queue.note_use(lkey, base, len);
        *posted = done?;
        Ok(())
    }

    /// Copies data through the ring, as many bytes at a time as other threads may have to wait for.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::in_parts`].
    unsafe fn copy_part(
        &self,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
        posted: &mut Ticket,
    ) -> Result<()> {
        let longest = self.longest_copy();
        for start in (0..len).step_by(longest) {
            let (here, place) = (base.wrapping_add(start), at.moved(start as i64));
            let part = longest.min(len - start);
            let mut queue = self.sound_queue()?;
            // SAFETY: a part of what the caller vouches for.
            *posted = unsafe { self.through_ring(&mut queue, operation, here, part, place)? };
        }
        Ok(())
    }

    /// The most bytes of a request through the ring.
    fn longest_copy(&self) -> usize {
        PIECE_BYTES.min(self.longest())
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

    /// Copies data through the ring, by one request.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::transfer_on`]; at most [`VerbsEndpoint::longest_copy`] bytes.
    unsafe fn through_ring(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let (space, local) = self.take_space(queue, len as u32)?;
        let mut request = Request::whole(operation, at, local);
        request.space = space;
        if operation == Operation::Read {
            request.copy_to = base;
        } else {
            // SAFETY: `take_space` gave this many bytes of the ring; the caller vouches for the others.
            unsafe { copy(local.base, base, len) };
        }
        // SAFETY: the ring lives as long as the queue, and this piece is not given to others before the request is
        // complete.
        let ticket = unsafe { self.post(queue, &request)? };
        if operation == Operation::Read {
            self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
        }
        Ok(ticket)
    }
}

/// How many bytes to register at a time, of `rest` from `address` on.
fn part(address: usize, rest: usize) -> usize {
    let border = (address + PART_BYTES).next_multiple_of(PART_BORDER);
    rest.min(border - address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_at_borders_and_are_all_of_the_buffer() {
        for (address, len, parts) in [
            (PART_BYTES, 3 * PART_BYTES, vec![PART_BYTES; 3]),
            (PART_BYTES + 5, 100, vec![100]),
            (
                PART_BORDER + 16,
                2 * PART_BYTES,
                vec![PART_BYTES + PART_BORDER - 16, PART_BYTES - PART_BORDER + 16],
            ),
        ] {
            let (mut start, mut found) = (0, Vec::new());
            while start < len {
                let next = part(address + start, len - start);
                found.push(next);
                start += next;
            }
            assert_eq!(found, parts, "{len} bytes at {address:#x}");
        }
    }
}
