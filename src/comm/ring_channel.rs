//! The pipes of a ring of ranks: to each rank that is 2^round places ahead, from each that is as far behind.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::collective::Core;
use super::pipe::{PIPE_BYTES, Pipe};
use super::ring::Ring;
use crate::diagnostics;
use crate::error::{Error, PeerError, Result, SystemError};
use crate::liveness::Awaited;
use crate::memory::control::ControlBlock;
use crate::terms::WorldRank;

/// Bytes of the control block that a ring of `rounds` rounds takes.
pub(super) fn ring_channel_bytes(rounds: u32) -> u64 {
    u64::from(rounds) * PIPE_BYTES
}

/// The pipes of a ring.
pub(super) struct RingChannel {
    pub(super) ring: Ring,
    /// By round.
    pipes: Vec<Pipe>,
}

impl RingChannel {
    /// `start`: the offset of its pipes in every rank's block.
    pub(super) fn new(ring: Ring, block: &Arc<ControlBlock>, start: u64) -> Self {
        let pipe = |round: u32| {
            let (ahead, behind) = (ring.ahead(1 << round), ring.behind(1 << round));
            let at = start + u64::from(round) * PIPE_BYTES;
            Pipe::new(ahead, behind, block, at)
        };
        Self {
            pipes: (0..ring.rounds()).map(pipe).collect(),
            ring,
        }
    }

    /// For a collective of `core`.
    pub(super) fn with<'e>(&'e mut self, core: &'e mut Core) -> InRingChannel<'e> {
        InRingChannel {
            core,
            channel: self,
        }
    }

    /// The acknowledgements that receivers still write into this rank's block.
    pub(super) fn last_words(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pipes.iter().map(Pipe::last_word)
    }
}

/// A collective among the ranks of a ring channel.
pub(super) struct InRingChannel<'e> {
    core: &'e mut Core,
    channel: &'e mut RingChannel,
}

/// Bytes of the header of a message.
pub(crate) const HEADER: usize = 16;

/// The state of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    Moved,
    Stuck,
}

impl InRingChannel<'_> {
    pub(super) fn ring(&self) -> &Ring {
        &self.channel.ring
    }

    pub(super) fn team_size(&self) -> u32 {
        self.core.team.size()
    }

    /// A buffer for the bytes that the rank 2^round behind will send. If an allocation failed later, the process would
    /// end.
    pub(super) fn room_for(&mut self, round: u32, bytes: u64) -> Result<Vec<u8>> {
        if bytes > isize::MAX as u64 {
            return Err(self.garbled(round, "the length of the data"));
        }
        let mut room = Vec::new();
        if room.try_reserve_exact(bytes as usize).is_err() {
            let what = format!("{bytes} bytes for data on its way");
            let source = io::ErrorKind::OutOfMemory.into();
            let error = Error::new(self.core.operation, SystemError::Io { what, source });
            return Err(self.core.give_up(error));
        }
        room.resize(bytes as usize, 0);
        Ok(room)
    }

    /// Reports malformed data from the rank 2^round behind.
    #[cold]
    pub(super) fn garbled(&mut self, round: u32, what: &'static str) -> Error {
        let from = self.channel.pipes[round as usize].from;
        let WorldRank(rank) = self.core.team.world_rank(from);
        let error = Error::new(self.core.operation, PeerError::Garbled { rank, what });
        self.core.give_up(error)
    }

    /// One step: sends to the rank 2^round ahead, and receives from the rank 2^round behind. `None`: no bytes in that
    /// direction.
    pub(super) fn exchange(
        &mut self,
        round: u32,
        send: Option<&[u8]>,
        receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let result = self.try_exchange(round, send, receive);
        result.map_err(|error| self.core.give_up(error))
    }

    fn try_exchange(
        &mut self,
        round: u32,
        send: Option<&[u8]>,
        mut receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let core = &*self.core;
        let (operation, digest) = (core.operation, core.digest);
        let pipe = &mut self.channel.pipes[round as usize];
        let (team, blocks) = (&core.team, &*core.blocks);
        let (to, from) = (pipe.to, pipe.from);
        // The ranks for which this step still waits: a rank that has done its part may be elsewhere by now.
        let awaited = Cell::new([None; 2]);
        let message = send.map(|bytes| (header(digest, bytes.len()), bytes));
        let mut sent = 0;
        let mut header_in = [0; HEADER];
        let mut received = 0;
        let mut before = 0;
        let mut step = || -> Result<Step> {
            let mut waiting = [None; 2];
            if let Some((header, bytes)) = &message {
                while sent < HEADER + bytes.len() {
                    let part = match sent.checked_sub(HEADER) {
                        None => &header[sent..],
                        Some(at) => &bytes[at..],
                    };
                    let some = pipe.try_send(team, blocks, part);
                    match some.map_err(|error| team.blame(operation, to, error))? {
                        0 => break,
                        some => sent += some,
                    }
                }
                waiting[0] = (sent < HEADER + bytes.len()).then_some(to);
            }
            if let Some(bytes) = receive.as_deref_mut() {
                while received < HEADER + bytes.len() {
                    let part = match received.checked_sub(HEADER) {
                        None => &mut header_in[received..],
                        Some(at) => &mut bytes[at..],
                    };
                    let some = pipe.try_receive(team, blocks, part);
                    match some.map_err(|error| team.blame(operation, from, error))? {
                        0 => break,
                        some => received += some,
                    }
                    // All ranks have agreed on what they send.
                    if received == HEADER && header_in != header(digest, bytes.len()) {
                        let what = "a message in a pipe";
                        let WorldRank(rank) = team.world_rank(from);
                        return Err(Error::new(operation, PeerError::Garbled { rank, what }));
                    }
                }
                waiting[1] = (received < HEADER + bytes.len()).then_some(from);
            }
            awaited.set(waiting);
            let moved = sent + received;
            let progress = moved > before;
            before = moved;
            Ok(match waiting {
                [None, None] => Step::Done,
                _ if progress => Step::Moved,
                _ => Step::Stuck,
            })
        };
        let check = || {
            let awaited = awaited.get().into_iter().flatten();
            awaited
                .map(|rank| Awaited::Rank(team.world_rank(rank)))
                .try_for_each(|rank| team.check(operation, rank))
        };
        // Patience restarts whenever bytes move.
        loop {
            let mut last = step()?;
            if last == Step::Stuck {
                let moves = || {
                    last = step()?;
                    Ok(last != Step::Stuck)
                };
                let patience = team.context.patience().at_leisure();
                patience.wait(moves, &check)?;
            }
            if last == Step::Done {
                break;
            }
        }
        if let Some((header, bytes)) = message
            && diagnostics::counts_traffic()
        {
            let bytes = header.len() + bytes.len();
            diagnostics::note_message(pipe.sends_here(), bytes as u64);
        }
        Ok(())
    }
}

fn header(digest: u64, len: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&digest.to_ne_bytes());
    header[8..].copy_from_slice(&(len as u64).to_ne_bytes());
    header
}
