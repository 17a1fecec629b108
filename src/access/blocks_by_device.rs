//! Accumulates with datatypes where the processor does not do it.

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Endpoint, RemoteAddress, Ticket, Update, Width};

use super::bounds::Place;
use super::by_device::{CHAIN, Places, Words, after};
use super::combined::{Combined, ElementBlock, packed};
use super::post::Poster;
use super::put_get::Way;
use super::whole_words::{WIDTHS, go_together, type_of, words};
use crate::datatype::{Op, copy_elements};
use crate::error::Result;
use crate::wait::Patience;
use crate::window::OnTarget;

/// Bytes that are combined at a time.
const CHUNK: usize = 64 << 10;

impl OnTarget<'_> {
    /// Elements that single atomics update first, then the others under the accumulate lock: no
    /// order is kept between elements of one operation.
    ///
    /// # Safety
    /// The buffers of `parts` are valid until the operation is complete.
    pub(super) unsafe fn combine_by_device(
        self,
        place: &Place<'_>,
        parts: &Combined<'_>,
    ) -> Result<Ticket> {
        let _call = self.window.in_call(self.aim);
        let far = Far {
            endpoint: &*place.route.endpoint,
            patience: self.window.context().patience(),
            at: place.at,
            parts,
        };
        let widths = place.widths;
        let mut ticket = Ticket::DONE;
        let words = |words| parts.blocks_of(widths, far.at.address, words);
        if let Some(width) = widths.word(parts.ty, 0) {
            let posted = self.at_words_by_device(&place.route.accumulate_lock, || {
                if !go_together(parts.op, width.bytes()) {
                    // SAFETY: the caller's promise.
                    return unsafe { far.combine_words(width, words(true)) };
                }
                let mut last = Ticket::DONE;
                for wide in WIDTHS
                    .into_iter()
                    .filter(|wide| wide.bytes() >= width.bytes())
                {
                    let parts = Combined {
                        ty: type_of(wide),
                        ..*parts
                    };
                    let far = Far {
                        parts: &parts,
                        ..far
                    };
                    let blocks = words(true).flat_map(|block| far.words_of(wide, block));
                    // SAFETY: the caller's promise; the words are whole elements.
                    match unsafe { far.combine_words(wide, blocks) } {
                        Ok(ticket) => last = last.max(ticket),
                        Err(error) => return after(far.patience, far.endpoint, last, error),
                    }
                }
                Ok(last)
            });
            ticket = posted.map_err(|error| self.failed(error))?;
            self.note_posted(ticket);
        }
        if words(false).next().is_none() {
            return Ok(ticket);
        }
        self.with_accumulate_lock(&place.route.accumulate_lock, || {
            // SAFETY: the caller's promise; the lock is held.
            let done = unsafe { far.combine_others(words(false)) };
            done.map_err(|error| self.failed(error))
        })?;
        Ok(ticket)
    }
}

struct Far<'w> {
    endpoint: &'w dyn Endpoint,
    patience: Patience,
    /// Where the target's layout is placed.
    at: RemoteAddress,
    parts: &'w Combined<'w>,
}

