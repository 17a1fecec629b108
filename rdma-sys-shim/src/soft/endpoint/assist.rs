//! Transfers by the hand of a thread of the peer that waits, which takes a fraction of what the kernel takes for a few
//! bytes. They go in pieces, so that the peer copies one while this process copies the next.

mod blocks;
mod choice;

use std::cell::RefCell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Path, SoftEndpoint};
use crate::device::batch::{Batch, Each, LocalPiece};
use crate::primitive::milliseconds;
use crate::soft::assist::Assist;
use crate::soft::iovec;
use crate::soft::process::ProcessId;
use crate::soft::request::{self, AT_ONCE, Operation, Request};
use crate::soft::segment::Segment;
use crate::soft::slots::{self, AssistWords, Offered, Slots};
use crate::soft::table;
use crate::{Error, Number, RemoteAddress, Result};

use choice::{Choices, Kind};

/// What hands are asked for at a time. With no more than that they are sooner, wherever they are; else it has to be tried.
const PIECE: usize = 1 << 10;
/// Who sleeps is not called for longer transfers that go by slots.
const LONG: usize = 8 << 10;
/// The kernel is as soon with whole transfers of this length, and needs nobody.
const LONGEST_BY_ASSIST: usize = 64 << 10;
/// What an accumulate reads and writes at a time, where the kernel does it.
const ADDS_AT_A_TIME: usize = 64 << 10;
/// The longest pieces of batches with which hands are sooner than the kernel, which takes a third of a microsecond for each.
const SHORT: usize = 512;

/// How long a request waits to be taken up, and how long where nobody says that he would. Of many parts, with which the
/// kernel takes longer, so many times as long at the most.
const LONGEST: Duration = Duration::from_micros(3);
const MOST_PATIENT: u32 = 8;
const LONGEST_HOPE: Duration = Duration::from_micros(1);
/// Looks at a slot between two at the clock.
const LOOKS: u32 = 8;
/// So many milliseconds nothing is asked for after a request that nobody took up though somebody had said he would; each time
/// twice as long, up to a limit.
const PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 64;
/// Who sleeps is called when so many parts were moved by the kernel: to wake somebody takes as long as to move two or three.
/// After each call that led to nothing, when twice as many were.
const WORTH_A_CALL: u32 = 16;
const WORTH_THE_LAST: u32 = 1 << 14;
/// For so many, which take the kernel a multiple, it is worth while to wait so long for whoever was called.
const WORTH_WAITING: usize = 256;
const LONGEST_WAKE: Duration = Duration::from_micros(30);
/// Milliseconds from one look for slots of processes that died to the next.
const SWEEP_EVERY: u32 = 100;

/// What is known of the peer's threads.
#[derive(Default)]
pub(super) struct Experience {
    /// The last request was taken up: who waits again and again may be about to, without having said so.
    was_served: AtomicBool,
    /// When there is something to ask for again, and how long there will be nothing after the next disappointment: a thread
    /// that lends its hand may have lost its processor to another.
    asks_again: AtomicU32,
    pause: AtomicU32,
    /// Parts that the kernel moved since they were last called, and how many are worth the next call; 0: as many as the first.
    missed: AtomicU32,
    worth_a_call: AtomicU32,
    /// When slots were last looked through that nobody gave back.
    swept: AtomicU32,
    /// With what is long.
    choices: Choices,
    /// Whoever asks waits nearly as long as an offer holds: a hand is likely to come.
    #[cfg(test)]
    is_sure: AtomicBool,
}

impl Experience {
    /// How long a request may wait for what the kernel would move in so many parts; `None`: better not make one.
    fn patience(&self, slots: &impl Slots, parts: usize) -> Option<Duration> {
        #[cfg(test)]
        if self.is_sure.load(Ordering::Relaxed) {
            return Some(Duration::from_millis(50));
        }
        let assist = slots.assist();
        if !assist.are_lent() && !self.is_called(assist, parts) {
            let was_served = self.was_served.load(Ordering::Relaxed);
            return was_served.then_some(LONGEST_HOPE);
        }
        let then = self.asks_again.load(Ordering::Relaxed);
        if then != 0 {
            if (1..=LONGEST_PAUSE).contains(&then.wrapping_sub(milliseconds())) {
                return None;
            }
            self.asks_again.store(0, Ordering::Relaxed);
        }
        Some(LONGEST * (parts as u32).clamp(1, MOST_PATIENT))
    }

