//! The origin's side of a connection: requests are queued and sent, and answers are received. Whoever calls holds the
//! endpoint's lock.

use std::collections::VecDeque;
use std::io;
use std::ptr;
use std::sync::Arc;

use super::frame::{ANSWER, Answer, Kind, REQUEST, Request};
use super::is_reset;
use crate::channel::{
    Moved, Presence, Redialled, Silence, Status, Stream, receive, receive_to, send, send_parts,
};
use crate::cross_memory::part;
use crate::{Error, Result, Width, memory};

/// Payloads up to this length are copied, so that the source is free at once and many are sent in one call.
const COPIED: usize = 4 << 10;
/// After this many bytes are collected, they are sent even if nobody asks for it.
const COLLECTED: usize = 16 << 10;
/// If this many copied bytes wait for the socket, a new request waits for some to be sent.
pub(super) const MOST_QUEUED: usize = 256 << 10;
const INPUT: usize = 16 << 10;
/// The most pieces in one call to send.
const PIECES: usize = 16;
/// If at least this much data is missing, it is received at its destination, without a copy.
const DIRECT: usize = 4 << 10;

/// The bytes that follow a request.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) base: *const u8,
    pub(super) len: usize,
}

/// The destination of an answer.
#[derive(Clone, Copy)]
pub(super) enum Destination {
    Data { to: *mut u8, len: usize },
    Word { to: *mut u64, width: Width },
}

/// A value or data that is still to arrive, at least in part.
struct Expected {
    ticket: u64,
    destination: Destination,
}

/// A piece of the output.
enum Piece {
    /// This many of the copied bytes.
    Copied(usize),
    /// Bytes that the caller owns, for the request with this ticket.
    Borrowed { source: Source, ticket: u64 },
}

/// The process at the other end of the connection.
pub(super) struct Peer {
    pub(super) pid: u32,
    pub(super) host: Arc<str>,
    /// Connects once more, after the connection was reset.
    pub(super) redial: Box<dyn Fn() -> Redialled + Send + Sync>,
    pub(super) status: Arc<Status>,
}

pub(super) struct Origin {
    peer: Arc<Peer>,
    stream: Arc<Stream>,
    posted: u64,
    /// The last request that asks the target to acknowledge it at once, and so all before it. After a failure, also
    /// one that could not ask.
    asked: u64,
    /// Requests up to this one are complete.
    done: u64,
    /// Copied bytes; the first `sent` of them are sent.
    copied: Vec<u8>,
    sent: usize,
    pieces: VecDeque<Piece>,
    expected: VecDeque<Expected>,
    /// Bytes that are still missing of data whose header has arrived.
    data: usize,
    input: Box<[u8]>,
    filled: usize,
    used: usize,
    silence: Silence,
    /// The requests on earlier connections, which the target of this one does not count.
    earlier: u64,
    /// The socket may have taken a part of the requests up to this one.
    begun: u64,
    /// The connection was reset while nothing was under way. The next request needs another one.
    is_lost: bool,
    failure: Option<Error>,
}

// SAFETY: the pointers are to buffers that belong to the operations until these are complete or have failed, whichever
// thread makes progress.
unsafe impl Send for Origin {}

