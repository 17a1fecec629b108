//! The send queue of a connection: posting work requests and taking their completions.
//!
//! Requests complete in the order in which they were posted, so a signalled one answers for all
//! before it, and most need not be signalled. The ticket of a request is its number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wc_status as status;

use super::borrowed::Borrowed;
use super::failure::{Failure, Operation};
use super::link::{Line, Link, Report};
use super::request::{Local, Request, Verb};
use super::ring::{Piece, Ring};
use crate::memory::copy;
use crate::verbs::memory::{Lent, Pinned};
use crate::verbs::objects::{CompletionQueue, MemoryRegion, ProtectionDomain, QueuePair};
use crate::{Error, RemoteAddress, Result};

/// At least one of so many requests in a row is signalled, or of as many as fit in the queue: a full
/// one always has a report to come.
const SIGNAL_EVERY: u64 = 16;
/// And at least one in so many bytes.
const SIGNAL_BYTES: u64 = 64 << 10;
/// Room for the answers to atomics.
const SMALL_RING: u32 = 8 << 10;
/// Room for data that is copied on its way, for connections that have such.
const LARGE_RING: u32 = 256 << 10;
/// The longest request through the ring.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// How long a failed connection may take to give back what it was asked to do.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// The least time after which a silent device is taken for dead, and what is added for data: at so
/// many bytes a second even a lossy and emulated network moves it.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
const SLOWEST: u64 = 32 << 10;
const LONGEST_TRANSFER: Duration = Duration::from_secs(600);
/// The most requests that one bell is rung for.
pub(super) const CHAIN: usize = 16;

