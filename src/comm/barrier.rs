//! The dissemination barrier: in round r, tell the rank 2^r ahead and wait for the rank 2^r back.
//!
//! The flags are epoch numbers compared with ≥, so nothing is ever reset, and a neighbour that is
//! one barrier ahead does no harm.
//!
//! Each flag also says for what its rank has come. A rank goes on to the next round only if the one
//! behind came for the same, so whoever is through knows that all ranks did: by induction, after
//! round r a rank agrees with the 2^(r+1) − 1 behind it. A rank that finds a disagreement still goes
//! through the rounds that are left, and says so in its flags: then every rank fails, and none waits.
//! It must not come to a later barrier, whose flags would take these back. So a neighbour that is one
//! barrier ahead was through this one, and agreed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rdma_sys_shim::Ticket;

use super::team::Team;
use crate::error::{Error, Misuse, Result};
use crate::job::Awaited;
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE, LocalWord};
use crate::memory::remote::{Pending, RemoteWord};

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

const PURPOSE_BITS: u32 = 8;

impl Purpose {
    fn name(self) -> &'static str {
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
    from: u32,
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
    pub(crate) fn wait(
        &self,
        operation: &'static str,
        purpose: Purpose,
        team: &Team,
        blocks: &Column<u64>,
        check: &dyn Fn(u32) -> Result<()>,
    ) -> Result<()> {
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        let mut came = epoch << PURPOSE_BITS | purpose as u64;
        let mut result = Ok(());
        for number in 0..self.rounds.len() {
            let absent = |error| team.blame(operation, team.ahead(1 << number), error);
            let round = match self.rounds[number].get() {
                Some(round) => round,
                None => self.prepare(team, blocks, number).map_err(absent)?,
            };
            let sent = round.signal.store(came).map_err(absent)?;
            round.sent.store(sent.0, Ordering::Relaxed);
            let flag = round.flag.atomic();
            let here = || flag.load(Ordering::Acquire);
            if here() >> PURPOSE_BITS < epoch {
                let arrived = || Ok(here() >> PURPOSE_BITS >= epoch);
                team.context.patience().wait(arrived, || {
                    let awaited = Awaited::Rank(team.world_rank(round.from));
                    team.context.check(operation, awaited)?;
                    check(round.from)
                })?;
            }
            let theirs = here();
            if theirs != came && theirs >> PURPOSE_BITS == epoch && result.is_ok() {
                result = Err(disagreement(operation, purpose, round.from, theirs));
                came = epoch << PURPOSE_BITS | Purpose::Disagreement as u64;
            }
        }
        result
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
            from: team.behind(1 << number),
        };
        Ok(self.rounds[number].get_or_init(|| round))
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
