//! Long transfers by the kernel from both sides: while this process has it copy pieces from the beginning on, a thread of the
//! peer's that waits has it copy pieces from the end on. Nothing goes by slots, so that it matters little where the two are.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::choice::Kind;
use super::{Asked, LONGEST_HOPE, SoftEndpoint};
use crate::soft::request::{Operation, Request};
use crate::soft::slots;
use crate::{RemoteAddress, Result};

/// Shorter transfers are not worth two calls of the kernel.
pub(super) const LEAST: usize = 64 << 10;
/// What is asked for at a time is one of so many parts, but not so short that the call takes as long as the copy, and not so
/// long that the peer would be late for what it waits for.
const PARTS: usize = 8;
const SHORTEST: usize = 32 << 10;
const LONGEST_PIECE: usize = 128 << 10;
const PAGE: usize = 4096;
/// As many requests are before the peer at a time, so that it has the next when it is done with one.
const AHEAD: usize = 2;
/// So much is worth as much of a call to who sleeps as one part that is short.
const WORTH_OF_A_PART: usize = 64 << 10;
/// After so many refusals the peer is not asked again: the kernel does not let it attach to this process.
pub(super) const MOST_REFUSALS: u32 = 3;
/// How long a thread that was killed may be at its last copy.
const LAST_COPY: Duration = Duration::from_secs(1);

/// A request that is under way: its slot, and which piece it is for.
type Asking = (usize, usize);

/// A transfer in pieces.
pub(super) struct LongTransfer {
    pub(super) operation: Operation,
    pub(super) local: *mut u8,
    pub(super) at: RemoteAddress,
    pub(super) len: usize,
    pub(super) of_each: usize,
}

impl LongTransfer {
    fn count(&self) -> usize {
        self.len.div_ceil(self.of_each)
    }

    fn range(&self, which: usize) -> Range<usize> {
        let start = which * self.of_each;
        start..self.len.min(start + self.of_each)
    }

    /// The peer copies to here what is read, and from here what is written.
    fn request(&self, which: usize, own: u32) -> Request {
        let bytes = self.range(which);
        let operation = match self.operation {
            Operation::Write => Operation::CopyFrom,
            _ => Operation::CopyTo,
        };
        let here = self.local.wrapping_add(bytes.start).expose_provenance();
        Request {
            operands: [here as u64, own.into()],
            ..Request::of(operation, 0, self.at, bytes.start, bytes.len())
        }
    }
}

impl SoftEndpoint {
    /// Moves what is long, with a thread of the peer's if that is sooner; `by_kernel` moves parts from here.
    ///
    /// # Safety
    /// `local` is readable (for a write) or writable (for a read) for `len` bytes.
    pub(super) unsafe fn transfer_by_both(
        &self,
        operation: Operation,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
        by_kernel: &dyn Fn(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let refusals = &self.experience.refusals;
        if refusals.load(Ordering::Relaxed) >= MOST_REFUSALS {
            return by_kernel(0..len);
        }
        let kind = match operation {
            Operation::Write => Kind::WriteByBoth,
            _ => Kind::ReadByBoth,
        };
        let by_hands = || {
            let patience = self.experience.patience(&*self.port, len / WORTH_OF_A_PART);
            if patience.is_none() {
                return by_kernel(0..len).map(|()| false);
            }
            let of_each = (len / PARTS).next_multiple_of(PAGE);
            let transfer = LongTransfer {
                operation,
                local,
                at,
                len,
                of_each: of_each.clamp(SHORTEST, LONGEST_PIECE),
            };
            // SAFETY: the caller's promise.
            unsafe { self.copy_from_both_ends(&transfer, by_kernel) }
        };
        let choices = &self.experience.choices;
        choices.carry_out_whole(kind, len, by_hands, || by_kernel(0..len))
    }

    /// Whether the peer took up any piece.
    ///
    /// # Safety
    /// As for [`Self::transfer_by_both`].
    pub(super) unsafe fn copy_from_both_ends(
        &self,
        transfer: &LongTransfer,
        by_kernel: &dyn Fn(Range<usize>) -> Result<()>,
    ) -> Result<bool> {
        let (mut front, mut back) = (0, transfer.count());
        let mut asking = Vec::<Asking>::with_capacity(AHEAD);
        let mut nth = 0;
        let mut is_served = false;
        let mut result = Ok(());
        while front < back && result.is_ok() {
            while asking.len() < AHEAD && front + 1 < back {
                let request = transfer.request(back - 1, self.own);
                let Some(slot) = self.offer(nth, |slot| request.sign(&self.port, slot)) else {
                    break;
                };
                (nth, back) = (nth + 1, back - 1);
                asking.push((slot, back));
            }
            result = by_kernel(transfer.range(front));
            front += 1;
            while result.is_ok()
                && let Some(&(slot, which)) = asking.first()
                && slots::is_over(&*self.port, slot)
            {
                asking.remove(0);
                match self.ended(slot) {
                    Ok(true) => is_served = true,
                    Ok(false) => result = by_kernel(transfer.range(which)),
                    Err(error) => result = Err(error),
                }
            }
        }
        // Also after an error: whoever is at a piece copies to or from memory that is the caller's again then. The last first,
        // which the peer comes to last.
        for (slot, which) in asking.into_iter().rev() {
            match self.ended(slot) {
                Ok(true) => is_served = true,
                Ok(false) if result.is_ok() => result = by_kernel(transfer.range(which)),
                Ok(false) => {}
                Err(error) => result = Err(error),
            }
        }
        self.experience.note(is_served, LONGEST_HOPE);
        result.map(|()| is_served)
    }

    /// Waits for whoever is at a request, or takes it back; whether it was done.
    fn ended(&self, slot: usize) -> Result<bool> {
        let asked = self.settle(slot).inspect_err(|_| {
            // A thread of its may be in the kernel still.
            self.peer.wait_for_threads(LAST_COPY);
        })?;
        let refusals = &self.experience.refusals;
        match asked {
            Asked::Done if refusals.load(Ordering::Relaxed) != 0 => {
                refusals.store(0, Ordering::Relaxed);
            }
            // The kernel does not let it, or the memory is not what it was.
            Asked::Refused => {
                refusals.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(asked == Asked::Done)
    }
}
