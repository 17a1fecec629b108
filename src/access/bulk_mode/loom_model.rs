//! Every interleaving of single atomics with work on many elements.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::*;
use crate::tests::waiting_model::{Changes, explore};

/// A target, and the in-flight flags of its origins.
struct Target {
    lock: Mutex<()>,
    bulk_mode: AtomicU64,
    flags: [AtomicU64; 2],
    changes: Changes,
    /// Stands for the elements. Single atomics are atomic to each other: one rank alone makes them here.
    element: UnsafeCell<u32>,
}

// SAFETY: that the element is touched by one at a time is what the model finds out: loom's cell notices when not.
unsafe impl Sync for Target {}

/// So many single atomics end bulk mode.
const SINGLES: u64 = 1;

impl Target {
    fn add(&self) {
        // SAFETY: see above.
        self.element.with_mut(|element| unsafe { *element += 1 });
    }

    fn single(&self, rank: usize) {
        if let Some(marked) = begin_single(&self.flags[rank], &self.bulk_mode) {
            self.add();
            drop(marked);
            self.changes.note();
            return;
        }
        self.changes.note();
        let _held = self.lock.lock().expect("not poisoned");
        self.add();
        found_bulk_mode(&self.bulk_mode);
    }

    fn many(&self, rank: usize) {
        self.many_behind(rank, || fence(Ordering::SeqCst));
    }

    fn many_behind_no_fence(&self, rank: usize) {
        self.many_behind(rank, || ());
    }

    fn many_behind(&self, rank: usize, fence: impl FnOnce()) {
        let _held = self.lock.lock().expect("not poisoned");
        if enter_bulk_mode(&self.bulk_mode, SINGLES) {
            fence();
            let flag = &self.flags[1 - rank];
            self.changes.wait_until(|| flag.observe() == 0);
        }
        self.add();
    }
}

fn check(
    preemptions: usize,
    first: &'static [fn(&Target, usize)],
    second: &'static [fn(&Target, usize)],
) {
    explore(preemptions, move || {
        let target = Arc::new(Target {
            lock: Mutex::new(()),
            bulk_mode: AtomicU64::new(0),
            flags: [AtomicU64::new(0), AtomicU64::new(0)],
            changes: Changes::new(),
            element: UnsafeCell::new(0),
        });
        let other = target.clone();
        let other = thread::spawn(move || second.iter().for_each(|step| step(&other, 1)));
        first.iter().for_each(|step| step(&target, 0));
        other.join().expect("a rank");
        // SAFETY: all are done.
        let added = target.element.with(|element| unsafe { *element });
        assert_eq!(added as usize, first.len() + second.len());
    });
}

#[test]
fn single_atomics_and_work_on_many_elements_take_turns() {
    check(3, &[Target::single, Target::single], &[Target::many]);
    check(3, &[Target::single], &[Target::many, Target::many]);
}

#[test]
fn also_where_bulk_mode_ends_and_begins_again() {
    check(
        2,
        &[Target::single, Target::single, Target::single],
        &[Target::many, Target::many],
    );
    check(
        2,
        &[Target::many, Target::single],
        &[Target::many, Target::many],
    );
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_fence_neither_may_see_the_other() {
    check(2, &[Target::single], &[Target::many_behind_no_fence]);
}
