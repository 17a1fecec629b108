//! Whether a processor pauses for no longer than a flag takes on its way.
//!
//! Who looks at a flag without a break keeps its line from the one that is about to write it: with a short pause between
//! two looks, flags come a tenth to a fifth sooner. Processors differ: AMD's pause for some 25 ns, Intel's since Skylake
//! for 40 and more, by which they would see a flag later instead.

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Half of what a flag takes from core to core on the processors that are quick at it, and a margin.
const SHORT_PAUSE: Duration = Duration::from_nanos(32);
const TRIES: usize = 5;
const PAUSES: u32 = 8;

#[inline]
pub(super) fn is_short() -> bool {
    static IS_SHORT: OnceLock<bool> = OnceLock::new();
    *IS_SHORT.get_or_init(|| are_short(std::array::from_fn(|_| timed())))
}

/// So many pauses in a row.
fn timed() -> Duration {
    let begun = Instant::now();
    (0..PAUSES).for_each(|_| spin_loop());
    begun.elapsed()
}

/// By the shortest: in the others, the processor may have been elsewhere.
fn are_short(tries: [Duration; TRIES]) -> bool {
    let shortest = tries.into_iter().min();
    shortest.is_some_and(|all| all / PAUSES <= SHORT_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_quick_try_is_enough() {
        let tries = |nanoseconds: [u64; TRIES]| nanoseconds.map(Duration::from_nanos);
        assert!(are_short(tries([210, 9_000, 230, 80_000, 220])));
        assert!(are_short(tries([5_000, 5_000, 250, 5_000, 5_000])));
        assert!(!are_short(tries([330, 9_000, 340, 350, 360])));
        assert!(are_short([Duration::ZERO; TRIES]));
    }

    #[test]
    fn what_was_found_stays() {
        assert_eq!(is_short(), is_short());
    }
}
