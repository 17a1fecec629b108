//! A connection to one peer: the verbs of the device layer as work requests.
//!
//! An origin buffer takes one of three ways. Short data travels in the request itself. Up to
//! [`Settings::copied`] bytes go through a registered ring of the connection, one copy. What is
//! longer, or lies in memory that is registered anyway, the device reads or writes in place; memory
//! that is not registered is, until the requests that use it are complete.
//!
//! [`Settings::copied`]: super::settings::Settings::copied

mod batch;
mod failure;
mod link;
mod queue;
mod request;
mod ring;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use batch::ELEMENTS;
use failure::{Failure, Operation};
use queue::{CHAIN, PIECE_BYTES, SendQueue};
use request::{Local, Request, Verb};
use ring::Piece;

use super::adapter::Adapter;
use super::connect::random;
use super::memory;
use super::objects::{CompletionQueue, Establish, QueueLimits, QueuePair};
use super::peer::Peer;
use crate::batch::{Batch, BatchError};
use crate::memory::copy;
use crate::{
    Endpoint, Error, Liveness, Mapping, RemoteAddress, RemoteRegion, Result, Ticket, Update, Width,
};

/// Data that is at most this long travels in its request, where the device allows it.
const INLINE: u32 = 220;
/// Between attempts to find room in the queue, before others get the processor.
const SPINS: u32 = 64;

pub(super) struct VerbsEndpoint {
    adapter: Arc<Adapter>,
    peer: Peer,
    psn: u32,
    queue: Mutex<SendQueue>,
    /// The ticket up to which everything is complete, and the newest that uses a buffer of the
    /// caller.
    completed: AtomicU64,
    borrowing: AtomicU64,
    closed: AtomicBool,
}

