//! Accumulates of which every element is one atomic, where the processor does not do it: the
//! device's atomics, or loops of its compare-and-swap. Atomics take effect after all that was
//! posted before them, which keeps the order of accumulates.

use std::ptr;

use rdma_sys_shim::{Endpoint, RemoteAddress, Ticket, Update, Width};

use super::bounds::Place;
use super::work::Work;
use crate::datatype::{Op, combine_word};
use crate::error::{Error, Result};
use crate::wait::Patience;
use crate::window::Window;

/// How many words are under way at a time where their old values are waited for.
pub(super) const CHAIN: usize = 64;

impl Window {
    /// Carries out work on the elements at a place, which single atomics of this width update; what it only moves goes in
    /// wider words. With the ticket, the result is there.
    ///
    /// # Safety
    /// The buffers of `work` are valid until the operation is complete.
    #[inline]
    pub(super) unsafe fn combine_words_by_device(
        &self,
        place: &Place<'_>,
        width: Width,
        work: &Work,
    ) -> Result<Ticket> {
        let (endpoint, patience) = (&*place.route.endpoint, self.context().patience());
        let carry_out = |offset: usize, width, work: &Work| {
            let words = Words {
                endpoint,
                patience,
                places: Places::Row(place.at.moved(offset as i64)),
                width,
                work,
            };
            // SAFETY: the caller's promise.
            unsafe { words.carry_out() }
        };
        let Some(parts) = work.in_words(place.at.address, width) else {
            return carry_out(0, width, work);
        };
        let mut last = Ticket::DONE;
        for (offset, width, part) in parts {
            match carry_out(offset, width, &part) {
                Ok(ticket) => last = last.max(ticket),
                Err(error) => return after(patience, endpoint, last, error),
            }
        }
        Ok(last)
    }
}

/// Words of a target's memory, and the work on them.
pub(super) struct Words<'w> {
    pub(super) endpoint: &'w dyn Endpoint,
    pub(super) patience: Patience,
    pub(super) places: Places<'w>,
    pub(super) width: Width,
    pub(super) work: &'w Work,
}

/// Where the words are.
#[derive(Clone, Copy)]
pub(super) enum Places<'w> {
    /// One after the other from here on.
    Row(RemoteAddress),
    Each(&'w [RemoteAddress]),
}

