//! Asking a peer's agent to do what cannot be done from outside, or a thread of its that waits: what goes into a slot.

use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::peer::PeerProcess;
use super::process::ProcessId;
use super::segment::{SLOT_BYTES, Segment};
use super::slots::{self, SLOTS, Slots, Unanswered};
use crate::memory::copy;
use crate::sharing::stretched;
use crate::{Access, Direction, Error, RemoteAddress, Result};

/// The operations of an agent. Their numbers appear in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Operation {
    Write = 1,
    Read = 2,
    FetchAdd = 3,
    CompareSwap = 4,
    AddEach = 5,
    StoreEach = 6,
    /// Writes to a list of pieces, or reads from it (`iovec`): `width` is the length of the list, and `len` the range
    /// of bytes that contains them.
    Scatter = 7,
    Gather = 8,
    /// An accumulate, which `width` describes; `len` is that of the elements in memory. The operands are the address and
    /// the key of the lock. [`combined`] says where the data travels.
    Combine = 9,
}

impl From<Direction> for Operation {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Write => Self::Write,
            Direction::Read => Self::Read,
        }
    }
}

impl Operation {
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [
            Self::Write,
            Self::Read,
            Self::FetchAdd,
            Self::CompareSwap,
            Self::AddEach,
            Self::StoreEach,
            Self::Scatter,
            Self::Gather,
            Self::Combine,
        ]
        .into_iter()
        .find(|operation| *operation as u32 == code)
    }

    /// The right that it needs.
    pub(crate) fn need(self) -> Access {
        match self {
            Self::Write | Self::Scatter => Access::WRITE,
            Self::Read | Self::Gather => Access::READ,
            // Elements that are updated without a lock need atomics, too.
            Self::Combine => Access::READ.and(Access::WRITE),
            Self::FetchAdd | Self::CompareSwap | Self::AddEach | Self::StoreEach => Access::ATOMIC,
        }
    }

    /// The buffer that a transfer sends from, and the one that it receives into; one of them is null.
    pub(super) fn buffers(self, local: *mut u8) -> (*const u8, *mut u8) {
        match self {
            Self::Write => (local, ptr::null_mut()),
            _ => (ptr::null(), local),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write | Self::Scatter => "write",
            Self::Read | Self::Gather => "read",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::Combine => "accumulate",
            Self::AddEach => "atomic add",
            Self::StoreEach => "atomic store",
        }
    }
}

/// The `width` of a request that was refused because its memory is no longer mapped with the necessary right.
pub(super) const FAULTED: u32 = u32::MAX;
/// The `width` of an accumulate with which nothing was done because another process has the lock.
pub(super) const LOCKED_OUT: u32 = u32::MAX - 1;
/// The reason in errors about such memory, on either side.
pub(super) const TAKEN_AWAY: &str = "the memory is no longer mapped there with this right";

/// A request. `len` counts bytes; it is at most [`SLOT_BYTES`] if they are in the slot's data.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) width: u32,
    pub(crate) rkey: u64,
    pub(crate) address: u64,
    pub(crate) len: usize,
    pub(crate) operands: [u64; 2],
}

impl Request {
    /// A request for `len` bytes at `offset` from a place; `width` is the size of their words.
    pub(crate) fn of(
        operation: Operation,
        width: usize,
        at: RemoteAddress,
        offset: usize,
        len: usize,
    ) -> Self {
        Self {
            operation,
            width: width as u32,
            rkey: at.rkey,
            address: at.address.wrapping_add(offset as u64),
            len,
            operands: [0; 2],
        }
    }

    /// Asks the agent behind `segment` to carry this out, and waits for the answer. Returns the old value of an atomic.
    /// `None` if there is no agent; then nothing was done.
    ///
    /// # Safety
    /// `send` (or null) is readable and `receive` (or null) writable for `len` bytes.
    pub(crate) unsafe fn ask(
        &self,
        segment: &Segment,
        peer: &PeerProcess,
        send: *const u8,
        receive: *mut u8,
    ) -> Result<Option<u64>> {
        // SAFETY: the caller vouches for `send`; the slot is claimed.
        let fill = |slot| unsafe { self.fill(segment, slot, send) };
        let take = |slot| {
            if !receive.is_null() {
                // SAFETY: the caller vouches for `receive`; the slot was filled with this, and answered.
                unsafe { self.take(segment, slot, receive) };
            }
        };
        self.ask_with(segment, peer, fill, take)
    }

    /// As [`ask`](Self::ask). `fill` writes the request into a claimed slot, and `take` copies the answer. `None` also if
    /// an accumulate was locked out.
    pub(super) fn ask_with(
        &self,
        segment: &Segment,
        peer: &PeerProcess,
        fill: impl FnOnce(usize),
        take: impl FnOnce(usize),
    ) -> Result<Option<u64>> {
        let index = claim(segment, peer)?;
        fill(index);
        let answer = match slots::exchange(segment, index, peer.awaited()) {
            Ok(answer) => answer,
            Err(Unanswered::NoAgent) => return Ok(None),
            Err(why) => return Err(peer.unanswered(&why)),
        };
        if answer.is_some() {
            take(index);
        }
        let said = segment.slot(index).width.load(Ordering::Relaxed);
        slots::give_back(segment.slot(index));
        match (answer, said) {
            (Some(old), _) => Ok(Some(old)),
            (None, LOCKED_OUT) => Ok(None),
            (None, FAULTED) => Err(self.refused(peer, TAKEN_AWAY)),
            (None, _) => Err(self.refused(peer, "the target refused it")),
        }
    }

