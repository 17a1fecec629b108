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
use crate::verbs::objects::{MemoryRegion, QueuePair};
use crate::{Error, Fetch, RemoteAddress, Result};

/// The longest request through the ring.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// While so many requests are not known to be complete, short requests wait for others to share a bell. Ringing it is
/// the most expensive part of posting. Nobody looks for completions first: a device as fast as the program would get a
/// bell for almost every request.
const STREAM: usize = 4;
/// The longest request that waits.
const LONGEST_THAT_WAITS: u32 = 16 << 10;

pub(super) struct SendQueue<L = Line> {
    // Declared first, so that it is dropped before the memory that its requests use. `None` after it had to be
    // destroyed to stop it.
    link: Option<L>,
    number: u32,
    limit: usize,
    inline: usize,
    /// Requests that are not known to be complete, oldest first. The newest of them may not have been posted to the
    /// device.
    pending: VecDeque<Pending>,
    unposted: Unposted,
    /// The ticket of the newest request, and of the newest that the device has finished.
    posted: u64,
    completed: u64,
    signals: Signals,
    /// The ticket of the newest read, except for trailing reads.
    last_read: u64,
    trailing: Trailing,
    copies: Copies,
    /// The origin buffers that requests use in place.
    borrowed: Borrowed,
    /// The completed ticket at the last check for progress, and the time since which it has not changed.
    watched: Option<(u64, Instant)>,
    failure: Option<Failure>,
}

/// What shows that writes and atomics are in the target's memory, where processors see them, and not only at its
/// adapter. What arrives later through the same adapter does not overtake them. But what arrives through another one
/// may, and so may the processor of a neighbour that learns of their completion there. Then reads behind them show it.
#[derive(Default)]
struct Trailing {
    /// An eight-byte read of the target's memory; `None` if the target's host has only one adapter.
    read: Option<Request>,
    /// The newest read of any kind, and the newest that a report to come covers.
    newest: u64,
    covered: u64,
    /// The newest read that is complete.
    completed: u64,
}

/// A prepared request, whether or not the bell was rung for it.
struct Pending {
    operation: Operation,
    at: RemoteAddress,
    len: u32,
    space: RingPiece,
    /// Where to copy data that arrived in the ring.
    copy_to: *mut u8,
    is_read: bool,
}

