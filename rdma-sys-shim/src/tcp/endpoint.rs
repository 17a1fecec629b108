//! A connection to a peer, as threads of the origin share it.

use std::net::{IpAddr, Shutdown};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::{Kind, Refusal, Request};
use super::origin::{Destination, Origin, Peer, Source};
use super::regions::{Keys, Regions};
use super::target::change_word;
use crate::channel::Stream;
use crate::device::batch::{BatchError, LocalPiece, TransferBatch, post_each};
use crate::device::cancellation::Cancellation;
use crate::device::combine::{Combination, CombinedElements, GivenCombiner};
use crate::{Direction, Endpoint, Error, Fetch, RemoteAddress, Result, Ticket, Update, Via, Width};

/// Elements with padding that are combined by one request.
const PADDED: usize = 4 << 10;

pub(super) struct TcpEndpoint {
    peer: Arc<Peer>,
    /// Requests up to this one are complete.
    done: AtomicU64,
    origin: Mutex<Origin>,
    /// The device that makes the keys of the peer's regions.
    keys: Keys,
    /// The regions, if the peer is this process.
    own: Option<Arc<Regions>>,
    cancellation: Cancellation,
    /// Tells how elements lie, here as at the peer.
    combiner: GivenCombiner,
    /// The number of this process: a forked child sends nothing.
    pid: u32,
}

impl TcpEndpoint {
    pub(super) fn new(
        peer: Peer,
        stream: Stream,
        keys: Keys,
        own: Option<Arc<Regions>>,
        cancellation: Cancellation,
        combiner: GivenCombiner,
    ) -> Self {
        let peer = Arc::new(peer);
        let stream = Arc::new(stream);
        Self {
            origin: Mutex::new(Origin::new(peer.clone(), stream)),
            peer,
            keys,
            own,
            cancellation,
            combiner,
            done: AtomicU64::new(0),
            pid: std::process::id(),
        }
    }

