//! The target's side of a connection: requests come in as bytes, are carried out in their order, and answers go out as bytes.
//! Nothing here knows of sockets: callers send and receive.

use std::sync::Arc;
use std::{io, ptr};

use super::frame::{Answer, Kind, REQUEST, Refusal, Request};
use super::regions::Regions;
use crate::channel::{Moved, Presence, Status};
use crate::cross_memory::part;
use crate::device::combine::{Combined, ElementRuns, GivenCombiner, carry_out};
use crate::memory::{before_flag, copy};
use crate::{Access, STORED_IN_ORDER, words};

/// If at least this much of a write is missing, it is received into the target memory itself; reads of this length are
/// sent from there. Shorter transfers keep words whole, which others may read meanwhile.
const DIRECT: usize = 16 << 10;
/// The largest part of a read that is begun at a time. A part that is begun is sent in full, even if the memory goes
/// away.
const PIECE: usize = 1 << 20;
/// The end of each long read, which is copied. It completes the read, and is sent only if everything before it was.
const COPIED: usize = 4 << 10;
/// While this many bytes wait to be sent, no further request is carried out.
const MOST_ANSWERS: usize = 64 << 10;
/// At most this much is fetched by a part of an accumulate.
const MOST_COMBINED: usize = 64 << 10;
/// This much room for answers is kept for reuse.
const ROOM: usize = 4 << 10;

pub(super) struct Target {
    regions: Arc<Regions>,
    combiner: GivenCombiner,
    /// The status of the origin's process.
    origin: Arc<Status>,
    /// The request whose payload is arriving, or an accumulate, without the part that is carried out.
    incoming: Option<Request>,
    /// Whether the accumulate waits for its lock.
    is_locked_out: bool,
    /// The read that is being answered from the memory itself, except for its end.
    outgoing: Option<Outgoing>,
    phase: Phase,
    /// The number of requests that are done, and how many of them the origin has been told of.
    done: u64,
    told: u64,
    /// Whether the origin waits to be told.
    is_asked: bool,
    /// Bytes to send; the first `sent` of them are sent.
    answers: Vec<u8>,
    sent: usize,
}

#[derive(Clone, Copy)]
struct Outgoing {
    /// The read, without the part that has been sent.
    request: Request,
    /// Bytes of the read that are due: their header says that they follow. They follow the first `behind` bytes of the
    /// answers.
    due: usize,
    behind: usize,
    /// Bytes of the answers behind them: the end of the read.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Input is dropped. The origin has been told why, or has said that it sends nothing more.
    Over,
}

impl Target {
    pub(super) fn new(regions: Arc<Regions>, combiner: GivenCombiner, origin: Arc<Status>) -> Self {
        Self {
            regions,
            combiner,
            origin,
            incoming: None,
            is_locked_out: false,
            outgoing: None,
            phase: Phase::Serving,
            done: 0,
            told: 0,
            is_asked: false,
            answers: Vec::new(),
            sent: 0,
        }
    }

    /// Whether requests wait until more answers have been sent.
    pub(super) fn is_blocked(&self) -> bool {
        self.outgoing.is_some() || self.answers.len() - self.sent >= MOST_ANSWERS
    }

    /// Whether [`Self::take`] stopped at a request that waits for a lock.
    pub(super) fn is_locked_out(&self) -> bool {
        self.is_locked_out
    }

