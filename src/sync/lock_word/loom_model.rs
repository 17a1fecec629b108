//! Every interleaving of readers and writers of one lock.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use super::*;
use crate::memory::word::SharedWord;
use crate::sync::lock_queue::First;
use crate::tests::waiting_model::{WatchedWord, explore};

/// A target: its lock, and memory that the lock protects.
struct Target {
    lock: WatchedWord,
    memory: UnsafeCell<[u32; 2]>,
}

// SAFETY: the memory is written under the exclusive lock and read under any: that is what the model
// finds out, since loom's cell notices when it is not so.
unsafe impl Sync for Target {}

impl Target {
    /// As `Window::lock` does: once in the hope that it is free, then over and over.
    fn await_lock(
        &self,
        first: impl FnOnce(&WatchedWord) -> Result<bool>,
        again: impl Fn(&WatchedWord) -> Result<bool>,
    ) {
        let taken = |attempt: Result<bool>| attempt.expect("nothing fails here");
        if !taken(first(&self.lock)) {
            self.lock.changes.wait_until(|| taken(again(&self.lock)));
        }
    }

    fn give_back(&self, add: u64) {
        self.lock.fetch_add(add).expect("nothing fails here");
    }

    fn write(&self, rank: u32) {
        self.write_after(rank, |word| retry_exclusive(word, rank));
    }

    /// As the first in the queue through the device. It tries twice after each change: once to learn of it.
    fn write_as_first(&self, rank: u32) {
        let first = First::new(exclusive(rank), WAITING);
        self.write_after(rank, |word| Ok(first.tries(word)? || first.tries(word)?));
    }

    fn write_after(&self, rank: u32, again: impl Fn(&WatchedWord) -> Result<bool>) {
        self.await_lock(|word| try_exclusive(word, rank), again);
        // Relaxed, so that it orders nothing.
        assert_eq!(holder(self.lock.word.load(Relaxed)), Some(rank));
        // SAFETY: under the exclusive lock.
        self.memory.with_mut(|memory| unsafe {
            (*memory)[0] += 1;
            (*memory)[1] += 1;
        });
        self.give_back(exclusive_release(rank));
    }

    fn read(&self, overtake: bool) {
        self.await_lock(try_shared, |word| retry_shared(word, || overtake));
        // SAFETY: under the shared lock.
        self.memory.with(|memory| unsafe {
            assert_eq!((*memory)[0], (*memory)[1]);
        });
        self.give_back(SHARED_RELEASE);
    }
}

fn check(preemptions: usize, threads: &'static [fn(&Target)], written: u32) {
    explore(preemptions, move || {
        let target = Arc::new(Target {
            lock: WatchedWord::new(),
            memory: UnsafeCell::new([0; 2]),
        });
        let (mine, others) = threads.split_first().expect("a thread");
        let others: Vec<_> = others
            .iter()
            .map(|body| {
                let target = target.clone();
                thread::spawn(move || body(&target))
            })
            .collect();
        mine(&target);
        for other in others {
            other.join().expect("a rank");
        }
        assert_eq!(target.lock.word.look(), 0, "the lock is free again");
        // SAFETY: all are done.
        target
            .memory
            .with(|memory| unsafe { assert_eq!((*memory)[0], written) });
    });
}

#[test]
fn two_writers_exclude_each_other() {
    check(3, &[|target| target.write(1), |target| target.write(2)], 2);
}

#[test]
fn a_writer_excludes_two_readers() {
    check(
        2,
        &[
            |target| target.write(1),
            |target| target.read(false),
            |target| target.read(true),
        ],
        1,
    );
}

#[test]
fn through_the_device_a_writer_excludes_another_and_a_reader() {
    check(
        2,
        &[
            |target| target.write(1),
            |target| target.write_as_first(2),
            |target| target.read(false),
        ],
        2,
    );
}

#[test]
fn two_writers_exclude_a_reader() {
    check(
        2,
        &[
            |target| target.write(1),
            |target| target.write(2),
            |target| target.read(false),
        ],
        2,
    );
}
