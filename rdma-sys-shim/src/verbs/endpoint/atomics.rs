//! Atomics, one or many, and stores of single words.

use std::sync::atomic::Ordering;

use super::VerbsEndpoint;
use super::check::check_word;
use super::failure::Operation;
use super::locked::Locked;
use super::request::{Local, Request, Verb};
use super::unposted::CHAIN;
use crate::{Direction, Endpoint, Fetch, RemoteAddress, Result, Ticket, Update, Width};

impl VerbsEndpoint {
    /// The destination of a result that nobody reads.
    pub(super) fn nowhere(&self) -> Local {
        let memory = &self.adapter.nowhere;
        Local::at(memory.base(), size_of::<u64>(), memory.lkey())
    }

    /// Locks the queue for a request that has to take effect after earlier reads. Also returns whether the request has
    /// to carry a fence. If fences do not work, it waits until no reads are under way.
    fn queue_behind_reads(&self) -> Result<(Locked<'_>, bool)> {
        loop {
            let queue = self.open_queue()?;
            let read = match queue.pending_read() {
                None => return Ok((queue, false)),
                Some(_) if self.adapter.has_fences => return Ok((queue, true)),
                Some(read) => read,
            };
            drop(queue);
            self.wait(Ticket(read))?;
        }
    }

    /// As [`Endpoint::fetch`].
    ///
    /// # Safety
    /// As for [`Endpoint::fetch`].
    #[inline(always)]
    pub(super) unsafe fn fetch_word(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        let operation = fetch.into();
        check_word(&self.peer, operation, at, width)?;
        let (mut queue, fence) = self.queue_behind_reads()?;
        let (space, local) = self.take_space(&mut queue, 8)?;
        let request = Request {
            verb: Verb::Fetch(fetch),
            space,
            copy_to: old.cast(),
            fence,
            signal: true,
            ..Request::whole(operation, at, local)
        };
        // SAFETY: the answer arrives in the ring, as in `through_ring`.
        let ticket = unsafe { self.post(&mut queue, &request)? };
        self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
        Ok(ticket)
    }

    /// Adds to consecutive words, without results.
    ///
    /// # Safety
    /// As for [`Endpoint::update_each`].
    unsafe fn add_each(
        &self,
        at: RemoteAddress,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        let (mut queue, fence) = self.queue_behind_reads()?;
        let mut ticket = Ticket::DONE;
        let (longest, nowhere) = (queue.chain(), self.nowhere());
        for start in (0..count).step_by(longest) {
            let chain = longest.min(count - start);
            let mut requests = [Request::whole(Operation::FetchAdd, at, Local::NOTHING); CHAIN];
            for (index, request) in requests[..chain].iter_mut().enumerate() {
                let word = (start + index) * 8;
                // SAFETY: one of the `count` words that the caller vouches for.
                let add = unsafe { values.add(word).cast::<u64>().read_unaligned() };
                *request = Request {
                    verb: Verb::Fetch(Fetch::Add(add)),
                    fence: fence && start + index == 0,
                    ..Request::whole(Operation::FetchAdd, at.moved(word as i64), nowhere)
                };
            }
            self.make_room(&mut queue, chain)?;
            // SAFETY: results that nobody reads may all arrive in the one place.
            ticket = Ticket(unsafe { queue.post(&requests[..chain])? });
        }
        Ok(ticket)
    }

    /// Replaces consecutive words. No device does that as an atomic, so each word is compared with the last value seen
    /// and swapped, until that succeeds.
    ///
    /// # Safety
    /// As for [`Endpoint::update_each`].
    unsafe fn store_each(&self, at: RemoteAddress, values: *const u8, count: usize) -> Result<()> {
        for start in (0..count).step_by(CHAIN) {
            let chain = CHAIN.min(count - start);
            let place = at.moved(start as i64 * 8);
            let mut expected = [0_u64; CHAIN];
            let first = expected.as_mut_ptr().cast();
            // SAFETY: a local array, and the operation is complete before it goes.
            self.wait(unsafe { self.transfer(Direction::Read, first, chain * 8, place)? })?;
            let mut open = [true; CHAIN];
            while open[..chain].contains(&true) {
                let mut found = expected;
                let mut last = Ticket::DONE;
                for index in (0..chain).filter(|&index| open[index]) {
                    // SAFETY: one of the `count` words that the caller vouches for.
                    let new = unsafe {
                        let value = values.add((start + index) * 8);
                        value.cast::<u64>().read_unaligned()
                    };
                    let swap = Fetch::CompareSwap {
                        expect: expected[index],
                        new,
                    };
                    let word = place.moved(index as i64 * 8);
                    let old = &raw mut found[index];
                    // SAFETY: a local array; every operation is waited for, also after a failure.
                    let posted = unsafe { self.fetch(word, Width::W8, swap, old) };
                    match posted {
                        Ok(ticket) => last = ticket,
                        Err(error) => {
                            let _ = self.wait(last);
                            return Err(error);
                        }
                    }
                }
                self.wait(last)?;
                for index in 0..chain {
                    open[index] &= found[index] != expected[index];
                }
                expected = found;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Endpoint::update_each`].
    pub(super) unsafe fn update(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        if count == 0 {
            return Ok(Ticket::DONE);
        }
        match update {
            Update::Add => {
                check_word(&self.peer, Operation::FetchAdd, at, width)?;
                // SAFETY: the caller's promise.
                unsafe { self.add_each(at, values, count) }
            }
            Update::Store => {
                check_word(&self.peer, Operation::CompareSwap, at, width)?;
                // SAFETY: the caller's promise.
                unsafe { self.store_each(at, values, count)? };
                Ok(Ticket::DONE)
            }
        }
    }

    /// Stores a word that only this process writes to.
    pub(super) fn store_word(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        check_word(&self.peer, Operation::Store, at, Width::W8)?;
        let (mut queue, fence) = self.queue_behind_reads()?;
        if !queue.is_idle() {
            self.poll(&mut queue)?;
        }
        self.make_room(&mut queue, 1)?;
        // SAFETY: results that nobody reads may all arrive in the one place.
        unsafe { queue.post_store(at, old, new, self.nowhere(), fence) }.map(Ticket)
    }
}
