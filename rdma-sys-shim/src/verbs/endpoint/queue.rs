//! The send queue of a connection: posting work requests and taking their completions.
//!
//! Requests complete in the order in which they were posted. So the completion of a signalled
//! request shows that all before it are complete, and most need not be signalled. The ticket of a
//! request is its number.

mod completing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ibverbs_sys::ibv_wc_status as status;

use super::borrowed::Borrowed;
use super::copies::Copies;
use super::failure::{Failure, Operation};
use super::link::{Line, Link};
use super::request::{Local, Request, Verb};
use super::ring::RingPiece;
use super::signals::Signals;
use super::unposted::{CHAIN, Unposted};
use crate::verbs::memory;
use crate::verbs::objects::{MemoryRegion, QueuePair};
use crate::{Error, Fetch, RemoteAddress, Result};

/// The longest request through the ring.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// While the device works on so many requests, short ones wait for others before the bell is rung,
/// which is the dearest part of posting.
const STREAM: usize = 4;
/// Requests longer than this do not wait.
const LONGEST_THAT_WAITS: u32 = 16 << 10;

pub(super) struct SendQueue<L = Line> {
    // Declared, and so dropped, before the memory that its requests use. `None` once it had to be
    // destroyed to stop it.
    link: Option<L>,
    number: u32,
    limit: usize,
    inline: usize,
    /// What is not known to be complete, oldest first, and of these the newest that the device has
    /// not been told of.
    pending: VecDeque<Pending>,
    unposted: Unposted,
    /// Ticket of the newest request, and of the newest that the device has done with.
    posted: u64,
    completed: u64,
    signals: Signals,
    /// The newest read.
    last_read: u64,
    copies: Copies,
    /// The origin buffers that requests use in place.
    borrowed: Borrowed,
    /// What was complete when it was looked for progress, and since when nothing else is.
    watched: Option<(u64, Instant)>,
    failure: Option<Failure>,
}

/// A request that is written down, whether the bell was rung for it or not.
struct Pending {
    operation: Operation,
    at: RemoteAddress,
    len: u32,
    space: RingPiece,
    /// Where to copy what arrived in the ring.
    copy_to: *mut u8,
}

// SAFETY: the pointers lead to buffers that callers leave to the queue until their requests are
// complete, whichever thread finds that out, and within the queue's own chain.
unsafe impl<L: Send> Send for SendQueue<L> {}

impl SendQueue {
    pub(super) fn new(line: Line) -> Self {
        let (number, limit) = (line.pair.number(), line.pair.limits().send as usize);
        let inline = line.pair.limits().inline as usize;
        Self::over(line, number, limit, inline)
    }

    pub(super) fn pair(&self) -> Option<&QueuePair> {
        self.link.as_ref().map(|line| &line.pair)
    }

