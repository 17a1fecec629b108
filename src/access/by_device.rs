//! Accumulates where the processor does not carry them out. Elements that single atomics update are words: the device's
//! atomics change them, or loops of its compare-and-swap. Atomics take effect after all that was posted before them,
//! which keeps the order of accumulates. The others are combined under the accumulate lock: see `locked_by_device`.

use std::ptr;

use rdma_sys_shim::{Endpoint, RemoteAddress, Ticket, Update, Width};

use super::bounds::Place;
use super::combined::{Combined, ElementBlock};
use super::whole_words::{go_together, words};
use crate::datatype::{Op, combine_word};
use crate::error::{Error, Result};
use crate::wait::Patience;
use crate::window::OnTarget;

/// How many words are posted at a time where their old values are waited for.
const CHAIN: usize = 64;

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
        let lock = &place.route.accumulate_lock;
        let blocks = |words| parts.blocks_of(place.widths, place.at.address, words);
        let mut ticket = Ticket::DONE;
        if let Some(width) = place.widths.word(parts.ty, 0)
            && blocks(true).next().is_some()
        {
            let posted = self.at_words_by_device(lock, || {
                // SAFETY: the caller's promise.
                unsafe { far.combine_words(width, blocks(true)) }
            });
            ticket = posted.map_err(|error| self.failed(error))?;
            self.note_posted(ticket);
        }
        if blocks(false).next().is_some() {
            self.with_accumulate_lock(lock, || {
                // SAFETY: the caller's promise; the lock is held.
                let done = unsafe { far.combine_under_lock(blocks(false)) };
                done.map_err(|error| self.failed(error))
            })?;
        }
        Ok(ticket)
    }
}

/// Elements of a target's memory that the device reaches, and the work on them.
pub(super) struct Far<'w> {
    pub(super) endpoint: &'w dyn Endpoint,
    pub(super) patience: Patience,
    /// Where the target's layout is placed.
    pub(super) at: RemoteAddress,
    pub(super) parts: &'w Combined<'w>,
}

/// A block that one atomic updates.
struct Word {
    block: ElementBlock,
    width: Width,
}

