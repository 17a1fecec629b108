//! The send queue of a connection: posting work requests and taking their completions.
//!
//! Requests complete in the order in which they were posted, so a signalled one answers for all
//! before it, and most need not be signalled. The ticket of a request is its number.

mod completing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wc_status as status;

use super::borrowed::Borrowed;
use super::failure::{Failure, Operation};
use super::link::{Line, Link};
use super::request::{Local, Request, Verb};
use super::ring::{Piece, Ring};
use super::signals::Signals;
use crate::verbs::memory::{Lent, Pinned};
use crate::verbs::objects::{CompletionQueue, MemoryRegion, ProtectionDomain, QueuePair};
use crate::{Error, RemoteAddress, Result};

/// Room for the answers to atomics.
const SMALL_RING: u32 = 8 << 10;
/// Room for data that is copied on its way, for connections that have such.
const LARGE_RING: u32 = 256 << 10;
/// The longest request through the ring.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// The most requests that one bell is rung for.
pub(super) const CHAIN: usize = 16;

pub(super) struct SendQueue<L = Line> {
    // Declared, and so dropped, before the memory that its requests use. `None` once it had to be
    // destroyed to stop it.
    link: Option<L>,
    number: u32,
    limit: usize,
    inline: usize,
    /// What is posted and not known to be complete, oldest first.
    pending: VecDeque<Pending>,
    /// Ticket of the newest request, and of the newest that the device has done with.
    posted: u64,
    completed: u64,
    signals: Signals,
    /// The newest read and the newest atomic.
    last_read: u64,
    last_atomic: u64,
    ring: Option<(Ring, Pinned)>,
    /// The origin buffers that requests use in place.
    borrowed: Borrowed,
    /// What was complete when it was looked for progress, and since when nothing else is.
    watched: Option<(u64, Instant)>,
    failure: Option<Failure>,
}

/// A request that is posted.
struct Pending {
    operation: Operation,
    at: RemoteAddress,
    len: u32,
    space: Piece,
    /// Where to copy what arrived in the ring.
    copy_to: *mut u8,
}

// SAFETY: the pointers lead to buffers that callers leave to the queue until their requests are
// complete, whichever thread finds that out.
unsafe impl<L: Send> Send for SendQueue<L> {}

impl SendQueue {
    pub(super) fn new(
        pair: QueuePair,
        completions: Arc<CompletionQueue>,
        domain: Arc<ProtectionDomain>,
    ) -> Self {
        let (number, limit) = (pair.number(), pair.send_limit() as usize);
        let inline = pair.inline() as usize;
        Self::over(Line::new(pair, completions, domain), number, limit, inline)
    }

    pub(super) fn pair(&self) -> Option<&QueuePair> {
        self.link.as_ref().map(|line| &line.pair)
    }

    fn domain(&self) -> Result<&Arc<ProtectionDomain>> {
        match &self.link {
            Some(line) => Ok(&line.domain),
            None => Err(destroyed()),
        }
    }

    /// Space in the ring, if there is any now.
    ///
    /// # Errors
    /// The ring is needed for the first time, and its memory is refused.
    pub(super) fn space(&mut self, len: u32) -> Result<Option<(Piece, Local)>> {
        let large = len > SMALL_RING / 4;
        match &self.ring {
            Some((ring, _)) if !large || ring.len() >= LARGE_RING => {}
            _ => self.make_ring(large)?,
        }
        Ok(self.ring.as_mut().and_then(|(ring, memory)| {
            let piece = ring.take(len)?;
            let local = Local {
                base: memory.base().wrapping_add(piece.at as usize),
                len,
                lkey: memory.lkey(),
                inline: false,
            };
            Some((piece, local))
        }))
    }

    /// Makes a ring, unless there is a smaller one in use.
    #[cold]
    fn make_ring(&mut self, large: bool) -> Result<()> {
        if self.ring.as_ref().is_some_and(|(ring, _)| !ring.is_empty()) {
            return Ok(());
        }
        let bytes = if large { LARGE_RING } else { SMALL_RING };
        let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let memory = Pinned::new(self.domain()?, bytes as usize, access)?;
        self.ring = Some((Ring::new(bytes), memory));
        Ok(())
    }

    /// Makes an origin buffer known to the device for requests that are about to be posted;
    /// `note_use` follows.
    ///
    /// # Safety
    /// The buffer stays mapped until the requests that use it are complete.
    pub(super) unsafe fn lend(&mut self, base: *mut u8, len: usize, written: bool) -> Result<u32> {
        if let Some(lkey) = self.borrowed.find(base, len, written, self.completed) {
            return Ok(lkey);
        }
        // SAFETY: the caller's promise; it is given back once its newest request is complete.
        let lent = unsafe { Lent::new(self.domain()?, base, len, written)? };
        Ok(self.borrowed.lend(lent, base, len, written))
    }
}

impl<L: Link> SendQueue<L> {
    fn over(link: L, number: u32, limit: usize, inline: usize) -> Self {
        Self {
            link: Some(link),
            number,
            limit,
            inline,
            pending: VecDeque::new(),
            posted: 0,
            completed: 0,
            signals: Signals::new(limit),
            last_read: 0,
            last_atomic: 0,
            ring: None,
            borrowed: Borrowed::default(),
            watched: None,
            failure: None,
        }
    }