impl Far<'_> {
    fn place(&self, offset: i64) -> RemoteAddress {
        self.at.moved(offset)
    }

    /// The words of a block that are as wide as this, and no wider.
    fn words_of(
        &self,
        wide: Width,
        block: ElementBlock,
    ) -> impl Iterator<Item = ElementBlock> + use<> {
        words(self.place(block.target).address, block.len)
            .filter(move |(.., width)| *width == wide)
            .map(move |(start, len, _)| block.part(start, len))
    }

    fn poster(&self, way: Way) -> Poster<'_> {
        Poster::new(self.endpoint, self.patience, way, self.at.rkey)
    }

    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn combine_words(
        &self,
        width: Width,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        let update = match self.parts.op {
            Op::Sum if self.parts.result.is_none() => Some(Update::Add),
            Op::Replace if self.parts.result.is_none() => Some(Update::Store),
            _ => None,
        };
        // SAFETY: the caller's promise.
        unsafe {
            match update {
                Some(update) => self.update(width, update, blocks),
                None => self.fetch(width, blocks).map(|()| Ticket::DONE),
            }
        }
    }

    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn update(
        &self,
        width: Width,
        update: Update,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for block in blocks {
            let (at, values) = (self.place(block.target), self.parts.operands_at(&block));
            let count = block.len / width.bytes();
            // SAFETY: the caller's promise.
            match unsafe { (self.endpoint).update_each(at, width, update, values, count) } {
                Ok(ticket) => last = last.max(ticket),
                Err(error) => return after(self.patience, self.endpoint, last, error.into()),
            }
        }
        Ok(last)
    }

    /// Operations whose old values matter, a chain of words at a time.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn fetch(&self, width: Width, blocks: impl Iterator<Item = ElementBlock>) -> Result<()> {
        let mut chain = Vec::with_capacity(CHAIN);
        for block in blocks {
            for start in (0..block.len).step_by(width.bytes()) {
                chain.push(block.part(start, width.bytes()));
                if chain.len() == CHAIN {
                    // SAFETY: the caller's promise.
                    unsafe { self.fetch_chain(width, &chain)? };
                    chain.clear();
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.fetch_chain(width, &chain) }
    }

    /// # Safety
    /// As for [`OnTarget::combine_by_device`]; at most [`CHAIN`] words.
    unsafe fn fetch_chain(&self, width: Width, words: &[ElementBlock]) -> Result<()> {
        let places: Vec<_> = words.iter().map(|word| self.place(word.target)).collect();
        let (mut operands, mut old) = ([0_u64; CHAIN], [0_u64; CHAIN]);
        let size = width.bytes();
        let packed = operands.as_mut_ptr().cast::<u8>();
        if self.parts.operands.is_some() {
            for (index, word) in words.iter().enumerate() {
                let from = self.parts.operands_at(word);
                // SAFETY: an operand, and its place in the array.
                unsafe { copy(packed.add(index * size), from, size) };
            }
        }
        let found = old.as_mut_ptr().cast::<u8>();
        let result = match self.parts.result {
            Some(_) => found,
            None => std::ptr::null_mut(),
        };
        let work = self.parts.work_on(packed, result, words.len() * size);
        let words_of = Words {
            endpoint: self.endpoint,
            patience: self.patience,
            places: Places::Each(&places),
            width,
            work: &work,
        };
        // SAFETY: local arrays, which stay until all is complete.
        let ticket = unsafe { words_of.carry_out()? };
        self.patience.complete(self.endpoint, ticket)?;
        if self.parts.result.is_some() {
            for (index, word) in words.iter().enumerate() {
                let to = self.parts.result_at(word);
                // SAFETY: an element of the result, and its place in the array.
                unsafe { copy(to, found.add(index * size), size) };
            }
        }
        Ok(())
    }

    /// Under the lock. That the last writes have taken effect is for its release behind them.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn combine_others(&self, blocks: impl Iterator<Item = ElementBlock>) -> Result<()> {
        if self.parts.overwrites() {
            let mut poster = self.poster(Way::Put);
            for block in blocks {
                let from = self.parts.operands_at(&block).cast_mut();
                // SAFETY: the caller's promise.
                unsafe { self.push_elements(&mut poster, from, &block)? };
            }
            // SAFETY: as above.
            let last = unsafe { poster.finish()? };
            return self.patience.release(self.endpoint, last);
        }
        let extent = self.parts.ty.extent();
        let most = CHUNK / extent * extent;
        let (mut chunk, mut len) = (Vec::new(), 0);
        for block in blocks {
            let mut start = 0;
            while start < block.len {
                let part = (block.len - start).min(most - len);
                chunk.push(block.part(start, part));
                (start, len) = (start + part, len + part);
                if len == most {
                    // SAFETY: the caller's promise.
                    unsafe { self.combine_chunk(&chunk, len)? };
                    chunk.clear();
                    len = 0;
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.combine_chunk(&chunk, len) }
    }

    /// Reads, combines and writes blocks of `len` bytes in all, packed one after the other.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn combine_chunk(&self, chunk: &[ElementBlock], len: usize) -> Result<()> {
        let Some(first) = chunk.first() else {
            return Ok(());
        };
        let parts = self.parts;
        let (ty, extent) = (parts.ty, parts.ty.extent());
        let padding = extent - ty.true_extent();
        let mut held = vec![0_u8; len];
        let base = held.as_mut_ptr();
        let mut poster = self.poster(Way::Get);
        for (at, block) in packed(chunk) {
            let there = self.place(block.target).address;
            // SAFETY: a part of the buffer, which is kept until the reads have ended.
            unsafe { poster.push(base.add(at), there, block.len - padding)? };
        }
        // SAFETY: as above.
        let read = unsafe { poster.finish()? };
        self.patience.complete(self.endpoint, read)?;
        // One block is combined where it is, several from and to copies.
        let several = chunk.len() > 1;
        let mut copies = [Vec::new(), Vec::new()];
        let mut operands = parts.operands_at(first);
        if several && parts.operands.is_some() {
            copies[0].resize(len, 0_u8);
            operands = copies[0].as_ptr();
            for (at, block) in packed(chunk) {
                let (to, from) = (copies[0][at..].as_mut_ptr(), parts.operands_at(block));
                // SAFETY: operands, and as much of the buffer.
                unsafe { copy_elements(ty, to, from, block.len / extent) };
            }
        }
        let mut result = parts.result_at(first);
        if several && parts.result.is_some() {
            copies[1].resize(len, 0_u8);
            result = copies[1].as_mut_ptr();
        }
        let work = parts.work_on(operands, result, len);
        // SAFETY: the buffers are the caller's promise, or as long.
        let changed = unsafe { work.combine_held(base, 0, work.count) };
        if several && parts.result.is_some() {
            for (at, block) in packed(chunk) {
                let (to, from) = (parts.result_at(block), copies[1][at..].as_ptr());
                // SAFETY: elements of the result, and as much of the buffer.
                unsafe { copy_elements(ty, to, from, block.len / extent) };
            }
        }
        if changed {
            let mut poster = self.poster(Way::Put);
            for (at, block) in packed(chunk) {
                // SAFETY: a part of the buffer, which is kept until the writes are released.
                unsafe { self.push_elements(&mut poster, base.add(at), block)? };
            }
            // SAFETY: as above.
            let last = unsafe { poster.finish()? };
            self.patience.release(self.endpoint, last)?;
        }
        Ok(())
    }

    /// Adds the elements of a block that stand at `from`, and nothing of their padding.
    ///
    /// # Safety
    /// As for [`Poster::push`].
    unsafe fn push_elements(
        &self,
        poster: &mut Poster<'_>,
        from: *mut u8,
        block: &ElementBlock,
    ) -> Result<()> {
        let (ty, there) = (self.parts.ty, self.place(block.target).address);
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