impl Words<'_> {
    /// Carries out the work. With the ticket, the result is there.
    ///
    /// # Safety
    /// The buffers of the work are valid until the operation is complete.
    #[inline]
    pub(super) unsafe fn carry_out(&self) -> Result<Ticket> {
        let fetched = !self.work.result.is_null();
        // SAFETY: the caller's promise.
        unsafe {
            match (self.work.op, self.places) {
                (Op::Sum, Places::Row(at)) if !fetched => self.update(at, Update::Add),
                (Op::Replace, Places::Row(at)) if !fetched => self.update(at, Update::Store),
                _ if !self.work.compare.is_null() => self.fetch(),
                (Op::Sum | Op::NoOp, _) if fetched => self.fetch(),
                _ => self.swap_until_done().map(|()| Ticket::DONE),
            }
        }
    }

    #[inline(always)]
    fn place(&self, index: usize) -> RemoteAddress {
        match self.places {
            Places::Row(at) => at.moved((index * self.width.bytes()) as i64),
            Places::Each(places) => places[index],
        }
    }

    /// # Safety
    /// The operands are valid, and `index` is one of them.
    #[inline(always)]
    unsafe fn operand(&self, index: usize) -> u64 {
        match self.work.op {
            Op::NoOp => 0,
            // SAFETY: the caller's promise.
            _ => unsafe { element(self.width, self.work.operands, index) },
        }
    }

    /// # Safety
    /// As for [`Words::carry_out`].
    unsafe fn update(&self, at: RemoteAddress, update: Update) -> Result<Ticket> {
        let (values, count) = (self.work.operands, self.work.count);
        // SAFETY: the caller's promise.
        let posted = unsafe { (self.endpoint).update_each(at, self.width, update, values, count) };
        Ok(posted?)
    }

    /// One atomic of the device for each word. Where eight bytes fit into the result, the device
    /// stores them there, and a later synchronisation waits for that; else this call does.
    ///
    /// # Safety
    /// As for [`Words::carry_out`].
    #[inline]
    unsafe fn fetch(&self) -> Result<Ticket> {
        let wide = self.work.result.cast::<u64>();
        let mut last = Ticket::DONE;
        if self.width == Width::W8 && wide.is_aligned() {
            for index in 0..self.work.count {
                // SAFETY: an element of the result, which stays until the operation is complete.
                let posted = unsafe { self.post(index, wide.add(index)) };
                match posted {
                    Ok(ticket) => last = ticket,
                    Err(error) => return self.after(last, error),
                }
            }
            return Ok(last);
        }
        let mut old = [0; CHAIN];
        for start in (0..self.work.count).step_by(CHAIN) {
            let chain = CHAIN.min(self.work.count - start);
            for (index, old) in old[..chain].iter_mut().enumerate() {
                let to = ptr::from_mut(old);
                // SAFETY: a local array; every operation is waited for, also after a failure.
                match unsafe { self.post(start + index, to) } {
                    Ok(ticket) => last = ticket,
                    Err(error) => return self.after(last, error),
                }
            }
            self.patience.complete(self.endpoint, last)?;
            for (index, &old) in old[..chain].iter().enumerate() {
                // SAFETY: the result is the caller's promise.
                unsafe { self.store_result(start + index, old) };
            }
        }
        Ok(Ticket::DONE)
    }

    /// Posts the atomic of one word: an addition, or the compare-and-swap that was asked for.
    ///
    /// # Safety
    /// As for [`Words::carry_out`]; `old` is writable, and nobody else touches it,
    /// until the operation is complete.
    #[inline(always)]
    unsafe fn post(&self, index: usize, old: *mut u64) -> Result<Ticket> {
        let (endpoint, at, width) = (self.endpoint, self.place(index), self.width);
        // SAFETY: the caller's promise.
        let posted = unsafe {
            let operand = self.operand(index);
            if self.work.compare.is_null() {
                endpoint.fetch_add(at, width, operand, old)
            } else {
                let expect = element(width, self.work.compare, index);
                endpoint.compare_swap(at, width, expect, operand, old)
            }
        };
        Ok(posted?)
    }

    /// Every other operation: swaps against what was last seen, all words of a chain at once.
    ///
    /// # Safety
    /// As for [`Words::carry_out`].
    unsafe fn swap_until_done(&self) -> Result<()> {
        for start in (0..self.work.count).step_by(CHAIN) {
            let chain = CHAIN.min(self.work.count - start);
            let mut expected = self.guess(start, chain)?;
            let mut open = [true; CHAIN];
            while open[..chain].contains(&true) {
                let mut found = expected;
                let mut last = Ticket::DONE;
                for index in (0..chain).filter(|&index| open[index]) {
                    let held = expected[index];
                    let (at, old) = (self.place(start + index), &raw mut found[index]);
                    // SAFETY: the operands are the caller's promise; `found` is a local array, and
                    // every operation is waited for, also after a failure.
                    let posted = unsafe {
                        let operand = self.operand(start + index);
                        let new = combine_word(self.work.ty, self.work.op, held, operand);
                        self.endpoint.compare_swap(at, self.width, held, new, old)
                    };
                    match posted {
                        Ok(ticket) => last = ticket,
                        Err(error) => return self.after(last, error.into()),
                    }
                }
                self.patience.complete(self.endpoint, last)?;
                for index in 0..chain {
                    open[index] &= found[index] != expected[index];
                }
                expected = found;
            }
            if !self.work.result.is_null() {
                for (index, &old) in expected[..chain].iter().enumerate() {
                    // SAFETY: the result is the caller's promise.
                    unsafe { self.store_result(start + index, old) };
                }
            }
        }
        Ok(())
    }

    /// What the words of a chain may hold: read, which is no atomic, and so to be tried only. Words
    /// that are not read together are as well tried at once, by atomics that tell what they hold.
    fn guess(&self, start: usize, chain: usize) -> Result<[u64; CHAIN]> {
        let mut words = [0; CHAIN];
        if chain > 1 && matches!(self.places, Places::Row(_)) {
            let mut bytes = [0_u8; CHAIN * 8];
            let len = chain * self.width.bytes();
            let to = bytes.as_mut_ptr();
            // SAFETY: a local array that is long enough; the operation is waited for.
            let read = unsafe { self.endpoint.read(to, len, self.place(start))? };
            self.patience.complete(self.endpoint, read)?;
            for (index, word) in words[..chain].iter_mut().enumerate() {
                // SAFETY: inside the array.
                *word = unsafe { element(self.width, bytes.as_ptr(), index) };
            }
        }
        Ok(words)
    }

    /// # Safety
    /// The result is writable, and `index` is one of its elements.
    unsafe fn store_result(&self, index: usize, old: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let to = self.work.result.add(index * self.width.bytes());
            self.width.store(to, old);
        }
    }

    fn after<T>(&self, last: Ticket, error: Error) -> Result<T> {
        after(self.patience, self.endpoint, last, error)
    }
}

/// Posting failed: what was posted before still uses its buffers, until it has ended.
#[cold]
pub(super) fn after<T>(
    patience: Patience,
    endpoint: &dyn Endpoint,
    last: Ticket,
    error: Error,
) -> Result<T> {
    let _ = patience.complete(endpoint, last);
    Err(error)
}

/// # Safety
/// `from` is readable for more than `index` words.
unsafe fn element(width: Width, from: *const u8, index: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { width.load(from.add(index * width.bytes())) }
}
