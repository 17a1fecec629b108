//! The dissemination barrier: in round r, tell the rank 2^r ahead and wait for the rank 2^r back.
//!
//! The flags are epoch numbers compared with ≥, so nothing is ever reset, and a neighbour that is
//! one barrier ahead does no harm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::team::Team;
use crate::error::Result;
use crate::job::Awaited;
use crate::memory::columns::Column;
use crate::memory::control::{ControlBlock, LINE, LocalWord};
use crate::memory::remote::RemoteWord;

/// Bytes of control block that a barrier of `rounds` rounds takes.
pub(crate) const fn barrier_bytes(rounds: u32) -> u64 {
    rounds as u64 * LINE
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
        team: &Team,
        blocks: &Column<u64>,
        check: &dyn Fn(u32) -> Result<()>,
    ) -> Result<()> {
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        for number in 0..self.rounds.len() {
            let absent = |error| team.blame(operation, team.ahead(1 << number), error);
            let round = match self.rounds[number].get() {
                Some(round) => round,
                None => self.prepare(team, blocks, number).map_err(absent)?,
            };
            round.signal.store(epoch).map_err(absent)?;
            let flag = round.flag.atomic();
            if flag.load(Ordering::Acquire) < epoch {
                let arrived = || Ok(flag.load(Ordering::Acquire) >= epoch);
                team.context.patience().wait(arrived, || {
                    let awaited = Awaited::Rank(team.world_rank(round.from));
                    team.context.check(operation, awaited)?;
                    check(round.from)
                })?;
            }
        }
        Ok(())
    }

    #[cold]
    fn prepare(&self, team: &Team, blocks: &Column<u64>, number: usize) -> Result<&Round> {
        let at = self.at + number as u64 * LINE;
        let round = Round {
            signal: team.word(team.ahead(1 << number), blocks, at)?,
            flag: LocalWord::new(&self.block, at),
            from: team.behind(1 << number),
        };
        Ok(self.rounds[number].get_or_init(|| round))
    }
}