    /// Lets the peer know that the kernel has to move so many parts; whether a hand is lent at once.
    fn is_called(&self, assist: &AssistWords, parts: usize) -> bool {
        if parts == 0 {
            return false;
        }
        let worth = self.worth_a_call.load(Ordering::Relaxed).max(WORTH_A_CALL);
        // No more than the first call's worth, so that few of many parts are not worth all calls.
        let missed = self.missed.load(Ordering::Relaxed) + parts.min(WORTH_A_CALL as usize) as u32;
        if missed < worth {
            self.missed.store(missed, Ordering::Relaxed);
            assist.want();
            return false;
        }
        self.missed.store(0, Ordering::Relaxed);
        let next = (2 * worth).min(WORTH_THE_LAST);
        self.worth_a_call.store(next, Ordering::Relaxed);
        if !assist.call() || parts < WORTH_WAITING {
            return false;
        }
        let begun = Instant::now();
        while !assist.are_lent() {
            if begun.elapsed() >= LONGEST_WAKE {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Whether the first of some requests was taken up.
    fn note(&self, was_served: bool, patience: Duration) {
        if self.was_served.load(Ordering::Relaxed) != was_served {
            self.was_served.store(was_served, Ordering::Relaxed);
        }
        let pause = self.pause.load(Ordering::Relaxed);
        if was_served {
            if pause != 0 {
                self.pause.store(0, Ordering::Relaxed);
            }
            if self.worth_a_call.load(Ordering::Relaxed) != 0 {
                self.worth_a_call.store(0, Ordering::Relaxed);
            }
        } else if patience >= LONGEST {
            if pause > 0 {
                let then = milliseconds().wrapping_add(pause).max(1);
                self.asks_again.store(then, Ordering::Relaxed);
            }
            let pause = (2 * pause).clamp(PAUSE, LONGEST_PAUSE);
            self.pause.store(pause, Ordering::Relaxed);
        }
    }

    /// No slot was free. Some may be of processes that died; it takes a while to look.
    fn sweep(&self, segment: &Segment, own: ProcessId) {
        let now = milliseconds();
        let swept = self.swept.load(Ordering::Relaxed);
        if swept == 0 || now.wrapping_sub(swept) >= SWEEP_EVERY {
            self.swept.store(now, Ordering::Relaxed);
            request::free_those_of_the_dead(segment, own);
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Done,
    Refused,
    NotTakenUp,
}

/// Some pieces of a batch, as many as one request takes.
pub(super) struct Group {
    /// Of the batch's.
    pub(super) members: Range<usize>,
    /// Where at the peer the first of them is and the last ends, wherever these are in the list.
    low: u64,
    high: u64,
}

impl Group {
    /// From piece `start` on, those that `rest` begins with. `None` if there are none, or where the kernel is as soon, or a
    /// request has no room for one.
    pub(super) fn of(start: usize, rest: Each<'_>, rkey: u64) -> Option<Self> {
        let mut group = Self {
            members: start..start,
            low: u64::MAX,
            high: 0,
        };
        let mut bytes = 0;
        for (piece, at) in rest.take(iovec::MOST) {
            let low = group.low.min(at.address);
            let high = group.high.max(at.address.saturating_add(piece.len as u64));
            bytes += piece.len;
            let fits = piece.len <= SHORT
                && at.rkey == rkey
                && bytes <= iovec::MOST_BYTES
                && high - low <= u32::MAX.into();
            if !fits {
                break;
            }
            (group.low, group.high) = (low, high);
            group.members.end += 1;
        }
        (!group.members.is_empty()).then_some(group)
    }

    /// The request for them, in a list of so many runs.
    pub(super) fn request(&self, operation: Operation, rkey: u64, runs: usize) -> Request {
        let operation = match operation {
            Operation::Write => Operation::Scatter,
            _ => Operation::Gather,
        };
        Request {
            operation,
            width: runs as u32,
            rkey,
            address: self.low,
            len: (self.high - self.low) as usize,
            operands: [0; 2],
        }
    }

    /// Writes that and the list into a slot: `pieces` are the group's.
    ///
    /// # Safety
    /// The slot is claimed. The pieces are readable (for a write).
    pub(super) unsafe fn fill(
        &self,
        operation: Operation,
        rkey: u64,
        pieces: impl Iterator<Item = (LocalPiece, RemoteAddress)>,
        (segment, slot): (&Segment, usize),
    ) {
        let pieces = pieces.map(|(piece, at)| {
            let offset = (at.address - self.low) as u32;
            (offset, piece.len as u32, piece.base.cast_const())
        });
        let is_write = operation == Operation::Write;
        // SAFETY: the slot's data is its claimer's, and groups are no larger than allowed; the pieces are the caller's promise.
        let runs = unsafe { iovec::fill(segment.slot_data(slot), pieces, is_write) };
        self.request(operation, rkey, runs).sign(segment, slot);
    }
}

/// Whether hands are sooner than the kernel with a batch, as far as a look at its first piece tells.
fn is_worth_asking(batch: &Batch<'_>) -> bool {
    batch.pieces.first().is_some_and(|piece| piece.len <= SHORT)
}

/// The pieces that bytes are asked for in: which of them the one is.
fn piece(bytes: &Range<usize>, which: usize) -> Range<usize> {
    let start = bytes.start + which * PIECE;
    start..bytes.end.min(start + PIECE)
}

/// Why something long ended early.
enum Stop {
    Error(Error),
    /// The other way said so.
    Otherwise,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl SoftEndpoint {
    /// Moves what the peer's hands take up, and has the rest moved `by_kernel`, at once where they take up nothing.
    ///
    /// # Safety
    /// `local` is readable (for a write) or writable (for a read) for `len` bytes.
    pub(super) unsafe fn transfer_by_assist(
        &self,
        operation: Operation,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
        by_kernel: impl Fn(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        if !self.options.assist || len >= LONGEST_BY_ASSIST {
            return by_kernel(0..len);
        }
        // For what is long nobody has to wake up.
        let parts = usize::from(len <= LONG);
        let Some(patience) = self.experience.patience(&*self.segment, parts) else {
            return by_kernel(0..len);
        };
        let (is_write, kind) = match operation {
            Operation::Write => (true, Kind::Write),
            _ => (false, Kind::Read),
        };
        let by_assist = |bytes: Range<usize>| {
            let asked = |which| {
                let bytes = piece(&bytes, which);
                let there = local.wrapping_add(bytes.start);
                let request = Request::of(operation, 0, at, bytes.start, bytes.len());
                (request, there)
            };
            let fill = |which, slot| {
                let (request, there) = asked(which);
                let send = match is_write {
                    true => there.cast_const(),
                    false => ptr::null(),
                };
                // SAFETY: the slot is claimed; a part of what the caller promises.
                unsafe { request.fill(&self.segment, slot, send) };
            };
            let take = |which, slot| {
                if !is_write {
                    let (request, there) = asked(which);
                    // SAFETY: the slot was filled with this request and is answered; a part of what the caller promises.
                    unsafe { request.take(&self.segment, slot, there) };
                }
            };
            self.ask_for_pieces(patience, &bytes, fill, take, &by_kernel)
        };
        match len <= PIECE {
            true => by_assist(0..len).map(drop),
            false => self
                .experience
                .choices
                .carry_out(kind, len, by_assist, &by_kernel),
        }
    }

    /// Adds numbers to those at a place as [`WaitingThreads::add`](crate::WaitingThreads::add) says.
    ///
    /// # Safety
    /// The first buffer is readable, and the second writable if it is not null, for `len` bytes.
    pub(super) unsafe fn add_where_sooner(
        &self,
        at: RemoteAddress,
        number: Number,
        (values, old): (*const u8, *mut u8),
        len: usize,
        otherwise: &dyn Fn(Range<usize>) -> bool,
    ) -> Result<bool> {
        let need = Operation::AddNumbers.need();
        let may_ask = self.path == Path::CrossMemory
            && self.options.assist
            && table::allows(&self.segment, at.rkey, at.address, len as u64, need).is_ok();
        if !may_ask {
            return Ok(false);
        }
        // The kernel reads and writes.
        let parts = 2 * len.div_ceil(ADDS_AT_A_TIME);
        let Some(patience) = self.experience.patience(&*self.segment, parts) else {
            return Ok(false);
        };
        let otherwise = |bytes| otherwise(bytes).then_some(()).ok_or(Stop::Otherwise);
        let operation = match old.is_null() {
            true => Operation::AddNumbers,
            false => Operation::FetchAddNumbers,
        };
        let by_assist = |bytes: Range<usize>| {
            let asked = |which| {
                let bytes = piece(&bytes, which);
                let request = Request::of(operation, number.code(), at, bytes.start, bytes.len());
                (request, bytes.start)
            };
            let fill = |which, slot| {
                let (request, start) = asked(which);
                // SAFETY: the slot is claimed; a part of what the caller promises.
                unsafe { request.fill(&self.segment, slot, values.wrapping_add(start)) };
            };
            let take = |which, slot| {
                if !old.is_null() {
                    let (request, start) = asked(which);
                    // SAFETY: the slot was filled with this request and is answered; a part of what the caller promises.
                    unsafe { request.take(&self.segment, slot, old.wrapping_add(start)) };
                }
            };
            self.ask_for_pieces(patience, &bytes, fill, take, otherwise)
        };
        let done = match len <= PIECE {
            true => by_assist(0..len).map(drop),
            false => self
                .experience
                .choices
                .carry_out(Kind::Add, len, by_assist, otherwise),
        };
        match done {
            Err(Stop::Error(error)) => Err(error),
            // Whoever said that it failed knows.
            Ok(()) | Err(Stop::Otherwise) => Ok(true),
        }
    }

    /// Asks for the pieces of some bytes, and has those moved `otherwise` that nobody took up; whether that were none.
    fn ask_for_pieces<E: From<Error>>(
        &self,
        patience: Duration,
        bytes: &Range<usize>,
        fill: impl Fn(usize, usize),
        take: impl Fn(usize, usize),
        otherwise: impl Fn(Range<usize>) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let fill = |which, slot| {
            fill(which, slot);
            true
        };
        let left = self.ask_assist(patience, bytes.len().div_ceil(PIECE), fill, take)?;
        // Mostly all from some piece on.
        for row in left.chunk_by(|one, next| one + 1 == *next) {
            let (first, last) = (row[0], row[row.len() - 1]);
            otherwise(piece(bytes, first).start..piece(bytes, last).end)?;
        }
        Ok(left.is_empty())
    }

    /// Moves what the peer's hands take up of a batch, and returns the rest, which they may have refused; `None` if they were
    /// not asked.
    ///
    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    pub(super) unsafe fn batch_by_assist(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
    ) -> Result<Option<Vec<(LocalPiece, RemoteAddress)>>> {
        let may_ask = self.options.assist && is_worth_asking(batch);
        let (Some(first), true) = (batch.runs.first(), may_ask) else {
            return Ok(None);
        };
        let Some(patience) = self.experience.patience(&*self.segment, batch.pieces.len()) else {
            return Ok(None);
        };
        let is_write = operation == Operation::Write;
        let rkey = first.at.rkey;
        // Made as they are asked for, so that the peer begins with the first at once.
        let groups = RefCell::new(Vec::<Group>::new());
        let mut rest = batch.each();
        let fill = |_, slot| {
            let mut groups = groups.borrow_mut();
            let start = groups.last().map_or(0, |last| last.members.end);
            let Some(group) = Group::of(start, rest.clone(), rkey) else {
                return false;
            };
            let pieces = rest.by_ref().take(group.members.len());
            // SAFETY: the slot is claimed; the pieces are the caller's promise.
            unsafe { group.fill(operation, rkey, pieces, (&self.segment, slot)) };
            groups.push(group);
            true
        };
        let take = |which: usize, slot| {
            if !is_write {
                let pieces = &batch.pieces[groups.borrow()[which].members.clone()];
                let pieces = pieces.iter().map(|piece| (piece.base, piece.len));
                // SAFETY: the slot was filled with this group, and is answered; the caller's promise.
                unsafe { iovec::take(self.segment.slot_data(slot), pieces) };
            }
        };
        // No group is empty.
        let left = self.ask_assist(patience, batch.pieces.len(), fill, take)?;
        let groups = groups.into_inner();
        let Some(last) = groups.last() else {
            return Ok(None);
        };
        let asked = last.members.end;
        if left.is_empty() && asked == batch.pieces.len() {
            return Ok(Some(Vec::new()));
        }
        let mut is_left = vec![false; batch.pieces.len()];
        for group in left.iter().filter_map(|&which| groups.get(which)) {
            is_left[group.members.clone()].fill(true);
        }
        is_left[asked..].fill(true);
        let left = batch.each().zip(is_left);
        let left = left.filter_map(|(piece, is_left)| is_left.then_some(piece));
        Ok(Some(left.collect()))
    }

    /// Asks for `count` things in turn, several at a time: `fill` writes the request for each, in order, into a slot, or says
    /// that there is none; `take` takes what there is in its answer. Returns which were not done.
    fn ask_assist(
        &self,
        patience: Duration,
        mut count: usize,
        mut fill: impl FnMut(usize, usize) -> bool,
        mut take: impl FnMut(usize, usize),
    ) -> Result<Vec<usize>> {
        let mut slots = [0; AT_ONCE];
        let (mut begun, mut ended) = (0, 0);
        let mut left = Vec::new();
        let mut result = Ok(());
        while ended < count {
            while left.is_empty() && begun < count && begun - ended < AT_ONCE {
                let Some(slot) =
                    request::claim_now(&self.segment, self.peer.own(), begun % AT_ONCE)
                else {
                    break;
                };
                if !fill(begun, slot) {
                    slots::give_back(self.segment.slot(slot));
                    count = begun;
                    break;
                }
                slots::offer(self.segment.slot(slot), milliseconds());
                slots[begun % AT_ONCE] = slot;
                begun += 1;
            }
            if ended == count {
                break;
            }
            if ended == begun {
                // Nobody serves any more, or others have all slots.
                if left.is_empty() {
                    self.experience.sweep(&self.segment, self.peer.own());
                }
                left.extend(ended..count);
                break;
            }
            let slot = slots[ended % AT_ONCE];
            let asked = self.collect(slot, left.is_empty().then_some(patience));
            match asked {
                Ok(Asked::Done) => take(ended, slot),
                _ => left.push(ended),
            }
            if ended == 0 {
                let was_served = asked
                    .as_ref()
                    .is_ok_and(|asked| *asked != Asked::NotTakenUp);
                self.experience.note(was_served, patience);
            }
            match asked {
                Ok(_) => slots::give_back(self.segment.slot(slot)),
                // Its slot is as the peer left it, which is gone.
                Err(error) => result = Err(error),
            }
            ended += 1;
        }
        result.map(|()| left)
    }

    /// What became of what was asked for. It is taken back after `patience`, at once if `None`.
    fn collect(&self, slot: usize, patience: Option<Duration>) -> Result<Asked> {
        let mut looks = 0u32;
        let mut begun = None;
        let mut own = None;
        let is_patient = || {
            looks += 1;
            patience.is_some_and(|patience| {
                if !looks.is_multiple_of(LOOKS) {
                    return true;
                }
                // Two that ask each other at once would both be disappointed.
                if let Some(assist) = own.get_or_insert_with(Assist::of_process) {
                    assist.serve();
                }
                begun.get_or_insert_with(Instant::now).elapsed() < patience
            })
        };
        match slots::collect(&*self.segment, slot, is_patient, self.peer.awaited()) {
            Ok(Offered::Answered(Some(_))) => Ok(Asked::Done),
            Ok(Offered::Answered(None)) => Ok(Asked::Refused),
            Ok(Offered::TakenBack) => Ok(Asked::NotTakenUp),
            Err(why) => Err(self.peer.unanswered(&why)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