pub(super) struct SendQueue<L = Line> {
    // Declared, and so dropped, before the memory that its requests use. `None` once it had to be
    // destroyed to stop it.
    link: Option<L>,
    number: u32,
    limit: usize,
    inline: usize,
    reports: Vec<Report>,
    /// What is posted and not known to be complete, oldest first.
    pending: VecDeque<Pending>,
    /// Ticket of the newest request, of the newest that is signalled, of the newest that the
    /// device has done with.
    posted: u64,
    signalled: u64,
    completed: u64,
    unsignalled_bytes: u64,
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
        let too_small = |(ring, _): &(Ring, Pinned)| large && ring.len() < LARGE_RING;
        if self.ring.as_ref().is_none_or(too_small) {
            if self.ring.as_ref().is_some_and(|(ring, _)| !ring.is_empty()) {
                return Ok(None);
            }
            let bytes = if large { LARGE_RING } else { SMALL_RING };
            let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
            let memory = Pinned::new(self.domain()?, bytes as usize, access)?;
            self.ring = Some((Ring::new(bytes), memory));
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
            reports: Vec::new(),
            pending: VecDeque::new(),
            posted: 0,
            signalled: 0,
            completed: 0,
            unsignalled_bytes: 0,
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
        if let [_] = requests {
            // SAFETY: the caller's promise.
            return unsafe { self.post_chain::<1>(requests) };
        }
        for chain in requests.chunks(CHAIN) {
            // SAFETY: the caller's promise.
            unsafe { self.post_chain::<CHAIN>(chain)? };
        }
        Ok(self.posted)
    }

    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline]
    unsafe fn post_chain<const N: usize>(&mut self, requests: &[Request]) -> Result<u64> {
        debug_assert!(requests.len() <= N && requests.len() <= self.room());
        let Some(link) = &self.link else {
            return Err(destroyed());
        };
        let mut elements = [ffi::ibv_sge::default(); N];
        for (element, request) in elements.iter_mut().zip(requests) {
            *element = request.element();
        }
        let element = elements.as_mut_ptr();
        let mut chain = [ffi::ibv_send_wr::default(); N];
        let mut signalled = self.signalled;
        let mut bytes = self.unsignalled_bytes;
        let signal_every = SIGNAL_EVERY.min(self.limit as u64);
        for (index, request) in requests.iter().enumerate() {
            let ticket = self.posted + 1 + index as u64;
            bytes += u64::from(request.local.len);
            let report = request.signal
                || self.pending.is_empty() && index == 0
                || ticket - signalled >= signal_every
                || bytes >= SIGNAL_BYTES;
            if report {
                (signalled, bytes) = (ticket, 0);
            }
            chain[index] = request.work(element.wrapping_add(index), ticket, report);
        }
        let first = chain.as_mut_ptr();
        for index in 1..requests.len() {
            // SAFETY: a request of the chain, which has as many.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        // SAFETY: the chain ends at the last request, whose link is null; its elements are on this
        // stack, and are not needed once posted; the memory is the caller's promise.
        if let Err(error) = unsafe { link.post(first) } {
            // How much of it the device has taken is not known. None of it is to go on.
            self.break_off(status::IBV_WC_LOC_QP_OP_ERR);
            return Err(error);
        }
        for request in requests {
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
        (self.signalled, self.unsignalled_bytes) = (signalled, bytes);
        Ok(self.posted)
    }

    /// Posts a write of nothing if no signalled request answers for `ticket`, and there is room.
    pub(super) fn ask_about(&mut self, ticket: u64) -> Result<()> {
        if self.signalled >= ticket || self.room() == 0 {
            return Ok(());
        }
        // SAFETY: it names no memory.
        unsafe { self.post(&[Request::probe()]) }.map(|_| ())
    }

    /// Sees to it that something under way will report.
    pub(super) fn ask(&mut self) -> Result<()> {
        self.ask_about(self.completed + 1)
    }

    /// Takes the completions that are there. When a failure is seen, returns only after the device
    /// has done with every request.
    pub(super) fn poll(&mut self) -> Result<()> {
        if let Err(error) = self.take_completions() {
            self.break_off(status::IBV_WC_FATAL_ERR);
            return Err(error);
        }
        if self.failure.is_some() && !self.pending.is_empty() {
            self.stop();
        }
        Ok(())
    }

    fn take_completions(&mut self) -> Result<()> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let mut reports = std::mem::take(&mut self.reports);
        let taken = link.take_reports(&mut reports);
        for report in reports.drain(..) {
            match report.error {
                None => self.finish(report.ticket),
                Some((status, vendor)) => self.fail(report.ticket, status, vendor),
            }
        }
        self.reports = reports;
        self.borrowed.give_back(self.completed);
        taken
    }

    /// Breaks off if the device has said nothing of the oldest request for longer than it can take:
    /// a peer's silence, which it has to report, lasts no longer than `silence`. To be called now
    /// and then while somebody waits.
    pub(super) fn watch(&mut self, now: Instant, silence: Duration) -> Result<()> {
        if self.pending.is_empty() {
            self.watched = None;
            return Ok(());
        }
        self.ask()?;
        match self.watched {
            Some((completed, since)) if completed == self.completed => {
                if now.saturating_duration_since(since) > self.patience(silence) {
                    self.break_off(status::IBV_WC_FATAL_ERR);
                }
            }
            _ => self.watched = Some((self.completed, now)),
        }
        Ok(())
    }

    /// How long the oldest request that reports may take. Devices may wait four times as long as they
    /// were told to.
    fn patience(&self, silence: Duration) -> Duration {
        let unreported = self.pending.iter().take(SIGNAL_EVERY as usize);
        let bytes: u64 = unreported.map(|pending| u64::from(pending.len)).sum();
        let transfer = Duration::from_secs(bytes / SLOWEST);
        LEAST_PATIENCE + silence * 8 + transfer.min(LONGEST_TRANSFER)
    }

    /// Ends everything that is under way, and returns when the device has done with it.
    fn stop(&mut self) {
        if let Some(link) = &self.link
            && let Err(error) = link.fail()
        {
            tracing::warn!(%error, "a failed connection");
        }
        let begun = Instant::now();
        while !self.pending.is_empty() && begun.elapsed() < STOP_LIMIT {
            if self.take_completions().is_err() {
                break;
            }
            std::thread::yield_now();
        }
        if !self.pending.is_empty() {
            self.destroy();
        }
    }

    /// The device does not do what it has to: nothing that it says from here on counts.
    pub(super) fn break_off(&mut self, status: status::Type) {
        if self.failure.is_none() {
            self.note_failure(self.completed + 1, status, 0);
        }
        self.destroy();
    }

    /// Without its queue pair, the device touches nothing.
    fn destroy(&mut self) {
        self.link = None;
        self.pending.clear();
        self.completed = self.posted;
        self.borrowed.clear();
    }

    /// All requests up to `ticket` have succeeded.
    fn finish(&mut self, ticket: u64) {
        while self.completed < ticket {
            let Some(done) = self.pending.pop_front() else {
                return;
            };
            self.completed += 1;
            if done.space.takes == 0 {
                continue;
            }
            let Some((ring, memory)) = &mut self.ring else {
                continue;
            };
            if !done.copy_to.is_null() && self.failure.is_none() {
                let arrived = memory.base().wrapping_add(done.space.at as usize);
                // SAFETY: the piece of the ring that this request was given; the destination is
                // the caller's until the request is reported complete.
                unsafe { copy(done.copy_to, arrived, done.len as usize) };
            }
            ring.give(done.space);
        }
    }

    fn fail(&mut self, ticket: u64, status: ffi::ibv_wc_status::Type, vendor: u32) {
        // What was posted before it and not signalled did succeed.
        self.finish(ticket.saturating_sub(1));
        if self.failure.is_none() {
            self.note_failure(ticket, status, vendor);
        }
        // Flushed requests leave the ring and the books, but nothing they brought is copied.
        if let Some(flushed) = self.pending.pop_front() {
            self.completed += 1;
            if let (Some((ring, _)), true) = (&mut self.ring, flushed.space.takes > 0) {
                ring.give(flushed.space);
            }
        }
    }

    /// The oldest request that is under way is the one that failed.
    fn note_failure(&mut self, ticket: u64, status: status::Type, vendor: u32) {
        let pending = self.pending.front();
        self.failure = Some(Failure {
            ticket,
            operation: pending.map_or(Operation::Probe, |pending| pending.operation),
            at: pending.map_or_else(RemoteAddress::default, |pending| pending.at),
            len: pending.map_or(0, |pending| pending.len.into()),
            status,
            vendor,
        });
    }
}

#[cold]
fn destroyed() -> Error {
    let gone = std::io::Error::from_raw_os_error(libc::ENOTCONN);
    Error::os("posting send requests", gone)
}

#[cfg(test)]
mod tests;