    /// The queue pair's number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes that a request can carry itself.
    pub(super) fn inline(&self) -> usize {
        self.inline
    }

    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// The ticket up to which all requests have succeeded.
    pub(super) fn succeeded(&self) -> u64 {
        match &self.failure {
            Some(failure) => failure.ticket - 1,
            None => self.completed,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The most requests that are posted at a time.
    pub(super) fn chain(&self) -> usize {
        CHAIN.min(self.limit)
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether a read, or a read or an atomic, may still be under way.
    pub(super) fn reads_pending(&self) -> bool {
        self.last_read > self.completed
    }

    pub(super) fn answers_pending(&self) -> bool {
        self.last_read.max(self.last_atomic) > self.completed
    }

    /// How many requests fit now.
    pub(super) fn room(&self) -> usize {
        self.limit - self.pending.len()
    }

    /// Keeps a region for requests that are about to be posted; `note_use` follows.
    pub(super) fn hold(&mut self, region: &Arc<MemoryRegion>) -> u32 {
        self.borrowed.hold(region)
    }

    /// Notes that the newest request is the last of those that use the buffer for which `lend` or
    /// `hold` gave `lkey`.
    pub(super) fn note_use(&mut self, lkey: u32, base: *mut u8, len: usize) {
        self.borrowed.note_use(lkey, base, len, self.posted);
        if self.pending.is_empty() {
            // It has failed, and nothing is under way any more.
            self.borrowed.clear();
        }
    }

    /// Posts requests with one bell; there is room for them. Returns the ticket of the last.
    ///
    /// # Safety
    /// The memory that each request names may be used by the device until it is complete.
    pub(super) unsafe fn post(&mut self, requests: &[Request]) -> Result<u64> {
        if let [request] = requests {
            // SAFETY: the caller's promise.
            return unsafe { self.post_one(request) };
        }
        for chain in requests.chunks(CHAIN) {
            // SAFETY: the caller's promise.
            unsafe { self.post_chain(chain)? };
        }
        Ok(self.posted)
    }

    /// Posts a request by itself; there is room for it.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline]
    pub(super) unsafe fn post_one(&mut self, request: &Request) -> Result<u64> {
        debug_assert!(self.room() > 0);
        let mut element = request.element();
        let mut signals = self.signals;
        let report = signals.reports(request, self.posted + 1, self.pending.is_empty());
        let mut work = request.work(&raw mut element, self.posted + 1, report);
        // SAFETY: a chain of one; its element is on this stack, and is not needed once posted; the
        // memory is the caller's promise.
        unsafe { self.ring_bell(&raw mut work)? };
        self.note_posted(request);
        self.signals = signals;
        Ok(self.posted)
    }

    /// # Safety
    /// As for [`SendQueue::post`].
    unsafe fn post_chain(&mut self, requests: &[Request]) -> Result<()> {
        debug_assert!(requests.len() <= CHAIN && requests.len() <= self.room());
        let mut elements = [ffi::ibv_sge::default(); CHAIN];
        let element = elements.as_mut_ptr();
        let mut chain = [ffi::ibv_send_wr::default(); CHAIN];
        let mut signals = self.signals;
        for (index, request) in requests.iter().enumerate() {
            let ticket = self.posted + 1 + index as u64;
            let idle = self.pending.is_empty() && index == 0;
            let report = signals.reports(request, ticket, idle);
            elements[index] = request.element();
            chain[index] = request.work(element.wrapping_add(index), ticket, report);
        }
        let first = chain.as_mut_ptr();
        for index in 1..requests.len() {
            // SAFETY: a request of the chain, which has as many.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        // SAFETY: the chain ends at the last request, whose link is null; its elements are on this
        // stack, and are not needed once posted; the memory is the caller's promise.
        unsafe { self.ring_bell(first)? };
        for request in requests {
            self.note_posted(request);
        }
        self.signals = signals;
        Ok(())
    }

    /// # Safety
    /// As for [`QueuePair::post_send`].
    #[inline]
    unsafe fn ring_bell(&mut self, first: *mut ffi::ibv_send_wr) -> Result<()> {
        let Some(link) = &self.link else {
            return Err(destroyed());
        };
        // SAFETY: the caller's promise.
        if let Err(error) = unsafe { link.post(first) } {
            // How much of it the device has taken is not known. None of it is to go on.
            self.break_off(status::IBV_WC_LOC_QP_OP_ERR);
            return Err(error);
        }
        Ok(())
    }

    #[inline]
    fn note_posted(&mut self, request: &Request) {
        self.posted += 1;
        match request.verb {
            Verb::Write => {}
            Verb::Read => self.last_read = self.posted,
            _ => self.last_atomic = self.posted,
        }
        self.pending.push_back(Pending {
            operation: request.operation,
            at: request.at,
            len: request.local.len,
            space: request.space,
            copy_to: request.copy_to,
        });
    }

    /// Posts a write of nothing if no signalled request answers for `ticket`, and there is room.
    pub(super) fn ask_about(&mut self, ticket: u64) -> Result<()> {
        if self.signals.newest() >= ticket || self.room() == 0 {
            return Ok(());
        }
        // SAFETY: it names no memory.
        unsafe { self.post_one(&Request::probe()) }.map(|_| ())
    }

    /// Sees to it that something under way will report.
    pub(super) fn ask(&mut self) -> Result<()> {
        self.ask_about(self.completed + 1)
    }
}

#[cold]
fn destroyed() -> Error {
    let gone = std::io::Error::from_raw_os_error(libc::ENOTCONN);
    Error::os("posting send requests", gone)
}
