//! What all collectives share: the pipes, and the agreement that all ranks make the same call.

use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use super::barrier::{Barrier, barrier_bytes};
use super::call::{Begun, CALL_BYTES, Call};
use super::pipe::{PIPE_BYTES, Pipe};
use super::team::Team;
use crate::error::{AbortCause, Error, ErrorKind, Misuse, PeerError, Result};
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;
use crate::peers::{Awaited, not_forked};
use crate::terms::WorldRank;

/// Where the barrier's flags start, behind the call.
pub(crate) const BARRIER_AT: u64 = CALL_BYTES;

/// Bytes of control block that a communicator takes.
pub(crate) fn block_bytes(rounds: u32) -> u64 {
    BARRIER_AT + barrier_bytes(rounds) + 2 * u64::from(rounds) * PIPE_BYTES
}

/// In which direction around the circle of ranks a pipe leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
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
    calls: u32,
    /// The current call, and what tells it from others.
    operation: &'static str,
    digest: u64,
    /// Whether a call failed here: then no later one is made, since the ranks are out of step.
    failed: bool,
    /// Whether one failed halfway: then what peers still write to the block is not known.
    adrift: bool,
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
        let pipes = |direction: Direction| {
            (0..rounds)
                .map(|round| {
                    let (ahead, behind) = (team.ahead(1 << round), team.behind(1 << round));
                    match direction {
                        Direction::Ahead => Pipe::new(ahead, behind, block, place(round)),
                        Direction::Back => Pipe::new(behind, ahead, block, place(rounds + round)),
                    }
                })
                .collect()
        };
        Self {
            team: team.clone(),
            block: block.clone(),
            blocks: blocks.clone(),
            ahead: pipes(Direction::Ahead),
            back: pipes(Direction::Back),
            barrier: barrier.clone(),
            calls: 0,
            operation: "collective",
            digest: 0,
            failed: false,
            adrift: false,
        }
    }

    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    /// Begins a collective, which every rank of the team has to begin alike: fails on all of them, and
    /// before anything is sent, if one does not, or if it says of its own arguments that they do not
    /// fit. After that, none makes another call. Where all are refused alike, all go on.
    pub(crate) fn begin(
        &mut self,
        operation: &'static str,
        call: Call,
        fit: Result<()>,
    ) -> Result<()> {
        not_forked(operation)?;
        if self.failed {
            return Err(Error::new(operation, Misuse::OutOfStep));
        }
        self.calls = self.calls.wrapping_add(1);
        let (team, blocks) = (&self.team, &*self.blocks);
        let begun = Begun::new(call, self.calls, &fit, &self.block, team, blocks);
        self.operation = operation;
        self.digest = begun.call.digest();
        let agreed = (self.barrier).wait(operation, &begun, team, blocks, &|_| Ok(()));
        if let Err(error) = agreed {
            let known = match error.kind() {
                ErrorKind::Misuse(_) => true,
                _ => error.is_known_everywhere(),
            };
            self.failed = true;
            if !known {
                return Err(self.give_up(error));
            }
            fit?;
            return Err(error);
        }
        fit
    }

    /// One step: sends to the rank 2^round off in this direction, and receives from the one at
    /// that distance on the other side. `None`: nothing goes that way.
    pub(crate) fn exchange(
        &mut self,
        direction: Direction,
        round: u32,
        send: Option<&[u8]>,
        receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let result = self.try_exchange(direction, round, send, receive);
        result.map_err(|error| self.give_up(error))
    }

    /// This rank does not do what others wait for. Where they do not know of it, they see only that it
    /// lives: so it tells them that the job ends.
    #[cold]
    fn give_up(&mut self, error: Error) -> Error {
        self.failed = true;
        self.adrift = true;
        let garbled = matches!(error.kind(), ErrorKind::Peer(PeerError::Garbled { .. }));
        if garbled || error.is_of_this_rank() {
            (self.team.context).abort_everywhere(AbortCause::CollectiveFailed);
        }
        error
    }

    fn try_exchange(
        &mut self,
        direction: Direction,
        round: u32,
        send: Option<&[u8]>,
        mut receive: Option<&mut [u8]>,
    ) -> Result<()> {
        let (operation, digest) = (self.operation, self.digest);
        let pipe = match direction {
            Direction::Ahead => &mut self.ahead[round as usize],
            Direction::Back => &mut self.back[round as usize],
        };
        let (team, blocks) = (&self.team, &*self.blocks);
        let (to, from) = (pipe.to, pipe.from);
        // Whom this step still waits for: a rank that has done its part may be elsewhere by now.
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
                    // All have agreed on what they send.
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
                .try_for_each(|rank| team.context.check(operation, rank))
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
}

impl Drop for Engine {
    /// A rank may be through with its last call, and drop the communicator, before its receivers
    /// have read all of it. They still write how far they are into this rank's block.
    fn drop(&mut self) {
        if self.adrift {
            mem::forget(self.block.clone());
            return;
        }
        let pipes = self.ahead.iter().chain(&self.back);
        self.block.retire_until(pipes.map(Pipe::last_word));
    }
}

fn header(digest: u64, len: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&digest.to_ne_bytes());
    header[8..].copy_from_slice(&(len as u64).to_ne_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::comm::Communicator;
    use crate::memory::control::LINE;
    use crate::peers::ranks_in_process;
    use crate::wait::Patience;

    #[test]
    fn a_rank_that_cannot_go_on_does_not_leave_the_others_waiting() {
        let ranks = ranks_in_process("soft", 3, Patience::suspicious());
        // In how much of what rank 0 sends its receiver has read, which nobody else writes so early.
        let at = BARRIER_AT + barrier_bytes(2) + LINE;
        let block = ranks[0].world_block();
        block.word(at).store(u64::MAX, Ordering::Relaxed);
        let errors = thread::scope(|scope| {
            let call = |context| {
                let world = Communicator::world(context);
                let error = world.allgather(&[1_u8]).unwrap_err();
                let again = world.barrier().unwrap_err();
                assert!(again.to_string().contains("out of step"), "{again}");
                error.to_string()
            };
            let threads = ranks
                .iter()
                .map(|context| scope.spawn(move || call(context)));
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert!(
            errors[0].contains("a count of bytes in a pipe"),
            "{errors:?}"
        );
        let told = "allgather: the job was aborted because rank 0 read from another what makes no \
                    sense";
        assert_eq!(errors[1..], [told, told]);
    }
}
