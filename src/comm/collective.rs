//! What all collectives share: the agreement that all ranks make the same call.

use std::sync::Arc;

use super::barrier::Barrier;
use super::call::{Begun, CALL_BYTES, Call};
use super::team::Team;
use crate::error::{AbortCause, Error, ErrorKind, Misuse, PeerError, Result};
use crate::liveness::Awaited;
use crate::memory::columns::Column;
use crate::memory::control::ControlBlock;
use crate::peers::not_forked;

/// The offset of the barrier's flags, which follow the call.
pub(crate) const BARRIER_AT: u64 = CALL_BYTES;

/// The state of one collective.
pub(super) struct Core {
    pub(super) team: Team,
    pub(super) block: Arc<ControlBlock>,
    pub(super) blocks: Arc<Column<u64>>,
    barrier: Arc<Barrier>,
    /// Numbers the collectives, for ranks that are out of step, and wraps for all of them at the same call.
    calls: u32,
    /// The current call, and the digest that distinguishes it from others.
    pub(super) operation: &'static str,
    pub(super) digest: u64,
    /// Whether a call failed here. Then no later call is made, since the ranks are out of step. It is unknown which
    /// words of the block peers still read or write.
    pub(super) failed: bool,
}

impl Core {
    pub(super) fn new(
        team: &Team,
        block: &Arc<ControlBlock>,
        blocks: &Arc<Column<u64>>,
        barrier: &Arc<Barrier>,
    ) -> Self {
        Self {
            team: team.clone(),
            block: block.clone(),
            blocks: blocks.clone(),
            barrier: barrier.clone(),
            calls: 0,
            operation: "collective",
            digest: 0,
            failed: false,
        }
    }

    /// See [`Carrier::begin`](super::carrier::Carrier::begin).
    pub(super) fn begin(
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
        let check = |from| team.check(operation, Awaited::Rank(team.world_rank(from)));
        let agreed = (self.barrier).wait(operation, &begun, team, blocks, &check);
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

    /// Records that this rank fails in a collective. If the others cannot know, aborts the job: they see that this
    /// rank is alive, and would wait for it.
    #[cold]
    pub(super) fn give_up(&mut self, error: Error) -> Error {
        self.failed = true;
        let garbled = matches!(error.kind(), ErrorKind::Peer(PeerError::Garbled { .. }));
        if garbled || error.is_of_this_rank() {
            (self.team.context).abort_everywhere(AbortCause::CollectiveFailed);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::comm::barrier::barrier_bytes;
    use crate::comm::team::Rings;
    use crate::comm::{Communicator, Group};
    use crate::memory::control::LINE;
    use crate::peers::ranks_in_process;
    use crate::wait::Patience;

    #[test]
    fn a_rank_that_cannot_go_on_does_not_leave_the_others_waiting() {
        let ranks = ranks_in_process("soft", 3, Patience::suspicious());
        // In how much of what rank 0 sends its receiver has read, which nobody else writes so early.
        let rings = Rings::new(ranks[0].hosts(), &Group::world(3), 0);
        let at = BARRIER_AT + barrier_bytes(&rings) + LINE;
        let block = ranks[0].world_block();
        block.word(at).store(u64::MAX, Ordering::Relaxed);
        let errors = thread::scope(|scope| {
            let call = |context| {
                let world = Communicator::world(context);
                let error = world.allgather(&[1_u8]).unwrap_err();
                let again = world.barrier().unwrap_err();
                assert!(again.to_string().contains("the job was aborted"), "{again}");
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
