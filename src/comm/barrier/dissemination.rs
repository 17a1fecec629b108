//! The protocol of the dissemination barrier, without the ways to the flags.
//!
//! The flags are epoch numbers of which a neighbour's is behind or ahead by one at most, so nothing is
//! ever reset, and they may wrap; a neighbour that is one barrier ahead does no harm.
//!
//! Each flag also says for what its rank has come. A rank goes on to the next round only if the one
//! behind came for the same, so whoever is through knows that all ranks did: by induction, after
//! round r a rank agrees with the 2^(r+1) − 1 behind it. A rank that finds a disagreement still goes
//! through the rounds that are left, and says so in its flags: then every rank fails, and none waits.
//! It must not come to a later barrier, whose flags would take these back. So a neighbour that is one
//! barrier ahead was through this one, and agreed.
//!
//! A flag that says so names a rank that came for something else than the flag's own. Whoever hears
//! it came for something else than one of the two, so that every rank can name one for itself.

use crate::error::Result;

const EPOCH_SHIFT: u32 = 32;
/// The highest bit of what a rank comes for: ranks came for different things.
pub(super) const DISPUTED: u32 = 1 << 31;

/// The flags of one rank's neighbours in each round.
pub(super) trait Rounds {
    /// A rank that came for something else, in words.
    type Odd;

    fn count(&self) -> usize;

    /// Tells the rank 2^`round` ahead.
    fn signal(&self, round: usize, flag: u64) -> Result<()>;

    /// What the rank 2^`round` behind has told last, and all that it did before.
    fn heard(&self, round: usize) -> Result<u64>;

    /// Waits until `arrived`, which the rank 2^`round` behind brings about.
    fn wait(&self, round: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()>;

    /// A rank that came for something else than this one, after the rank 2^`round` behind has told
    /// `matter`; and how to name it to those ahead, below [`DISPUTED`].
    fn name_odd(&self, round: usize, matter: u32) -> (Self::Odd, u32);
}

/// Goes through all rounds of barrier number `epoch`, which grows by one from barrier to barrier.
#[inline]
pub(super) fn pass<R: Rounds>(rounds: &R, epoch: u32, matter: u32) -> Result<Option<R::Odd>> {
    let mut came = flag(epoch, matter);
    let mut found = None;
    for round in 0..rounds.count() {
        rounds.signal(round, came)?;
        let arrived = || Ok(!is_ahead(epoch, epoch_of(rounds.heard(round)?)));
        if !arrived()? {
            rounds.wait(round, &arrived)?;
        }
        let theirs = rounds.heard(round)?;
        if theirs != came && epoch_of(theirs) == epoch && found.is_none() {
            let (odd, named) = rounds.name_odd(round, theirs as u32);
            found = Some(odd);
            came = flag(epoch, DISPUTED | named);
        }
    }
    Ok(found)
}

pub(super) fn flag(epoch: u32, matter: u32) -> u64 {
    u64::from(epoch) << EPOCH_SHIFT | u64::from(matter)
}

pub(super) fn epoch_of(flag: u64) -> u32 {
    (flag >> EPOCH_SHIFT) as u32
}

/// Whether barrier number `epoch` comes after number `other`.
pub(super) fn is_ahead(epoch: u32, other: u32) -> bool {
    epoch.wrapping_sub(other).cast_signed() > 0
}

#[cfg(all(test, loom))]
mod loom_model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_wrap() {
        assert!(is_ahead(1, 0) && !is_ahead(0, 0) && !is_ahead(0, 1));
        assert!(is_ahead(0, u32::MAX) && !is_ahead(u32::MAX, 0));
        assert_eq!(epoch_of(flag(u32::MAX, DISPUTED | 7)), u32::MAX);
    }
}
