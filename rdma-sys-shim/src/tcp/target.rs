//! The target's side of a connection: requests come in as bytes, are carried out in their order, and answers go out as bytes.
//! Nothing here knows of sockets.

use std::ptr;
use std::sync::Arc;

use super::frame::{Answer, Kind, REQUEST, Refusal, Request};
use super::regions::Regions;
use crate::channel::{Presence, Status};
use crate::memory::{before_flag, copy};
use crate::{Access, words};

/// So much of a read is answered at a time. While as much waits to be sent, no further request is carried out.
const PIECE: usize = 64 << 10;
/// So much room for answers is kept for later ones.
const ROOM: usize = 4 << 10;

pub(super) struct Target {
    regions: Arc<Regions>,
    /// Of the origin's process.
    origin: Arc<Status>,
    /// The request whose bytes come in, less what has come.
    incoming: Option<Request>,
    /// The read that is being answered, less what has been.
    outgoing: Option<Request>,
    phase: Phase,
    /// Requests that are done, and how many of them the origin has been told of.
    done: u64,
    told: u64,
    /// Bytes to be sent, of which some have been.
    answers: Vec<u8>,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// What still comes is dropped. The origin has been told why, or has said that it sends nothing more.
    Over,
}

impl Target {
    pub(super) fn new(regions: Arc<Regions>, origin: Arc<Status>) -> Self {
        Self {
            regions,
            origin,
            incoming: None,
            outgoing: None,
            phase: Phase::Serving,
            done: 0,
            told: 0,
            answers: Vec::new(),
            sent: 0,
        }
    }

    /// Whether no request is carried out until more has been sent.
    pub(super) fn is_blocked(&self) -> bool {
        self.outgoing.is_some() || self.answers.len() - self.sent >= PIECE
    }