    /// Space in the ring, if there is any now.
    ///
    /// # Errors
    /// As for [`Copies::take`].
    pub(super) fn space(&mut self, len: u32) -> Result<Option<(RingPiece, Local)>> {
        let line = self.link.as_ref().ok_or_else(destroyed)?;
        self.copies.take(len, line)
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
        let line = self.link.as_ref().ok_or_else(destroyed)?;
        // SAFETY: the caller's promise; it is given back once its newest request is complete.
        let region = unsafe { memory::lend(&line.domain, base, len, written)? };
        Ok(self.borrowed.lend(region, base, len, written))
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
            unposted: Unposted::new(),
            posted: 0,
            completed: 0,
            signals: Signals::new(limit),
            last_read: 0,
            copies: Copies::default(),
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

    /// The newest read, if it may still be under way: an atomic would overtake it without a fence.
    pub(super) fn pending_read(&self) -> Option<u64> {
        (self.last_read > self.completed).then_some(self.last_read)
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
    /// The memory that each request names may be used by the device until it is complete; what it
    /// carries inline, and the list of its data if it has one, are readable now.
    pub(super) unsafe fn post(&mut self, requests: &[Request]) -> Result<u64> {
        for request in requests {
            if self.unposted.len() == CHAIN {
                self.ring_bell()?;
            }
            // SAFETY: the caller's promise; the bell is rung below.
            unsafe { self.write_down(request)? };
        }
        self.ring_bell()?;
        Ok(self.posted)
    }

    /// Posts a request, or has it wait for the next; there is room for it. Whatever asks about
    /// completion ends the wait.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline(always)]
    pub(super) unsafe fn post_one(&mut self, request: &Request) -> Result<u64> {
        debug_assert!(self.room() > 0);
        // Peers wait for what is stored; nobody has to ask about it.
        let plain = matches!(request.operation, Operation::Write | Operation::Read)
            && !request.signal
            && !request.fence
            && request.local.len <= LONGEST_THAT_WAITS;
        let waits = plain && self.unposted.can_keep(request) && self.streams()?;
        // SAFETY: the caller's promise; if the bell is not rung, there is no list, and the chain
        // carries what is inline.
        unsafe { self.write_down(request)? };
        if !waits {
            self.ring_bell()?;
        } else if request.local.inline {
            // SAFETY: the caller's promise.
            unsafe { self.unposted.carry(request) };
        }
        Ok(self.posted)
    }

    /// Stores `new` in a word that holds `old`, after everything that was posted before; there is room, and `fence`
    /// is set if reads are among that. A write may overtake other writes, an atomic does not: while anything is under
    /// way, one adds the difference, and its answer goes to `answer`.
    ///
    /// # Safety
    /// `answer` may be written by the device until the request is complete, and is never read.
    pub(super) unsafe fn post_store(
        &mut self,
        at: RemoteAddress,
        old: u64,
        new: u64,
        answer: Local,
        fence: bool,
    ) -> Result<u64> {
        let value = new.to_ne_bytes();
        let request = if self.is_idle() && self.inline >= value.len() {
            let local = Local::carried(value.as_ptr(), value.len());
            Request::whole(Operation::Store, at, local)
        } else {
            Request {
                verb: Verb::Fetch(Fetch::Add(new.wrapping_sub(old))),
                fence,
                ..Request::whole(Operation::Store, at, answer)
            }
        };
        // SAFETY: what is inline is copied in the call; the answer is the caller's promise.
        unsafe { self.post_one(&request) }
    }

    /// Whether the device has work for the time that a request waits. One look is for all that share
    /// the bell.
    #[inline]
    fn streams(&mut self) -> Result<bool> {
        if self.unposted.len() == 0 && self.pending.len() >= STREAM {
            self.poll()?;
        }
        Ok(self.pending.len() >= STREAM)
    }

    /// Gives a request its ticket, and a place in the chain.
    ///
    /// # Safety
    /// As for [`SendQueue::post`], but that what it carries inline, and the list of its data if it has
    /// one, stay readable until the bell is rung.
    #[inline(always)]
    unsafe fn write_down(&mut self, request: &Request) -> Result<()> {
        if self.link.is_none() {
            return Err(destroyed());
        }
        let ticket = self.posted + 1;
        let report = self
            .signals
            .reports(request, ticket, self.pending.is_empty());
        self.unposted.add(request, ticket, report);
        self.note_posted(request);
        Ok(())
    }

    /// Posts what is written down.
    #[inline(always)]
    fn ring_bell(&mut self) -> Result<()> {
        if self.unposted.len() == 0 {
            return Ok(());
        }
        let first = self.unposted.take();
        let Some(link) = &self.link else {
            return Err(destroyed());
        };
        // SAFETY: a chain of requests, for each of which whoever wrote it down has promised what
        // the device needs.
        if let Err(error) = unsafe { link.post(first) } {
            // It may refuse them because of what it has reported already.
            let _ = self.take_completions();
            // How much of it the device has taken is not known. None of it is to go on.
            self.break_off(status::IBV_WC_LOC_QP_OP_ERR);
            return Err(error);
        }
        Ok(())
    }

    /// Posts what waits, because somebody asks about `ticket`.
    #[inline]
    pub(super) fn post_waiting(&mut self, ticket: u64) -> Result<()> {
        if self.unposted.len() == 0 {
            return Ok(());
        }
        if self.signals.newest() < ticket {
            self.unposted.signal_newest();
            self.signals.note(self.posted);
        }
        self.ring_bell()
    }

    #[inline]
    fn note_posted(&mut self, request: &Request) {
        self.posted += 1;
        if matches!(request.verb, Verb::Read) {
            self.last_read = self.posted;
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
        self.post_waiting(ticket)?;
        if self.signals.newest() >= ticket || self.room() == 0 || self.failure.is_some() {
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
