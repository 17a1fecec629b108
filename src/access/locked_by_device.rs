//! Elements that are read, combined and written back through the device, under the accumulate lock.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use rdma_sys_shim::memory::Buffer;
use rdma_sys_shim::{Endpoint, RemoteAddress, Ticket};

use super::bounds::Place;
use super::work::Work;
use crate::error::{Error, Result};
use crate::wait::Patience;

/// Bytes that are combined at a time.
const CHUNK: usize = 64 << 10;

pub(super) struct Transfer<'w> {
    endpoint: &'w dyn Endpoint,
    patience: Patience,
    at: RemoteAddress,
    work: &'w Work,
    /// From the first element to the end of the last.
    len: usize,
    /// The last operation that was posted.
    last: Cell<Ticket>,
}

impl<'w> Transfer<'w> {
    pub(super) fn new(place: &Place<'w>, patience: Patience, work: &'w Work, len: usize) -> Self {
        Self {
            endpoint: &*place.route.endpoint,
            patience,
            at: place.at,
            work,
            len,
            last: Cell::new(Ticket::DONE),
        }
    }

    /// Carries out the work. That the last writes have taken effect is for the release of the lock
    /// behind them; no buffer is used any more on return.
    ///
    /// # Safety
    /// The buffers of the work are valid for its elements.
    pub(super) unsafe fn carry_out(&self) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.add_by_assist()? {
                Some(result) => result,
                None => self.carry_out_here(),
            }
        }
    }

    /// As [`Transfer::carry_out`], by the target's threads that wait, as far as that is sooner; `None` where there are none,
    /// with nothing done.
    ///
    /// # Safety
    /// As for [`Transfer::carry_out`].
    unsafe fn add_by_assist(&self) -> Result<Option<Result<()>>> {
        let threads = self.endpoint.waiting_threads();
        let (Some(threads), Some(number)) = (threads, self.work.summed()) else {
            return Ok(None);
        };
        let failed = RefCell::new(None);
        let otherwise = |bytes: Range<usize>| {
            // SAFETY: the caller's promise, for these elements; each part is added once.
            self.carry_out_part(bytes, &failed, |part| unsafe { part.carry_out_here() })
        };
        let Work {
            operands, result, ..
        } = *self.work;
        // SAFETY: the buffers are the caller's promise; under the lock nobody else changes these elements.
        let asked =
            unsafe { threads.add(self.at, number, operands, result, self.len, &otherwise)? };
        Ok(asked.then(|| failed.take().map_or(Ok(()), Err)))
    }

    /// Has the work carried out on some bytes, which begin with an element; whether it went well. The first error is kept.
    fn carry_out_part(
        &self,
        bytes: Range<usize>,
        failed: &RefCell<Option<Error>>,
        carry_out: impl FnOnce(&Transfer<'_>) -> Result<()>,
    ) -> bool {
        let extent = self.work.ty.extent();
        let (first, count) = (bytes.start / extent, bytes.len().div_ceil(extent));
        let work = self.work.part(first, count);
        let part = Transfer {
            endpoint: self.endpoint,
            patience: self.patience,
            at: self.at(bytes.start),
            work: &work,
            len: bytes.len(),
            last: Cell::new(Ticket::DONE),
        };
        match carry_out(&part) {
            Ok(()) => true,
            Err(error) => {
                failed.borrow_mut().get_or_insert(error);
                false
            }
        }
    }

    /// As [`Transfer::carry_out`], by this process.
    ///
    /// # Safety
    /// As for [`Transfer::carry_out`].
    unsafe fn carry_out_here(&self) -> Result<()> {
        let mut buffers = [Buffer::default(), Buffer::default()];
        let result = if self.work.overwrites() {
            // SAFETY: the caller's promise.
            unsafe { self.write(self.work.operands, 0, self.len) }
        } else {
            // SAFETY: the caller's promise; the buffers are kept until all has ended.
            unsafe { self.combine(&mut buffers) }
        };
        // An error here too means that the device has done with the buffers.
        let released = self.patience.release(self.endpoint, self.last.get());
        result.and(released)
    }

    /// Chunk by chunk, the next being read while one is combined and written. The write may overtake
    /// that read, which is of other bytes.
    ///
    /// # Safety
    /// As for [`Transfer::carry_out`]; the buffers are kept until the last operation has ended.
    unsafe fn combine(&self, buffers: &mut [Buffer; 2]) -> Result<()> {
        let extent = self.work.ty.extent();
        let chunk = CHUNK / extent * extent;
        let part = |start: usize| chunk.min(self.len - start);
        let mut written = [Ticket::DONE; 2];
        let to = self.room(&mut buffers[0], 0, part(0));
        // SAFETY: the buffer is as long, and not touched before the read has ended.
        let mut read = unsafe { self.read(to, 0, part(0))? };
        for (index, start) in (0..self.len).step_by(chunk).enumerate() {
            let (this, other) = (index % 2, (index + 1) % 2);
            let mut next_read = Ticket::DONE;
            let next = start + chunk;
            if next < self.len {
                self.patience.release(self.endpoint, written[other])?;
                let to = self.room(&mut buffers[other], next, part(next));
                // SAFETY: as above; what was written from there before has been taken.
                next_read = unsafe { self.read(to, next, part(next))? };
            }
            self.patience.complete(self.endpoint, read)?;
            let held = self.room(&mut buffers[this], start, part(start));
            let (first, count) = (start / extent, part(start).div_ceil(extent));
            // SAFETY: the buffer holds these elements; the work's are the caller's promise.
            unsafe {
                if self.work.combine_held(held, first, count) {
                    self.write(held, start, part(start))?;
                    written[this] = self.last.get();
                }
            }
            read = next_read;
        }
        Ok(())
    }

    /// Where `len` bytes are held of those that begin `start` bytes behind the first.
    fn room(&self, buffer: &mut Buffer, start: usize, len: usize) -> *mut u8 {
        buffer.at_least(len, self.at(start).address)
    }

    fn at(&self, offset: usize) -> RemoteAddress {
        self.at.moved(offset as i64)
    }

    /// # Safety
    /// `to` is writable for `len` bytes, and nobody else touches them, until the read has ended.
    unsafe fn read(&self, to: *mut u8, start: usize, len: usize) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.endpoint.read(to, len, self.at(start))? };
        self.last.set(ticket);
        Ok(ticket)
    }

    /// Writes the elements in `len` bytes, and nothing of their padding.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes until the writes have ended.
    unsafe fn write(&self, from: *const u8, start: usize, len: usize) -> Result<()> {
        let ty = self.work.ty;
        let write = |offset: usize, len: usize| -> Result<()> {
            let at = self.at(start + offset);
            // SAFETY: inside what the caller vouches for.
            self.last
                .set(unsafe { self.endpoint.write(from.add(offset), len, at)? });
            Ok(())
        };
        if !ty.is_padded() {
            return write(0, len);
        }
        for element in (0..len).step_by(ty.extent()) {
            for &(at, len) in ty.runs() {
                write(element + at, len)?;
            }
        }
        Ok(())
    }
}
