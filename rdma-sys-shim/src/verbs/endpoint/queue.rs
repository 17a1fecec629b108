//! The send queue of a connection: posting work requests and taking their completions.
//!
//! Requests complete in the order in which they were posted, so a signalled one answers for all
//! before it, and most need not be signalled. The ticket of a request is its number.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wr_opcode as opcode;

use super::failure::{Failure, Operation};
use super::ring::{Piece, Ring};
use crate::memory::copy;
use crate::verbs::memory::{Lent, Pinned};
use crate::verbs::objects::{CompletionQueue, ProtectionDomain, QueuePair};
use crate::{Error, RemoteAddress, Result};

/// At least one of so many requests in a row is signalled.
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
/// The most requests that one bell is rung for.
pub(super) const CHAIN: usize = 16;

pub(super) struct SendQueue {
    // Declared, and so dropped, before the memory that its requests use. `None` once it had to be
    // destroyed to stop it.
    pair: Option<QueuePair>,
    number: u32,
    limit: usize,
    inline: usize,
    completions: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
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
    lent: Vec<Loan>,
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

/// An origin buffer that stays registered while requests use it.
struct Loan {
    base: *mut u8,
    len: usize,
    written: bool,
    lent: Lent,
    /// The newest request that uses all of it, and the newest that uses any of it: the highest
    /// number while such requests are being posted.
    whole: u64,
    newest: u64,
}

// SAFETY: the pointers lead to buffers that callers leave to the queue until their requests are
// complete, whichever thread finds that out.
unsafe impl Send for SendQueue {}

/// What a request does at the target.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Write,
    Read,
    FetchAdd { add: u64 },
    CompareSwap { expect: u64, new: u64 },
}

/// Where a request finds or leaves its data in this process.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub(super) base: *mut u8,
    pub(super) len: u32,
    pub(super) lkey: u32,
    /// The request carries the data itself.
    pub(super) inline: bool,
}

impl Local {
    pub(super) const NOTHING: Self = Self {
        base: ptr::null_mut(),
        len: 0,
        lkey: 0,
        inline: false,
    };
}

/// One request to post.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) verb: Verb,
    pub(super) at: RemoteAddress,
    pub(super) local: Local,
    /// Space of the ring that is free again afterwards.
    pub(super) space: Piece,
    /// Where to copy what arrived.
    pub(super) copy_to: *mut u8,
    /// Take effect after reads and atomics too.
    pub(super) fence: bool,
    /// Report completion in any case: somebody waits for this one.
    pub(super) signal: bool,
}

