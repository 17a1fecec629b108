//! What all collectives share: the pipes, and the check that all ranks are in the same call.

use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use super::barrier::{Barrier, barrier_bytes};
use super::call::{Announcement, Call, Kind, mismatch};
use super::pipe::{PIPE_BYTES, Pipe};
use super::team::Team;
use crate::error::{Error, Misuse, Result};
use crate::job::{Awaited, not_forked};
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE};
use crate::wait::Verdict;

/// Where the barrier's flags start, behind the word of the current call.
pub(crate) const BARRIER_AT: u64 = LINE;

/// Bytes of control block that a communicator takes.
pub(crate) fn block_bytes(rounds: u32) -> u64 {
    BARRIER_AT + barrier_bytes(rounds) + 2 * u64::from(rounds) * PIPE_BYTES
}

/// In which direction around the circle of ranks a pipe leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Ahead,
    Back,
}

/// The part of a communicator that one collective at a time uses.
pub(crate) struct Engine {
    team: Team,
    block: Arc<ControlBlock>,
    blocks: Arc<Column<u64>>,
    ahead: Vec<Pipe>,
    back: Vec<Pipe>,
    barrier: Arc<Barrier>,
    announcement: Announcement,
    calls: u32,
    /// Whether a call failed here: then the ranks are out of step, and what peers still write to
    /// the block is not known.
    failed: bool,
}

const HEADER: usize = 16;

/// How far an exchange has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    Moved,
    Stuck,
}

impl Engine {
    pub(crate) fn new(
        team: &Team,
        block: &Arc<ControlBlock>,
        blocks: &Arc<Column<u64>>,
        barrier: &Arc<Barrier>,
    ) -> Self {
        let rounds = team.rounds();
        let start = BARRIER_AT + barrier_bytes(rounds);
        let place = |number: u32| start + u64::from(number) * PIPE_BYTES;
        let pipes = |way: Way| {
            (0..rounds)
                .map(|round| {
                    let (ahead, behind) = (team.ahead(1 << round), team.behind(1 << round));
                    match way {
                        Way::Ahead => Pipe::new(ahead, behind, block, place(round)),
                        Way::Back => Pipe::new(behind, ahead, block, place(rounds + round)),
                    }
                })
                .collect()
        };
        Self {
            team: team.clone(),
            block: block.clone(),
            blocks: blocks.clone(),
            ahead: pipes(Way::Ahead),
            back: pipes(Way::Back),
            barrier: barrier.clone(),
            announcement: Announcement::new(block),
            calls: 0,
            failed: false,
        }
    }

    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    /// Begins a collective: every rank of the team has to begin the same one.
    pub(crate) fn begin(&mut self, kind: Kind, root: u32) -> Result<Call> {
        if self.failed {
            return Err(Error::new(kind.name(), Misuse::OutOfStep));
        }
        not_forked(kind.name())?;
        self.calls = self.calls.wrapping_add(1);
        let call = Call::new(self.calls, kind, root);
        let pipes = self.ahead.iter().chain(&self.back);
        let behind = pipes.flat_map(Pipe::pending).chain(self.barrier.pending());
        self.announcement.begin(call, behind);
        Ok(call)
    }

    /// One step: sends to the rank 2^round off in this direction, and receives from the one at
    /// that distance on the other side. `None`: nothing goes that way.
    pub(crate) fn exchange(
        &mut self,
        call: Call,
        way: Way,
        round: u32,
        send: Option<&[u8]>,
        receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let result = self.try_exchange(call, way, round, send, receive);
        if result.is_err() {
            self.note_failure();
        }
        result
    }

    fn try_exchange(
        &mut self,
        call: Call,
        way: Way,
        round: u32,
        send: Option<&[u8]>,
        mut receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let operation = call.kind().map_or("collective", Kind::name);
        let pipe = match way {
            Way::Ahead => &mut self.ahead[round as usize],
            Way::Back => &mut self.back[round as usize],
        };
        let (team, blocks) = (&self.team, &*self.blocks);
        let announcement = &self.announcement;
        let (to, from) = (pipe.to, pipe.from);
        // Whom this step still waits for: a rank that has done its part may be elsewhere by now.
        let awaited = Cell::new([None; 2]);
        let message = send.map(|bytes| (header(call, bytes.len()), bytes));
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
                    if received == HEADER {
                        check_header(&header_in, call, bytes.len(), from, operation)?;
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
        // What a mismatch is judged by may have changed with the last bytes: it has to be found
        // twice, with a step between.
        let suspects = Cell::new([None; 2]);
        let check = || {
            announcement.publish_if_settled();
            let now = awaited.get();
            let before = suspects.replace(now);
            for (rank, before) in now.into_iter().zip(before) {
                let Some(rank) = rank else { continue };
                let world = Awaited::Rank(team.world_rank(rank));
                team.context.check(operation, world)?;
                if before == Some(rank) {
                    announcement.check_same(team, blocks, rank, operation)?;
                }
            }
            Ok(())
        };
        // Patience starts anew whenever bytes move: it is for waits in which nothing does.
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
                return Ok(());
            }
        }
    }

    /// Notes that the current call failed here, and lets others that wait for this rank know.
    #[cold]
    pub(crate) fn note_failure(&mut self) {
        self.failed = true;
        self.announcement.fail();
    }

    /// Fails if `rank` is in another collective than this rank; to be asked in a long wait.
    pub(crate) fn check_same_call(&self, rank: u32, operation: &'static str) -> Verdict<'_> {
        self.announcement.publish_if_settled();
        let announcement = &self.announcement;
        announcement.check_same(&self.team, &self.blocks, rank, operation)
    }
}

impl Drop for Engine {
    /// A rank may be through with its last call, and drop the communicator, before its receivers
    /// have read all of it. They still write how far they are into this rank's block.
    fn drop(&mut self) {
        if self.failed {
            mem::forget(self.block.clone());
            return;
        }
        let pipes = self.ahead.iter().chain(&self.back);
        self.block.retire_until(pipes.map(Pipe::last_word));
    }
}

fn header(call: Call, len: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&call.0.to_ne_bytes());
    header[8..].copy_from_slice(&(len as u64).to_ne_bytes());
    header
}

fn check_header(
    header: &[u8; HEADER],
    ours: Call,
    our_len: usize,
    from: u32,
    operation: &'static str,
) -> Result<()> {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| header[at + i]));
    let (theirs, their_len) = (Call(word(0)), word(8));
    if theirs != ours {
        return Err(mismatch(operation, from, ours, theirs));
    }
    if their_len != our_len as u64 {
        return Err(mismatch(
            operation,
            from,
            format_args!("{our_len} bytes"),
            format_args!("{their_len} bytes"),
        ));
    }
    Ok(())
}