    /// The peer's address that the connection uses.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let address = self.origin().stream().peer_addr().ok()?;
        Some(address.ip())
    }

    fn origin(&self) -> MutexGuard<'_, Origin> {
        self.origin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// As for [`Origin::post`].
    unsafe fn post(
        &self,
        request: &Request,
        sources: impl IntoIterator<Item = Source>,
        destinations: impl IntoIterator<Item = Destination>,
        at_once: bool,
    ) -> Result<Ticket> {
        self.may(request)?;
        let mut origin = self.origin();
        loop {
            if origin.is_full() {
                origin.progress();
                origin.check_silence();
            }
            if !origin.is_full() {
                // SAFETY: the caller's promise.
                let posted = unsafe { origin.post(request, sources, destinations, at_once) };
                return posted.map(Ticket);
            }
            if self.cancellation.is_due() {
                // The caller may free the buffers of earlier parts of its operation.
                origin.fail(self.cancelled());
                return Err(self.cancelled());
            }
            // Meanwhile, other threads may ask for the state of their operations.
            let stream = origin.stream().clone();
            drop(origin);
            wait_for(&stream, PollFlags::IN | PollFlags::OUT);
            origin = self.origin();
        }
    }

    /// Sends and receives, and fails if the connection has failed.
    fn is_sound(&self, origin: &mut Origin) -> Result<()> {
        origin.progress();
        origin.check_silence();
        origin.check()
    }

    fn cancelled(&self) -> Error {
        let pid = self.peer.pid;
        Error::Cancelled { pid }
    }

    /// Makes progress, and returns whether `has_passed` is true. `awaited`: the request whose acknowledgement it needs.
    fn is(&self, awaited: Option<Ticket>, has_passed: impl Fn(&Origin) -> bool) -> Result<bool> {
        let mut origin = self.origin();
        if !has_passed(&origin) {
            origin.progress_towards(awaited.map(|Ticket(ticket)| ticket));
            self.done.store(origin.done(), Ordering::Release);
        }
        match has_passed(&origin) {
            true => Ok(true),
            false => origin.check().map(|()| false),
        }
    }

    /// Sends a request without operands behind everything posted. It need not arrive.
    fn say(&self, kind: Kind) {
        let request = Request::of(kind);
        let mut origin = self.origin();
        if !origin.is_lost() {
            // SAFETY: it has no buffers.
            let _ = unsafe { origin.post(&request, None, None, true) };
        }
    }

    /// Makes progress towards the acknowledgement of everything that was posted.
    pub(super) fn progress(&self) {
        let mut origin = self.origin();
        let last = origin.posted();
        origin.progress_towards(Some(last));
    }

    /// Waits until the target has done all posted requests, the connection has failed, or `end` is reached. Returns
    /// false only in the last case.
    pub(super) fn drain(&self, end: Instant) -> bool {
        loop {
            self.progress();
            let mut origin = self.origin();
            if origin.check().is_err() || origin.done() == origin.posted() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            origin.check_silence();
            let awaited = match origin.is_all_sent() {
                true => PollFlags::IN,
                false => PollFlags::IN | PollFlags::OUT,
            };
            let stream = origin.stream().clone();
            drop(origin);
            wait_for(&stream, awaited);
        }
    }

    /// Tells the target that this process leaves in good order.
    pub(super) fn leave(&self) {
        self.say(Kind::Leave);
    }

    pub(super) fn posted(&self) -> u64 {
        self.origin().posted()
    }

    /// Makes progress; returns up to which one the requests are known to be done.
    #[cfg(test)]
    pub(super) fn acknowledged(&self) -> u64 {
        let mut origin = self.origin();
        origin.progress();
        origin.done()
    }

    /// Refuses what the target would refuse; the target would also end the connection.
    fn may(&self, request: &Request) -> Result<()> {
        let refusal = match self.keys.rights(request.at.rkey) {
            None => Refusal::NoRegion,
            Some(rights) if !rights.allows(request.need()) => Refusal::NoRight,
            Some(_) => return Ok(()),
        };
        Err(refusal.error(request, self.peer.pid, &self.peer.host))
    }

    fn request(&self, kind: Kind, width: Width, at: RemoteAddress, len: usize) -> Request {
        Request {
            width,
            at,
            len: len as u64,
            ..Request::of(kind)
        }
    }

    /// Carries out an atomic on a word of this process, whose agent might have to wait for this thread's processor.
    /// `None` if the word is another process's, or something is under way that was posted before.
    fn fetch_own(&self, request: &Request) -> Result<Option<u64>> {
        let Some(regions) = &self.own else {
            return Ok(None);
        };
        self.may(request)?;
        let origin = self.origin();
        origin.check()?;
        if origin.done() != origin.posted() {
            return Ok(None);
        }
        let old = change_word(regions, request);
        let refused = |refusal: Refusal| refusal.error(request, self.peer.pid, &self.peer.host);
        old.map(Some).map_err(refused)
    }

    /// A write or a read of contiguous memory of the peer, in one or more local pieces.
    ///
    /// # Safety
    /// As for [`Endpoint::transfer`], for every piece.
    unsafe fn transfer_run(
        &self,
        direction: Direction,
        pieces: &[LocalPiece],
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let len = pieces.iter().map(|piece| piece.len).sum();
        match direction {
            Direction::Write => {
                let request = self.request(Kind::Write, Width::W8, at, len);
                let sources = pieces
                    .iter()
                    .map(|&LocalPiece { base, len }| Source { base, len });
                // SAFETY: the caller's promise.
                unsafe { self.post(&request, sources, None, false) }
            }
            Direction::Read if pieces.is_empty() => Ok(Ticket::DONE),
            Direction::Read => {
                let request = self.request(Kind::Read, Width::W8, at, len);
                // A read of no bytes is answered, too, so it has a destination.
                let alone = pieces.first().filter(|_| len == 0);
                let filled = pieces.iter().filter(|piece| piece.len > 0);
                let parts = filled
                    .chain(alone)
                    .map(|&LocalPiece { base: to, len }| Destination::Data { to, len });
                // SAFETY: the caller's promise.
                unsafe { self.post(&request, None, parts, false) }
            }
        }
    }
}

/// Waits until the socket is ready for one of these events, or for a short time.
fn wait_for(stream: &Stream, awaited: PollFlags) {
    const MOMENT: Duration = Duration::from_millis(50);
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: MOMENT.as_nanos() as i64,
    };
    let mut polled = [PollFd::new(&**stream, awaited)];
    // An error ends the wait, as an event does.
    let _ = poll(&mut polled, Some(&limit));
}

impl Drop for TcpEndpoint {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            self.say(Kind::Disconnect);
            // A child that is just being forked may have a copy of the descriptor.
            let _ = self.origin().stream().shutdown(Shutdown::Both);
        }
    }
}

fn update_kind(update: Update) -> Kind {
    match update {
        Update::Add => Kind::AddEach,
        Update::Store => Kind::StoreEach,
    }
}

