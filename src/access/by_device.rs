//! Accumulates on memory that is not mapped. If no thread of the target carries them out (`at_target`), elements that single
//! atomics update are words: the device's atomics change them, or loops of its compare-and-swap do. Atomics take effect
//! after everything that was posted before them, which keeps accumulates in order. All other elements are combined under
//! the accumulate lock: see `locked_by_device`.

use rdma_sys_shim::{Direction, Endpoint, Fetch, RemoteAddress, Ticket, Update, Width};

use super::bounds::Place;
use super::layout_work::{ElementBlock, LayoutWork, without_repeats};
use super::whole_words::{go_together, words};
use super::work::Work;
use crate::datatype::{Op, combine_word};
use crate::error::{Error, Result};
use crate::memory::remote::behind_stores;
use crate::wait::Patience;
use crate::window::OnTarget;

/// The number of words that are posted together if their old values are waited for.
const CHAIN: usize = 64;

/// The number of elements that are looked at together for repeated ones.
const DIVIDED: usize = 1 << 16;

impl OnTarget<'_> {
    /// Has a thread of the target do the work, or else does it by the device: first updates the elements for single atomics,
    /// then the others under the accumulate lock. Different elements of one operation are not ordered. An element that
    /// occurs several times gets all its operands, in their order.
    pub(super) fn accumulate_by_device(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        mut blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        behind_stores();
        let (rest, last) = self.accumulate_at_target(place, parts, &mut blocks)?;
        let Some(block) = rest else {
            return Ok(last);
        };
        let posted = match blocks.next() {
            None => self.accumulate_blocks_by_device(place, parts, &[block]),
            Some(next) => {
                let rest: Vec<_> = [block, next].into_iter().chain(blocks).collect();
                match have_overlaps(&rest) {
                    true => self.accumulate_repeated_by_device(place, parts, &rest),
                    false => self.accumulate_blocks_by_device(place, parts, &rest),
                }
            }
        };
        Ok(last.max(posted.inspect_err(|_| self.await_end(last))?))
    }

    #[cold]
    fn accumulate_repeated_by_device(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        blocks: &[ElementBlock],
    ) -> Result<Ticket> {
        let extent = parts.ty.extent();
        let each = |block: &ElementBlock| {
            let block = *block;
            (0..block.len)
                .step_by(extent)
                .map(move |start| block.part(start, extent))
        };
        let mut elements = blocks.iter().flat_map(each).peekable();
        let mut last = Ticket::DONE;
        while elements.peek().is_some() {
            let some = elements.by_ref().take(DIVIDED);
            for list in without_repeats(some, |element| element.target) {
                let posted = self.accumulate_blocks_by_device(place, parts, &list);
                last = last.max(posted.inspect_err(|_| self.await_end(last))?);
            }
        }
        Ok(last)
    }

    /// `blocks` do not overlap.
    fn accumulate_blocks_by_device(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        blocks: &[ElementBlock],
    ) -> Result<Ticket> {
        let _call = self.window.in_call(self.aim);
        let far = Far {
            endpoint: &*place.route.endpoint,
            patience: self.window.context().patience(),
            at: place.at,
            parts,
        };
        let (lock, widths) = (&place.route.accumulate_lock, place.widths);
        let blocks = || blocks.iter().copied();
        let is_word = |block: &ElementBlock| parts.is_of_words(block, widths, place.at.address);
        let words = || blocks().filter(is_word);
        let others = || blocks().filter(|block| !is_word(block));
        let mut ticket = Ticket::DONE;
        if let Some(width) = widths.word(parts.ty, 0)
            && words().next().is_some()
        {
            let posted = far.accumulate_words(width, words());
            ticket = posted.map_err(|error| self.failed(error))?;
            self.note_posted(ticket);
        }
        if others().next().is_some() {
            let accumulated = self.with_accumulate_lock(lock, || {
                let done = far.accumulate_under_lock(others());
                done.map_err(|error| self.failed(error))
            });
            accumulated.inspect_err(|_| self.await_end(ticket))?;
        }
        Ok(ticket)
    }
}

/// Whether blocks overlap at the target.
fn have_overlaps(blocks: &[ElementBlock]) -> bool {
    let ends_before = |one: &(i64, i64), next: &(i64, i64)| one.1 <= next.0;
    let range = |block: &ElementBlock| (block.target, block.target + block.len as i64);
    if blocks.iter().map(range).is_sorted_by(ends_before) {
        return false;
    }
    let mut ranges: Vec<_> = blocks.iter().map(range).collect();
    ranges.sort_unstable();
    !ranges.is_sorted_by(ends_before)
}

