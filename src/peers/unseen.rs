//! Ranks that this one cannot look at for want of something of its own, such as descriptors. They may be well, and this rank
//! may not even be told if they are not.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::wait::lock;

/// For so long may a rank that is awaited not be seen.
const LONGEST: Duration = Duration::from_secs(5);
/// Two looks that are further apart are of two waits.
const APART: Duration = Duration::from_secs(1);

/// Keeps the first such rank, until it is seen.
#[derive(Default)]
pub(crate) struct Unseen(Mutex<Option<Missed>>);

struct Missed {
    rank: u32,
    first: Instant,
    last: Instant,
}

impl Unseen {
    pub(crate) fn saw(&self, rank: u32) {
        lock(&self.0).take_if(|missed| missed.rank == rank);
    }

    /// Whether the rank has not been seen for too long.
    pub(crate) fn missed(&self, rank: u32, now: Instant) -> bool {
        let mut missed = lock(&self.0);
        missed.take_if(|missed| now - missed.last > APART);
        let missed = missed.get_or_insert(Missed {
            rank,
            first: now,
            last: now,
        });
        if missed.rank != rank {
            return false;
        }
        missed.last = now;
        now - missed.first >= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_missed_after_five_seconds_in_which_it_was_never_seen() {
        let (unseen, begin) = (Unseen::default(), Instant::now());
        let missed =
            |rank, tenths| unseen.missed(rank, begin + tenths * Duration::from_millis(100));
        assert!((0..50).all(|tenths| !missed(3, tenths) && !missed(4, tenths)));
        unseen.saw(4);
        assert!(missed(3, 50));
        assert!(!missed(4, 51));
        unseen.saw(3);
        assert!(!missed(3, 52));
        assert!(!missed(3, 120), "of another wait");
        assert!((121..170).all(|tenths| !missed(3, tenths)));
        assert!(missed(3, 170));
    }
}