    /// Writes the request and the data that it sends into a slot.
    ///
    /// # Safety
    /// The slot is claimed. `send` is null or readable for `len` bytes.
    pub(super) unsafe fn fill(&self, segment: &Segment, index: usize, send: *const u8) {
        assert!(self.len <= SLOT_BYTES);
        self.sign(segment, index);
        if !send.is_null() {
            // SAFETY: the caller vouches for `send`; the slot's data is its claimer's, and has room for `len`.
            unsafe {
                copy(
                    data(segment, index, self.operation, self.len),
                    send,
                    self.len,
                )
            };
        }
    }

    /// Writes the request into a claimed slot, without data.
    pub(super) fn sign(&self, segment: &Segment, index: usize) {
        let slot = segment.slot(index);
        slot.operation
            .store(self.operation as u32, Ordering::Relaxed);
        slot.width.store(self.width, Ordering::Relaxed);
        slot.rkey.store(self.rkey, Ordering::Relaxed);
        slot.address.store(self.address, Ordering::Relaxed);
        slot.len.store(self.len as u32, Ordering::Relaxed);
        slot.operands[0].store(self.operands[0], Ordering::Relaxed);
        slot.operands[1].store(self.operands[1], Ordering::Relaxed);
    }

    /// Copies the data that the server put into the slot.
    ///
    /// # Safety
    /// The slot was filled with this request, and is answered. `receive` is writable for `len` bytes.
    pub(super) unsafe fn take(&self, segment: &Segment, index: usize, receive: *mut u8) {
        // SAFETY: the caller's promises; an answered slot's data is its claimer's.
        unsafe {
            copy(
                receive,
                data(segment, index, self.operation, self.len),
                self.len,
            )
        };
    }

    pub(crate) fn refused(&self, peer: &PeerProcess, reason: &'static str) -> Error {
        let at = RemoteAddress {
            address: self.address,
            rkey: self.rkey,
        };
        peer.refusal(self.operation.name(), at, self.len as u64, reason)
    }
}

/// Requests of one process to a peer that can be under way at once. They use different slots if there are enough:
/// checking a taken slot would pull its cache line away from the threads that use it.
pub(super) const AT_ONCE: usize = 8;

/// Data of at most this length travels in the slot's own cache line.
pub(super) const INLINE: usize = size_of::<[u64; 3]>();

/// The data of a slot: [`SLOT_BYTES`]. Short transfers use the operands, which transfers do not need.
pub(super) fn data(segment: &Segment, index: usize, operation: Operation, len: usize) -> *mut u8 {
    let is_transfer = matches!(operation, Operation::Write | Operation::Read);
    match is_transfer && len <= INLINE {
        true => (&raw const segment.slot(index).operands).cast_mut().cast(),
        false => segment.slot_data(index),
    }
}

/// Where the data of an accumulate travels: what is sent, and what is fetched. A word of either is in the slot's own cache
/// line, and what is fetched replaces the address of the lock there.
pub(super) fn combined(
    segment: &Segment,
    index: usize,
    sent: usize,
    fetched: usize,
) -> (*mut u8, *mut u8) {
    const WORD: usize = size_of::<u64>();
    let data = segment.slot_data(index);
    let operand = |nth: usize| {
        (&raw const segment.slot(index).operands[nth])
            .cast_mut()
            .cast()
    };
    let send = if sent <= WORD { operand(2) } else { data };
    let fetch = match fetched <= WORD {
        true => operand(0),
        false => data.wrapping_add(sent),
    };
    (send, fetch)
}

/// Claims a free slot of a peer for the process `own`, if there is one: preferably its `nth` of [`AT_ONCE`].
pub(super) fn claim_now(segment: &Segment, own: ProcessId, nth: usize) -> Option<usize> {
    let first = (own.pid as usize).wrapping_mul(AT_ONCE).wrapping_add(nth);
    slots::claim(segment, SLOTS, first, own.to_word())
}

fn claim(segment: &Segment, peer: &PeerProcess) -> Result<usize> {
    let mut round = 0u32;
    let mut may_wait = peer.awaited();
    loop {
        if let Some(index) = claim_now(segment, peer.own(), 0) {
            return Ok(index);
        }
        round += 1;
        if round < 100 {
            std::thread::yield_now();
            continue;
        }
        std::thread::sleep(stretched(Duration::from_millis(1)));
        if round.is_multiple_of(100) {
            may_wait().map_err(|why| peer.unanswered(&why))?;
            free_those_of_the_dead(segment, peer.own());
        }
    }
}

/// Frees the slots of processes that died during their requests.
pub(super) fn free_those_of_the_dead(segment: &Segment, own: ProcessId) {
    let is_dead = |owner| !ProcessId::word_exists(owner);
    for index in 0..SLOTS {
        slots::free_if_dead(segment.slot(index), own.to_word(), is_dead);
    }
}
