//! A connection to one peer: the verbs of the device layer as work requests.
//!
//! An origin buffer takes one of three ways. Short data travels in the request itself. Up to [`Adapter::copied`] bytes
//! go through a registered ring of the connection, one copy. The device reads or writes longer data, and data in memory
//! that is already registered, in place. Other memory is registered until the requests that use it are complete.

mod atomics;
mod batch;
mod borrowed;
mod check;
mod copies;
mod failure;
mod inline;
mod link;
mod locked;
mod queue;
mod request;
mod ring;
mod signals;
mod transfer;
mod unposted;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use batch::ELEMENTS;
use check::check_key;
use failure::Failure;
pub(super) use inline::carried;
use link::Line;
use locked::Locked;
use queue::SendQueue;
pub(super) use request::Local;
use request::Request;
use ring::RingPiece;

use super::adapter::Adapter;
use super::events::{self, Fault};
use super::objects::{CompletionQueue, Establish, QueueLimits, QueuePair};
use super::peer::Peer;
use crate::channel::{Presence, Status};
use crate::device::batch::{BatchError, TransferBatch};
use crate::system::random;
use crate::{Direction, Endpoint, Error, Fetch, RemoteAddress, Result, Ticket, Update, Width};

/// Attempts to find room in the queue before the thread yields.
const SPINS: u32 = 64;
/// Attempts between two checks that the device still works.
const WATCH_SPINS: u32 = 64 * SPINS;

pub(super) struct VerbsEndpoint {
    // Declared first, so that it is dropped before the adapter's memory that its requests use.
    queue: Mutex<SendQueue>,
    adapter: Arc<Adapter>,
    peer: Peer,
    psn: u32,
    /// The longest request in bytes that both ends accept, once they have agreed on it.
    longest: AtomicUsize,
    /// The ticket up to which everything is complete, and the newest ticket that uses a caller's buffer.
    completed: AtomicU64,
    borrowing: AtomicU64,
    /// The state of the peer's process.
    status: Arc<Status>,
    /// The fault here when the connection failed: later it may be gone.
    trouble: OnceLock<Option<Fault>>,
}

impl VerbsEndpoint {
    /// One end of a connection that is still to be established.
    pub(super) fn new(adapter: &Arc<Adapter>, peer: Peer, status: Arc<Status>) -> Result<Self> {
        // One entry for each request: all of them report if the connection fails.
        let entries = send_limit(adapter) + 1;
        let completions = CompletionQueue::new(&adapter.context, entries)
            .map_err(|error| adapter.settings.blame(error))?;
        let pair = queue_pair(adapter, &completions, adapter.inline)?;
        pair.prepare(
            adapter.own.number,
            adapter.own.partition.place,
            adapter.context.has_atomics(),
        )?;
        adapter.trouble.forget(pair.number());
        let queue = SendQueue::new(Line::new(pair, completions, adapter));
        Ok(Self {
            adapter: adapter.clone(),
            peer,
            // Random, so that packets of an earlier connection are not accepted on this one.
            psn: u32::from_le_bytes(random()?) & 0xff_ffff,
            longest: AtomicUsize::new(1),
            queue: Mutex::new(queue),
            completed: AtomicU64::new(0),
            borrowing: AtomicU64::new(0),
            status,
            trouble: OnceLock::new(),
        })
    }

    /// The queue pair's number.
    pub(super) fn number(&self) -> u32 {
        self.queue().number()
    }

    /// The number of posted requests.
    pub(super) fn posted(&self) -> u64 {
        self.queue().posted()
    }

    /// The number of the first packet that this end sends.
    pub(super) fn psn(&self) -> u32 {
        self.psn
    }

    /// Connects it. Requests are then at most `longest` bytes long, and count as complete when a read of `trailing`
    /// behind them is, if there is such a place.
    pub(super) fn establish(
        &self,
        with: &Establish,
        longest: usize,
        trailing: Option<RemoteAddress>,
    ) -> Result<()> {
        self.longest.store(longest, Ordering::Relaxed);
        let mut queue = self.queue();
        if let Some(at) = trailing {
            queue.read_behind(at, self.nowhere());
        }
        match queue.pair() {
            Some(pair) => pair.establish(with),
            None => Ok(()),
        }
    }

    fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// Whether the peer has said that it leaves.
    #[inline]
    fn is_closed(&self) -> bool {
        self.status.presence() == Presence::Closed
    }

    /// Whether all posted operations have arrived or failed, or the peer does not run: then it does not answer, and
    /// needs nothing any more.
    pub(super) fn is_drained(&self) -> bool {
        let last = Ticket(self.queue().posted());
        self.status.presence() != Presence::Here || self.completed(last).unwrap_or(true)
    }

    /// Waits for [`VerbsEndpoint::is_drained`]. False if that takes longer than until `end`.
    pub(super) fn drain(&self, end: Instant) -> bool {
        while !self.is_drained() {
            if Instant::now() > end {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[inline]
    fn queue(&self) -> Locked<'_> {
        Locked::new(self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The queue, if requests may still be posted.
    #[inline(always)]
    fn open_queue(&self) -> Result<Locked<'_>> {
        let queue = self.queue();
        if self.is_closed() {
            return Err(self.has_left());
        }
        self.sound(&queue)?;
        Ok(queue)
    }

    /// The queue, for the next part of an operation that has begun.
    fn sound_queue(&self) -> Result<Locked<'_>> {
        let queue = self.queue();
        self.sound(&queue)?;
        Ok(queue)
    }

    /// Fails if the connection has failed.
    #[inline]
    fn sound(&self, queue: &SendQueue) -> Result<()> {
        match queue.failure() {
            None => Ok(()),
            Some(failure) => Err(self.explain(queue, failure)),
        }
    }

    #[cold]
    fn explain(&self, queue: &SendQueue, failure: &Failure) -> Error {
        if failure.is_silence() && self.status.presence() == Presence::Gone {
            let pid = self.peer.pid;
            return Error::PeerGone { pid };
        }
        let trouble = self.trouble.get_or_init(|| {
            let pair = queue.number();
            if failure.is_consequence() {
                events::hear_of(
                    &self.adapter.trouble,
                    &self.adapter.context,
                    self.adapter.port.number,
                    pair,
                );
            }
            self.adapter.find_trouble(pair)
        });
        failure.error(&self.peer, trouble.as_ref())
    }

    fn has_left(&self) -> Error {
        Error::PeerClosed {
            pid: self.peer.pid,
            host: Some(self.peer.host.clone()),
        }
    }

    /// Takes completions, and fails if one of them reports a failure.
    #[inline(always)]
    fn poll(&self, queue: &mut SendQueue) -> Result<()> {
        let polled = queue.poll();
        if self.adapter.trouble.is_fatal() && !queue.is_idle() {
            // A device with a fatal error reports nothing any more.
            queue.break_off(ibverbs_sys::ibv_wc_status::IBV_WC_FATAL_ERR);
        }
        self.completed.store(queue.succeeded(), Ordering::Release);
        polled?;
        match queue.failure().is_some() && self.is_closed() {
            true => Err(self.has_left()),
            false => self.sound(queue),
        }
    }

    /// Repeats `attempt` until it succeeds; completions free what it needs.
    #[inline]
    fn until<T>(
        &self,
        queue: &mut SendQueue,
        mut attempt: impl FnMut(&mut SendQueue) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut spins = 0;
        loop {
            if let Some(found) = attempt(queue)? {
                return Ok(found);
            }
            self.look_again(queue, &mut spins)?;
        }
    }

    #[cold]
    fn look_again(&self, queue: &mut SendQueue, spins: &mut u32) -> Result<()> {
        queue.ask()?;
        *spins = spins.wrapping_add(1);
        if spins.is_multiple_of(WATCH_SPINS) {
            self.watch(queue)?;
        }
        // The poll also gives the reason if a watch has broken off.
        self.poll(queue)?;
        if spins.is_multiple_of(SPINS) {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Breaks off the connection if the device has stopped working, or the peer has died.
    #[cold]
    fn watch(&self, queue: &mut SendQueue) -> Result<()> {
        if self.status.presence() == Presence::Gone && !queue.is_idle() {
            queue.break_off(ibverbs_sys::ibv_wc_status::IBV_WC_RETRY_EXC_ERR);
        }
        let down_since = self.adapter.trouble.down_since();
        queue.watch(Instant::now(), self.adapter.settings.silence(), down_since)
    }

    #[inline]
    fn make_room(&self, queue: &mut SendQueue, requests: usize) -> Result<()> {
        self.until(queue, |queue| Ok((queue.room() >= requests).then_some(())))
    }

    #[inline]
    fn take_space(&self, queue: &mut SendQueue, len: u32) -> Result<(RingPiece, Local)> {
        self.until(queue, |queue| queue.space(len))
    }

    /// Posts one request when there is room.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline(always)]
    unsafe fn post(&self, queue: &mut SendQueue, request: &Request) -> Result<Ticket> {
        self.make_room(queue, 1)?;
        // SAFETY: the caller's promise.
        unsafe { queue.post_one(request) }.map(Ticket)
    }

    /// Waits for an operation. The device ends every wait with an answer or a failure.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut spins = 0_u32;
        while !self.completed(ticket)? {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(WATCH_SPINS) {
                self.watch(&mut self.queue())?;
            }
            if spins.is_multiple_of(SPINS) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// The number of requests that a queue pair has room for.
fn send_limit(adapter: &Adapter) -> u32 {
    let most = adapter.context.attributes().max_qp_wr;
    adapter.settings.send_queue.min(most.max(1) as u32)
}

/// The most pieces of memory that a request can name.
fn send_elements(adapter: &Adapter) -> u32 {
    let most = adapter.context.attributes().max_sge;
    (ELEMENTS as u32).min(most.max(1) as u32)
}

/// Makes a queue pair with the attributes that all connections use, and so much inline data in a request.
fn queue_pair(
    adapter: &Adapter,
    completions: &Arc<CompletionQueue>,
    inline: u32,
) -> Result<QueuePair> {
    let limits = QueueLimits {
        send: send_limit(adapter),
        inline,
        elements: send_elements(adapter),
    };
    QueuePair::new(&adapter.domain, completions, limits)
        .map_err(|error| adapter.settings.blame(error))
}

impl Endpoint for VerbsEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let operation = direction.into();
        check_key(&self.peer, operation, at, len as u64)?;
        let mut queue = self.open_queue()?;
        // SAFETY: the caller's promise.
        let posted = unsafe { self.transfer_on(&mut queue, operation, local, len, at)? };
        drop(queue);
        match posted {
            Some(ticket) => Ok(ticket),
            // SAFETY: the caller's promise.
            None => unsafe { self.in_parts(operation, local, len, at) },
        }
    }

    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.post_batch(direction.into(), batch) }
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.fetch_word(at, width, fetch, old) }
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.update(at, width, update, values, count) }
    }

