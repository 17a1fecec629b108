//! The dissemination barrier: in round r, tell the rank 2^r ahead and wait for the rank 2^r back.

mod dissemination;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rdma_sys_shim::Ticket;

use super::team::Team;
use crate::error::{Error, Misuse, Result};
use crate::job::Awaited;
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE, LocalWord};
use crate::memory::remote::{Pending, RemoteWord};
use crate::memory::word::SharedWord;
use crate::wait::Verdict;
use dissemination::{Disagreement, Rounds, epoch_of, flag};

/// Bytes of control block that a barrier of `rounds` rounds takes.
pub(crate) const fn barrier_bytes(rounds: u32) -> u64 {
    rounds as u64 * LINE
}

/// For what a rank comes to a barrier. The numbers travel in the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Barrier = 1,
    Fence = 2,
    Passive = 3,
    Free = 4,
    /// It has found in an earlier round that others came for something else.
    Disagreement = 5,
}

impl Purpose {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Fence => "fence",
            Self::Passive => "passive",
            Self::Free => "free",
            Self::Disagreement => "a call that others did not make",
        }
    }

    fn of_flag(flag: u64) -> Option<Self> {
        use Purpose::{Barrier, Disagreement, Fence, Free, Passive};
        [Barrier, Fence, Passive, Free, Disagreement]
            .into_iter()
            .find(|purpose| *purpose as u8 == flag as u8)
    }
}

pub(crate) struct Barrier {
    /// Where in every rank's block the flags start.
    at: u64,
    block: Arc<ControlBlock>,
    rounds: Box<[OnceLock<Round>]>,
    epoch: AtomicU64,
}

struct Round {
    signal: RemoteWord,
    /// The ticket of the last signal.
    sent: AtomicU64,
    flag: LocalWord,
}

impl Barrier {
    pub(crate) fn new(team: &Team, block: &Arc<ControlBlock>, at: u64) -> Self {
        Self {
            at,
            block: block.clone(),
            rounds: (0..team.rounds()).map(|_| OnceLock::new()).collect(),
            epoch: AtomicU64::new(0),
        }
    }

    /// Collective. Threads of one rank must not overlap in it. In a long wait, `check` is asked
    /// about the rank that is waited for.
    #[inline]
    pub(crate) fn wait<'v>(
        &self,
        operation: &'static str,
        purpose: Purpose,
        team: &Team,
        blocks: &Column<u64>,
        check: &dyn Fn(u32) -> Verdict<'v>,
    ) -> Result<()> {
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        let passing = Passing {
            barrier: self,
            operation,
            team,
            blocks,
            check,
        };
        match dissemination::pass(&passing, epoch, purpose)? {
            None => Ok(()),
            Some(Disagreement { round, flag }) => {
                let rank = team.behind(1 << round);
                Err(disagreement(operation, purpose, rank, flag))
            }
        }
    }

    /// What a rank that is in its last barrier tells others about it.
    pub(crate) fn call(&self, purpose: Purpose) -> u64 {
        flag(self.epoch.load(Ordering::Relaxed), purpose)
    }

    /// What for a rank that told `call` waits for this one: it is in a barrier to which this rank has
    /// not come.
    pub(crate) fn awaits_this_rank(&self, call: u64) -> Option<Purpose> {
        let ahead = epoch_of(call) > self.epoch.load(Ordering::Relaxed);
        ahead.then(|| Purpose::of_flag(call)).flatten()
    }

    #[inline]
    fn round(&self, team: &Team, blocks: &Column<u64>, number: usize) -> Result<&Round> {
        match self.rounds[number].get() {
            Some(round) => Ok(round),
            None => self.prepare(team, blocks, number),
        }
    }

    /// The last signals, as far as they have not arrived yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = Pending> + '_ {
        self.rounds
            .iter()
            .filter_map(OnceLock::get)
            .filter_map(|round| {
                let sent = Ticket(round.sent.load(Ordering::Relaxed));
                round.signal.pending(sent)
            })
    }

    #[cold]
    fn prepare(&self, team: &Team, blocks: &Column<u64>, number: usize) -> Result<&Round> {
        let at = self.at + number as u64 * LINE;
        let round = Round {
            sent: AtomicU64::new(Ticket::DONE.0),
            signal: team.word(team.ahead(1 << number), blocks, at)?,
            flag: LocalWord::new(&self.block, at),
        };
        Ok(self.rounds[number].get_or_init(|| round))
    }
}

/// One call of [`Barrier::wait`].
struct Passing<'a, 'v> {
    barrier: &'a Barrier,
    operation: &'static str,
    team: &'a Team,
    blocks: &'a Column<u64>,
    check: &'a dyn Fn(u32) -> Verdict<'v>,
}

impl Passing<'_, '_> {
    #[inline]
    fn round(&self, number: usize) -> Result<&Round> {
        self.barrier.round(self.team, self.blocks, number)
    }
}

impl Rounds for Passing<'_, '_> {
    #[inline]
    fn count(&self) -> usize {
        self.barrier.rounds.len()
    }

    #[inline]
    fn signal(&self, number: usize, flag: u64) -> Result<()> {
        let sent = self.round(number).and_then(|round| {
            let sent = round.signal.store(flag)?;
            round.sent.store(sent.0, Ordering::Relaxed);
            Ok(())
        });
        sent.map_err(|error| {
            let ahead = self.team.ahead(1 << number);
            self.team.blame(self.operation, ahead, error)
        })
    }

    #[inline]
    fn heard(&self, number: usize) -> Result<u64> {
        Ok(self.round(number)?.flag.atomic().observe())
    }

    #[cold]
    fn wait(&self, number: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()> {
        let from = self.team.behind(1 << number);
        let context = &self.team.context;
        context.patience().at_leisure().wait(arrived, || {
            let awaited = Awaited::Rank(self.team.world_rank(from));
            context.check(self.operation, awaited)?;
            (self.check)(from)
        })
    }
}

#[cold]
fn disagreement(operation: &'static str, ours: Purpose, rank: u32, flag: u64) -> Error {
    let theirs = Purpose::of_flag(flag).map_or("something unknown", Purpose::name);
    let misuse = Misuse::Mismatch {
        rank,
        ours: ours.name().to_owned(),
        theirs: theirs.to_owned(),
    };
    Error::new(operation, misuse)
}