impl Origin {
    pub(super) fn new(peer: Arc<Peer>, stream: Arc<Stream>) -> Self {
        Self {
            peer,
            stream,
            posted: 0,
            asked: 0,
            done: 0,
            copied: Vec::new(),
            sent: 0,
            pieces: VecDeque::new(),
            expected: VecDeque::new(),
            data: 0,
            input: vec![0; INPUT].into_boxed_slice(),
            filled: 0,
            used: 0,
            silence: Silence::default(),
            earlier: 0,
            begun: 0,
            is_lost: false,
            failure: None,
        }
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// After a reset, on either side of a connection with the process: asks whether it lives, and replaces the
    /// connection if that was lost.
    pub(super) fn ask(&mut self) {
        if self.is_lost || self.peer.status.presence() == Presence::Reset {
            self.redial();
        }
    }

    /// False if the process does not answer.
    fn redial(&mut self) -> bool {
        let status = self.peer.status.clone();
        let answer = (self.peer.redial)();
        let has_answered = !matches!(answer, Redialled::Silent);
        match answer {
            Redialled::Lives(stream) => {
                status.becomes(Presence::Here);
                if self.is_lost {
                    self.stream = Arc::new(stream);
                    self.earlier = self.done;
                    (self.data, self.filled, self.used) = (0, 0, 0);
                    (self.silence, self.is_lost) = (Silence::default(), false);
                } else {
                    // Otherwise its end would look like that of this process.
                    let _ = send(&stream, &Request::of(Kind::Disconnect).encode());
                }
            }
            Redialled::Silent if self.is_lost => self.fail(self.was_reset("it does not answer")),
            Redialled::Silent => status.becomes(Presence::Here),
            Redialled::Gone => {
                status.becomes(Presence::Gone);
                self.fail(self.was_reset("its process has ended"));
            }
        }
        has_answered
    }

    /// Fails unless the process runs, as far as is known after a lost connection has been replaced.
    pub(super) fn liveness(&mut self) -> Result<()> {
        self.ask();
        self.known_liveness()
    }

    /// The same, as far as is known now. If the process is silent, its status does not tell that from an end.
    pub(super) fn known_liveness(&self) -> Result<()> {
        let known = self.peer.status.liveness(self.peer.pid, &self.peer.host);
        match (&known, &self.failure) {
            (Err(Error::PeerGone { .. }), Some(silence @ Error::NoAnswer { .. })) => {
                Err(silence.clone())
            }
            _ => known,
        }
    }

    /// The failure after a reset. The end of the process's own connection, or its farewell there, may have told more.
    fn was_reset(&self, but: &str) -> Error {
        if let Err(told) = self.peer.status.liveness(self.peer.pid, &self.peer.host) {
            return told;
        }
        Error::NoAnswer {
            operation: "waiting for answers by TCP",
            pid: self.peer.pid,
            host: self.peer.host.clone(),
            why: format!(
                "the connection was reset, but {but}: a firewall or address translation (NAT) in between may have forgotten it"
            )
            .into(),
        }
    }

    /// Returns the first cause if the connection has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether so much waits to be sent that a new request should wait.
    pub(super) fn is_full(&self) -> bool {
        self.copied.len() - self.sent >= MOST_QUEUED
    }

    pub(super) fn is_all_sent(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Queues a request and returns its ticket. With `at_once`, sends it and everything before it, as far as the socket
    /// accepts.
    ///
    /// # Safety
    /// Until the request is complete or has failed, the sources are readable, and the destinations are writable and
    /// used by nobody else. A read has at least one destination. If it has several, none of them is empty.
    pub(super) unsafe fn post(
        &mut self,
        request: &Request,
        sources: impl IntoIterator<Item = Source>,
        destinations: impl IntoIterator<Item = Destination>,
        at_once: bool,
    ) -> Result<u64> {
        if self.is_lost {
            self.ask();
        }
        self.check()?;
        self.posted += 1;
        let ticket = self.posted;
        if matches!(request.kind, Kind::Acknowledge | Kind::Leave) {
            self.asked = ticket;
        }
        self.copied.extend(request.encode());
        self.note_copied(REQUEST);
        let mut borrows = false;
        for source in sources.into_iter().filter(|source| source.len > 0) {
            if source.len <= COPIED && !self.is_full() {
                self.note_copied(source.len);
                self.copied.reserve(source.len);
                let room = self.copied.spare_capacity_mut().as_mut_ptr().cast();
                // SAFETY: the source is the caller's promise; there is so much room, which is written to.
                unsafe {
                    memory::copy(room, source.base, source.len);
                    self.copied.set_len(self.copied.len() + source.len);
                }
            } else {
                self.pieces.push_back(Piece::Borrowed { source, ticket });
                borrows = true;
            }
        }
        let expected = destinations.into_iter().map(|destination| Expected {
            ticket,
            destination,
        });
        self.expected.extend(expected);
        if at_once || borrows || self.copied.len() - self.sent >= COLLECTED {
            self.send();
        }
        Ok(ticket)
    }

    /// Asks the target to acknowledge this request, unless it is done, or the target has been asked, or answers it or a
    /// later one anyway. Returns whether it asks.
    fn ask_for_done(&mut self, ticket: u64) -> bool {
        let is_answered = |expected: &Expected| ticket <= expected.ticket;
        if ticket <= self.done.max(self.asked) || self.expected.back().is_some_and(is_answered) {
            return false;
        }
        // SAFETY: it has no buffers.
        let posted = unsafe { self.post(&Request::of(Kind::Acknowledge), None, None, false) };
        if posted.is_err() {
            // The next check says why.
            self.asked = ticket;
        }
        true
    }

    /// Makes progress, and asks for the acknowledgement of a request, unless that has come. If anything is still to be
    /// sent, both go together.
    pub(super) fn progress_towards(&mut self, awaited: Option<u64>) {
        let is_sent = self.is_all_sent();
        if is_sent {
            self.progress();
        }
        if awaited.is_some_and(|ticket| self.ask_for_done(ticket)) || !is_sent {
            self.progress();
        }
    }

    fn note_copied(&mut self, bytes: usize) {
        match self.pieces.back_mut() {
            Some(Piece::Copied(len)) => *len += bytes,
            _ => self.pieces.push_back(Piece::Copied(bytes)),
        }
    }

    /// The first incomplete request whose buffers are in use.
    fn first_in_use(&self) -> Option<u64> {
        let borrowed = self.pieces.iter().find_map(|piece| match piece {
            Piece::Borrowed { ticket, .. } => Some(*ticket),
            Piece::Copied(_) => None,
        });
        let expected = self.expected.front().map(|expected| expected.ticket);
        borrowed.into_iter().chain(expected).min()
    }

    /// Whether the caller may reuse the buffers of this operation and of all before it.
    pub(super) fn has_released(&self, ticket: u64) -> bool {
        self.first_in_use().is_none_or(|first| ticket < first)
    }

    /// Fails if the peer's kernel has not acknowledged sent data for a long time.
    pub(super) fn check_silence(&mut self) {
        let is_awaited = self.done != self.posted;
        if self.failure.is_none() && !self.is_lost && self.silence.lasts(&self.stream, is_awaited) {
            self.fail_by(&io::ErrorKind::TimedOut.into());
        }
    }

    /// Sends what the socket accepts, and receives what has arrived.
    pub(super) fn progress(&mut self) {
        if self.is_lost && !self.pieces.is_empty() {
            self.ask();
        }
        if self.is_lost {
            return;
        }
        self.send();
        self.receive();
        if self.done == self.posted {
            self.silence.rests(&self.stream);
        }
    }

    fn send(&mut self) {
        while self.failure.is_none() && !self.is_lost && !self.pieces.is_empty() {
            match self.send_some() {
                Ok(Moved::Bytes(sent)) => self.has_sent(sent),
                Ok(_) => return,
                // Messages that the peer sent before it ended the connection give the reason.
                Err(error) => {
                    while self.failure.is_none() && matches!(self.receive_some(), Ok(true)) {}
                    self.fail_by(&error);
                }
            }
        }
    }

    fn send_some(&self) -> io::Result<Moved> {
        let mut copied = &self.copied[self.sent..];
        let mut parts = [part(ptr::null_mut(), 0); PIECES];
        for (place, piece) in parts.iter_mut().zip(&self.pieces) {
            *place = match piece {
                Piece::Copied(len) => {
                    let (bytes, rest) = copied.split_at(*len);
                    copied = rest;
                    part(bytes.as_ptr().cast_mut(), bytes.len())
                }
                Piece::Borrowed { source, .. } => part(source.base.cast_mut(), source.len),
            };
        }
        let count = self.pieces.len().min(PIECES);
        // SAFETY: the promise of `post`: the requests are not complete. Other threads may change what they borrow.
        unsafe { send_parts(&self.stream, &parts[..count]) }
    }

    fn has_sent(&mut self, mut sent: usize) {
        self.begun = self.posted;
        while sent > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                return;
            };
            let left = match piece {
                Piece::Copied(len) => {
                    let part = sent.min(*len);
                    self.sent += part;
                    *len -= part;
                    sent -= part;
                    *len
                }
                Piece::Borrowed { source, .. } => {
                    let part = sent.min(source.len);
                    source.base = source.base.wrapping_add(part);
                    source.len -= part;
                    sent -= part;
                    source.len
                }
            };
            if left == 0 {
                self.pieces.pop_front();
            }
        }
        // The rest is moved to the front when it is the smaller part.
        if self.sent * 2 >= self.copied.len() {
            self.copied.drain(..self.sent);
            self.copied.shrink_to(COLLECTED);
            self.sent = 0;
        }
    }