// SAFETY: the pointers lead to buffers that callers leave to the queue until their requests are complete, whichever
// thread detects that, and into the queue's own chain.
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

    /// Takes space in the ring, if there is any now.
    ///
    /// # Errors
    /// As for [`Copies::take`].
    pub(super) fn space(&mut self, len: u32) -> Result<Option<(RingPiece, Local)>> {
        let line = self.link.as_ref().ok_or_else(destroyed)?;
        self.copies.take(len, line)
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
            trailing: Trailing::default(),
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

    /// The most bytes of inline data in a request.
    pub(super) fn inline(&self) -> usize {
        self.inline
    }

    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// The ticket up to which all requests have succeeded.
    pub(super) fn succeeded(&self) -> u64 {
        let completed = match &self.failure {
            Some(failure) => failure.ticket - 1,
            None => self.completed,
        };
        match self.trailing.read {
            Some(_) => completed.min(self.trailing.completed),
            None => completed,
        }
    }

    /// From now on, requests count as complete when a read behind them is. It reads eight bytes at `at` to `answer`.
    pub(super) fn read_behind(&mut self, at: RemoteAddress, answer: Local) {
        self.trailing.read = Some(Request::trailing_read(at, answer));
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

    /// The newest read, if it may be under way: an atomic without a fence would overtake it.
    pub(super) fn pending_read(&self) -> Option<u64> {
        (self.last_read > self.completed).then_some(self.last_read)
    }

    /// How many more requests fit now.
    pub(super) fn room(&self) -> usize {
        self.limit - self.pending.len()
    }

    /// The key of the registration of an origin buffer that contains this one and is in use; `note_use` follows.
    pub(super) fn find_loan(&mut self, base: *mut u8, len: usize, written: bool) -> Option<u32> {
        self.borrowed.find(base, len, written, self.completed)
    }

    /// Keeps the registration of an origin buffer for requests that are about to be posted; `note_use` follows.
    pub(super) fn lend(
        &mut self,
        region: MemoryRegion,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> u32 {
        self.borrowed.lend(region, base, len, written)
    }

    /// The regions of origin buffers that no request uses any more.
    #[inline]
    pub(super) fn take_ended(&mut self) -> Vec<Arc<MemoryRegion>> {
        self.borrowed.take_ended()
    }

    /// Keeps a region for requests that are about to be posted; `note_use` follows.
    pub(super) fn hold(&mut self, region: &Arc<MemoryRegion>) -> u32 {
        self.borrowed.hold(region)
    }

    /// Notes that the newest request is the last that uses the buffer for which `lend` or `hold` returned `lkey`.
    pub(super) fn note_use(&mut self, lkey: u32, base: *mut u8, len: usize) {
        self.borrowed.note_use(lkey, base, len, self.posted);
        if self.pending.is_empty() {
            // The connection has failed, and nothing is under way any more.
            self.borrowed.clear();
        }
    }

    /// Posts requests with one bell. There must be room for them. Returns the ticket of the last.
    ///
    /// # Safety
    /// The device may use the memory that each request names until it is complete. Its inline data, and the list of its
    /// data if it has one, are readable now.
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

    /// Posts a request, or lets it wait for the next one. There must be room. A call that asks for completion ends the
    /// wait.
    ///
    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline(always)]
    pub(super) unsafe fn post_one(&mut self, request: &Request) -> Result<u64> {
        debug_assert!(self.room() > 0);
        // Peers wait for stored words, and no call may ask for their completion.
        let plain = matches!(request.operation, Operation::Write | Operation::Read)
            && !request.signal
            && !request.fence
            && request.local.len <= LONGEST_THAT_WAITS;
        let waits = plain && self.unposted.can_keep(request) && self.pending.len() >= STREAM;
        // SAFETY: the caller's promise; if the bell is not rung, there is no list, and the chain copies the inline
        // data.
        unsafe { self.write_down(request)? };
        if !waits {
            self.ring_bell()?;
        } else if request.local.inline {
            // SAFETY: the caller's promise.
            unsafe { self.unposted.carry(request) };
        }
        Ok(self.posted)
    }

    /// Stores `new` in a word that holds `old`, after everything posted before. There must be room. `fence` is set if
    /// reads are under way. A write may overtake other writes, but an atomic does not. So while anything is under way,
    /// an atomic adds the difference, and its result goes to `answer`.
    ///
    /// # Safety
    /// The device may write to `answer` until the request is complete; nothing reads it.
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
        // SAFETY: inline data is copied in the call; the answer is the caller's promise.
        unsafe { self.post_one(&request) }
    }

    /// Gives a request its ticket, and a place in the chain.
    ///
    /// # Safety
    /// As for [`SendQueue::post`], but its inline data, and the list of its data if it has one, stay readable until the
    /// bell is rung.
    #[inline(always)]
    unsafe fn write_down(&mut self, request: &Request) -> Result<()> {
        if self.link.is_none() {
            return Err(destroyed());
        }
        let ticket = self.posted + 1;
        // Nobody waits for stored words, so their reports may still be in the completion queue.
        let is_store = |operation| operation == Operation::Store;
        let mut before = self.pending.iter();
        let is_first = match is_store(request.operation) {
            true => self.pending.is_empty(),
            false => before.all(|pending| is_store(pending.operation)),
        };
        let report = self.signals.reports(request, ticket, is_first);
        self.unposted.add(request, ticket, report);
        self.note_posted(request);
        if report {
            self.trailing.covered = self.trailing.newest;
        }
        Ok(())
    }

    /// Posts the prepared requests.
    #[inline(always)]
    fn ring_bell(&mut self) -> Result<()> {
        if self.unposted.len() == 0 {
            return Ok(());
        }
        let first = self.unposted.take();
        let Some(link) = &self.link else {
            return Err(destroyed());
        };
        // SAFETY: a chain of requests; for each of them, the caller that prepared it has promised what the device
        // needs.
        if let Err(error) = unsafe { link.post(first) } {
            // The device may refuse them because of a failure that it has already reported.
            let _ = self.take_completions();
            // It is unknown how many of them the device has accepted. None may continue.
            self.break_off(status::IBV_WC_LOC_QP_OP_ERR);
            return Err(error);
        }
        Ok(())
    }

    /// Posts waiting requests, because a caller asks for `ticket`.
    #[inline]
    pub(super) fn post_waiting(&mut self, ticket: u64) -> Result<()> {
        if self.unposted.len() == 0 {
            return Ok(());
        }
        if self.signals.newest() < ticket {
            self.unposted.signal_newest();
            self.signals.note(self.posted);
            self.trailing.covered = self.trailing.newest;
        }
        self.ring_bell()
    }

    #[inline]
    fn note_posted(&mut self, request: &Request) {
        self.posted += 1;
        let is_read = matches!(request.verb, Verb::Read);
        if is_read {
            self.trailing.newest = self.posted;
        }
        // Nobody uses what a trailing read brings, so atomics may overtake it.
        if is_read && request.operation != Operation::Probe {
            self.last_read = self.posted;
        }
        self.pending.push_back(Pending {
            operation: request.operation,
            at: request.at,
            len: request.local.len,
            space: request.space,
            copy_to: request.copy_to,
            is_read,
        });
    }

    /// Posts a request whose completion shows that of `ticket`, if none was posted, and there is room.
    pub(super) fn ask_about(&mut self, ticket: u64) -> Result<()> {
        self.post_waiting(ticket)?;
        match self.trailing.read {
            Some(read) if self.trailing.covered < ticket => self.probe(&read),
            None if self.signals.newest() < ticket => self.probe(&Request::probe()),
            _ => Ok(()),
        }
    }

    /// Ensures that an operation under way will report.
    pub(super) fn ask(&mut self) -> Result<()> {
        let oldest = self.completed + 1;
        self.post_waiting(oldest)?;
        match self.signals.newest() < oldest {
            true => self.probe(&Request::probe()),
            false => Ok(()),
        }
    }

    fn probe(&mut self, request: &Request) -> Result<()> {
        if self.room() == 0 || self.failure.is_some() {
            return Ok(());
        }
        // SAFETY: it names no memory, or memory for answers that nobody reads, which the adapter keeps.
        unsafe { self.post_one(request) }.map(|_| ())
    }
}

#[cold]
fn destroyed() -> Error {
    let gone = std::io::Error::from_raw_os_error(libc::ENOTCONN);
    Error::os("posting send requests", gone)
}
