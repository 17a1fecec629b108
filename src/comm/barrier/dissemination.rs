//! The protocol of the dissemination barrier, without the ways to the flags.
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

use super::Purpose;
use crate::error::Result;

const PURPOSE_BITS: u32 = 8;

/// The flags of one rank's neighbours in each round.
pub(super) trait Rounds {
    fn count(&self) -> usize;

    /// Tells the rank 2^`round` ahead.
    fn signal(&self, round: usize, flag: u64) -> Result<()>;

    /// What the rank 2^`round` behind has told last, and all that it did before.
    fn heard(&self, round: usize) -> Result<u64>;

    /// Waits until `arrived`, which the rank 2^`round` behind brings about.
    fn wait(&self, round: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()>;
}

/// A rank that came for something else.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    /// The round in which it was found.
    pub(super) round: usize,
    pub(super) flag: u64,
}

/// Goes through all rounds of barrier number `epoch`, which grows by one from barrier to barrier.
#[inline]
pub(super) fn pass(
    rounds: &impl Rounds,
    epoch: u64,
    purpose: Purpose,
) -> Result<Option<Disagreement>> {
    let mut came = flag(epoch, purpose);
    let mut found = None;
    for round in 0..rounds.count() {
        rounds.signal(round, came)?;
        let arrived = || Ok(epoch_of(rounds.heard(round)?) >= epoch);
        if !arrived()? {
            rounds.wait(round, &arrived)?;
        }
        let theirs = rounds.heard(round)?;
        if theirs != came && epoch_of(theirs) == epoch && found.is_none() {
            found = Some(Disagreement {
                round,
                flag: theirs,
            });
            came = flag(epoch, Purpose::Disagreement);
        }
    }
    Ok(found)
}

pub(super) fn flag(epoch: u64, purpose: Purpose) -> u64 {
    epoch << PURPOSE_BITS | purpose as u64
}

pub(super) fn epoch_of(flag: u64) -> u64 {
    flag >> PURPOSE_BITS
}

#[cfg(all(test, loom))]
#[path = "loom_model.rs"]
mod loom_model;