    /// Carries out the requests in `bytes`. Returns how many bytes are used: the rest is a part of a request, or waits
    /// since the connection is blocked or locked out. `None` if no origin sends this.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        self.is_locked_out = false;
        while !self.is_blocked() {
            let rest = &bytes[used..];
            if self.phase == Phase::Over {
                return Some(bytes.len());
            }
            used += match self.incoming {
                Some(request) if request.kind == Kind::Combine => {
                    match self.take_combined(request, rest) {
                        Some(taken) => taken,
                        None => break,
                    }
                }
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

    /// The bytes that [`Self::receive`] is to receive next; 0 if they are for [`Self::take`].
    pub(super) fn direct(&self) -> usize {
        match self.incoming {
            Some(Request { kind, len, .. }) if kind == Kind::Write && len >= DIRECT as u64 => {
                usize::try_from(len).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// Calls `receive` with the destination of a write's next bytes, unless the write is refused.
    pub(super) fn receive(
        &mut self,
        receive: impl FnOnce(*mut u8) -> io::Result<Moved>,
    ) -> io::Result<Moved> {
        let Some(request) = self.incoming else {
            return Ok(Moved::Nothing);
        };
        let received = (self.regions).lend(request.at, request.len, request.need(), receive);
        match received.and_then(mapped) {
            Ok(received) => {
                if let Ok(Moved::Bytes(bytes)) = received {
                    self.has_applied(request, bytes);
                }
                received
            }
            Err(refusal) => {
                self.refuse(request, refusal);
                Ok(Moved::Nothing)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Whether requests are done and not acknowledged.
    pub(super) fn has_deferred(&self) -> bool {
        self.told < self.done
    }

    /// Whether the origin waits for an acknowledgement that it has asked for.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Adds an answer for the requests that are done and not acknowledged.
    pub(super) fn acknowledge(&mut self) {
        self.is_asked = false;
        if self.has_deferred() {
            self.told = self.done;
            self.answer(Answer::Done(self.done));
        }
    }

    /// Adds the answer that this process leaves.
    pub(super) fn leave(&mut self) {
        self.acknowledge();
        self.answer(Answer::Left);
    }

    /// Called when the origin's connection has ended, or has failed: a network that is down for long looks no different
    /// from a process that has ended.
    pub(super) fn ended(&self, error: Option<&io::Error>) {
        if self.phase == Phase::Serving {
            self.origin.becomes(match error {
                Some(_) => Presence::Reset,
                None => Presence::Gone,
            });
        }
    }

    /// Calls `send` with the next bytes to send, of which it may send a part. `None` if there are none.
    pub(super) fn send(
        &mut self,
        send: impl FnOnce(&[libc::iovec]) -> io::Result<Moved>,
    ) -> Option<io::Result<Moved>> {
        if self.sent == self.answers.len() {
            self.answers.clear();
            self.answers.shrink_to(ROOM);
            self.sent = 0;
            if let Some(outgoing) = &mut self.outgoing {
                outgoing.behind = 0;
            }
        }
        self.begin_part();
        let own = |begin: usize, end: usize| {
            let bytes = &self.answers[begin..end];
            part(bytes.as_ptr().cast_mut(), bytes.len())
        };
        let all = self.answers.len();
        let sent = match self.outgoing {
            None if self.is_all_sent() => return None,
            None => Ok(send(&[own(self.sent, all)])),
            Some(Outgoing {
                request,
                due,
                behind,
                ..
            }) => (self.regions)
                .lend(request.at, request.len, Access::READ, |from| {
                    send(&[own(self.sent, behind), part(from, due), own(behind, all)])
                })
                .and_then(mapped),
        };
        Some(match sent {
            Ok(sent) => {
                if let Ok(Moved::Bytes(bytes)) = sent {
                    self.has_sent(bytes);
                }
                sent
            }
            Err(refusal) => {
                self.stop_read(refusal);
                Ok(Moved::Bytes(0))
            }
        })
    }

    fn has_sent(&mut self, mut bytes: usize) {
        if let Some(Outgoing {
            request,
            due,
            behind,
            end,
        }) = &mut self.outgoing
        {
            let before = bytes.min(*behind - self.sent);
            self.sent += before;
            let lent = (bytes - before).min(*due);
            *due -= lent;
            request.at = request.at.moved(lent as i64);
            request.len -= lent as u64;
            bytes -= before + lent;
            if *due == 0 && *end > 0 {
                self.outgoing = None;
                self.finish_with_value();
            }
        }
        self.sent += bytes;
    }

    /// Begins the next part of a long read, if the previous part is sent.
    fn begin_part(&mut self) {
        let Some(Outgoing {
            request, due: 0, ..
        }) = self.outgoing
        else {
            return;
        };
        let left = request.len - COPIED as u64;
        let due = left.min(PIECE as u64);
        let begin = self.answers.len();
        self.answer(Answer::Data(due));
        let behind = self.answers.len();
        let mut allowed = (self.regions).lend(request.at, request.len, Access::READ, |_| ());
        if allowed.is_ok() && due == left {
            allowed = self.copy_answer(Request {
                at: request.at.moved(left as i64),
                len: COPIED as u64,
                ..request
            });
        }
        match allowed {
            Ok(()) => {
                self.outgoing = Some(Outgoing {
                    request,
                    due: due as usize,
                    behind,
                    end: self.answers.len() - behind,
                });
            }
            Err(refusal) => {
                self.answers.truncate(begin);
                self.stop_read(refusal);
            }
        }
    }

    /// Stops a read whose memory is gone. Zeros replace its due bytes, and its end is not sent.
    fn stop_read(&mut self, refusal: Refusal) {
        if let Some(Outgoing {
            request,
            due,
            behind,
            end,
        }) = self.outgoing.take()
        {
            let zeros = std::iter::repeat_n(0, due);
            self.answers.splice(behind..behind + end, zeros);
            self.refuse(request, refusal);
        }
    }

    fn answer(&mut self, answer: Answer) {
        self.answers.extend(answer.encode());
    }

    /// Whether all answers have been sent.
    pub(super) fn is_all_sent(&self) -> bool {
        self.sent == self.answers.len()
    }

    fn begin(&mut self, request: Request) {
        match request.kind {
            kind if kind.has_payload() => {
                // A request with no payload may still be refused.
                self.incoming = Some(request);
                if request.len == 0 {
                    self.apply(request, &[]);
                }
            }
            Kind::Combine => self.incoming = Some(request),
            Kind::Read => self.answer_read(request),
            Kind::FetchAdd | Kind::CompareSwap | Kind::Store => self.apply_single(request),
            Kind::Acknowledge => {
                self.finish();
                self.is_asked = true;
            }
            Kind::Leave => {
                self.origin.becomes(Presence::Closed);
                self.finish();
                self.is_asked = true;
            }
            _ => {
                self.finish();
                self.phase = Phase::Over;
            }
        }
    }

    /// Carries out the part of a request's payload that has arrived. Returns its length. It consists of whole words if
    /// others may read them meanwhile.
    fn take_payload(&mut self, request: Request, bytes: &[u8]) -> usize {
        let left = usize::try_from(request.len).unwrap_or(usize::MAX);
        let piece = match request.kind {
            _ if bytes.len() >= left => left,
            Kind::StoreEach if left <= STORED_IN_ORDER => 0,
            Kind::Write if left - bytes.len() >= DIRECT => bytes.len(),
            Kind::Write => {
                let end = request.at.address.wrapping_add(bytes.len() as u64);
                bytes.len().saturating_sub((end % 8) as usize)
            }
            _ => bytes.len() - bytes.len() % request.width.bytes(),
        };
        if piece > 0 {
            self.apply(request, &bytes[..piece]);
        }
        piece
    }

    /// Carries out a part of the request whose payload is arriving.
    fn apply(&mut self, request: Request, bytes: &[u8]) {
        // SAFETY: `store` accesses as many bytes as there are, and holds no lock or value to drop.
        let applied = unsafe {
            let store = |to: *mut u8| store(&request, to, bytes);
            let (len, need) = (request.len, request.need());
            (self.regions).access(request.at, len, bytes.len(), need, store)
        };
        match applied {
            Err(refusal) => self.refuse(request, refusal),
            Ok(()) => self.has_applied(request, bytes.len()),
        }
    }

    /// Carries out the part of an accumulate whose operands have arrived. Returns the length of these; `None` if it has
    /// to wait for more, or for the lock.
    fn take_combined(&mut self, request: Request, bytes: &[u8]) -> Option<usize> {
        let known = self.combiner.get().and_then(|combiner| {
            let (element, needs_lock) = combiner.element(request.what, request.at.address)?;
            Some((combiner, element, needs_lock, element.count(request.len)?))
        });
        let Some((combiner, element, needs_lock, left)) = known else {
            self.refuse(request, Refusal::NoCombination);
            return Some(0);
        };
        let sent = request.what.sent(&element);
        let arrived = bytes.len().checked_div(sent).unwrap_or(usize::MAX);
        let count = part_of(&request, &element, left, arrived);
        if count == 0 && left > 0 {
            return None;
        }
        let span = element.span(count);
        let begin = self.answers.len();
        let fetched = count * request.what.fetched(&element);
        let mut old = ptr::null_mut();
        if fetched > 0 {
            self.answers.extend(Answer::Data(fetched as u64).encode());
            old = room(&mut self.answers, fetched);
        }
        before_flag();
        let combine = |at: *mut u8, lock: *mut u8| {
            // SAFETY: the memory is of regions, which stay until this returns. There are operands for so many elements,
            // and room for the previous ones.
            unsafe {
                let (what, operands) = (request.what, bytes.as_ptr());
                let lock = needs_lock.then_some(lock);
                carry_out(combiner, what, lock, (at, count, span), operands, old)
            }
        };
        let (at, len, need) = (request.at, request.len, request.need());
        let lent = (self.regions).lend_with_lock(at, len, need, request.lock(), combine);
        let refusal = match lent {
            Ok(Combined::Done) => {
                // SAFETY: the previous elements were written to the room.
                unsafe { self.answers.set_len(self.answers.len() + fetched) };
                // There is no padding behind the last element.
                let applied = (count * element.extent).min(request.len as usize);
                self.has_applied(request, applied);
                if count == left && fetched > 0 {
                    self.told = self.done;
                }
                return Some(count * sent);
            }
            Ok(Combined::Busy) => {
                self.answers.truncate(begin);
                self.is_locked_out = true;
                return None;
            }
            Ok(Combined::NotALock) => Refusal::NoLock,
            Ok(Combined::Faulted) => Refusal::NotMapped,
            Err(refusal) => refusal,
        };
        self.answers.truncate(begin);
        self.refuse(request, refusal);
        Some(0)
    }

    /// Counts `bytes` more of the request's payload as carried out.
    fn has_applied(&mut self, request: Request, bytes: usize) {
        let left = request.len - bytes as u64;
        match left {
            0 => {
                self.incoming = None;
                self.finish();
            }
            _ => {
                self.incoming = Some(Request {
                    at: request.at.moved(bytes as i64),
                    len: left,
                    ..request
                });
            }
        }
    }

    fn apply_single(&mut self, request: Request) {
        match change_word(&self.regions, &request) {
            Err(refusal) => self.refuse(request, refusal),
            Ok(_) if request.kind == Kind::Store => self.finish(),
            Ok(old) => {
                self.answer(Answer::Old(old));
                self.finish_with_value();
            }
        }
    }

    fn answer_read(&mut self, request: Request) {
        if request.len >= DIRECT as u64 {
            // Those before would have to wait for all of its data.
            self.acknowledge();
            self.outgoing = Some(Outgoing {
                request,
                due: 0,
                behind: self.sent,
                end: 0,
            });
            return;
        }
        match self.copy_answer(request) {
            Ok(()) => self.finish_with_value(),
            Err(refusal) => self.refuse(request, refusal),
        }
    }

    /// Adds the bytes of a short read to the answers.
    fn copy_answer(&mut self, request: Request) -> Result<(), Refusal> {
        let len = request.len as usize;
        let begin = self.answers.len();
        self.answer(Answer::Data(request.len));
        let to = room(&mut self.answers, len);
        // SAFETY: `copy` reads as many bytes as there is room for, and holds no lock or value to drop.
        let read = unsafe {
            (self.regions).access(request.at, request.len, len, Access::READ, |from| {
                copy(to, from, len);
                Some(())
            })
        };
        match read {
            // SAFETY: the copy has written them.
            Ok(()) => unsafe { self.answers.set_len(self.answers.len() + len) },
            Err(_) => self.answers.truncate(begin),
        }
        read
    }

    fn finish(&mut self) {
        self.done += 1;
    }

    /// The answer with a value implies that this request and all before it are done.
    fn finish_with_value(&mut self) {
        self.finish();
        self.told = self.done;
    }

    fn refuse(&mut self, request: Request, refusal: Refusal) {
        self.acknowledge();
        self.answer(Answer::Refused(refusal));
        self.answers.extend(request.encode());
        self.incoming = None;
        self.phase = Phase::Over;
    }
}

/// Carries out a store or an atomic that fetches; returns the previous value.
pub(super) fn change_word(regions: &Regions, request: &Request) -> Result<u64, Refusal> {
    let [first, second] = request.operands;
    let width = request.width.bytes();
    before_flag();
    let change = |at: *mut u8| match request.kind {
        // SAFETY: a word of a region, which peers access by atomics.
        Kind::FetchAdd => unsafe { words::fetch_add(at, width, first) },
        // SAFETY: as above.
        Kind::Store => unsafe { words::store(at, width, first) },
        // SAFETY: as above.
        _ => unsafe { words::compare_swap(at, width, first, second) },
    };
    // SAFETY: `change` accesses the word, and holds no lock or value to drop.
    unsafe { regions.access(request.at, request.len, width, Access::ATOMIC, change) }
}

/// Space for this many bytes behind the answers.
fn room(answers: &mut Vec<u8>, bytes: usize) -> *mut u8 {
    answers.reserve(bytes);
    answers.spare_capacity_mut().as_mut_ptr().cast()
}

/// The result of a call in which the kernel accesses memory of a region; refused if that is not mapped.
fn mapped<T>(result: io::Result<T>) -> Result<io::Result<T>, Refusal> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Err(Refusal::NotMapped),
        other => Ok(other),
    }
}

/// How many of the `left` elements of an accumulate are combined together, of those whose operands have arrived. A part
/// ends between two words of eight bytes, and short ones are not divided, since others may read whole words meanwhile.
fn part_of(request: &Request, element: &ElementRuns, left: usize, arrived: usize) -> usize {
    let most = (MOST_COMBINED / element.extent).max(1);
    if left <= arrived.min(most) {
        return left;
    }
    if element.span(left) <= STORED_IN_ORDER {
        return 0;
    }
    element.up_to_a_word(request.at.address, arrived.min(most))
}

/// Stores bytes, or updates words with them. `None` if words are misaligned.
///
/// # Safety
/// `to` is memory of a region, for as many bytes.
unsafe fn store(request: &Request, to: *mut u8, bytes: &[u8]) -> Option<()> {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the caller's promise.
    unsafe {
        if request.kind == Kind::Write {
            copy(to, from, len);
            return Some(());
        }
        before_flag();
        let size = request.width.bytes();
        // From the last to the first, as `Update::Store` asks; sums need no order.
        for at in (0..len).step_by(size).rev() {
            let value = request.width.load(from.add(at));
            match request.kind {
                Kind::AddEach => words::fetch_add(to.add(at), size, value)?,
                _ => words::store(to.add(at), size, value)?,
            };
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::combine::triple_and_add::{NO_LOCK, TYPES, TripleAndAdd, triple_and_add};
    use crate::tcp::frame::ANSWER;
    use crate::{Combination, Operands, RemoteAddress};

    const MEMORY: usize = 3 * PIECE;

    struct Setup {
        target: Target,
        status: Arc<Status>,
        region: crate::LocalRegion,
    }

    fn setup() -> Setup {
        let regions = Regions::new(1);
        let status = Arc::new(Status::default());
        let combiner = GivenCombiner::default();
        combiner.give(Arc::new(TripleAndAdd));
        Setup {
            region: regions.allocate(MEMORY, 8).unwrap(),
            target: Target::new(regions, combiner, status.clone()),
            status,
        }
    }

    impl Setup {
        fn request(&self, kind: Kind, at: u64, len: u64) -> Request {
            Request {
                operands: [5, 6],
                at: self.region.remote().at(at),
                len,
                ..Request::of(kind)
            }
        }

        fn memory(&self, at: usize, len: usize) -> &[u8] {
            // SAFETY: memory of the region, which nobody changes while it is compared.
            unsafe { std::slice::from_raw_parts(self.region.base().add(at), len) }
        }

        /// Has it receive these bytes of a write directly, if it does, and returns how many it did.
        fn receive(&mut self, bytes: &[u8]) -> usize {
            assert!(bytes.len() <= self.target.direct());
            let received = self.target.receive(|to| {
                // SAFETY: memory of the region, for so many bytes.
                unsafe { copy(to, bytes.as_ptr(), bytes.len()) };
                Ok(Moved::Bytes(bytes.len()))
            });
            match received.unwrap() {
                Moved::Bytes(got) => got,
                _ => 0,
            }
        }

        /// Has it send at most so many bytes, which are added to the answers; false if there are none.
        fn send(&mut self, answers: &mut Vec<u8>, most: usize) -> bool {
            let sent = self.target.send(|parts| {
                let before = answers.len();
                for part in parts {
                    let len = part.iov_len.min(most - (answers.len() - before));
                    // SAFETY: answers, or memory of the region, which nobody changes meanwhile.
                    answers
                        .extend(unsafe { std::slice::from_raw_parts(part.iov_base.cast(), len) });
                }
                Ok(Moved::Bytes(answers.len() - before))
            });
            sent.is_some_and(|sent| sent.is_ok())
        }

        /// Gives it all, so many bytes at a time; returns what it answers.
        fn give(&mut self, mut bytes: &[u8], at_a_time: usize) -> Vec<u8> {
            let (mut held, mut answers) = (Vec::new(), Vec::new());
            loop {
                let used = self.target.take(&held).unwrap();
                held.drain(..used);
                let direct = self.target.direct();
                let is_direct = direct > 0 && held.is_empty() && !bytes.is_empty();
                let most = if is_direct { direct } else { at_a_time };
                let some = &bytes[..at_a_time.min(most).min(bytes.len())];
                bytes = match is_direct {
                    true => &bytes[self.receive(some)..],
                    false => {
                        held.extend(some);
                        &bytes[some.len()..]
                    }
                };
                self.target.acknowledge();
                while self.send(&mut answers, 1000) {}
                if some.is_empty() && used == 0 {
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
        const LONG: usize = 40_000;
        for at_a_time in [1, 7, 47, 48, 49, 1000, 1 << 20] {
            let mut setup = setup();
            let mut bytes = setup.request(Kind::Write, 3, 1000).encode().to_vec();
            bytes.extend((0..1000).map(|byte| byte as u8));
            bytes.extend(setup.request(Kind::Write, 4097, LONG as u64).encode());
            bytes.extend((0..LONG).map(|byte| (byte % 1000) as u8));
            bytes.extend(setup.request(Kind::FetchAdd, 2048, 8).encode());
            bytes.extend(setup.request(Kind::Store, 2064, 8).encode());
            bytes.extend(setup.request(Kind::AddEach, 2048, 16).encode());
            bytes.extend([1_u64, 2].map(u64::to_le_bytes).concat());
            bytes.extend(setup.request(Kind::Write, 0, 0).encode());
            bytes.extend(setup.request(Kind::Read, 2048, 24).encode());
            bytes.extend(setup.request(Kind::Write, 0, 0).encode());
            let answers = setup.give(&bytes, at_a_time);
            let wanted: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
            assert_eq!(setup.memory(3, 1000), wanted);
            assert_eq!(setup.memory(4097, LONG), &wanted.repeat(LONG / 1000));
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
            assert_eq!((old, done), (Some(0), 8));
            assert_eq!(data.unwrap(), [6_u64, 2, 5].map(u64::to_le_bytes).concat());
        }
    }

    const LOCK: u64 = 8;

    /// An accumulate on words, or on pairs that take the lock, from byte 64 of the memory on.
    fn accumulate(setup: &Setup, ty: u8, count: usize) -> Request {
        let lock = setup.region.remote().at(LOCK);
        let len = TYPES[usize::from(ty)].span(count) as u64;
        Request {
            what: Combination {
                ty,
                atomics: 1 - ty,
                operands: Operands::One,
                fetches: true,
                ..Combination::default()
            },
            operands: [lock.address, lock.rkey],
            ..setup.request(Kind::Combine, 64, len)
        }
    }

    #[test]
    fn an_accumulate_in_pieces_of_any_length_is_carried_out_once() {
        const COUNT: usize = 5000;
        for (ty, element) in TYPES.into_iter().enumerate() {
            for at_a_time in [1, 7, 49, 1000, 1 << 20] {
                let mut setup = setup();
                let request = accumulate(&setup, ty as u8, COUNT);
                let mut bytes = Vec::new();
                for _ in 0..2 {
                    bytes.extend(request.encode());
                    bytes.extend((0..COUNT * element.size()).map(|byte| (byte % 250) as u8));
                }
                let answers = setup.give(&bytes, at_a_time);
                let mut held = vec![0; element.span(COUNT)];
                let mut wanted = Vec::<u8>::new();
                for _ in 0..2 {
                    let mut operands = (0..).map(|byte| (byte % 250) as u8);
                    for index in 0..COUNT {
                        for &(run, len) in element.runs {
                            let run =
                                index * element.extent + run..index * element.extent + run + len;
                            wanted.extend(&held[run.clone()]);
                            let operand: Vec<u8> = operands.by_ref().take(len).collect();
                            let sum = triple_and_add(&held[run.clone()], &operand);
                            held[run].copy_from_slice(&sum);
                        }
                    }
                }
                assert!(setup.memory(64, held.len()) == held, "{ty} {at_a_time}");
                let (mut rest, mut data) = (&answers[..], Vec::<u8>::new());
                while !rest.is_empty() {
                    let answer = first(rest);
                    rest = &rest[ANSWER..];
                    match answer {
                        Answer::Data(len) => {
                            let (some, more) = rest.split_at(len as usize);
                            data.extend(some);
                            rest = more;
                        }
                        Answer::Done(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert!(data == wanted, "{ty} {at_a_time}");
            }
        }
    }

    #[test]
    fn an_accumulate_waits_for_its_lock_and_what_is_behind_it_too() {
        let mut setup = setup();
        let word = |setup: &Setup, value: u64| {
            let at = setup.region.base().wrapping_add(LOCK as usize);
            // SAFETY: a word of the region, which nobody else accesses meanwhile.
            unsafe { at.cast::<u64>().write(value) };
        };
        word(&setup, 1);
        let mut bytes = accumulate(&setup, 1, 1).encode().to_vec();
        bytes.extend([3; 6]);
        bytes.extend(setup.request(Kind::FetchAdd, 0, 8).encode());
        assert_eq!(setup.target.take(&bytes), Some(REQUEST));
        for _ in 0..2 {
            assert!(setup.target.is_locked_out() && !setup.target.is_blocked());
            assert_eq!(setup.target.take(&bytes[REQUEST..]), Some(0));
        }
        assert_eq!(setup.memory(0, 8), [0; 8]);
        word(&setup, 0);
        let answers = setup.give(&bytes[REQUEST..], 100);
        assert!(!setup.target.is_locked_out());
        assert_eq!(setup.memory(64, 2), [3; 2]);
        assert_eq!(first(&answers), Answer::Data(6));
        word(&setup, NO_LOCK);
        let answers = setup.give(&bytes[..REQUEST + 6], 100);
        assert_eq!(first(&answers), Answer::Refused(Refusal::NoLock));
        let mut setup = self::setup();
        let unknown = Request {
            what: Combination {
                operation: 9,
                ..accumulate(&setup, 0, 1).what
            },
            ..accumulate(&setup, 0, 1)
        };
        let answers = setup.give(&unknown.encode(), 100);
        assert_eq!(first(&answers), Answer::Refused(Refusal::NoCombination));
    }

    #[test]
    fn a_short_store_waits_for_all_of_its_words() {
        let short = STORED_IN_ORDER;
        let mut setup = setup();
        let mut bytes = setup
            .request(Kind::StoreEach, 64, short as u64)
            .encode()
            .to_vec();
        bytes.extend(vec![7; short]);
        let (most, last) = bytes.split_at(bytes.len() - 1);
        let used = setup.target.take(most).unwrap();
        assert_eq!(used, REQUEST, "the words wait where they arrived");
        assert_eq!(setup.memory(64, short), [0; STORED_IN_ORDER]);
        let rest = [&most[used..], last].concat();
        assert_eq!(setup.target.take(&rest), Some(short));
        assert_eq!(setup.memory(64, short), [7; STORED_IN_ORDER]);
    }

    #[test]
    fn a_long_read_blocks_what_follows_until_it_is_sent() {
        const LEN: usize = 2 * PIECE + 200_000;
        let mut setup = setup();
        let mut bytes = setup.request(Kind::Read, 0, LEN as u64).encode().to_vec();
        bytes.extend(setup.request(Kind::FetchAdd, 0, 8).encode());
        assert_eq!(setup.target.take(&bytes), Some(REQUEST));
        assert!(setup.target.is_blocked());
        let mut answers = Vec::new();
        assert!(setup.send(&mut answers, 1000));
        assert_eq!(first(&answers), Answer::Data(PIECE as u64));
        // What has to be said meanwhile is said between two parts of the data.
        setup.target.leave();
        assert_eq!(setup.memory(0, 8), [0; 8]);
        answers.extend(setup.give(&bytes[REQUEST..], 1 << 20));
        assert_eq!(first(&answers[ANSWER + PIECE..]), Answer::Left);
        assert_eq!(
            first(&answers[2 * ANSWER + PIECE..]),
            Answer::Data(PIECE as u64)
        );
        assert_eq!(answers.len(), LEN + (3 + 1 + 1 + 1) * ANSWER);
        assert_eq!(setup.memory(0, 8), 5_u64.to_le_bytes());
    }

    #[test]
    fn memory_that_goes_amid_a_long_transfer_is_refused_and_what_was_due_is_sent() {
        type Goes = fn(&mut Setup, Kind);
        let by_the_kernel: Goes = |setup, kind| {
            let fault = || Err(io::Error::from_raw_os_error(libc::EFAULT));
            match kind {
                Kind::Write => drop(setup.target.receive(|_| fault()).unwrap()),
                _ => drop(setup.target.send(|_| fault()).unwrap().unwrap()),
            }
        };
        let from_the_table: Goes = |setup, _| {
            let other = setup.target.regions.allocate(8, 8).unwrap();
            drop(std::mem::replace(&mut setup.region, other));
        };
        for (goes, refusal) in [
            (by_the_kernel, Refusal::NotMapped),
            (from_the_table, Refusal::NoRegion),
        ] {
            let (mut setup, mut answers) = (setup(), Vec::new());
            let read = setup.request(Kind::Read, 0, PIECE as u64);
            let base = setup.region.base();
            // SAFETY: memory of the region, which nobody accesses meanwhile.
            unsafe { base.write_bytes(7, PIECE) };
            setup.target.take(&read.encode());
            setup.send(&mut answers, ANSWER + 1000);
            goes(&mut setup, Kind::Read);
            while setup.send(&mut answers, 1000) {}
            assert_eq!(answers[ANSWER..][..1000], [7; 1000]);
            let due = PIECE - COPIED;
            assert_eq!(first(&answers), Answer::Data(due as u64));
            let zeros = &answers[ANSWER + 1000..][..due - 1000];
            assert!(zeros.iter().all(|&byte| byte == 0));
            let end = &answers[ANSWER + due..];
            assert_eq!(first(end), Answer::Refused(refusal));
            assert_eq!(end.len(), ANSWER + REQUEST);

            let mut setup = self::setup();
            let write = setup.request(Kind::Write, 0, PIECE as u64);
            setup.target.take(&write.encode());
            assert_eq!(setup.receive(&[7; 1000]), 1000);
            goes(&mut setup, Kind::Write);
            let answers = setup.give(&[7; PIECE - 1000], 1 << 16);
            assert_eq!(first(&answers), Answer::Refused(refusal));
            assert_eq!(answers.len(), ANSWER + REQUEST);
        }
    }

    #[test]
    fn after_a_refusal_nothing_is_carried_out() {
        let outside = |setup: &Setup| setup.request(Kind::Write, MEMORY as u64 - 8, 16);
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
            setup.target.ended(None);
            assert_eq!(setup.status.presence(), state);
        }
    }

    #[test]
    fn whose_connection_has_failed_may_live() {
        let (reset, silent) = (io::ErrorKind::ConnectionReset, io::ErrorKind::TimedOut);
        let setup = [reset, silent].map(|kind| {
            let setup = setup();
            setup.target.ended(Some(&kind.into()));
            assert_eq!(setup.status.presence(), Presence::Reset, "{kind}");
            setup
        });
        let [setup, _] = setup;
        setup.status.becomes(Presence::Gone);
        setup.status.becomes(Presence::Here);
        assert_eq!(setup.status.presence(), Presence::Gone, "for good");
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
