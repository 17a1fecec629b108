//! Transfers by the hand of a thread of the peer that waits, which takes a fraction of what the kernel takes for a few
//! bytes. They go in pieces, so that the peer copies one while this process copies the next.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::SoftEndpoint;
use crate::device::batch::{Batch, LocalPiece};
use crate::soft::hands::Hand;
use crate::soft::request::{self, Operation, Request};
use crate::soft::scattered;
use crate::soft::slots::{self, Offered, Slots, Unanswered};
use crate::soft::table;
use crate::{Access, Error, RemoteAddress, Result};

/// The kernel is as soon with more in one place.
const MOST: usize = 8 << 10;
const PIECE: usize = 1 << 10;
/// The longest pieces of batches with which hands are sooner than the kernel, which takes a third of a microsecond for each.
const SHORT: usize = 512;
/// Requests under way at a time.
const DEPTH: usize = 8;

/// How long a request waits to be taken up, and how long where nobody says that he would. Of many parts, with which the
/// kernel takes longer, so many times as long at the most.
const LONGEST: Duration = Duration::from_micros(3);
const MOST_PATIENT: u32 = 8;
const LONGEST_HOPE: Duration = Duration::from_micros(1);
/// Who sleeps is called when so many parts were moved by the kernel: to wake somebody takes as long as to move two or three.
const WORTH_A_CALL: u32 = 16;
/// Looks at a slot between two at the clock.
const LOOKS: u32 = 8;
/// Of requests that nobody took up though somebody had said he would: at the most so many go by the kernel then.
const MOST_SKIPPED: u32 = 1 << 10;

/// What is known of the peer's threads.
#[derive(Default)]
pub(super) struct Experience {
    /// The last request was taken up: who waits again and again may be about to, without having said so.
    was_served: AtomicBool,
    /// So many requests are not made, and how many there will be after the next disappointment: a thread that lends its
    /// hand may have lost its processor to another.
    skip: AtomicU32,
    skip_next: AtomicU32,
    /// Parts that the kernel moved since they were last called.
    missed: AtomicU32,
}

impl Experience {
    /// How long a request may wait for what the kernel would move in so many parts; `None`: better not make one.
    fn patience(&self, slots: &impl Slots, parts: usize) -> Option<Duration> {
        let hands = slots.hands();
        if !hands.are_lent() {
            let missed =
                self.missed.load(Ordering::Relaxed) + parts.min(WORTH_A_CALL as usize) as u32;
            if missed < WORTH_A_CALL {
                self.missed.store(missed, Ordering::Relaxed);
                hands.want();
            } else {
                self.missed.store(0, Ordering::Relaxed);
                hands.call();
            }
            let was_served = self.was_served.load(Ordering::Relaxed);
            return was_served.then_some(LONGEST_HOPE);
        }
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return None;
        }
        Some(LONGEST * (parts as u32).clamp(1, MOST_PATIENT))
    }

    fn note(&self, served: bool, patience: Duration) {
        if self.was_served.load(Ordering::Relaxed) != served {
            self.was_served.store(served, Ordering::Relaxed);
        }
        let next = self.skip_next.load(Ordering::Relaxed);
        if served && next != 0 {
            self.skip_next.store(0, Ordering::Relaxed);
        } else if !served && patience >= LONGEST {
            self.skip.store(next, Ordering::Relaxed);
            let next = (2 * next + 1).min(MOST_SKIPPED);
            self.skip_next.store(next, Ordering::Relaxed);
        }
    }
}

/// The pieces of a batch, so many together as one request takes.
struct Groups {
    pieces: Vec<(LocalPiece, RemoteAddress)>,
    groups: Vec<Group>,
}

struct Group {
    /// Of the pieces.
    members: Range<usize>,
    /// Where at the peer the first of them is and the last ends, wherever these are in the list.
    low: u64,
    high: u64,
    bytes: usize,
}

impl Group {
    fn new(index: usize, address: u64) -> Self {
        Self {
            members: index..index,
            low: address,
            high: address,
            bytes: 0,
        }
    }

    fn is_full(&self, len: usize) -> bool {
        self.members.len() == scattered::MOST || self.bytes + len > scattered::MOST_BYTES
    }

