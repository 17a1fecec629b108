//! Asking a peer's agent to do what cannot be done from outside: what goes into a slot.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::port::{SLOT_BYTES, SoftPort};
use super::process::ProcessId;
use super::slots::{self, SLOTS, Slots, Unanswered};
use crate::memory::copy;
use crate::{Error, RemoteAddress, Result};

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
    /// For `len` bytes that are `offset` bytes on from a place; `width` is that of their words.
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

    /// Has the agent behind `port` carry this out, and waits until it has. Returns the old value
    /// of an atomic, or `None` if there is no agent: then nothing was done.
    ///
    /// # Safety
    /// `send` (or null) is readable and `receive` (or null) writable for `len` bytes.
    pub(crate) unsafe fn ask(
        &self,
        port: &SoftPort,
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
        let answer = match slots::exchange(port, index, || peer.runs()) {
            Ok(answer) => answer,
            Err(Unanswered::NoAgent) => return Ok(None),
            Err(Unanswered::Gone) => return Err(Error::PeerGone { pid: peer.pid }),
        };
        if answer.is_some() && !receive.is_null() {
            // SAFETY: the caller vouches for `receive`; an answered slot's data is ours.
            unsafe { copy(receive, port.slot_data(index), self.len) };
        }
        slots::give_back(slot);
        match answer {
            Some(old) => Ok(Some(old)),
            None => Err(self.refused(peer, "the target's agent refused it")),
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

fn claim(port: &SoftPort, peer: ProcessId) -> Result<usize> {
    let own = std::process::id();
    let mut round = 0u32;
    loop {
        if let Some(index) = slots::claim(port, SLOTS, own as usize, own) {
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
            for index in 0..SLOTS {
                slots::free_if_dead(port.slot(index), is_gone);
            }
        }
    }
}

fn is_gone(pid: u32) -> bool {
    !std::path::Path::new("/proc").join(pid.to_string()).exists()
}
