//! A byte stream between two ranks, made of one-sided writes: the sender writes into a ring in the
//! receiver's control block, and the receiver writes back how far it has read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::team::Team;
use crate::error::{Error, PeerError, Result};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE};
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::memory::word::SharedWord;

const RING: u64 = 8 << 10;
/// The receiver says how far it has read at every multiple of this: the sender is not out of room
/// before, and knows which word is the last.
const STEP: u64 = RING / 2;
/// Bytes of control block for one pipe: the word of the sender that writes to us, the word of the
/// receiver that we write to, and the ring.
pub(crate) const PIPE_BYTES: u64 = RINGS_AT + RING;
const WRITTEN_AT: u64 = 0;
const READ_AT: u64 = LINE;
const RINGS_AT: u64 = 2 * LINE;

/// How many of `len` bytes a sender writes at once, behind the `sent` first ones, of which its receiver has read `read`. None:
/// that cannot be.
pub(crate) fn piece(sent: u64, read: u64, len: u64) -> Option<u64> {
    let room = RING.checked_sub(sent.checked_sub(read)?)?;
    Some(len.min(room).min(RING - sent % RING))
}

/// What a receiver of `received` bytes says that it has read, if it is time: it said `acknowledged` last.
pub(crate) fn acknowledgement(received: u64, acknowledged: u64) -> Option<u64> {
    (received - acknowledged >= STEP).then(|| received - received % STEP)
}

/// This rank's ends of two streams: out to `to`, in from `from`.
pub(crate) struct Pipe {
    pub(crate) to: u32,
    pub(crate) from: u32,
    /// Where in every rank's block this pipe's bytes are.
    at: u64,
    block: Arc<ControlBlock>,
    sent: u64,
    received: u64,
    /// What the sender to us was last told of `received`.
    acknowledged: u64,
    outlet: Option<Outlet>,
    /// Where the sender to us reads how far we have read.
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

    /// Sends as much of `bytes` as there is room for; says how much.
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

    /// Receives what is there, up to the whole of `bytes`; says how much.
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
                // A sender that is gone has sent all that it meant to.
                Err(error) if error.is_absence() => {}
                other => other?,
            }
        }
        Ok(len as usize)
    }

    /// Whether what is sent is stored in mapped memory, once something was.
    pub(super) fn sends_here(&self) -> bool {
        let outlet = self.outlet.as_ref();
        outlet.is_some_and(|outlet| outlet.written.is_stored_here())
    }

    /// Where in the block our receiver's last word about what we sent arrives, and which it is.
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