/// Elements of a target's memory that the device accesses, and the work on them.
pub(super) struct Far<'w> {
    pub(super) endpoint: &'w dyn Endpoint,
    pub(super) patience: Patience,
    /// The address at which the target's layout is placed.
    pub(super) at: RemoteAddress,
    pub(super) parts: &'w LayoutWork<'w>,
}

/// A block that one atomic updates.
struct DeviceWord {
    block: ElementBlock,
    width: Width,
}

impl Far<'_> {
    #[inline]
    pub(super) fn place(&self, block: &ElementBlock) -> RemoteAddress {
        self.at.moved(block.target)
    }

    /// Carries out the work on blocks of elements of this width. When the ticket is complete, so is the result.
    fn accumulate_words(
        &self,
        width: Width,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        if !go_together(self.parts.op, width.bytes()) {
            return self.update_or_fetch(blocks.map(|block| (block, width)));
        }
        let wide = blocks.flat_map(|block| {
            words(self.place(&block).address, block.len)
                .map(move |(start, len, width)| (block.part(start, len), width))
        });
        self.update_or_fetch(wide)
    }

    /// As [`Far::accumulate_words`], with the width of the words in each block.
    fn update_or_fetch(
        &self,
        blocks: impl Iterator<Item = (ElementBlock, Width)>,
    ) -> Result<Ticket> {
        match (self.parts.op, self.parts.fetches()) {
            (Op::Sum, false) => self.update(Update::Add, blocks),
            (Op::Replace, false) => self.update(Update::Store, blocks),
            _ => self.fetch(blocks),
        }
    }

    fn update(
        &self,
        update: Update,
        blocks: impl Iterator<Item = (ElementBlock, Width)>,
    ) -> Result<Ticket> {
        let mut poster = self.poster(Direction::Write);
        for (block, width) in blocks {
            let values = self.parts.work(&block).operands.cast_mut();
            // SAFETY: the buffers of `parts`, which are only read.
            unsafe {
                poster.turn_to(update, width)?;
                poster.push(values, self.place(&block).address, block.len)?;
            }
        }
        // SAFETY: as above.
        unsafe { poster.finish() }
    }

    /// Operations whose old values are needed. If the result has space for eight bytes, the device stores them there,
    /// and a later synchronisation waits for that. The other words are complete on return; they are posted in chains.
    fn fetch(&self, blocks: impl Iterator<Item = (ElementBlock, Width)>) -> Result<Ticket> {
        let mut chain = Vec::new();
        let mut last = Ticket::DONE;
        for (block, width) in blocks {
            for start in (0..block.len).step_by(width.bytes()) {
                let block = block.part(start, width.bytes());
                let word = DeviceWord { block, width };
                let result = self.parts.work(&block).result.cast::<u64>();
                // SAFETY: one element of the buffers of `parts`.
                let posted = unsafe {
                    if self.is_one_atomic() && width == Width::W8 && result.is_aligned() {
                        self.post(&word, result)
                    } else {
                        chain.push(word);
                        self.fetch_chain(&mut chain, CHAIN)
                    }
                };
                match posted {
                    Ok(ticket) => last = last.max(ticket),
                    Err(error) => return self.after(last, error),
                }
            }
        }
        match self.fetch_chain(&mut chain, 1) {
            Ok(_) => Ok(last),
            Err(error) => self.after(last, error),
        }
    }

    /// Whether the operation is a compare-and-swap, or an addition can do it.
    fn is_one_atomic(&self) -> bool {
        self.parts.compares() || matches!(self.parts.op, Op::Sum | Op::NoOp)
    }

    /// If the chain has at least `least` words, carries out the work on them and empties it. Complete on return.
    fn fetch_chain(&self, chain: &mut Vec<DeviceWord>, least: usize) -> Result<Ticket> {
        if chain.len() < least {
            return Ok(Ticket::DONE);
        }
        let old = match self.is_one_atomic() {
            true => self.post_each(chain)?,
            false => self.swap_until_done(chain)?,
        };
        if self.parts.fetches() {
            for (word, &old) in chain.iter().zip(&old) {
                // SAFETY: one element of the result.
                unsafe { word.width.store(self.parts.work(&word.block).result, old) };
            }
        }
        chain.clear();
        Ok(Ticket::DONE)
    }

    /// One atomic of the device for each of at most [`CHAIN`] words; returns the previous values.
    fn post_each(&self, chain: &[DeviceWord]) -> Result<[u64; CHAIN]> {
        let mut found = [0; CHAIN];
        let words = chain.iter().zip(&mut found);
        // SAFETY: a local array; every operation is waited for, also after a failure.
        let last = self.last_of(words.map(|(word, old)| unsafe { self.post(word, old) }))?;
        self.patience.complete(self.endpoint, last)?;
        Ok(found)
    }

    /// Posts the atomic of one word: an addition, or the requested compare-and-swap.
    ///
    /// # Safety
    /// `old` is writable, and nobody else touches it, until the operation is complete.
    unsafe fn post(&self, word: &DeviceWord, old: *mut u64) -> Result<Ticket> {
        let (at, width) = (self.place(&word.block), word.width);
        let work = self.parts.work(&word.block);
        // SAFETY: the buffers of `parts`; `old` is the caller's promise.
        unsafe {
            let operand = operand(&work, width);
            let fetch = match work.compare.is_null() {
                true => Fetch::Add(operand),
                false => Fetch::CompareSwap {
                    expect: width.load(work.compare),
                    new: operand,
                },
            };
            Ok(self.endpoint.fetch(at, width, fetch, old)?)
        }
    }

    /// Every other operation: compare-and-swap with the last value seen, for all words of a chain at once. Returns the
    /// previous values.
    fn swap_until_done(&self, chain: &[DeviceWord]) -> Result<[u64; CHAIN]> {
        let (ty, op) = (self.parts.ty, self.parts.op);
        let mut expected = self.guess(chain)?;
        let mut open = [true; CHAIN];
        while open[..chain.len()].contains(&true) {
            let mut found = expected;
            let words = chain.iter().zip(&mut found).zip(&open);
            let words = words.filter(|(_, open)| **open);
            let last = self.last_of(words.map(|((word, found), _)| {
                let (at, width, held) = (self.place(&word.block), word.width, *found);
                // SAFETY: operands of `parts`; `found` is a local array, and
                // every operation is waited for, also after a failure.
                unsafe {
                    let operand = operand(&self.parts.work(&word.block), width);
                    let swap = Fetch::CompareSwap {
                        expect: held,
                        new: combine_word(ty, op, held, operand),
                    };
                    Ok(self.endpoint.fetch(at, width, swap, found)?)
                }
            }))?;
            self.patience.complete(self.endpoint, last)?;
            for index in 0..chain.len() {
                open[index] &= found[index] != expected[index];
            }
            expected = found;
        }
        Ok(expected)
    }

    /// Probable values of the words of a chain. They are read without atomics, so they are only guesses. If the words
    /// cannot be read together, the atomics are tried at once instead, since they return the values.
    fn guess(&self, chain: &[DeviceWord]) -> Result<[u64; CHAIN]> {
        let mut held = [0; CHAIN];
        let is_run = |pair: &[DeviceWord]| pair[0].block.is_before(&pair[1].block);
        let [first, .., last] = chain else {
            return Ok(held);
        };
        if !chain.windows(2).all(is_run) {
            return Ok(held);
        }
        let offset = |word: &DeviceWord| (word.block.target - first.block.target) as usize;
        let mut bytes = [0_u8; CHAIN * 8];
        let (to, len) = (bytes.as_mut_ptr(), offset(last) + last.block.len);
        let at = self.place(&first.block);
        // SAFETY: a local array that is long enough; the operation is waited for.
        let read = unsafe { (self.endpoint).transfer(Direction::Read, to, len, at)? };
        self.patience.complete(self.endpoint, read)?;
        for (word, held) in chain.iter().zip(&mut held) {
            // SAFETY: inside the array.
            *held = unsafe { word.width.load(bytes.as_ptr().add(offset(word))) };
        }
        Ok(held)
    }

    /// The last of these tickets. After a failure, see [`Far::after`].
    fn last_of(&self, posted: impl Iterator<Item = Result<Ticket>>) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for posted in posted {
            match posted {
                Ok(ticket) => last = last.max(ticket),
                Err(error) => return self.after(last, error),
            }
        }
        Ok(last)
    }

    /// After posting failed: waits until earlier operations no longer use their buffers.
    #[cold]
    fn after<T>(&self, last: Ticket, error: Error) -> Result<T> {
        let _ = self.patience.complete(self.endpoint, last);
        Err(error)
    }
}

/// # Safety
/// The operands are valid.
unsafe fn operand(work: &Work, width: Width) -> u64 {
    match work.op {
        Op::NoOp => 0,
        // SAFETY: the caller's promise.
        _ => unsafe { width.load(work.operands) },
    }
}