    fn receive(&mut self) {
        while self.failure.is_none() && !self.is_lost {
            match self.receive_some() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.fail_by(&error),
            }
        }
    }

    /// False if nothing has arrived.
    fn receive_some(&mut self) -> io::Result<bool> {
        let moved = match self.expected.front_mut() {
            Some(Expected {
                destination: Destination::Data { to, len },
                ..
            }) if self.data.min(*len) >= DIRECT => {
                let part = self.data.min(*len);
                // SAFETY: the promise of `post`.
                let moved = unsafe { receive_to(&self.stream, *to, part)? };
                if let Moved::Bytes(got) = moved {
                    self.has_got_data(got);
                    return Ok(true);
                }
                moved
            }
            _ => {
                let moved = receive(&self.stream, &mut self.input[self.filled..])?;
                if let Moved::Bytes(got) = moved {
                    let room = self.input.len() - self.filled;
                    self.filled += got;
                    self.take_input();
                    // If the room was not filled, no more had arrived.
                    return Ok(got == room);
                }
                moved
            }
        };
        match moved {
            Moved::End => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(false),
        }
    }

    /// Acts as if these bytes had arrived.
    #[cfg(any(test, fuzzing))]
    pub(super) fn has_received(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(INPUT / 2) {
            if self.failure.is_none() && part.len() <= self.input.len() - self.filled {
                self.input[self.filled..][..part.len()].copy_from_slice(part);
                self.filled += part.len();
                self.take_input();
            }
        }
    }

    /// Processes the complete answers in the input.
    fn take_input(&mut self) {
        while self.failure.is_none() {
            if self.data > 0 {
                if self.used == self.filled {
                    break;
                }
                self.copy_data();
                continue;
            }
            let bytes = &self.input[self.used..self.filled];
            let Some((head, rest)) = bytes.split_first_chunk::<ANSWER>() else {
                break;
            };
            let taken = match Answer::decode(head) {
                Some(Answer::Done(count)) => {
                    let count = count.saturating_add(self.earlier);
                    let is_right = count <= self.posted
                        && self.first_in_use().is_none_or(|first| count < first);
                    if is_right {
                        self.done = self.done.max(count);
                    }
                    is_right
                }
                Some(Answer::Old(value)) => self.take_word(value),
                Some(Answer::Data(len)) => self.begin_data(len),
                Some(Answer::Left) => {
                    self.peer.status.becomes(Presence::Closed);
                    true
                }
                Some(Answer::Refused(refusal)) => {
                    let Some(echo) = rest.first_chunk::<REQUEST>() else {
                        break;
                    };
                    match Request::decode(echo) {
                        Some(request) => {
                            let Peer { pid, host, .. } = &*self.peer;
                            let error = refusal.error(&request, *pid, host);
                            self.fail(error);
                            return;
                        }
                        None => false,
                    }
                }
                _ => false,
            };
            if !taken {
                self.fail_by(&io::ErrorKind::InvalidData.into());
                return;
            }
            self.used += ANSWER;
        }
        self.input.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
    }

    /// False if the next expected answer is not that of an atomic.
    fn take_word(&mut self, value: u64) -> bool {
        let Some(Expected {
            ticket,
            destination: Destination::Word { to, width },
        }) = self.expected.front()
        else {
            return false;
        };
        let value = value & (u64::MAX >> (64 - 8 * width.bytes()));
        // SAFETY: the promise of `post`: the request is not complete.
        unsafe { to.write_unaligned(value) };
        self.done = self.done.max(*ticket);
        self.expected.pop_front();
        true
    }

    /// False if the next expected answer is not that of a read, or the read is too short.
    fn begin_data(&mut self, bytes: u64) -> bool {
        let Some(first) = self.expected.front() else {
            return false;
        };
        if matches!(first.destination, Destination::Word { .. }) {
            return false;
        }
        let ticket = first.ticket;
        let parts = self.expected.iter().take_while(|it| it.ticket == ticket);
        let mut room = parts.map(|part| match part.destination {
            Destination::Data { len, .. } => len as u64,
            Destination::Word { .. } => 0,
        });
        // There may be many parts, and many answers for them.
        let mut left = bytes;
        while left > 0 {
            let Some(len) = room.next() else {
                return false;
            };
            left = left.saturating_sub(len);
        }
        self.data = bytes as usize;
        if bytes == 0 {
            self.has_got_data(0);
        }
        true
    }

    /// Copies data from the input to its destination.
    fn copy_data(&mut self) {
        let Some(Expected {
            destination: Destination::Data { to, len },
            ..
        }) = self.expected.front()
        else {
            return;
        };
        let part = self.data.min(*len).min(self.filled - self.used);
        let from = &self.input[self.used..self.used + part];
        // SAFETY: the promise of `post`.
        unsafe { memory::copy(*to, from.as_ptr(), part) };
        self.used += part;
        self.has_got_data(part);
    }

    /// Updates the state after bytes have arrived at their destination.
    fn has_got_data(&mut self, part: usize) {
        let Some(expected) = self.expected.front_mut() else {
            return;
        };
        let ticket = expected.ticket;
        self.data -= part;
        if let Destination::Data { to, len } = &mut expected.destination {
            *to = to.wrapping_add(part);
            *len -= part;
            if *len > 0 {
                return;
            }
        }
        self.expected.pop_front();
        if self
            .expected
            .front()
            .is_none_or(|next| next.ticket != ticket)
        {
            self.done = self.done.max(ticket);
        }
    }

    pub(super) fn fail_by(&mut self, error: &io::Error) {
        if is_reset(error) && self.peer.status.presence() != Presence::Closed {
            self.is_lost = self.done >= self.begun;
            if !self.is_lost {
                // Whatever its status is: others change it meanwhile.
                let but = match self.redial() {
                    true => "its process has not ended",
                    false => "it does not answer",
                };
                self.fail(self.was_reset(but));
            }
            return;
        }
        let status = &self.peer.status;
        let (pid, host) = (self.peer.pid, self.peer.host.clone());
        let failure = match (status.presence(), error.kind()) {
            (Presence::Closed, _) => Error::PeerClosed {
                pid,
                host: Some(host),
            },
            (_, io::ErrorKind::UnexpectedEof) => {
                status.becomes(Presence::Gone);
                Error::PeerGone { pid }
            }
            (
                _,
                io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown,
            ) => {
                status.becomes(Presence::Gone);
                Error::NoAnswer {
                    operation: "waiting for answers by TCP",
                    pid,
                    host,
                    why: format!(
                        "{error}: it or the way to it is down, or the network loses packets of this host's MTU; TRANSOM_TCP_INTERFACE \
                         names another interface"
                    )
                    .into(),
                }
            }
            (_, io::ErrorKind::InvalidData) => Error::NoAnswer {
                operation: "waiting for answers by TCP",
                pid,
                host,
                why: "it answered what nobody asked for".into(),
            },
            _ => Error::os(
                match error.raw_os_error() {
                    Some(libc::EFAULT) => format!(
                        "sending to process {pid} on {host} from a buffer of an operation that is not mapped here"
                    ),
                    _ => format!("a connection with process {pid} on {host}"),
                },
                error
                    .raw_os_error()
                    .map_or(error.kind().into(), io::Error::from_raw_os_error),
            ),
        };
        self.fail(failure);
    }

    /// Ends the use of callers' memory by all operations. The first failure is kept.
    pub(super) fn fail(&mut self, error: Error) {
        if self.failure.is_some() {
            return;
        }
        // After a cancellation the connection stays: peers that have not heard of the abort would take its end for that
        // of this process.
        if !matches!(error, Error::Cancelled { .. }) {
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        self.failure = Some(error);
        self.pieces.clear();
        self.copied.clear();
        self.sent = 0;
        self.expected.clear();
    }
}