    fn store(&self, at: RemoteAddress, old: u64, new: u64) -> Result<Ticket> {
        self.store_word(at, old, new)
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
        let posted = queue.post_waiting(ticket.0);
        let polled = self.poll(&mut queue);
        if ticket.0 <= queue.succeeded() {
            return Ok(true);
        }
        polled.and(posted)?;
        queue.ask_about(ticket.0)?;
        Ok(false)
    }

    fn host(&self) -> Option<Arc<str>> {
        Some(self.peer.host.clone())
    }

    fn intact(&self) -> Result<()> {
        let mut queue = self.queue();
        self.poll(&mut queue)?;
        self.watch(&mut queue)?;
        self.sound(&queue)
    }

    /// A connection may fail because of any component between the two. Then its next operation fails as well, with the
    /// cause.
    fn liveness(&self) -> Result<()> {
        if self.status.presence() == Presence::Here {
            let mut queue = self.queue();
            // The next call sees the answer or its absence.
            let _ = queue.ask();
            let _ = self.poll(&mut queue);
        }
        self.known_liveness()
    }

    fn known_liveness(&self) -> Result<()> {
        self.status.liveness(self.peer.pid, &self.peer.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl VerbsEndpoint {
        pub(in crate::verbs) fn has_failed(&self) -> bool {
            self.queue().failure().is_some()
        }

        /// How many requests went down with the one that failed first.
        pub(in crate::verbs) fn flushed(&self) -> u64 {
            self.queue().failure().map_or(0, |failure| failure.flushed)
        }

        /// Has the device end everything that is under way.
        pub(in crate::verbs) fn stop(&self) -> Result<()> {
            match self.queue().pair() {
                Some(pair) => pair.fail(),
                None => Ok(()),
            }
        }
    }
}