impl Far<'_> {
    #[inline]
    pub(super) fn place(&self, block: &ElementBlock) -> RemoteAddress {
        self.at.moved(block.target)
    }

    /// The words of a block of elements that are of this width, with their width: wider ones where elements are only moved.
    fn words(
        &self,
        width: Width,
        block: ElementBlock,
    ) -> impl Iterator<Item = (ElementBlock, Width)> + use<> {
        let is_cut = go_together(self.parts.op, width.bytes());
        let cut = is_cut.then(|| {
            words(self.place(&block).address, block.len)
                .map(move |(start, len, width)| (block.part(start, len), width))
        });
        let whole = (!is_cut).then_some((block, width));
        whole.into_iter().chain(cut.into_iter().flatten())
    }

    /// With the ticket, the result is there.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn combine_words(
        &self,
        width: Width,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        let words = blocks.flat_map(|block| self.words(width, block));
        // SAFETY: the caller's promise.
        unsafe {
            match (self.parts.op, self.parts.result) {
                (Op::Sum, None) => self.update(Update::Add, words),
                (Op::Replace, None) => self.update(Update::Store, words),
                _ => self.fetch(words),
            }
        }
    }

    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn update(
        &self,
        update: Update,
        words: impl Iterator<Item = (ElementBlock, Width)>,
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for (block, width) in words {
            let (at, values) = (self.place(&block), self.parts.work(&block).operands);
            let count = block.len / width.bytes();
            // SAFETY: the caller's promise.
            match unsafe { (self.endpoint).update_each(at, width, update, values, count) } {
                Ok(ticket) => last = last.max(ticket),
                Err(error) => return self.after(last, error.into()),
            }
        }
        Ok(last)
    }

    /// Operations whose old values matter, a chain of words at a time.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`].
    unsafe fn fetch(&self, words: impl Iterator<Item = (ElementBlock, Width)>) -> Result<Ticket> {
        let mut each = words.flat_map(|(block, width)| {
            (0..block.len).step_by(width.bytes()).map(move |start| {
                let block = block.part(start, width.bytes());
                Word { block, width }
            })
        });
        // Compare-and-swap, and what an addition does.
        let is_one_atomic =
            self.parts.compare.is_some() || matches!(self.parts.op, Op::Sum | Op::NoOp);
        let mut last = Ticket::DONE;
        loop {
            let chain: Vec<_> = each.by_ref().take(CHAIN).collect();
            if chain.is_empty() {
                return Ok(last);
            }
            // SAFETY: the caller's promise.
            let done = unsafe {
                match is_one_atomic {
                    true => self.fetch_chain(&chain),
                    false => self.swap_until_done(&chain).map(|()| Ticket::DONE),
                }
            };
            match done {
                Ok(ticket) => last = last.max(ticket),
                Err(error) => return self.after(last, error),
            }
        }
    }

    /// One atomic of the device for each word. Where eight bytes fit into the result, the device
    /// stores them there, and a later synchronisation waits for that; otherwise this call does.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`]; at most [`CHAIN`] words, and there is a result.
    unsafe fn fetch_chain(&self, chain: &[Word]) -> Result<Ticket> {
        let fitting = |word: &Word| {
            let wide = self.parts.work(&word.block).result.cast::<u64>();
            (word.width == Width::W8 && wide.is_aligned()).then_some(wide)
        };
        let mut old = [0; CHAIN];
        let (mut last, mut all_fit) = (Ticket::DONE, true);
        for (word, old) in chain.iter().zip(&mut old) {
            let to = fitting(word).unwrap_or(old);
            all_fit &= !ptr::eq(to, old);
            // SAFETY: an element of the result, which stays until the operation is complete, or of a local array, for
            // which this waits, also after a failure.
            match unsafe { self.post(word, to) } {
                Ok(ticket) => last = ticket,
                Err(error) => return self.after(last, error),
            }
        }
        if all_fit {
            return Ok(last);
        }
        self.patience.complete(self.endpoint, last)?;
        for (word, &old) in chain.iter().zip(&old) {
            if fitting(word).is_none() {
                // SAFETY: the caller's promise.
                unsafe { self.store_result(word, old) };
            }
        }
        Ok(Ticket::DONE)
    }

    /// Posts the atomic of one word: an addition, or the compare-and-swap that was asked for.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`]; `old` is writable, and nobody else touches it,
    /// until the operation is complete.
    unsafe fn post(&self, word: &Word, old: *mut u64) -> Result<Ticket> {
        let (at, width) = (self.place(&word.block), word.width);
        let compare = self.parts.work(&word.block).compare;
        // SAFETY: the caller's promise.
        let posted = unsafe {
            let operand = self.operand(word);
            match compare.is_null() {
                true => self.endpoint.fetch_add(at, width, operand, old),
                false => {
                    let expect = width.load(compare);
                    (self.endpoint).compare_swap(at, width, expect, operand, old)
                }
            }
        };
        Ok(posted?)
    }

    /// Every other operation: swaps against what was last seen, all words of a chain at once.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_by_device`]; at most [`CHAIN`] words.
    unsafe fn swap_until_done(&self, chain: &[Word]) -> Result<()> {
        let (ty, op) = (self.parts.ty, self.parts.op);
        let mut expected = self.guess(chain)?;
        let mut open = [true; CHAIN];
        while open[..chain.len()].contains(&true) {
            let mut found = expected;
            let mut last = Ticket::DONE;
            for (index, word) in chain.iter().enumerate().filter(|&(index, _)| open[index]) {
                let (held, old) = (expected[index], &raw mut found[index]);
                // SAFETY: the operands are the caller's promise; `found` is a local array, and
                // every operation is waited for, also after a failure.
                let posted = unsafe {
                    let new = combine_word(ty, op, held, self.operand(word));
                    (self.endpoint).compare_swap(
                        self.place(&word.block),
                        word.width,
                        held,
                        new,
                        old,
                    )
                };
                match posted {
                    Ok(ticket) => last = ticket,
                    Err(error) => return self.after(last, error.into()),
                }
            }
            self.patience.complete(self.endpoint, last)?;
            for index in 0..chain.len() {
                open[index] &= found[index] != expected[index];
            }
            expected = found;
        }
        if self.parts.result.is_some() {
            for (word, &old) in chain.iter().zip(&expected) {
                // SAFETY: the result is the caller's promise.
                unsafe { self.store_result(word, old) };
            }
        }
        Ok(())
    }

    /// What the words of a chain may hold: read, which is no atomic, and so to be tried only. Words
    /// that are not read together are as well tried at once, by atomics that tell what they hold.
    fn guess(&self, chain: &[Word]) -> Result<[u64; CHAIN]> {
        let mut held = [0; CHAIN];
        let is_run = |pair: &[Word]| pair[0].block.is_before(&pair[1].block);
        let [first, .., last] = chain else {
            return Ok(held);
        };
        if !chain.windows(2).all(is_run) {
            return Ok(held);
        }
        let offset = |word: &Word| (word.block.target - first.block.target) as usize;
        let mut bytes = [0_u8; CHAIN * 8];
        let (to, len) = (bytes.as_mut_ptr(), offset(last) + last.block.len);
        // SAFETY: a local array that is long enough; the operation is waited for.
        let read = unsafe { self.endpoint.read(to, len, self.place(&first.block))? };
        self.patience.complete(self.endpoint, read)?;
        for (word, held) in chain.iter().zip(&mut held) {
            // SAFETY: inside the array.
            *held = unsafe { word.width.load(bytes.as_ptr().add(offset(word))) };
        }
        Ok(held)
    }

    /// # Safety
    /// The operands are valid.
    unsafe fn operand(&self, word: &Word) -> u64 {
        match self.parts.op {
            Op::NoOp => 0,
            // SAFETY: the caller's promise.
            _ => unsafe { word.width.load(self.parts.work(&word.block).operands) },
        }
    }

    /// # Safety
    /// The result is writable.
    unsafe fn store_result(&self, word: &Word, old: u64) {
        // SAFETY: the caller's promise.
        unsafe { word.width.store(self.parts.work(&word.block).result, old) };
    }

    /// Posting failed: what was posted before still uses its buffers, until it has ended.
    #[cold]
    fn after<T>(&self, last: Ticket, error: Error) -> Result<T> {
        let _ = self.patience.complete(self.endpoint, last);
        Err(error)
    }
}