impl Endpoint for TcpEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_run(direction, &[LocalPiece { base: local, len }], at) }
    }

    unsafe fn transfer_batch(
        &self,
        direction: Direction,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        // SAFETY: the caller's promise.
        post_each(batch.parts(), |at, pieces| unsafe {
            self.transfer_run(direction, pieces, at)
        })
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        let (kind, operands) = match fetch {
            Fetch::Add(add) => (Kind::FetchAdd, [add, 0]),
            Fetch::CompareSwap { expect, new } => (Kind::CompareSwap, [expect, new]),
        };
        let request = Request {
            operands,
            ..self.request(kind, width, at, width.bytes())
        };
        if let Some(value) = self.fetch_own(&request)? {
            // SAFETY: the caller's promise.
            unsafe { old.write_unaligned(value) };
            return Ok(Ticket::DONE);
        }
        let destination = Destination::Word { to: old, width };
        // SAFETY: the caller's promise. It is not sent at once: the caller asks for the result, and until then many are
        // collected.
        unsafe { self.post(&request, None, Some(destination), false) }
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        let len = count * width.bytes();
        let request = self.request(update_kind(update), width, at, len);
        let source = Source { base: values, len };
        // SAFETY: the caller's promise.
        unsafe { self.post(&request, Some(source), None, true) }
    }

    unsafe fn update_batch(
        &self,
        width: Width,
        update: Update,
        batch: &TransferBatch<'_>,
    ) -> std::result::Result<Ticket, BatchError> {
        let mut left = batch.pieces.len();
        post_each(batch.each(), |LocalPiece { base, len }, at| {
            left -= 1;
            let request = self.request(update_kind(update), width, at, len);
            // SAFETY: the caller's promise. All are sent with the last one.
            unsafe { self.post(&request, Some(Source { base, len }), None, left == 0) }
        })
    }

    unsafe fn combine(
        &self,
        what: Combination,
        lock: RemoteAddress,
        at: RemoteAddress,
        elements: CombinedElements,
    ) -> Result<(usize, Ticket)> {
        let known = (self.combiner.get()).and_then(|combiner| combiner.element(what, at.address));
        let Some((element, _)) = known else {
            return Ok((0, Ticket::DONE));
        };
        // What has padding goes in many small pieces: too many for one request.
        let most = match element.is_dense() {
            true => elements.count,
            false => PADDED,
        };
        let mut ticket = Ticket::DONE;
        for first in (0..elements.count).step_by(most) {
            let part = elements.part(element, first, most.min(elements.count - first));
            let request = Request {
                what,
                operands: [lock.address, lock.rkey],
                ..self.request(
                    Kind::Combine,
                    Width::W8,
                    at.moved((first * element.extent) as i64),
                    element.span(part.count),
                )
            };
            let sources = (part.sent(what, element)).map(|(base, len)| Source { base, len });
            let parts = part.fetched(what, element);
            let destinations = parts.map(|(to, len)| Destination::Data { to, len });
            // SAFETY: the caller's promise. As with `fetch`, many are collected.
            ticket = unsafe { self.post(&request, sources, destinations, false)? };
        }
        Ok((elements.count, ticket))
    }

    fn store(&self, at: RemoteAddress, _: u64, new: u64) -> Result<Ticket> {
        let width = Width::W8;
        let request = Request {
            operands: [new, 0],
            ..self.request(Kind::Store, width, at, width.bytes())
        };
        // SAFETY: it has no buffers.
        unsafe { self.post(&request, None, None, true) }
    }

    fn released(&self, ticket: Ticket) -> Result<bool> {
        let is_done = self.done.load(Ordering::Acquire) >= ticket.0;
        let has_released =
            |origin: &Origin| origin.has_released(ticket.0) && origin.check().is_ok();
        Ok(is_done || self.is(None, has_released)?)
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        if self.done.load(Ordering::Acquire) >= ticket.0 {
            return Ok(true);
        }
        self.is(Some(ticket), |origin| origin.done() >= ticket.0)
    }

    fn intact(&self) -> Result<()> {
        let mut origin = self.origin();
        self.is_sound(&mut origin)?;
        if origin.done() != origin.posted() && self.cancellation.is_due() {
            origin.fail(self.cancelled());
        }
        origin.check()
    }

    fn host(&self) -> Option<Arc<str>> {
        Some(self.peer.host.clone())
    }

    fn via(&self, _: bool) -> Via {
        Via::Agent
    }

    fn liveness(&self) -> Result<()> {
        let mut origin = self.origin();
        // A refusal is no death.
        let _ = self.is_sound(&mut origin);
        origin.liveness()
    }

    fn known_liveness(&self) -> Result<()> {
        let mut origin = self.origin();
        let _ = self.is_sound(&mut origin);
        origin.known_liveness()
    }
}
