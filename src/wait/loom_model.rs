//! Ranks that leave as soon as they have done what others await of them, in every interleaving.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;
use crate::error::PeerError;
use crate::memory::word::SharedWord;
use crate::tests::waiting_model::explore;

const DONE: u64 = 1;
const LEFT: u64 = 1;

/// What a rank writes before it goes, and that it has gone.
struct Leaver {
    flag: AtomicU64,
    state: AtomicU64,
}

/// Nobody may hear of a rank that has done its part.
struct Nobody;

impl Witness for Nobody {
    fn confirm(&self, error: Error) -> Error {
        panic!("others were told: {error}")
    }
}

impl Leaver {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            flag: AtomicU64::new(0),
            state: AtomicU64::new(0),
        })
    }

    fn leave(&self) {
        self.flag.publish(DONE);
        self.state.publish(LEFT);
    }

    fn check(&self) -> Verdict<'static> {
        match self.state.look() {
            LEFT => {
                let left = Error::new("wait", PeerError::Left { rank: 1 });
                Err(Doubt::new(left, &Nobody))
            }
            _ => Ok(()),
        }
    }

    /// One turn of a long wait.
    fn is_over(&self) -> bool {
        let mut done = || Ok(self.flag.observe() == DONE);
        let looked = done().and_then(|over| match over {
            true => Ok(true),
            false => test_again(self.check(), &mut done),
        });
        looked.expect("nobody is missed")
    }
}

#[test]
fn a_rank_that_left_after_its_part_is_not_missed() {
    explore(4, || {
        let rank = Leaver::new();
        let same = rank.clone();
        let leaves = thread::spawn(move || same.leave());
        rank.is_over();
        leaves.join().expect("it leaves");
        assert!(rank.is_over());
    });
}

/// Each waits for the one behind, and leaves when it has been told: the last goes first.
#[test]
fn ranks_that_leave_one_after_the_other_are_not_missed() {
    explore(4, || {
        let ranks = [Leaver::new(), Leaver::new()];
        let [first, second] = ranks.clone();
        let leaves = thread::spawn(move || first.leave());
        let [first, same] = ranks.clone();
        let follows = thread::spawn(move || {
            if first.is_over() {
                same.leave();
            }
        });
        let over = second.is_over();
        leaves.join().expect("it leaves");
        follows.join().expect("it leaves");
        assert!(!over || ranks[0].is_over());
    });
}

#[test]
#[should_panic(expected = "others were told")]
fn one_that_says_so_too_early_is() {
    explore(4, || {
        let rank = Leaver::new();
        let same = rank.clone();
        let leaves = thread::spawn(move || {
            same.state.publish(LEFT);
            same.flag.publish(DONE);
        });
        rank.is_over();
        leaves.join().expect("it leaves");
    });
}