    /// Carries out what the bytes ask for. Returns how many are used up: the rest is a part of a request, or has to wait since
    /// the connection is blocked. `None` if no origin sends this.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        while !self.is_blocked() {
            let rest = &bytes[used..];
            if self.phase == Phase::Over {
                return Some(bytes.len());
            }
            used += match self.incoming {
                Some(request) => match self.take_payload(request, rest) {
                    0 => break,
                    taken => taken,
                },
                None => match rest.first_chunk::<REQUEST>() {
                    Some(header) => {
                        self.begin(Request::decode(header)?);
                        REQUEST
                    }
                    None => break,
                },
            };
        }
        Some(used)
    }

    /// Adds what the origin has not been told of to the answers.
    pub(super) fn acknowledge(&mut self) {
        if self.told < self.done {
            self.told = self.done;
            self.answer(Answer::Done(self.done));
        }
    }

    /// Has the origin know that this process leaves.
    pub(super) fn leave(&mut self) {
        self.answer(Answer::Left);
    }

    /// The origin's connection has ended.
    pub(super) fn ended(&self) {
        if self.phase == Phase::Serving {
            self.origin.becomes(Presence::Gone);
        }
    }

    /// What is to be sent next; empty: nothing.
    pub(super) fn output(&mut self) -> &[u8] {
        if self.sent == self.answers.len() {
            self.answers.clear();
            self.answers.shrink_to(ROOM);
            self.sent = 0;
            if let Some(request) = self.outgoing.take() {
                self.answer_read(request);
            }
        }
        &self.answers[self.sent..]
    }

    pub(super) fn has_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    fn answer(&mut self, answer: Answer) {
        self.answers.extend(answer.encode());
    }

    /// Room for so many bytes behind the answers.
    fn room(&mut self, bytes: usize) -> *mut u8 {
        self.answers.reserve(bytes);
        self.answers.spare_capacity_mut().as_mut_ptr().cast()
    }

    /// Whether all answers have been sent.
    pub(super) fn is_all_sent(&self) -> bool {
        self.sent == self.answers.len()
    }

    fn begin(&mut self, request: Request) {
        match request.kind {
            kind if kind.has_payload() => {
                // Of no bytes, it may still be refused.
                self.incoming = Some(request);
                if request.len == 0 {
                    self.apply(request, &[]);
                }
            }
            Kind::Read => self.answer_read(request),
            Kind::FetchAdd | Kind::CompareSwap => self.apply_single(request),
            Kind::Leave => {
                self.origin.becomes(Presence::Closed);
                self.finish();
            }
            _ => {
                self.finish();
                self.phase = Phase::Over;
            }
        }
    }

    /// Carries out what is there of a request's bytes, and returns how many that is: whole words, where others may look at them
    /// meanwhile.
    fn take_payload(&mut self, request: Request, bytes: &[u8]) -> usize {
        let left = usize::try_from(request.len).unwrap_or(usize::MAX);
        let piece = match request.kind {
            _ if bytes.len() >= left => left,
            Kind::Write => {
                let end = request.at.address.wrapping_add(bytes.len() as u64);
                bytes.len().saturating_sub((end % 8) as usize)
            }
            _ => bytes.len() - bytes.len() % unit(&request),
        };
        if piece > 0 {
            self.apply(request, &bytes[..piece]);
        }
        piece
    }

    /// Carries out a part of the request whose bytes come in.
    fn apply(&mut self, request: Request, bytes: &[u8]) {
        let begin = self.answers.len();
        let mut old = ptr::null_mut();
        let fetched = match request.kind {
            Kind::FetchAddNumbers => bytes.len(),
            _ => 0,
        };
        if request.kind == Kind::FetchAddNumbers {
            self.answer(Answer::Data(fetched as u64));
            old = self.room(fetched);
        }
        // SAFETY: `store` accesses as many bytes as there are, and holds nothing; there is room at `old` where it is needed.
        let applied = unsafe {
            let store = |to: *mut u8| store(&request, to, bytes, old);
            let (len, need) = (request.len, request.kind.need());
            (self.regions).access(request.at, len, bytes.len(), need, store)
        };
        let left = request.len - bytes.len() as u64;
        match applied {
            Err(refusal) => {
                self.answers.truncate(begin);
                self.refuse(request, refusal);
                return;
            }
            // SAFETY: `store` has written what was there to the room.
            Ok(()) => unsafe { self.answers.set_len(self.answers.len() + fetched) },
        }
        match left {
            0 => {
                self.incoming = None;
                self.finish();
            }
            _ => {
                self.incoming = Some(Request {
                    at: request.at.moved(bytes.len() as i64),
                    len: left,
                    ..request
                });
            }
        }
    }

    fn apply_single(&mut self, request: Request) {
        let [first, second] = request.operands;
        let width = request.width.bytes();
        before_flag();
        let change = |at: *mut u8| match request.kind {
            // SAFETY: a word of a region, which peers access as such.
            Kind::FetchAdd => unsafe { words::fetch_add(at, width, first) },
            // SAFETY: as above.
            _ => unsafe { words::compare_swap(at, width, first, second) },
        };
        // SAFETY: `change` accesses the word, and holds nothing.
        let old = unsafe {
            (self.regions).access(request.at, request.len, width, Access::ATOMIC, change)
        };
        match old {
            Err(refusal) => self.refuse(request, refusal),
            Ok(old) => {
                self.answer(Answer::Old(old));
                self.finish();
            }
        }
    }

    /// Answers the first part of a read, or all.
    fn answer_read(&mut self, request: Request) {
        let piece = PIECE.min(usize::try_from(request.len).unwrap_or(PIECE));
        let begin = self.answers.len();
        self.answer(Answer::Data(piece as u64));
        let to = self.room(piece);
        // SAFETY: `copy` reads as many bytes as there is room for, and holds nothing.
        let read = unsafe {
            (self.regions).access(request.at, request.len, piece, Access::READ, |from| {
                copy(to, from, piece);
                Some(())
            })
        };
        if let Err(refusal) = read {
            self.answers.truncate(begin);
            self.refuse(request, refusal);
            return;
        }
        // SAFETY: the copy has written them.
        unsafe { self.answers.set_len(self.answers.len() + piece) };
        let left = request.len - piece as u64;
        match left {
            0 => self.finish(),
            _ => {
                self.outgoing = Some(Request {
                    at: request.at.moved(piece as i64),
                    len: left,
                    ..request
                });
            }
        }
    }

    fn finish(&mut self) {
        self.done += 1;
    }

    fn refuse(&mut self, request: Request, refusal: Refusal) {
        self.acknowledge();
        self.answer(Answer::Refused(refusal));
        self.answers.extend(request.encode());
        self.incoming = None;
        self.phase = Phase::Over;
    }
}

