//! Asking a peer's agent to do what cannot be done from outside: the slot protocol, origin's side.
//!
//! A slot goes round FREE → CLAIMED (by an origin) → READY → SERVING (by the agent) → DONE → FREE.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::futex;
use super::port::{Port, SLOT_BYTES, SLOTS, Slot};
use super::process::ProcessId;
use crate::memory::copy;
use crate::{Error, Result};

pub(crate) const FREE: u32 = 0;
pub(crate) const CLAIMED: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const SERVING: u32 = 3;
pub(crate) const DONE: u32 = 4;

/// What an agent can do. The numbers stand in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Operation {
    Write = 1,
    Read = 2,
    FetchAdd = 3,
    CompareSwap = 4,
    AddEach = 5,
    StoreEach = 6,
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
        ]
        .into_iter()
        .find(|operation| *operation as u32 == code)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::AddEach => "atomic add",
            Self::StoreEach => "atomic store",
        }
    }
}

pub(crate) const STATUS_OK: u32 = 0;
pub(crate) const STATUS_REFUSED: u32 = 1;

/// One request; `len` counts bytes, at most [`SLOT_BYTES`].
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
    /// Has the agent behind `port` carry this out, and waits until it has. Returns the old value
    /// of an atomic, or `None` if there is no agent: then nothing was done.
    ///
    /// # Safety
    /// `send` (or null) is readable and `receive` (or null) writable for `len` bytes.
    pub(crate) unsafe fn ask(
        &self,
        port: &Port,
        peer: ProcessId,
        send: *const u8,
        receive: *mut u8,
    ) -> Result<Option<u64>> {
        assert!(self.len <= SLOT_BYTES);
        let index = claim(port, peer)?;
        let slot = port.slot(index);
        slot.operation
            .store(self.operation as u32, Ordering::Relaxed);
        slot.width.store(self.width, Ordering::Relaxed);
        slot.rkey.store(self.rkey, Ordering::Relaxed);
        slot.address.store(self.address, Ordering::Relaxed);
        slot.len.store(self.len as u64, Ordering::Relaxed);
        slot.operands[0].store(self.operands[0], Ordering::Relaxed);
        slot.operands[1].store(self.operands[1], Ordering::Relaxed);
        if !send.is_null() {
            // SAFETY: the caller vouches for `send`; the slot's data is ours while it is CLAIMED
            // and `len` was checked above.
            unsafe { copy(port.slot_data(index), send, self.len) };
        }
        slot.state.store(READY, Ordering::Release);
        ring(port, index);
        match wait_done(port, index, peer) {
            Ok(()) => {}
            Err(None) => return Ok(None),
            Err(Some(error)) => return Err(error),
        }
        let status = slot.status.load(Ordering::Relaxed);
        let old = slot.result.load(Ordering::Relaxed);
        if status == STATUS_OK && !receive.is_null() {
            // SAFETY: the caller vouches for `receive`; a DONE slot's data is ours.
            unsafe { copy(receive, port.slot_data(index), self.len) };
        }
        give_back(slot);
        if status == STATUS_OK {
            Ok(Some(old))
        } else {
            Err(self.refused(peer, "the target's agent refused it"))
        }
    }

    pub(crate) fn refused(&self, peer: ProcessId, reason: &'static str) -> Error {
        Error::RemoteAccess {
            need: self.operation.name(),
            address: self.address,
            len: self.len as u64,
            pid: peer.pid,
            host: None,
            rkey: self.rkey,
            reason,
        }
    }
}

fn take(slot: &Slot, from: u32) -> bool {
    let taken = slot
        .state
        .compare_exchange(from, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
        .is_ok();
    if taken {
        slot.owner.store(std::process::id(), Ordering::Relaxed);
    }
    taken
}

/// A free slot has no owner: a new one that has claimed it, but not yet signed, must not be taken
/// for the last one, which may be dead.
fn give_back(slot: &Slot) {
    slot.owner.store(0, Ordering::Relaxed);
    slot.state.store(FREE, Ordering::Release);
}

fn claim(port: &Port, peer: ProcessId) -> Result<usize> {
    let first = std::process::id() as usize;
    let mut round = 0u32;
    loop {
        let free = (0..SLOTS)
            .map(|i| (first + i) % SLOTS)
            .find(|&index| take(port.slot(index), FREE));
        if let Some(index) = free {
            return Ok(index);
        }
        round += 1;
        if round < 100 {
            std::thread::yield_now();
            continue;
        }
        std::thread::sleep(Duration::from_millis(1));
        if round.is_multiple_of(100) {
            if !peer.runs() {
                return Err(Error::PeerGone { pid: peer.pid });
            }
            free_slots_of_the_dead(port);
        }
    }
}

/// An origin that died in the middle of a request leaves its slot claimed or done for ever.
fn free_slots_of_the_dead(port: &Port) {
    for index in 0..SLOTS {
        let slot = port.slot(index);
        let state = slot.state.load(Ordering::Relaxed);
        let owner = slot.owner.load(Ordering::Relaxed);
        if matches!(state, CLAIMED | DONE)
            && owner != 0
            && !std::path::Path::new("/proc")
                .join(owner.to_string())
                .exists()
        {
            // One cleaner gets it; nobody else writes the owner of a slot that is taken.
            let cleared =
                slot.owner
                    .compare_exchange(owner, 0, Ordering::Relaxed, Ordering::Relaxed);
            if cleared.is_ok() {
                slot.state.store(FREE, Ordering::Release);
            }
        }
    }
}

fn ring(port: &Port, index: usize) {
    let bell = port.bell();
    bell.ready.fetch_or(1 << index, Ordering::SeqCst);
    wake_agent(port);
}

pub(crate) fn wake_agent(port: &Port) {
    let bell = port.bell();
    bell.rung.fetch_add(1, Ordering::SeqCst);
    if bell.sleeping.load(Ordering::SeqCst) != 0 {
        futex::wake(&bell.rung);
    }
}

/// Waits for DONE. `Err(None)` means that there is no agent, and the slot was freed again.
fn wait_done(port: &Port, index: usize, peer: ProcessId) -> std::result::Result<(), Option<Error>> {
    let slot = port.slot(index);
    let done = || slot.state.load(Ordering::Acquire) == DONE;
    for round in 0..200 {
        if done() {
            return Ok(());
        }
        if round < 100 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    loop {
        // An agent that leaves clears `running` first and then looks once more at every slot.
        let retracted = port.bell().running.load(Ordering::SeqCst) == 0
            && slot
                .state
                .compare_exchange(READY, CLAIMED, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        if retracted {
            port.bell().ready.fetch_and(!(1 << index), Ordering::SeqCst);
            give_back(slot);
            return Err(None);
        }
        sleep_on(slot);
        if done() {
            return Ok(());
        }
        if !peer.runs() {
            return Err(Some(Error::PeerGone { pid: peer.pid }));
        }
    }
}

fn sleep_on(slot: &Slot) {
    let state: &AtomicU32 = &slot.state;
    slot.sleeping.store(1, Ordering::SeqCst);
    let seen = state.load(Ordering::SeqCst);
    if seen != DONE {
        futex::wait(state, seen, Duration::from_millis(50));
    }
    slot.sleeping.store(0, Ordering::Relaxed);
}