impl SendQueue {
    pub(super) fn new(
        pair: QueuePair,
        completions: Arc<CompletionQueue>,
        domain: Arc<ProtectionDomain>,
    ) -> Self {
        Self {
            pending: VecDeque::new(),
            number: pair.number(),
            limit: pair.send_limit() as usize,
            inline: pair.inline() as usize,
            pair: Some(pair),
            completions,
            domain,
            posted: 0,
            signalled: 0,
            completed: 0,
            unsignalled_bytes: 0,
            last_read: 0,
            last_atomic: 0,
            ring: None,
            lent: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn pair(&self) -> Option<&QueuePair> {
        self.pair.as_ref()
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
            let memory = Pinned::new(&self.domain, bytes as usize, access)?;
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
    /// `note_loan` follows.
    ///
    /// # Safety
    /// The buffer stays mapped until the requests that use it are complete.
    pub(super) unsafe fn lend(&mut self, base: *mut u8, len: usize, written: bool) -> Result<u32> {
        let completed = self.completed;
        // A request that uses the whole of a loan and is not complete vouches for its memory.
        let known = self.lent.iter_mut().find(|loan| {
            let at = base.addr().wrapping_sub(loan.base.addr());
            let inside = at <= loan.len && len <= loan.len - at;
            inside && loan.whole > completed && (loan.written || !written)
        });
        if let Some(loan) = known {
            loan.newest = u64::MAX;
            return Ok(loan.lent.lkey());
        }
        // SAFETY: the caller's promise; a loan is dropped once its newest request is complete.
        let lent = unsafe { Lent::new(&self.domain, base, len, written)? };
        let lkey = lent.lkey();
        self.lent.push(Loan {
            base,
            len,
            written,
            lent,
            whole: 0,
            newest: u64::MAX,
        });
        Ok(lkey)
    }

    /// Notes that the newest request is the last of those for which `lend` gave `lkey`.
    pub(super) fn note_loan(&mut self, lkey: u32, base: *mut u8, len: usize) {
        let newest = self.posted;
        if let Some(loan) = self.lent.iter_mut().find(|loan| loan.lent.lkey() == lkey) {
            loan.newest = newest;
            if loan.base == base && loan.len == len {
                loan.whole = newest;
            }
        }
    }

    /// Posts requests with one bell; there is room for them. Returns the ticket of the last.
    ///
    /// # Safety
    /// The memory that each request names may be used by the device until it is complete.
    pub(super) unsafe fn post(&mut self, requests: &[Request]) -> Result<u64> {
        // SAFETY (both): the caller's promise.
        match requests {
            [_] => unsafe { self.post_chain::<1>(requests) },
            several => {
                for chain in several.chunks(CHAIN) {
                    unsafe { self.post_chain::<CHAIN>(chain)? };
                }
                Ok(self.posted)
            }
        }
    }

    /// # Safety
    /// As for [`SendQueue::post`].
    #[inline]
    unsafe fn post_chain<const N: usize>(&mut self, requests: &[Request]) -> Result<u64> {
        debug_assert!(requests.len() <= N && requests.len() <= self.room());
        let mut elements = [ffi::ibv_sge::default(); N];
        let mut chain = [ffi::ibv_send_wr::default(); N];
        let mut signalled = self.signalled;
        let mut bytes = self.unsignalled_bytes;
        for (index, request) in requests.iter().enumerate() {
            let ticket = self.posted + 1 + index as u64;
            bytes += u64::from(request.local.len);
            let report = request.signal
                || self.pending.is_empty() && index == 0
                || ticket - signalled >= SIGNAL_EVERY
                || bytes >= SIGNAL_BYTES;
            if report {
                (signalled, bytes) = (ticket, 0);
            }
            elements[index] = ffi::ibv_sge {
                addr: request.local.base.addr() as u64,
                length: request.local.len,
                lkey: request.local.lkey,
            };
            let element = elements.as_mut_ptr().wrapping_add(index);
            fill(&mut chain[index], request, element, ticket, report);
        }
        let first = chain.as_mut_ptr();
        for (index, wr) in chain[..requests.len() - 1].iter_mut().enumerate() {
            wr.next = first.wrapping_add(index + 1);
        }
        let Some(pair) = &self.pair else {
            return Err(Error::os(
                "posting send requests",
                std::io::Error::from_raw_os_error(libc::ENOTCONN),
            ));
        };
        // SAFETY: the chain ends at the last request, whose link is null; its elements are on this
        // stack, and are not needed once posted; the memory is the caller's promise.
        unsafe { pair.post_send(first)? };
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
        let probe = Request {
            operation: Operation::Probe,
            verb: Verb::Write,
            at: RemoteAddress {
                address: 0,
                rkey: 0,
            },
            local: Local::NOTHING,
            space: Piece::default(),
            copy_to: ptr::null_mut(),
            fence: false,
            signal: true,
        };
        // SAFETY: it names no memory.
        unsafe { self.post(&[probe]) }.map(|_| ())
    }

    /// Takes the completions that are there. When a failure is seen, returns only after the device
    /// has done with every request.
    pub(super) fn poll(&mut self) -> Result<()> {
        self.take_completions()?;
        if self.failure.is_some() && !self.pending.is_empty() {
            self.stop();
        }
        Ok(())
    }

    fn take_completions(&mut self) -> Result<()> {
        let mut entries = [ffi::ibv_wc::default(); 16];
        loop {
            let found = self.completions.poll(&mut entries)?;
            for entry in &entries[..found] {
                match entry.error() {
                    None => self.finish(entry.wr_id()),
                    Some((status, vendor)) => self.fail(entry.wr_id(), status, vendor),
                }
            }
            if found < entries.len() {
                break;
            }
        }
        let completed = self.completed;
        self.lent.retain(|loan| loan.newest > completed);
        Ok(())
    }

    /// Ends everything that is under way, and returns when the device has done with it.
    fn stop(&mut self) {
        if let Some(pair) = &self.pair
            && let Err(error) = pair.fail()
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
            // A device that does not flush: without its queue pair it touches nothing either.
            self.pair = None;
            self.pending.clear();
            self.completed = self.posted;
            self.lent.clear();
        }
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
            if !done.copy_to.is_null() {
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
        // Flushed requests leave the ring and the books, but nothing they brought is copied.
        if let Some(flushed) = self.pending.pop_front() {
            self.completed += 1;
            if let (Some((ring, _)), true) = (&mut self.ring, flushed.space.takes > 0) {
                ring.give(flushed.space);
            }
        }
    }
}

fn fill(
    wr: &mut ffi::ibv_send_wr,
    request: &Request,
    element: *mut ffi::ibv_sge,
    ticket: u64,
    report: bool,
) {
    use ffi::ibv_send_flags as Flags;
    let RemoteAddress { address, rkey } = request.at;
    wr.wr_id = ticket;
    wr.sg_list = element;
    wr.num_sge = i32::from(request.local.len > 0);
    let mut flags = Flags(0);
    if report {
        flags |= Flags::IBV_SEND_SIGNALED;
    }
    if request.fence {
        flags |= Flags::IBV_SEND_FENCE;
    }
    if request.local.inline {
        flags |= Flags::IBV_SEND_INLINE;
    }
    wr.send_flags = flags.0;
    let atomic = |compare_add, swap| ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
        remote_addr: address,
        compare_add,
        swap,
        rkey: rkey as u32,
    };
    match request.verb {
        Verb::Write | Verb::Read => {
            wr.opcode = match request.verb {
                Verb::Write => opcode::IBV_WR_RDMA_WRITE,
                _ => opcode::IBV_WR_RDMA_READ,
            };
            wr.wr.rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
                remote_addr: address,
                rkey: rkey as u32,
            };
        }
        Verb::FetchAdd { add } => {
            wr.opcode = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
            wr.wr.atomic = atomic(add, 0);
        }
        Verb::CompareSwap { expect, new } => {
            wr.opcode = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
            wr.wr.atomic = atomic(expect, new);
        }
    }
}
