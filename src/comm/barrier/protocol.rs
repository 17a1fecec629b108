//! The protocol of the barrier, independent of how flags are written. In each step, a rank signals another rank
//! and then waits for a signal. A rank that has taken all its steps has heard from all ranks, directly or
//! indirectly (`steps`).
//!
//! Flags contain epoch numbers. Another rank's number is at most one behind or ahead. So flags are never reset,
//! they may wrap, and a rank that is one barrier ahead does no harm.
//!
//! Each flag also says for which call its rank has entered the barrier. A rank takes the next step only if the
//! other rank's call is the same. So a rank that has taken all steps knows that all ranks made this call: by
//! induction, a flag holds for all ranks from which its rank has heard.
//!
//! A rank that finds a disagreement still takes the remaining steps, and reports it in its flags. So every rank
//! fails, and none waits. Such a rank must not enter a later barrier, whose flags would overwrite these. So a rank
//! that is one barrier ahead has completed this one, and agreed.
//!
//! A flag that reports a disagreement names a rank whose call differs from that of the flag's own rank. The call
//! of a rank that reads the flag differs from one of the two. So every rank can name a rank whose call differs
//! from its own.

use crate::error::Result;

const EPOCH_SHIFT: u32 = 32;
/// The highest bit of a call tag: ranks entered for different calls.
pub(super) const DISPUTED: u32 = 1 << 31;

/// The steps of one rank, and the flags that go with them.
pub(super) trait Steps {
    /// The description of a rank that entered for another call.
    type Mismatch;

    fn count(&self) -> usize;

    /// Signals this step's receiver, if there is one.
    fn signal(&self, step: usize, flag: u64) -> Result<()>;

    /// The last flag of this step's sender, with everything the sender did before it; `None` if the step has no sender.
    fn heard(&self, step: usize) -> Result<Option<u64>>;

    /// Waits until `arrived`, which this step's sender makes true.
    fn wait(&self, step: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()>;

    /// Describes a rank that entered for another call than this one, after this step's sender sent `tag`; also as a
    /// code for this rank's receivers, below [`DISPUTED`].
    fn name_mismatch(&self, step: usize, tag: u32) -> (Self::Mismatch, u32);
}

/// Takes all steps of barrier number `epoch`, which grows by one from barrier to barrier.
#[inline]
pub(super) fn pass<S: Steps>(steps: &S, epoch: u32, tag: u32) -> Result<Option<S::Mismatch>> {
    let mut came = flag(epoch, tag);
    let mut found = None;
    for step in 0..steps.count() {
        steps.signal(step, came)?;
        let has_come = |told: u64| !is_ahead(epoch, epoch_of(told));
        let mut heard = steps.heard(step)?;
        if heard.is_some_and(|told| !has_come(told)) {
            steps.wait(step, &|| Ok(steps.heard(step)?.is_some_and(has_come)))?;
            heard = steps.heard(step)?;
        }
        let Some(theirs) = heard else { continue };
        if theirs != came && epoch_of(theirs) == epoch && found.is_none() {
            let (mismatched, named) = steps.name_mismatch(step, theirs as u32);
            found = Some(mismatched);
            came = flag(epoch, DISPUTED | named);
        }
    }
    Ok(found)
}

pub(super) fn flag(epoch: u32, tag: u32) -> u64 {
    u64::from(epoch) << EPOCH_SHIFT | u64::from(tag)
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
