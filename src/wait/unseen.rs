//! Ranks that a wait cannot check because this process lacks a resource, such as a descriptor. They may be alive, and
//! this rank may not even learn if they are not.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a wait may fail to check a rank.
const LONGEST: Duration = Duration::from_secs(5);

/// The first rank that this thread's wait could not check, until it can, and since when.
#[derive(Clone, Copy)]
pub(crate) struct Missed {
    rank: u32,
    since: Instant,
}

thread_local! {
    static MISSED: Cell<Option<Missed>> = const { Cell::new(None) };
}

pub(crate) fn saw(rank: u32) {
    MISSED.set(MISSED.get().filter(|missed| missed.rank != rank));
}

/// Whether the wait of this check has failed to check the rank for too long.
pub(crate) fn misses(rank: u32, now: Instant) -> bool {
    let first = MISSED.get().unwrap_or(Missed { rank, since: now });
    MISSED.set(Some(first));
    first.rank == rank && now - first.since >= LONGEST
}

/// A wait begins, perhaps in a check of another wait.
pub(super) fn begin() -> Option<Missed> {
    MISSED.take()
}

/// The wait has ended; `outer` is the result of [`begin`], for the outer wait.
pub(super) fn end(outer: Option<Missed>) {
    MISSED.set(outer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_misses_a_rank_after_five_seconds_in_which_it_never_saw_it() {
        let begun = Instant::now();
        let misses_at = |rank, tenths| misses(rank, begun + tenths * Duration::from_millis(100));
        let outer = begin();
        assert!((0..50).all(|tenths| !misses_at(3, tenths) && !misses_at(4, tenths)));
        saw(4);
        let around = begin();
        assert!(!misses_at(3, 50), "another wait");
        end(around);
        assert!(misses_at(3, 50));
        assert!(!misses_at(4, 51));
        saw(3);
        assert!(!misses_at(3, 52));
        assert!(!misses_at(3, 101));
        assert!(misses_at(3, 102));
        end(outer);
    }
}
