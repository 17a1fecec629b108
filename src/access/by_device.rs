//! Accumulates on memory that is not mapped. If no thread of the target carries them out (`at_target`), elements that single
//! atomics update are words: the device's atomics change them, or loops of its compare-and-swap do. Atomics take effect
//! after everything that was posted before them, which keeps accumulates in order. All other elements are combined under
//! the accumulate lock: see `locked_by_device`.

use rdma_sys_shim::{Direction, Endpoint, Fetch, RemoteAddress, Ticket, Update, Width};

use super::bounds::Place;
use super::layout_work::{ElementBlock, LayoutWork, cut, without_repeats};
use super::whole_words::{go_together, words};
use crate::datatype::{Op, combine_word};
use crate::error::Result;
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
        let extent = parts.what.ty.extent();
        let each = |block: ElementBlock| {
            (0..block.len)
                .step_by(extent)
                .map(move |start| block.part(start, extent))
        };
        let mut last = Ticket::DONE;
        let lists = cut(blocks.iter().copied(), |_, bytes, _| {
            DIVIDED * extent - bytes
        });
        for some in lists {
            let elements = some.into_iter().flat_map(each);
            for list in without_repeats(elements, |element| element.target) {
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
        if let Some(width) = widths.word(parts.what.ty, 0)
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

/// A block, and the width of the words in it. In a chain, a block is one word.
type WordBlock = (ElementBlock, Width);

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
        if !go_together(self.parts.what.op, width.bytes()) {
            return self.update_or_fetch(blocks.map(|block| (block, width)));
        }
        let wide = blocks.flat_map(|block| {
            words(self.place(&block).address, block.len)
                .map(move |(start, len, width)| (block.part(start, len), width))
        });
        self.update_or_fetch(wide)
    }

    /// As [`Far::accumulate_words`], of blocks with words of several widths.
    fn update_or_fetch(&self, blocks: impl Iterator<Item = WordBlock>) -> Result<Ticket> {
        match (self.parts.what.op, self.parts.what.fetches()) {
            (Op::Sum, false) => self.update(Update::Add, blocks),
            (Op::Replace, false) => self.update(Update::Store, blocks),
            _ => self.fetch(blocks),
        }
    }

    fn update(&self, update: Update, blocks: impl Iterator<Item = WordBlock>) -> Result<Ticket> {
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
    fn fetch(&self, mut blocks: impl Iterator<Item = WordBlock>) -> Result<Ticket> {
        let (mut chain, mut last) = (Vec::new(), Ticket::DONE);
        let posted = blocks.try_for_each(|(block, width)| {
            for start in (0..block.len).step_by(width.bytes()) {
                let word = (block.part(start, width.bytes()), width);
                let result = self.parts.work(&word.0).result.cast::<u64>();
                if self.is_one_atomic() && width == Width::W8 && result.is_aligned() {
                    // SAFETY: one element of the buffers of `parts`.
                    last = last.max(unsafe { self.post(&word, 0, result)? });
                } else {
                    chain.push(word);
                    self.fetch_chain(&mut chain, CHAIN)?;
                }
            }
            Ok(())
        });
        let fetched = posted.and_then(|()| self.fetch_chain(&mut chain, 1));
        // After a failure, the caller may reuse the result.
        fetched.inspect_err(|_| drop(self.patience.complete(self.endpoint, last)))?;
        Ok(last)
    }

    /// Whether the operation is a compare-and-swap, or an addition can do it.
    fn is_one_atomic(&self) -> bool {
        !self.parts.what.compare.is_null() || matches!(self.parts.what.op, Op::Sum | Op::NoOp)
    }

    /// If the chain has at least `least` words, carries out the work on them and empties it. Complete on return.
    fn fetch_chain(&self, chain: &mut Vec<WordBlock>, least: usize) -> Result<()> {
        if chain.len() < least {
            return Ok(());
        }
        let old = self.update_chain(chain)?;
        if self.parts.what.fetches() {
            for ((block, width), &old) in chain.iter().zip(&old) {
                // SAFETY: one element of the result.
                unsafe { width.store(self.parts.work(block).result, old) };
            }
        }
        chain.clear();
        Ok(())
    }

    /// Updates at most [`CHAIN`] words, and returns the previous values: by one atomic for each, or else by
    /// compare-and-swap with the last value seen, for all of them at once.
    fn update_chain(&self, chain: &[WordBlock]) -> Result<[u64; CHAIN]> {
        let at_once = self.is_one_atomic();
        let mut held = match at_once {
            true => [0; CHAIN],
            false => self.guess(chain)?,
        };
        let mut open = [true; CHAIN];
        while open[..chain.len()].contains(&true) {
            let (mut found, mut last) = (held, Ticket::DONE);
            let mut words = chain.iter().zip(&mut found).zip(&open);
            let posted = words.try_for_each(|((word, found), is_open)| {
                if *is_open {
                    // SAFETY: a local array; every operation is waited for.
                    last = last.max(unsafe { self.post(word, *found, found)? });
                }
                Ok(())
            });
            // Also after a failure, since the array is local.
            let complete = self.patience.complete(self.endpoint, last);
            posted.and(complete)?;
            for index in 0..chain.len() {
                open[index] &= !at_once && found[index] != held[index];
            }
            held = found;
        }
        Ok(held)
    }

    /// Posts the atomic of one word: an addition, the requested compare-and-swap, or one that replaces the value `held`.
    ///
    /// # Safety
    /// `old` is writable, and nobody else touches it, until the operation is complete.
    unsafe fn post(&self, &(block, width): &WordBlock, held: u64, old: *mut u64) -> Result<Ticket> {
        let work = self.parts.work(&block);
        // SAFETY: the buffers of `parts`; `old` is the caller's promise.
        unsafe {
            let operand = work.operand(0, width);
            let fetch = match work.op {
                _ if !work.compare.is_null() => Fetch::CompareSwap {
                    expect: width.load(work.compare),
                    new: operand,
                },
                Op::Sum | Op::NoOp => Fetch::Add(operand),
                op => Fetch::CompareSwap {
                    expect: held,
                    new: combine_word(work.ty, op, held, operand),
                },
            };
            Ok((self.endpoint).fetch(self.place(&block), width, fetch, old)?)
        }
    }

    /// Probable values of the words of a chain. They are read without atomics, so they are only guesses. If the words
    /// cannot be read together, the atomics are tried at once instead, since they return the values.
    fn guess(&self, chain: &[WordBlock]) -> Result<[u64; CHAIN]> {
        let mut held = [0; CHAIN];
        let is_run = |pair: &[WordBlock]| pair[0].0.is_before(&pair[1].0);
        let [(first, _), .., (last, _)] = chain else {
            return Ok(held);
        };
        if !chain.windows(2).all(is_run) {
            return Ok(held);
        }
        let offset = |block: &ElementBlock| (block.target - first.target) as usize;
        let mut bytes = [0_u8; CHAIN * 8];
        let (to, len) = (bytes.as_mut_ptr(), offset(last) + last.len);
        let at = self.place(first);
        // SAFETY: a local array that is long enough; the operation is waited for.
        let read = unsafe { (self.endpoint).transfer(Direction::Read, to, len, at)? };
        self.patience.complete(self.endpoint, read)?;
        for ((block, width), held) in chain.iter().zip(&mut held) {
            // SAFETY: inside the array.
            *held = unsafe { width.load(bytes.as_ptr().add(offset(block))) };
        }
        Ok(held)
    }
}
