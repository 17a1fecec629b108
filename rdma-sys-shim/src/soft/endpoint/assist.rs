//! Requests to waiting threads of the peer, which move bytes in a fraction of the time that the kernel takes. Requests
//! are sent while the peer says that one of its threads polls, or has just done so. A long transfer takes several
//! requests, so that the peer carries out one while this process fills the next.
//!
//! If no thread takes a request within some microseconds, the origin takes it back and uses the kernel: for the next two
//! transfers, or MiB of a long run, and for twice as many after each further miss, until a request is taken. Misses while a thread polls, and
//! while one has just done so, count apart: a peer may compute and wait in turn. After some transfers by the kernel, the
//! origin calls a thread of the peer that sleeps in a wait; this thread stays awake while requests arrive, and at most
//! half a millisecond longer. A run of several MiB looks for it again after each. If the peer is stopped in the middle of
//! a copy, the origin waits for it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::device::batch::StridedBlocks;
use crate::primitive::milliseconds;
use crate::soft::packed::{Packed, cut};
use crate::soft::peer::PeerProcess;
use crate::soft::request::{self, AT_ONCE, Operation, Request};
use crate::soft::segment::Segment;
use crate::soft::select;
use crate::soft::slots::{self, Offered, Slots};

/// Checks of a slot between two readings of the clock.
const LOOKS: u32 = 8;
/// Milliseconds between two searches for slots of dead processes.
const SWEEP_EVERY: u32 = 100;

/// The most transfers that do without a request after one that was not taken up: some tenths of a millisecond if
/// they are short.
const LONGEST_PAUSE: u32 = 256;

/// What this process knows about waiting threads of the peer.
#[derive(Default)]
pub(super) struct AssistState {
    /// Misses while a thread polls, and while one has just done so. The second one's index is 1.
    misses: [Misses; 2],
    /// For which of them the last request counts. Threads may change it for each other.
    last: AtomicUsize,
    /// Parts that the kernel has moved since the last call to a sleeping thread.
    parts: AtomicUsize,
    /// The time of the last search for slots of dead processes.
    swept: AtomicU32,
    /// A thread polls, whatever the peer says. It is waited for nearly as long as an offer is valid.
    #[cfg(test)]
    is_sure: std::sync::atomic::AtomicBool,
}

/// Requests that no thread has taken up, since one last did. The thread that polled may have lost its processor, or do
/// something else.
#[derive(Default)]
struct Misses {
    count: AtomicU32,
    /// The number of transfers that do without a request, for this reason: twice as many after each miss.
    pause: AtomicU32,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Done,
    Refused,
    /// Refused when a part may have been done: the rest of the memory is no longer mapped with the necessary right.
    Faulted,
    NotTakenUp,
}

impl AssistState {
    /// Whether a thread of the peer polls for requests, and takes them. If not, the kernel is about to move `parts`;
    /// after [`select::WORTH_A_CALL`] of them, this calls a sleeping thread.
    pub(super) fn poll(&self, segment: &Segment, parts: usize) -> bool {
        #[cfg(test)]
        if self.is_sure.load(Ordering::Relaxed) {
            return true;
        }
        let words = segment.assist();
        let polls = words.are_polled();
        if polls || words.were_passed() {
            let which = usize::from(!polls);
            let pause = &self.misses[which].pause;
            let left = pause.load(Ordering::Relaxed);
            if left == 0 {
                self.last.store(which, Ordering::Relaxed);
                return true;
            }
            pause.store(left - 1, Ordering::Relaxed);
        }
        let parts = parts.saturating_add(self.parts.load(Ordering::Relaxed));
        let calls = parts >= select::WORTH_A_CALL;
        self.parts
            .store(if calls { 0 } else { parts }, Ordering::Relaxed);
        if calls {
            words.call();
        }
        false
    }

    fn misses(&self) -> &Misses {
        &self.misses[self.last.load(Ordering::Relaxed)]
    }

