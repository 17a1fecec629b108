//! How often waits wake up where many ranks share processors.
//!
//! A rank that waits wakes up now and then, and checks now and then whether the awaited rank is alive. If each of
//! thousands of ranks did this as often as a few do, the ranks that work would get no processor time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::device::LIVENESS_INTERVAL;

/// Up to this many ranks on each processor, waits need not stretch: all waiting ranks together take a small part of the
/// processors' time.
const FEW: u32 = 32;

static RANKS_PER_PROCESSOR: AtomicU32 = AtomicU32::new(1);

/// The factor by which sleeps and intervals of a waiting rank are longer than those of a rank with few others beside
/// it.
#[must_use]
pub fn stretch(ranks_per_processor: u32) -> u32 {
    ranks_per_processor.div_ceil(FEW).max(1)
}

/// Tells the devices of this process how many ranks of this machine there are for each of its processors. Until then,
/// they assume one.
pub fn set_ranks_per_processor(ranks: u32) {
    RANKS_PER_PROCESSOR.store(ranks, Ordering::Relaxed);
}

/// Whether ranks of this machine share processors.
pub(crate) fn is_oversubscribed() -> bool {
    RANKS_PER_PROCESSOR.load(Ordering::Relaxed) > 1
}

/// The same time, stretched for the waits of this process.
pub(crate) fn stretched(time: Duration) -> Duration {
    time * stretch(RANKS_PER_PROCESSOR.load(Ordering::Relaxed))
}

/// [`LIVENESS_INTERVAL`], stretched for the waits of this process.
pub(crate) fn liveness_interval() -> Duration {
    stretched(LIVENESS_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stretch_in_proportion_once_there_are_many_ranks() {
        let of = |ranks: &[u32]| {
            ranks
                .iter()
                .map(|&ranks| stretch(ranks))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[0, 1, 2, FEW]), [1; 4]);
        assert_eq!(of(&[FEW + 1, 500, 1000, 2000]), [2, 16, 32, 63]);
    }
}