    fn add(&mut self, address: u64, len: usize) {
        self.members.end += 1;
        self.low = self.low.min(address);
        self.high = self.high.max(address.saturating_add(len as u64));
        self.bytes += len;
    }
}

impl Groups {
    /// Whether hands are sooner than the kernel, as far as a look at the first piece tells.
    fn are_worth_it(batch: &Batch<'_>) -> bool {
        batch.pieces.first().is_some_and(|piece| piece.len <= SHORT)
    }

    /// `None` for what the kernel is as soon with, or a request has no room for.
    fn of(batch: &Batch<'_>) -> Option<Self> {
        let first = batch.runs.first()?;
        let mut pieces = Vec::with_capacity(batch.pieces.len());
        let mut groups = Vec::with_capacity(batch.pieces.len().div_ceil(scattered::MOST));
        let mut group = Group::new(0, first.at.address);
        for (piece, at) in batch.each() {
            if piece.len > SHORT || at.rkey != first.at.rkey {
                return None;
            }
            if group.is_full(piece.len) {
                let next = Group::new(pieces.len(), at.address);
                groups.push(std::mem::replace(&mut group, next));
            }
            group.add(at.address, piece.len);
            pieces.push((piece, at));
        }
        groups.push(group);
        let are_near = groups
            .iter()
            .all(|group| group.high - group.low <= u32::MAX.into());
        are_near.then_some(Self { pieces, groups })
    }

    /// Where at the peer the first piece is, and where the last ends.
    fn hull(&self) -> (u64, u64) {
        let low = self.groups.iter().map(|group| group.low).min();
        let high = self.groups.iter().map(|group| group.high).max();
        (low.unwrap_or(0), high.unwrap_or(0))
    }

    fn members(&self, which: usize) -> &[(LocalPiece, RemoteAddress)] {
        &self.pieces[self.groups[which].members.clone()]
    }
}

/// The pieces that transfers are asked for in: which bytes the one is about.
fn piece(len: usize, which: usize) -> Range<usize> {
    let start = which * PIECE;
    start..len.min(start + PIECE)
}