    fn note_miss(&self) {
        let misses = self.misses();
        let count = misses.count.load(Ordering::Relaxed).saturating_add(1);
        misses.count.store(count, Ordering::Relaxed);
        let pause = 1 << count.min(LONGEST_PAUSE.ilog2());
        misses.pause.store(pause, Ordering::Relaxed);
    }

    fn note_hit(&self) {
        let count = &self.misses().count;
        if count.load(Ordering::Relaxed) != 0 {
            count.store(0, Ordering::Relaxed);
        }
    }

    fn patience(&self, patience: Duration) -> Duration {
        #[cfg(test)]
        if self.is_sure.load(Ordering::Relaxed) {
            return Duration::from_millis(50);
        }
        patience
    }

    /// Requests transfers of parts. Returns the parts that nobody moved, which the peer may have refused. Answers go to
    /// `results`, which are as long as the parts.
    ///
    /// # Safety
    /// The parts are readable if the operation sends them, and the results writable.
    pub(super) unsafe fn ask<P: Iterator<Item = StridedBlocks> + Clone>(
        &self,
        (segment, peer): (&Segment, &PeerProcess),
        operation: Operation,
        parts: P,
        results: Option<P>,
    ) -> Result<Vec<StridedBlocks>> {
        let of_requests = |parts: P| cut(parts, select::OF_ASSIST);
        let (mut next, mut ending) = (of_requests(parts.clone()), of_requests(parts));
        let mut results = results.map(of_requests);
        let mut asked: [Option<(usize, Packed)>; AT_ONCE] = [None; AT_ONCE];
        let (mut begun, mut ended) = (0, 0);
        let mut left = Vec::new();
        let mut result = Ok(());
        loop {
            // Until the first is answered, a few, since nobody may take them.
            let most = if ended == 0 { 2 } else { AT_ONCE };
            while left.is_empty() && begun - ended < most {
                let packed = Packed::of(operation, next.clone(), select::OF_ASSIST);
                let Some(packed) = packed else {
                    break;
                };
                let Some(slot) = request::claim_now(segment, peer.own(), begun % AT_ONCE) else {
                    // All slots belong to other threads, or to dead processes.
                    if ended == begun {
                        self.sweep(segment, peer);
                    }
                    break;
                };
                // SAFETY: the slot is claimed; the caller's promise.
                unsafe { packed.fill(segment, slot, next.by_ref().take(packed.count)) };
                slots::offer(segment.slot(slot), milliseconds());
                asked[begun % AT_ONCE] = Some((slot, packed));
                begun += 1;
            }
            let Some((slot, packed)) = asked[ended % AT_ONCE].take() else {
                break;
            };
            ended += 1;
            let these = ending.by_ref().take(packed.count);
            let answers = results
                .as_mut()
                .map(|results| results.by_ref().take(packed.count));
            let waits = left.is_empty();
            let patience = self.patience(match ended {
                1 => select::PATIENCE_ALONE,
                _ => select::PATIENCE_BEHIND,
            });
            let answer = collect(segment, peer, slot, waits.then_some(patience));
            match (&answer, answers) {
                (Ok(Asked::Done), Some(answers)) => {
                    these.for_each(drop);
                    // SAFETY: the slot was filled with this request, and is answered; the caller's promise.
                    unsafe { packed.take(segment, slot, answers) };
                }
                (Ok(Asked::Done), None) => these.for_each(drop),
                (_, answers) => {
                    answers.into_iter().flatten().for_each(drop);
                    these.for_each(|part| push(&mut left, part));
                }
            }
            match answer {
                Ok(answer) => {
                    match answer {
                        Asked::NotTakenUp if waits => self.note_miss(),
                        Asked::NotTakenUp => {}
                        Asked::Done | Asked::Refused | Asked::Faulted => self.note_hit(),
                    }
                    slots::give_back(segment.slot(slot));
                }
                // The peer is gone, and its slot keeps its state.
                Err(error) => result = Err(error),
            }
        }
        ending.for_each(|part| push(&mut left, part));
        result.map(|()| left)
    }

