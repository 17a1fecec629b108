//! Every interleaving of a rank that posts and one that starts, which have not met before.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::atomic::fence;
use loom::thread;

use super::*;
use crate::tests::waiting_model::{Changes, explore};

/// What the two have of each other in their control memory.
struct Ranks<const FENCED: bool> {
    /// The keys of their contacts: of the rank that posts, and of the one that starts.
    keys: [AtomicU64; 2],
    /// What the one that posts keeps in its own.
    kept: AtomicU64,
    /// What it stores in the other's.
    posts: AtomicU64,
    /// What the one that posts has stored before.
    data: UnsafeCell<u64>,
    changes: Changes,
}

// SAFETY: the one that posts writes the data before, and the other one reads them when it knows of the post: that is what the
// model finds out, since loom's cell notices when it is not so.
unsafe impl<const FENCED: bool> Sync for Ranks<FENCED> {}

const FIRST: u64 = 1;

/// `FENCED`: they make their full fences.
impl<const FENCED: bool> Ranks<FENCED> {
    fn full_fence() {
        if FENCED {
            fence(SeqCst);
        }
    }

    /// Whether the post was stored in the other's contact.
    fn post(&self) -> bool {
        // SAFETY: nobody reads it before the post.
        self.data.with_mut(|data| unsafe { *data = 7 });
        self.keys[0].publish(key(1));
        let find = || Ok((self.keys[1].observe() != 0).then_some(()));
        let found = deliver(FIRST, &self.kept, Self::full_fence, find).expect("nothing fails here");
        if found.is_some() {
            self.posts.publish(FIRST);
        }
        self.changes.note();
        found.is_some()
    }

    /// Waits for the post; whether the other one keeps it.
    fn start(&self) -> bool {
        self.keys[1].publish(key(0));
        let mut kept = None;
        let mut posted = || {
            Self::full_fence();
            if kept.is_none() {
                kept = match self.keys[0].observe() {
                    0 => Some(0),
                    _ => match Kept::from_word(self.kept.observe()) {
                        Kept::Posts(kept) => Some(kept),
                        Kept::Undecided => None,
                    },
                };
            }
            self.posts.observe() >= FIRST || kept == Some(FIRST)
        };
        if !posted() {
            let posted = std::cell::RefCell::new(posted);
            self.changes.wait_until(|| (posted.borrow_mut())());
        }
        // SAFETY: it was posted.
        self.data.with(|data| assert_eq!(unsafe { *data }, 7));
        kept == Some(FIRST)
    }
}

fn meet<const FENCED: bool>() {
    explore(4, || {
        let ranks = Arc::new(Ranks::<FENCED> {
            keys: [AtomicU64::new(0), AtomicU64::new(0)],
            kept: AtomicU64::new(0),
            posts: AtomicU64::new(0),
            data: UnsafeCell::new(0),
            changes: Changes::new(),
        });
        let other = {
            let ranks = ranks.clone();
            thread::spawn(move || ranks.post())
        };
        let keeps = ranks.start();
        let stored = other.join().expect("a rank");
        // What is kept must not be stored as well, when its memory may belong to something else.
        assert!(!(keeps && stored), "a post in two places");
    });
}

#[test]
fn a_first_post_arrives_in_one_of_two_places() {
    meet::<true>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fences_both_may_look_in_vain() {
    meet::<false>();
}