impl VerbsEndpoint {
    /// One end of a connection that is still to be established.
    pub(super) fn new(adapter: &Arc<Adapter>, peer: Peer) -> Result<Self> {
        // One entry for each request: all of them report if the connection fails.
        let entries = send_limit(adapter) + 1;
        let completions = CompletionQueue::new(&adapter.context, entries, None)?;
        let pair = queue_pair(adapter, &completions)?;
        pair.prepare(adapter.port.number)?;
        let queue = SendQueue::new(pair, completions, adapter.domain.clone());
        Ok(Self {
            adapter: adapter.clone(),
            peer,
            // Drawn, so that packets of an earlier connection are not taken for this one's.
            psn: u32::from_le_bytes(random()?) & 0xff_ffff,
            queue: Mutex::new(queue),
            completed: AtomicU64::new(0),
            borrowing: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// The queue pair's number.
    pub(super) fn number(&self) -> u32 {
        self.queue().number()
    }

    /// How many requests were posted.
    pub(super) fn posted(&self) -> u64 {
        self.queue().posted()
    }

    /// Number of the first packet that this end sends.
    pub(super) fn psn(&self) -> u32 {
        self.psn
    }

    pub(super) fn establish(&self, with: &Establish) -> Result<()> {
        match self.queue().pair() {
            Some(pair) => pair.establish(with),
            None => Ok(()),
        }
    }

    /// The peer has said that it leaves.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether all that was posted has arrived, or has failed, or is for a peer that has left: such
    /// a one does not answer, and needs nothing any more.
    pub(super) fn is_drained(&self) -> bool {
        let last = Ticket(self.queue().posted());
        self.closed.load(Ordering::Acquire) || self.completed(last).unwrap_or(true)
    }

    /// Waits for [`VerbsEndpoint::is_drained`]. False if it takes until after `end`.
    pub(super) fn drain(&self, end: Instant) -> bool {
        while !self.is_drained() {
            if Instant::now() > end {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    pub(super) fn has_failed(&self) -> bool {
        self.queue().failure().is_some()
    }

    fn queue(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue, if requests may still be posted.
    fn open_queue(&self) -> Result<MutexGuard<'_, SendQueue>> {
        let queue = self.queue();
        match self.refusal(&queue) {
            None => Ok(queue),
            Some(error) => Err(error),
        }
    }

    fn refusal(&self, queue: &SendQueue) -> Option<Error> {
        if self.closed.load(Ordering::Acquire) {
            return Some(self.has_left());
        }
        queue.failure().map(|failure| self.explain(failure))
    }

    fn explain(&self, failure: &Failure) -> Error {
        failure.error(&self.peer, self.adapter.find_trouble())
    }

    fn has_left(&self) -> Error {
        Error::PeerClosed {
            pid: self.peer.pid,
            host: self.peer.host.clone(),
        }
    }

    /// Takes completions, and fails if one of them does.
    fn poll(&self, queue: &mut SendQueue) -> Result<()> {
        let polled = queue.poll();
        if self.adapter.trouble.is_fatal() && !queue.is_idle() {
            // Such a device reports nothing any more.
            queue.break_off(ibverbs_sys::ibv_wc_status::IBV_WC_FATAL_ERR);
        }
        self.completed.store(queue.succeeded(), Ordering::Release);
        polled?;
        match queue.failure() {
            None => Ok(()),
            Some(_) if self.closed.load(Ordering::Acquire) => Err(self.has_left()),
            Some(failure) => Err(self.explain(failure)),
        }
    }

    /// Tries until `attempt` has what it needs; completions bring it.
    fn until<T>(
        &self,
        queue: &mut SendQueue,
        mut attempt: impl FnMut(&mut SendQueue) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut spins = 0_u32;
        loop {
            if let Some(found) = attempt(queue)? {
                return Ok(found);
            }
            queue.ask()?;
            self.poll(queue)?;
            spins += 1;
            if spins.is_multiple_of(SPINS) {
                std::thread::yield_now();
            }
        }
    }

    fn make_room(&self, queue: &mut SendQueue, requests: usize) -> Result<()> {
        if queue.room() >= requests {
            return Ok(());
        }
        self.until(queue, |queue| Ok((queue.room() >= requests).then_some(())))
    }

    fn take_space(&self, queue: &mut SendQueue, len: u32) -> Result<(Piece, Local)> {
        self.until(queue, |queue| queue.space(len))
    }

    /// Posts one request, when there is room.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    unsafe fn post(&self, queue: &mut SendQueue, request: Request) -> Result<Ticket> {
        self.make_room(queue, 1)?;
        // SAFETY: the caller's promise.
        unsafe { queue.post(&[request]) }.map(Ticket)
    }

    /// A write or a read.
    ///
    /// # Safety
    /// As for [`Endpoint::write`] and [`Endpoint::read`]; a write only reads `base`.
    unsafe fn transfer(
        &self,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        check_key(operation, at, len as u64)?;
        let mut open = self.open_queue()?;
        let queue = &mut *open;
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        let written = operation == Operation::Read;
        if !written && len <= queue.inline() {
            let local = Local {
                base,
                len: len as u32,
                lkey: 0,
                inline: true,
            };
            // SAFETY: the caller's promise.
            return unsafe { self.post(queue, Request::whole(operation, at, local)) };
        }
        let regions = &self.adapter.regions;
        let mut lkey = regions.find(base, len, written, |region| queue.hold(region));
        if lkey.is_none() && len > self.adapter.settings.copied {
            // SAFETY: the caller's promise.
            lkey = unsafe { queue.lend(base, len, written) }
                // Memory that cannot be registered can still be copied, in pieces.
                .inspect_err(|error| tracing::debug!(%error, "an origin buffer is copied instead"))
                .ok();
        }
        let Some(lkey) = lkey else {
            // SAFETY: the caller's promise.
            return unsafe { self.through_ring(queue, operation, base, len, at) };
        };
        // SAFETY: the caller's promise; the key is of a region or of a loan that contains the
        // buffer, which the queue keeps until these requests are complete.
        let posted = unsafe { self.in_place(queue, operation, base, len, at, lkey) };
        queue.note_use(lkey, base, len);
        posted
    }

    /// Lets the device use the caller's buffer itself.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::transfer`]; `lkey` covers the buffer.
    unsafe fn in_place(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
        lkey: u32,
    ) -> Result<Ticket> {
        let longest = self.adapter.longest_request();
        let mut ticket = Ticket::DONE;
        for start in (0..len).step_by(longest) {
            let local = Local {
                base: base.wrapping_add(start),
                len: longest.min(len - start) as u32,
                lkey,
                inline: false,
            };
            let place = offset(at, start);
            // SAFETY: a part of what the caller vouches for.
            ticket = unsafe { self.post(queue, Request::whole(operation, place, local))? };
            // At once: if a later part cannot be posted, this one is under way all the same.
            self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
        }
        Ok(ticket)
    }

    /// Copies data by way of the ring.
    ///
    /// # Safety
    /// As for [`VerbsEndpoint::transfer`].
    unsafe fn through_ring(
        &self,
        queue: &mut SendQueue,
        operation: Operation,
        base: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let mut ticket = Ticket::DONE;
        for start in (0..len).step_by(PIECE_BYTES) {
            let part = PIECE_BYTES.min(len - start);
            self.make_room(queue, 1)?;
            let (space, local) = self.take_space(queue, part as u32)?;
            let here = base.wrapping_add(start);
            let mut request = Request::whole(operation, offset(at, start), local);
            request.space = space;
            if operation == Operation::Read {
                request.copy_to = here;
            } else {
                // SAFETY: `take_space` gave so many bytes of the ring; `here` is a part of what
                // the caller vouches for.
                unsafe { copy(local.base, here, part) };
            }
            // SAFETY: the ring lives as long as the queue, and this piece is not given to others
            // before the request is complete.
            ticket = unsafe { self.post(queue, request)? };
            if operation == Operation::Read {
                self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
            }
        }
        Ok(ticket)
    }

    /// An atomic whose answer goes to `old`, or nowhere if that is null.
    ///
    /// # Safety
    /// `old` is null, or as in [`Endpoint::fetch_add`].
    unsafe fn atomic(
        &self,
        operation: Operation,
        at: RemoteAddress,
        width: Width,
        verb: Verb,
        old: *mut u64,
    ) -> Result<Ticket> {
        check_word(operation, at, width)?;
        let mut queue = self.open_queue()?;
        self.make_room(&mut queue, 1)?;
        let (space, local) = self.take_space(&mut queue, 8)?;
        let request = Request {
            verb,
            space,
            copy_to: old.cast(),
            fence: queue.reads_pending(),
            signal: true,
            ..Request::whole(operation, at, local)
        };
        // SAFETY: the answer arrives in the ring, as in `through_ring`.
        let ticket = unsafe { self.post(&mut queue, request)? };
        self.borrowing.fetch_max(ticket.0, Ordering::Relaxed);
        Ok(ticket)
    }

    /// Adds to neighbouring words, without answers.
    ///
    /// # Safety
    /// As for [`Endpoint::update_each`].
    unsafe fn add_each(
        &self,
        at: RemoteAddress,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        let mut queue = self.open_queue()?;
        let mut ticket = Ticket::DONE;
        let longest = queue.chain();
        for start in (0..count).step_by(longest) {
            let chain = longest.min(count - start);
            let mut requests = [Request::whole(Operation::FetchAdd, at, Local::NOTHING); CHAIN];
            for (index, request) in requests[..chain].iter_mut().enumerate() {
                let word = (start + index) * 8;
                let (space, local) = self.take_space(&mut queue, 8)?;
                // SAFETY: one of the `count` words that the caller vouches for.
                let add = unsafe { values.add(word).cast::<u64>().read_unaligned() };
                *request = Request {
                    verb: Verb::FetchAdd { add },
                    space,
                    fence: index == 0 && queue.reads_pending(),
                    ..Request::whole(Operation::FetchAdd, offset(at, word), local)
                };
            }
            // Last: to wait for space may take a request.
            self.make_room(&mut queue, chain)?;
            // SAFETY: the answers arrive in the ring.
            ticket = Ticket(unsafe { queue.post(&requests[..chain])? });
        }
        Ok(ticket)
    }

    /// Replaces neighbouring words: no device does that as an atomic, so each is swapped against
    /// what was last seen there until that was right.
    ///
    /// # Safety
    /// As for [`Endpoint::update_each`].
    unsafe fn store_each(&self, at: RemoteAddress, values: *const u8, count: usize) -> Result<()> {
        for start in (0..count).step_by(CHAIN) {
            let chain = CHAIN.min(count - start);
            let place = offset(at, start * 8);
            let mut expected = [0_u64; CHAIN];
            let first = expected.as_mut_ptr().cast();
            // SAFETY: a local array, and the operation is complete before it goes.
            self.wait(unsafe { self.read(first, chain * 8, place)? })?;
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
                    let verb = Verb::CompareSwap {
                        expect: expected[index],
                        new,
                    };
                    let word = offset(place, index * 8);
                    let old = &raw mut found[index];
                    let operation = Operation::CompareSwap;
                    // SAFETY: a local array; every operation is waited for, also after a failure.
                    let posted = unsafe { self.atomic(operation, word, Width::W8, verb, old) };
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

    /// Waits for an operation; the device ends every wait by an answer or a failure.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut spins = 0_u32;
        while !self.completed(ticket)? {
            spins += 1;
            if spins.is_multiple_of(SPINS) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Requests that a queue pair has room for.
fn send_limit(adapter: &Adapter) -> u32 {
    let most = adapter.context.attributes().max_qp_wr;
    adapter.settings.send_queue.min(most.max(1) as u32)
}

/// Pieces of memory that a request can name.
fn send_elements(adapter: &Adapter) -> u32 {
    let most = adapter.context.attributes().max_sge;
    (ELEMENTS as u32).min(most.max(1) as u32)
}

/// A queue pair as every connection has it.
pub(super) fn queue_pair(
    adapter: &Adapter,
    completions: &Arc<CompletionQueue>,
) -> Result<QueuePair> {
    let limits = QueueLimits {
        send: send_limit(adapter),
        receive: 1,
        inline: INLINE,
        elements: send_elements(adapter),
    };
    let kind = ibverbs_sys::ibv_qp_type::IBV_QPT_RC;
    QueuePair::new(&adapter.domain, completions, kind, limits)
}

fn offset(at: RemoteAddress, by: usize) -> RemoteAddress {
    RemoteAddress {
        address: at.address.wrapping_add(by as u64),
        rkey: at.rkey,
    }
}

/// What the target's device would refuse, and break the connection for, is not asked of it.
#[inline]
fn check_key(operation: Operation, at: RemoteAddress, len: u64) -> Result<()> {
    match memory::rights(at.rkey) {
        Some(rights) if rights.allows(operation.right()) => Ok(()),
        Some(_) => Err(refused(operation, at, len, "the region does not grant it")),
        None => Err(refused(operation, at, len, "not a key of a verbs device")),
    }
}

fn check_word(operation: Operation, at: RemoteAddress, width: Width) -> Result<()> {
    check_key(operation, at, width.bytes() as u64)?;
    if width != Width::W8 {
        let reason = "verbs devices have atomics of eight bytes only";
        return Err(refused(operation, at, width.bytes() as u64, reason));
    }
    if !at.address.is_multiple_of(8) {
        let reason = "the word is not aligned to its size";
        return Err(refused(operation, at, 8, reason));
    }
    Ok(())
}

#[cold]
fn refused(operation: Operation, at: RemoteAddress, len: u64, reason: &'static str) -> Error {
    Error::RemoteAccess {
        need: operation.name(),
        address: at.address,
        len,
        rkey: at.rkey,
        reason,
    }
}

impl Endpoint for VerbsEndpoint {
    unsafe fn write(&self, from: *const u8, len: usize, to: RemoteAddress) -> Result<Ticket> {
        // SAFETY: the caller's promise; a write only reads.
        unsafe { self.transfer(Operation::Write, from.cast_mut(), len, to) }
    }

    unsafe fn read(&self, to: *mut u8, len: usize, from: RemoteAddress) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer(Operation::Read, to, len, from) }
    }

    unsafe fn write_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise; a write only reads.
        unsafe { self.transfer_batch(Operation::Write, batch) }
    }

    unsafe fn read_batch(&self, batch: &Batch<'_>) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_batch(Operation::Read, batch) }
    }

    unsafe fn fetch_add(
        &self,
        at: RemoteAddress,
        width: Width,
        add: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.atomic(Operation::FetchAdd, at, width, Verb::FetchAdd { add }, old) }
    }

    unsafe fn compare_swap(
        &self,
        at: RemoteAddress,
        width: Width,
        expect: u64,
        new: u64,
        old: *mut u64,
    ) -> Result<Ticket> {
        let verb = Verb::CompareSwap { expect, new };
        // SAFETY: the caller's promise.
        unsafe { self.atomic(Operation::CompareSwap, at, width, verb, old) }
    }

    unsafe fn update_each(
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
                check_word(Operation::FetchAdd, at, width)?;
                // SAFETY: the caller's promise.
                unsafe { self.add_each(at, values, count) }
            }
            Update::Store => {
                check_word(Operation::CompareSwap, at, width)?;
                // SAFETY: the caller's promise.
                unsafe { self.store_each(at, values, count)? };
                Ok(Ticket::DONE)
            }
        }
    }

    fn store(&self, at: RemoteAddress, value: u64) -> Result<Ticket> {
        check_word(Operation::Store, at, Width::W8)?;
        let mut queue = self.open_queue()?;
        self.make_room(&mut queue, 1)?;
        let value = value.to_ne_bytes();
        let (space, local) = if queue.inline() >= value.len() {
            let local = Local {
                base: value.as_ptr().cast_mut(),
                len: 8,
                lkey: 0,
                inline: true,
            };
            (Piece::default(), local)
        } else {
            let (space, local) = self.take_space(&mut queue, 8)?;
            // SAFETY: `take_space` gave eight bytes of the ring.
            unsafe { copy(local.base, value.as_ptr(), 8) };
            (space, local)
        };
        let request = Request {
            space,
            fence: queue.answers_pending(),
            ..Request::whole(Operation::Store, at, local)
        };
        // SAFETY: what is inline is copied in the call, and the ring as in `through_ring`.
        unsafe { self.post(&mut queue, request) }
    }

    fn released(&self, ticket: Ticket) -> Result<bool> {
        let borrowing = self.borrowing.load(Ordering::Relaxed);
        self.completed(ticket.min(Ticket(borrowing)))
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        if ticket.0 <= self.completed.load(Ordering::Acquire) {
            return Ok(true);
        }
        let mut queue = self.queue();
        let polled = self.poll(&mut queue);
        if ticket.0 <= queue.succeeded() {
            return Ok(true);
        }
        polled?;
        queue.ask_about(ticket.0)?;
        Ok(false)
    }

    fn intact(&self) -> Result<()> {
        self.poll(&mut self.queue())
    }

    /// What other processes have registered is reached through the device only, so that all
    /// atomics on it are the device's.
    fn map(&self, _region: &RemoteRegion) -> Result<Option<Mapping>> {
        Ok(None)
    }

    fn liveness(&self) -> Liveness {
        let pid = self.peer.pid;
        if self.closed.load(Ordering::Acquire) {
            return Liveness::Closed { pid };
        }
        let mut queue = self.queue();
        // The answer, or that there is none, is seen next time.
        let _ = queue.ask();
        match self.poll(&mut queue) {
            Ok(()) => Liveness::Alive,
            Err(_) if self.closed.load(Ordering::Acquire) => Liveness::Closed { pid },
            Err(_) => Liveness::Gone { pid },
        }
    }
}