    /// Requests one run. False if nobody did it, or the peer refused it. The overhead is little more than passing the
    /// request and its answer.
    ///
    /// # Safety
    /// `send` is null, or readable for the request's length, and `receive` null, or writable.
    pub(super) unsafe fn ask_for_one(
        &self,
        there: (&Segment, &PeerProcess),
        request: Request,
        send: *const u8,
        receive: *mut u8,
    ) -> Result<bool> {
        let (segment, _) = there;
        // SAFETY: the slot is claimed; the caller's promise.
        let fill = |slot| unsafe { request.fill(segment, slot, send) };
        let take = |slot| {
            if !receive.is_null() {
                // SAFETY: the slot was filled with this request, and is answered; the caller's promise.
                unsafe { request.take(segment, slot, receive) };
            }
        };
        let answer = self.ask_with(there, fill, take)?;
        Ok(answer == Asked::Done)
    }

    /// As [`ask_for_one`](Self::ask_for_one). `fill` writes the request into a claimed slot, and `take` copies the answer.
    pub(super) fn ask_with(
        &self,
        (segment, peer): (&Segment, &PeerProcess),
        fill: impl FnOnce(usize),
        take: impl FnOnce(usize),
    ) -> Result<Asked> {
        let Some(slot) = request::claim_now(segment, peer.own(), 0) else {
            self.sweep(segment, peer);
            return Ok(Asked::NotTakenUp);
        };
        fill(slot);
        slots::offer(segment.slot(slot), milliseconds());
        // On an error, the peer is gone, and the slot keeps its state.
        let answer = collect(
            segment,
            peer,
            slot,
            Some(self.patience(select::PATIENCE_ALONE)),
        )?;
        match answer {
            Asked::Done => {
                self.note_hit();
                take(slot);
            }
            Asked::Refused | Asked::Faulted => self.note_hit(),
            Asked::NotTakenUp => self.note_miss(),
        }
        slots::give_back(segment.slot(slot));
        Ok(answer)
    }

    /// Searches for slots of dead processes, which takes a while.
    fn sweep(&self, segment: &Segment, peer: &PeerProcess) {
        let now = milliseconds();
        let swept = self.swept.load(Ordering::Relaxed);
        if swept == 0 || now.wrapping_sub(swept) >= SWEEP_EVERY {
            self.swept.store(now, Ordering::Relaxed);
            request::free_those_of_the_dead(segment, peer.own());
        }
    }
}

/// Adds an unmoved part to a list. Joins it to the last one if they were one run before the split.
fn push(left: &mut Vec<StridedBlocks>, part: StridedBlocks) {
    if let Some(last) = left.last_mut() {
        let (here, at) = (
            last.here.wrapping_add(last.len),
            last.at.moved(last.len as i64),
        );
        if last.count == 1 && part.count == 1 && (here, at) == (part.here, part.at) {
            last.len += part.len;
            return;
        }
    }
    left.push(part);
}

/// The outcome of a request. Takes the request back after `patience`; at once if `None`.
fn collect(
    segment: &Segment,
    peer: &PeerProcess,
    slot: usize,
    patience: Option<Duration>,
) -> Result<Asked> {
    let mut looks = 0u32;
    let mut begun = None;
    let is_patient = || {
        looks += 1;
        patience.is_some_and(|patience| {
            !looks.is_multiple_of(LOOKS)
                || begun.get_or_insert_with(Instant::now).elapsed() < patience
        })
    };
    match slots::collect(segment, slot, is_patient, peer.awaited()) {
        Ok(Offered::Answered(Some(_))) => Ok(Asked::Done),
        Ok(Offered::Answered(None)) => match segment.slot(slot).width.load(Ordering::Relaxed) {
            request::FAULTED => Ok(Asked::Faulted),
            _ => Ok(Asked::Refused),
        },
        Ok(Offered::TakenBack) => Ok(Asked::NotTakenUp),
        Err(why) => Err(peer.unanswered(&why)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
