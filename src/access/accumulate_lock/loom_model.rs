//! Every interleaving of ranks that combine under the accumulate lock.

use std::cell::Cell;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use loom::thread;

use super::*;
use crate::sync::lock_queue::First;
use crate::tests::waiting_model::{WatchedWord, explore};

impl StoredWord for AtomicU64 {
    fn glance(&self) -> u64 {
        self.load(Relaxed)
    }

    /// A store, as a swap: loom takes a store for one that may come before another's swap, also where
    /// that has swapped what came before the store.
    fn clear(&self) {
        self.swap(0, Release);
    }
}

/// A target: its lock, and an element that is combined under it.
struct Target {
    lock: WatchedWord,
    is_mapped: bool,
    element: UnsafeCell<u32>,
}

// SAFETY: the element is touched under the lock only: that is what the model finds out, since loom's
// cell notices when it is not so.
unsafe impl Sync for Target {}

impl Target {
    fn combine(&self, rank: u32, long: bool) {
        if !try_take(&self.lock, rank).expect("nothing fails here") {
            let is_next = Cell::new(false);
            let first = First::new(held_by(rank), RESERVED);
            self.lock.changes.wait_until(|| {
                if !self.is_mapped {
                    // Once to learn of a change.
                    let tries = || first.tries(&self.lock).expect("nothing fails here");
                    return tries() || tries();
                }
                let attempt = retry(&self.lock, rank, long, is_next.get());
                let attempt = attempt.expect("nothing fails here");
                is_next.set(attempt == AccumulateAttempt::Next);
                attempt == AccumulateAttempt::Taken
            });
        }

        // SAFETY: under the lock.
        self.element.with_mut(|element| unsafe { *element += 1 });
        if self.is_mapped {
            release(&self.lock.word, rank);
            self.lock.changes.note();
        } else {
            self.lock
                .fetch_add(release_by(rank))
                .expect("nothing fails here");
        }
    }
}

/// Each of the `ranks` combines once; `true` for those that have waited long at their second try.
fn check(preemptions: usize, is_mapped: bool, ranks: &'static [bool]) {
    explore(preemptions, move || {
        let target = Arc::new(Target {
            lock: WatchedWord::new(),
            is_mapped,
            element: UnsafeCell::new(0),
        });
        let others: Vec<_> = (1..)
            .zip(&ranks[1..])
            .map(|(rank, &long)| {
                let target = target.clone();
                thread::spawn(move || target.combine(rank, long))
            })
            .collect();
        target.combine(0, ranks[0]);
        for other in others {
            other.join().expect("a rank");
        }
        assert_eq!(target.lock.word.look(), 0, "the lock is free again");
        // SAFETY: all are done.
        let combined = target.element.with(|element| unsafe { *element });
        assert_eq!(combined as usize, ranks.len());
    });
}

#[test]
fn two_ranks_take_turns_also_where_one_has_waited_long() {
    check(3, true, &[false, true]);
}

#[test]
fn one_of_three_is_next() {
    check(2, true, &[false, true, true]);
}

/// More than are in a queue.
#[test]
fn through_the_device_two_firsts_exclude_each_other_and_a_third_rank() {
    check(2, false, &[false; 3]);
}
