//! Whether the processor's pause instruction takes no longer than the transfer of a cache line.
//!
//! A rank that polls a flag without a pause delays the rank that is about to write it, because they compete for the
//! cache line. With a short pause between two loads, flags arrive a tenth to a fifth sooner. Processors differ: on AMD,
//! a pause takes about 25 ns. On Intel since Skylake, it takes 40 ns or more, so a rank would see the flag later
//! instead.

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Half of the time in which a flag gets from core to core on fast processors, and a margin.
const SHORT_PAUSE: Duration = Duration::from_nanos(32);
const TRIES: usize = 5;
const PAUSES: u32 = 8;

#[inline]
pub(super) fn is_short() -> bool {
    static IS_SHORT: OnceLock<bool> = OnceLock::new();
    *IS_SHORT.get_or_init(|| are_short(std::array::from_fn(|_| timed())))
}

/// The time of a series of pauses.
fn timed() -> Duration {
    let begun = Instant::now();
    (0..PAUSES).for_each(|_| spin_loop());
    begun.elapsed()
}

/// Judges by the shortest try: in the others, the thread may have been preempted.
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
