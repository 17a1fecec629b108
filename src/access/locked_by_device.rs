//! Elements that are read, combined and written back through the device, under the accumulate lock.

use std::cell::Cell;
use std::mem;

use rdma_sys_shim::memory::Buffer;
use rdma_sys_shim::{Direction, Ticket};

use super::by_device::Far;
use super::layout_work::{ElementBlock, cut, packed};
use super::post::Poster;
use super::work::Work;
use crate::error::Result;

/// Bytes that are combined at a time.
const CHUNK: usize = 64 << 10;

impl Far<'_> {
    /// Combines blocks of elements with the lock held. The release of the lock takes effect after the last writes. On
    /// return, no buffer is used any more.
    pub(super) fn accumulate_under_lock(
        &self,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<()> {
        match self.parts.what.overwrites() {
            true => self.overwrite(blocks),
            false => self.accumulate_chunks(blocks),
        }
    }

    fn overwrite(&self, blocks: impl Iterator<Item = ElementBlock>) -> Result<()> {
        let mut poster = self.poster(Direction::Write);
        for block in blocks {
            let from = self.parts.work(&block).operands.cast_mut();
            // SAFETY: the operands of `parts`.
            unsafe { self.push_elements(&mut poster, from, &block)? };
        }
        // SAFETY: as above.
        let last = unsafe { poster.finish()? };
        self.patience.release(self.endpoint, last)
    }

    fn accumulate_chunks(&self, blocks: impl Iterator<Item = ElementBlock>) -> Result<()> {
        let mut buffers = [Buffer::default(), Buffer::default()];
        let last = Cell::new(Ticket::DONE);
        // SAFETY: the buffers are kept until all has ended.
        let result = unsafe { self.accumulate_alternately(blocks, &mut buffers, &last) };
        // After an error too, the device no longer uses the buffers.
        let released = self.patience.release(self.endpoint, last.get());
        result.and(released)
    }

    /// Works chunk by chunk: while one is combined and written, the next is read. The write may overtake that read,
    /// which is of other bytes. `last` is the last operation that was posted.
    ///
    /// # Safety
    /// The buffers are kept until the last operation has ended.
    unsafe fn accumulate_alternately(
        &self,
        blocks: impl Iterator<Item = ElementBlock>,
        buffers: &mut [Buffer; 2],
        last: &Cell<Ticket>,
    ) -> Result<()> {
        let extent = self.parts.what.ty.extent();
        let whole = CHUNK / extent * extent;
        let chunks = cut(blocks, |_, bytes, _| whole - bytes);
        let mut reading: Option<ReadChunk> = None;
        let mut written = [Ticket::DONE; 2];
        for (turn, blocks) in chunks.map(Some).chain([None]).enumerate() {
            let (this, other) = (turn % 2, 1 - turn % 2);
            let mut next = None;
            if let Some(blocks) = blocks {
                // The earlier write from that buffer.
                self.patience.release(self.endpoint, written[this])?;
                // SAFETY: the buffer is not touched before the read has ended.
                next = Some(unsafe { self.read(blocks, &mut buffers[this], last)? });
            }
            if let Some(chunk) = mem::replace(&mut reading, next) {
                self.patience.complete(self.endpoint, chunk.read)?;
                // SAFETY: the elements were read; those of the buffers are `parts`'. The written bytes stay
                // until the write is released.
                unsafe {
                    if self.combine_chunk(&chunk)? {
                        written[other] = self.write(&chunk, last)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// Nobody else touches the buffer until the read has ended.
    unsafe fn read(
        &self,
        blocks: Vec<ElementBlock>,
        buffer: &mut Buffer,
        last: &Cell<Ticket>,
    ) -> Result<ReadChunk> {
        let len = blocks.iter().map(|block| block.len).sum();
        let there = blocks.first().map_or(0, |block| self.place(block).address);
        let base = buffer.at_least(len, there);
        let padding = self.parts.what.ty.extent() - self.parts.what.ty.true_extent();
        let mut poster = self.poster(Direction::Read);
        for (at, block) in packed(&blocks) {
            let there = self.place(block).address;
            // SAFETY: inside the buffer, which is the caller's promise.
            unsafe { poster.push(base.add(at), there, block.len - padding)? };
        }
        // SAFETY: as above.
        let read = unsafe { poster.finish()? };
        last.set(read);
        Ok(ReadChunk { blocks, base, read })
    }

    /// Returns whether the elements have to be written back.
    ///
    /// # Safety
    /// They were read, and the buffers have them too.
    unsafe fn combine_chunk(&self, chunk: &ReadChunk) -> Result<bool> {
        // SAFETY: the caller's promise.
        let combine = |work: &Work| unsafe { work.combine_held(chunk.base, 0, work.count) };
        match &*chunk.blocks {
            [block] => Ok(combine(&self.parts.work(block))),
            // SAFETY: the caller's promise.
            blocks => unsafe { self.parts.densely(blocks, |dense| Ok(combine(dense))) },
        }
    }

    /// # Safety
    /// Nobody else touches the elements until the write has ended.
    unsafe fn write(&self, chunk: &ReadChunk, last: &Cell<Ticket>) -> Result<Ticket> {
        let mut poster = self.poster(Direction::Write);
        for (at, block) in packed(&chunk.blocks) {
            // SAFETY: the caller's promise, of each part.
            unsafe { self.push_elements(&mut poster, chunk.base.add(at), block)? };
        }
        // SAFETY: as above.
        let written = unsafe { poster.finish()? };
        last.set(last.get().max(written));
        Ok(written)
    }

    pub(super) fn poster(&self, direction: Direction) -> Poster<'_> {
        Poster::new(self.endpoint, self.patience, direction, self.at.rkey)
    }

    /// Adds the elements of a block at `from`, without their padding.
    ///
    /// # Safety
    /// As for [`Poster::push`].
    unsafe fn push_elements(
        &self,
        poster: &mut Poster<'_>,
        from: *mut u8,
        block: &ElementBlock,
    ) -> Result<()> {
        let (ty, there) = (self.parts.what.ty, self.place(block).address);
        if !ty.is_padded() {
            // SAFETY: the caller's promise.
            return unsafe { poster.push(from, there, block.len) };
        }
        for element in (0..block.len).step_by(ty.extent()) {
            for &(at, len) in ty.runs() {
                let at = element + at;
                // SAFETY: part of the block.
                unsafe { poster.push(from.add(at), there.wrapping_add(at as u64), len)? };
            }
        }
        Ok(())
    }
}

/// A chunk of elements; they are in a buffer once they are read.
struct ReadChunk {
    blocks: Vec<ElementBlock>,
    base: *mut u8,
    read: Ticket,
}