/// The bytes of what a request's payload consists of.
fn unit(request: &Request) -> usize {
    match request.number() {
        Some(number) if matches!(request.kind, Kind::AddNumbers | Kind::FetchAddNumbers) => {
            number.bytes()
        }
        _ => request.width.bytes(),
    }
}

/// Stores bytes, or updates words or numbers by them; `None` if words are not aligned.
///
/// # Safety
/// `to` is memory of a region, for as many bytes; so is `old` memory of this process, if the request asks for what was there.
unsafe fn store(request: &Request, to: *mut u8, bytes: &[u8], old: *mut u8) -> Option<()> {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the caller's promise.
    unsafe {
        match request.kind {
            Kind::Write => copy(to, from, len),
            Kind::AddNumbers | Kind::FetchAddNumbers => {
                let number = request.number()?;
                if request.kind == Kind::FetchAddNumbers {
                    copy(old, to, len);
                }
                number.add(to, from, len / number.bytes());
            }
            kind => {
                before_flag();
                let size = request.width.bytes();
                for at in (0..len).step_by(size) {
                    let value = request.width.load(from.add(at));
                    match kind {
                        Kind::AddEach => words::fetch_add(to.add(at), size, value)?,
                        _ => words::store(to.add(at), size, value)?,
                    };
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::frame::ANSWER;
    use crate::{RemoteAddress, Width};

    struct Setup {
        target: Target,
        status: Arc<Status>,
        region: crate::Region,
    }

    fn setup() -> Setup {
        let regions = Regions::new(1);
        let status = Arc::new(Status::default());
        Setup {
            region: regions.allocate(256 << 10, 8).unwrap(),
            target: Target::new(regions, status.clone()),
            status,
        }
    }

    impl Setup {
        fn request(&self, kind: Kind, at: u64, len: u64) -> Request {
            Request {
                kind,
                width: Width::W8,
                at: self.region.remote().at(at),
                len,
                operands: [5, 6],
            }
        }

        fn memory(&self, at: usize, len: usize) -> &[u8] {
            // SAFETY: memory of the region, which nobody changes while it is compared.
            unsafe { std::slice::from_raw_parts(self.region.base().add(at), len) }
        }

        /// Gives it all, so many bytes at a time; returns what it answers.
        fn give(&mut self, bytes: &[u8], at_a_time: usize) -> Vec<u8> {
            let (mut held, mut answers) = (Vec::new(), Vec::new());
            let mut chunks = bytes.chunks(at_a_time);
            loop {
                let chunk = chunks.next();
                held.extend(chunk.unwrap_or_default());
                let used = self.target.take(&held).unwrap();
                held.drain(..used);
                self.target.acknowledge();
                loop {
                    let output = self.target.output();
                    if output.is_empty() {
                        break;
                    }
                    let some = output[..output.len().min(1000)].to_vec();
                    self.target.has_sent(some.len());
                    answers.extend(some);
                }
                if chunk.is_none() && used == 0 {
                    assert!(held.is_empty());
                    return answers;
                }
            }
        }
    }

    fn first(answers: &[u8]) -> Answer {
        Answer::decode(answers.first_chunk::<ANSWER>().unwrap()).unwrap()
    }

    #[test]
    fn requests_in_pieces_of_any_length_are_carried_out_once() {
        for at_a_time in [1, 7, 47, 48, 49, 1000, 1 << 20] {
            let mut setup = setup();
            let mut bytes = setup.request(Kind::Write, 3, 1000).encode().to_vec();
            bytes.extend((0..1000).map(|byte| byte as u8));
            bytes.extend(setup.request(Kind::FetchAdd, 2048, 8).encode());
            bytes.extend(setup.request(Kind::AddEach, 2048, 16).encode());
            bytes.extend([1_u64, 2].map(u64::to_le_bytes).concat());
            bytes.extend(setup.request(Kind::Write, 0, 0).encode());
            bytes.extend(setup.request(Kind::Read, 2048, 16).encode());
            let answers = setup.give(&bytes, at_a_time);
            let wanted: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
            assert_eq!(setup.memory(3, 1000), wanted);
            assert_eq!(setup.memory(2048, 8), 6_u64.to_le_bytes());
            let (mut rest, mut old, mut data, mut done) = (&answers[..], None, None, 0);
            while !rest.is_empty() {
                let answer = first(rest);
                rest = &rest[ANSWER..];
                match answer {
                    Answer::Old(value) => old = Some(value),
                    Answer::Done(count) => done = count,
                    Answer::Data(len) => {
                        data = Some(rest[..len as usize].to_vec());
                        rest = &rest[len as usize..];
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((old, done), (Some(0), 5));
            assert_eq!(data.unwrap(), [6_u64, 2].map(u64::to_le_bytes).concat());
        }
    }

    #[test]
    fn a_long_read_blocks_what_follows_until_it_is_sent() {
        let mut setup = setup();
        let mut bytes = setup.request(Kind::Read, 0, 200_000).encode().to_vec();
        bytes.extend(setup.request(Kind::FetchAdd, 0, 8).encode());
        assert_eq!(setup.target.take(&bytes), Some(REQUEST));
        assert!(setup.target.is_blocked());
        assert_eq!(setup.memory(0, 8), [0; 8]);
        let answers = setup.give(&bytes[REQUEST..], 1 << 20);
        assert_eq!(answers.len(), 200_000 + (4 + 2) * ANSWER);
        assert_eq!(setup.memory(0, 8), 5_u64.to_le_bytes());
    }

    #[test]
    fn after_a_refusal_nothing_is_carried_out() {
        let outside = |setup: &Setup| setup.request(Kind::Write, 250 << 10, 10 << 10);
        let misaligned = |setup: &Setup| setup.request(Kind::AddEach, 4, 8);
        let unknown = |setup: &Setup| {
            let request = setup.request(Kind::FetchAdd, 0, 8);
            let RemoteAddress { address, rkey } = request.at;
            let rkey = rkey + 1;
            Request {
                at: RemoteAddress { address, rkey },
                ..request
            }
        };
        let beyond = |setup: &Setup| setup.request(Kind::Read, 0, u64::MAX);
        type Wrong = fn(&Setup) -> Request;
        let cases: [(Wrong, _); 4] = [
            (outside, Refusal::Outside),
            (misaligned, Refusal::Misaligned),
            (unknown, Refusal::NoRegion),
            (beyond, Refusal::Outside),
        ];
        for (wrong, refusal) in cases {
            let mut setup = setup();
            let wrong = wrong(&setup);
            let mut bytes = wrong.encode().to_vec();
            if wrong.kind.has_payload() {
                bytes.resize(REQUEST + wrong.len as usize, 7);
            }
            bytes.extend(setup.request(Kind::FetchAdd, 0, 8).encode());
            let answers = setup.give(&bytes, 100);
            assert_eq!(first(&answers), Answer::Refused(refusal));
            let echo = answers[ANSWER..].first_chunk::<REQUEST>().unwrap();
            assert_eq!(Request::decode(echo), Some(wrong));
            assert_eq!(answers.len(), ANSWER + REQUEST);
            assert_eq!(setup.memory(0, 8), [0; 8]);
        }
    }

    #[test]
    fn who_goes_without_a_word_is_gone() {
        for (last, state) in [
            (None, Presence::Gone),
            (Some(Kind::Disconnect), Presence::Here),
            (Some(Kind::Leave), Presence::Closed),
        ] {
            let mut setup = setup();
            if let Some(kind) = last {
                let bytes = setup.request(kind, 0, 0).encode();
                assert_eq!(first(&setup.give(&bytes, 100)), Answer::Done(1));
            }
            setup.target.ended();
            assert_eq!(setup.status.presence(), state);
        }
    }

    #[test]
    fn memory_that_is_gone_is_refused_and_nonsense_ends_the_connection() {
        let mut setup = setup();
        let request = setup.request(Kind::Read, 0, 8).encode();
        let other = setup.target.regions.allocate(8, 8).unwrap();
        drop(std::mem::replace(&mut setup.region, other));
        let answers = setup.give(&request, 100);
        assert_eq!(first(&answers), Answer::Refused(Refusal::NoRegion));
        let mut setup = self::setup();
        assert_eq!(setup.target.take(&[0xff; REQUEST]), None);
    }
}
