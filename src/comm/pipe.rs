//! A byte stream between two ranks, made of one-sided writes: the sender writes into a ring in the
//! receiver's control block, and the receiver writes back how far it has read.
//!
//! The sender writes data and then stores `written` at the receiver; the receiver stores `read` at the sender each time
//! it passes half of the ring. Each word has one writer and only grows. Both sides check that the counts are within one
//! ring of each other: an impossible value is an error that names the peer. When the communicator is dropped, its block
//! is reused once the last acknowledgement has arrived.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::team::Team;
use crate::error::{Error, PeerError, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE};
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::memory::word::SharedWord;

const RING: u64 = 8 << 10;
/// The receiver acknowledges at every multiple of this. So the sender does not run out of space before, and knows which
/// acknowledgement is the last.
const STEP: u64 = RING / 2;
/// Bytes of the control block for one pipe: the word of the sender that writes to us, the word of the receiver that we
/// write to, and the ring.
pub(crate) const PIPE_BYTES: u64 = RINGS_AT + RING;
const WRITTEN_AT: u64 = 0;
const READ_AT: u64 = LINE;
const RINGS_AT: u64 = 2 * LINE;

/// How many of `len` bytes a sender writes at once, after it has sent `sent` bytes, of which the receiver has read
/// `read`. `None`: these counts are impossible.
pub(crate) fn piece(sent: u64, read: u64, len: u64) -> Option<u64> {
    let room = RING.checked_sub(sent.checked_sub(read)?)?;
    Some(len.min(room).min(RING - sent % RING))
}

/// The count that a receiver of `received` bytes acknowledges, if one is due after `acknowledged`.
pub(crate) fn acknowledgement(received: u64, acknowledged: u64) -> Option<u64> {
    (received - acknowledged >= STEP).then(|| received - received % STEP)
}

/// This rank's ends of two streams: out to `to`, in from `from`.
pub(crate) struct Pipe {
    pub(crate) to: u32,
    pub(crate) from: u32,
    /// The offset of this pipe's bytes in every rank's block.
    at: u64,
    block: Arc<ControlBlock>,
    sent: u64,
    received: u64,
    /// The last count of `received` that our sender was told.
    acknowledged: u64,
    outlet: Option<Outlet>,
    /// The word at our sender that says how far we have read.
    inlet: Option<RemoteWord>,
}

struct Outlet {
    memory: Arc<RemoteMemory>,
    ring: u64,
    written: RemoteWord,
}

impl Pipe {
    pub(crate) fn new(to: u32, from: u32, block: &Arc<ControlBlock>, at: u64) -> Self {
        Self {
            to,
            from,
            at,
            block: block.clone(),
            sent: 0,
            received: 0,
            acknowledged: 0,
            outlet: None,
            inlet: None,
        }
    }

    /// Sends as many of `bytes` as there is space for; returns their number.
    pub(crate) fn try_send(
        &mut self,
        team: &Team,
        blocks: &Column<u64>,
        bytes: &[u8],
    ) -> Result<usize> {
        let read = self.block.word(self.at + READ_AT).load(Ordering::Acquire);
        let len = piece(self.sent, read, bytes.len() as u64).ok_or_else(|| garbled(self.to))?;
        if len == 0 {
            return Ok(0);
        }
        let start = self.sent % RING;
        let outlet = match &mut self.outlet {
            Some(outlet) => outlet,
            none => {
                let (memory, block) = team.connect_to(self.to)?.block(blocks.get(self.to))?;
                let at = block + self.at;
                none.insert(Outlet {
                    written: memory.word(at + WRITTEN_AT),
                    ring: at + RINGS_AT,
                    memory,
                })
            }
        };
        outlet
            .memory
            .write(outlet.ring + start, &bytes[..len as usize])?;
        self.sent += len;
        outlet.written.store(self.sent)?;
        Ok(len as usize)
    }

    /// Receives the bytes that have arrived, at most `bytes.len()`; returns their number.
    pub(crate) fn try_receive(
        &mut self,
        team: &Team,
        blocks: &Column<u64>,
        bytes: &mut [u8],
    ) -> Result<usize> {
        let written = self.block.word(self.at + WRITTEN_AT).observe();
        let start = self.received % RING;
        let unread = written
            .checked_sub(self.received)
            .filter(|&unread| unread <= RING)
            .ok_or_else(|| garbled(self.from))?;
        let len = (bytes.len() as u64).min(unread).min(RING - start);
        if len == 0 {
            return Ok(0);
        }
        let ring = self.at + RINGS_AT;
        self.block.read(ring + start, &mut bytes[..len as usize]);
        self.received += len;
        if let Some(read) = acknowledgement(self.received, self.acknowledged) {
            match self.acknowledge(team, blocks, read) {
                // A sender that is absent has already sent everything.
                Err(error) if error.is_absence() => {}
                other => other?,
            }
        }
        Ok(len as usize)
    }

    /// Whether sent bytes are stored to mapped memory, if any have been sent.
    pub(super) fn sends_here(&self) -> bool {
        let outlet = self.outlet.as_ref();
        outlet.is_some_and(|outlet| outlet.written.is_stored_here())
    }

    /// The offset in the block of our receiver's last acknowledgement, and its value.
    pub(super) fn last_word(&self) -> (u64, u64) {
        (self.at + READ_AT, self.sent - self.sent % STEP)
    }

    fn acknowledge(&mut self, team: &Team, blocks: &Column<u64>, read: u64) -> Result<()> {
        let inlet = match &self.inlet {
            Some(inlet) => inlet,
            None => {
                let word = team.word(self.from, blocks, self.at + READ_AT)?;
                self.inlet.insert(word)
            }
        };
        self.acknowledged = read;
        inlet.store(read)?;
        Ok(())
    }
}

#[cold]
fn garbled(rank: u32) -> Error {
    let what = "a count of bytes in a pipe";
    Error::new("collective", PeerError::Garbled { rank, what })
}