impl SoftEndpoint {
    /// Moves what the peer's hands take up, and has the rest moved `by_kernel`, at once where they take up nothing.
    ///
    /// # Safety
    /// `local` is readable (for a write) or writable (for a read) for `len` bytes.
    pub(super) unsafe fn transfer_by_hand(
        &self,
        operation: Operation,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
        by_kernel: impl Fn(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let patience = match len <= MOST && self.options.hands {
            true => self.experience.patience(&*self.port, 1),
            false => None,
        };
        let Some(patience) = patience else {
            return by_kernel(0..len);
        };
        let is_write = operation == Operation::Write;
        let asked = |which| {
            let bytes = piece(len, which);
            let there = local.wrapping_add(bytes.start);
            (
                Request::of(operation, 0, at, bytes.start, bytes.len()),
                there,
            )
        };
        let fill = |which, slot| {
            let (request, there) = asked(which);
            let send = if is_write {
                there.cast_const()
            } else {
                ptr::null()
            };
            // SAFETY: the slot is claimed; a part of what the caller promises.
            unsafe { request.fill(&self.port, slot, send) };
        };
        let take = |which, slot| {
            if !is_write {
                let (request, there) = asked(which);
                // SAFETY: the slot was filled with this request and is answered; a part of what the caller promises.
                unsafe { request.take(&self.port, slot, there) };
            }
        };
        let left = self.ask_hands(patience, len.div_ceil(PIECE), fill, take)?;
        // Mostly all from some piece on.
        left.chunk_by(|one, next| one + 1 == *next)
            .try_for_each(|row| {
                let (first, last) = (row[0], row[row.len() - 1]);
                by_kernel(piece(len, first).start..piece(len, last).end)
            })
    }

    /// Moves what the peer's hands take up of a batch, and returns the rest; `None` if they were not asked, as for what
    /// the region does not allow.
    ///
    /// # Safety
    /// The pieces are readable (for a write) or writable (for a read).
    pub(super) unsafe fn batch_by_hand(
        &self,
        operation: Operation,
        batch: &Batch<'_>,
    ) -> Result<Option<Vec<(LocalPiece, RemoteAddress)>>> {
        let may_ask = self.options.hands && Groups::are_worth_it(batch);
        let (Some(first), true) = (batch.runs.first(), may_ask) else {
            return Ok(None);
        };
        let Some(patience) = self.experience.patience(&*self.port, batch.pieces.len()) else {
            return Ok(None);
        };
        let is_write = operation == Operation::Write;
        let (operation, need) = match is_write {
            true => (Operation::Scatter, Access::WRITE),
            false => (Operation::Gather, Access::READ),
        };
        let rkey = first.at.rkey;
        let groups = Groups::of(batch).filter(|groups| {
            let (low, high) = groups.hull();
            table::allows(&self.port, rkey, low, high - low, need).is_ok()
        });
        let Some(groups) = groups else {
            return Ok(None);
        };
        let fill = |which: usize, slot| {
            let group = &groups.groups[which];
            let pieces = groups.members(which).iter().map(|(piece, at)| {
                let offset = (at.address - group.low) as u32;
                (offset, piece.len as u32, piece.base.cast_const())
            });
            // SAFETY: the slot is claimed, and groups are no larger than allowed; the pieces are the caller's promise.
            let runs = unsafe { scattered::fill(self.port.slot_data(slot), pieces, is_write) };
            let request = Request {
                operation,
                width: runs as u32,
                rkey,
                address: group.low,
                len: (group.high - group.low) as usize,
                operands: [0; 2],
            };
            request.sign(&self.port, slot);
        };
        let take = |which: usize, slot| {
            if !is_write {
                let pieces = groups.members(which).iter();
                let pieces = pieces.map(|(piece, _)| (piece.base, piece.len));
                // SAFETY: the slot was filled with this group, and is answered; the caller's promise.
                unsafe { scattered::take(self.port.slot_data(slot), pieces) };
            }
        };
        let left = self.ask_hands(patience, groups.groups.len(), fill, take)?;
        let left = left.iter().flat_map(|&which| groups.members(which));
        Ok(Some(left.copied().collect()))
    }

    /// Asks for `count` things in turn, several at a time: `fill` writes the request for one into a slot, `take` what there
    /// is in its answer. Returns which were not done.
    fn ask_hands(
        &self,
        patience: Duration,
        count: usize,
        mut fill: impl FnMut(usize, usize),
        mut take: impl FnMut(usize, usize),
    ) -> Result<Vec<usize>> {
        let mut slots = [0; DEPTH];
        let (mut begun, mut ended) = (0, 0);
        let mut left = Vec::new();
        let mut result = Ok(());
        while ended < count {
            while left.is_empty() && begun < count && begun - ended < DEPTH {
                let Some(slot) = request::claim_now(&self.port, self.own) else {
                    break;
                };
                fill(begun, slot);
                slots::offer(self.port.slot(slot));
                slots[begun % DEPTH] = slot;
                begun += 1;
            }
            if ended == begun {
                // Nobody serves any more, or others have all slots.
                left.extend(ended..count);
                break;
            }
            let slot = slots[ended % DEPTH];
            let patience = left.is_empty().then_some(patience);
            match self.collect(slot, patience) {
                Ok(true) => {
                    take(ended, slot);
                    slots::give_back(self.port.slot(slot));
                }
                Ok(false) => {
                    slots::give_back(self.port.slot(slot));
                    left.push(ended);
                }
                Err(error) => {
                    // Its slot is as the peer left it, which is gone.
                    left.push(ended);
                    result = Err(error);
                }
            }
            ended += 1;
        }
        self.experience.note(left.is_empty(), patience);
        result.map(|()| left)
    }

    /// Whether what was asked for was done. It is taken back after `patience`, at once if `None`.
    fn collect(&self, slot: usize, patience: Option<Duration>) -> Result<bool> {
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
                if let Some(hand) = own.get_or_insert_with(Hand::of_process) {
                    hand.serve();
                }
                begun.get_or_insert_with(Instant::now).elapsed() < patience
            })
        };
        match slots::collect(&*self.port, slot, is_patient, || self.peer.runs()) {
            Ok(Offered::Answered(answer)) => Ok(answer.is_some()),
            Ok(Offered::TakenBack) => Ok(false),
            Err(Unanswered::Gone | Unanswered::NoAgent) => {
                Err(Error::PeerGone { pid: self.peer.pid })
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
