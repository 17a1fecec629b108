//! Every interleaving of threads of a rank that flush one target, and of a peer that puts and gets.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU8, AtomicU64, fence};
use loom::thread;

use super::*;
use crate::tests::waiting_model::{Changes, explore};

fn check(body: impl Fn() + Send + Sync + 'static) {
    explore(3, body);
}

/// A fetch that the device ends in its own time, and the note of it.
struct Fetch {
    posted: LastPosted<AtomicU64>,
    completed: AtomicU64,
    result: UnsafeCell<u64>,
    changes: Changes,
}

// SAFETY: the device writes the result before it says so, and who has flushed reads it: that is what the
// model finds out, since loom's cell notices when it is not so.
unsafe impl Sync for Fetch {}

const FETCH: Ticket = Ticket(1);

impl Fetch {
    fn device(&self) {
        // SAFETY: nobody reads it before it is complete.
        self.result.with_mut(|result| unsafe { *result = 7 });
        self.completed.store(FETCH.0, Release);
        self.changes.note();
    }

    fn flush(&self) {
        let over = |ticket: Ticket| self.completed.load(Acquire) >= ticket.0;
        let wait = |ticket| {
            if !over(ticket) {
                self.changes.wait_until(|| over(ticket));
            }
            Ok(())
        };
        self.posted.complete(wait).expect("nothing fails here");
    }
}

/// One thread fetches and flushes, while another flushes as well and may be the one that waits.
#[test]
fn what_another_thread_has_completed_is_there() {
    check(|| {
        let fetch = Arc::new(Fetch {
            // Noted by its thread, but not in the model: loom misses the race of a word that this thread
            // has changed itself.
            posted: LastPosted(AtomicU64::new(FETCH.0)),
            completed: AtomicU64::new(0),
            result: UnsafeCell::new(0),
            changes: Changes::new(),
        });
        let [device, other] = [Fetch::device, Fetch::flush].map(|body| {
            let fetch = fetch.clone();
            thread::spawn(move || body(&fetch))
        });
        fetch.flush();
        // SAFETY: the flush was told that it is complete.
        fetch
            .result
            .with(|result| assert_eq!(unsafe { *result }, 7));
        device.join().expect("the device");
        other.join().expect("a thread");
    });
}

/// Memory of two ranks, and what the threads of one note of theirs.
struct Memory<const IN_ORDER: bool> {
    stored: Stored<AtomicU8, IN_ORDER>,
    ours: AtomicU64,
    theirs: AtomicU64,
}

impl<const IN_ORDER: bool> Memory<IN_ORDER> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            stored: Stored(AtomicU8::new(0)),
            ours: AtomicU64::new(0),
            theirs: AtomicU64::new(0),
        })
    }

    fn flush(&self) {
        self.stored.flush(|| fence(SeqCst));
    }
}

/// A thread puts, flushes and gets; a peer does so the other way round, and one of them sees the other's.
/// A second thread flushes as well.
#[test]
fn a_put_is_there_whoever_flushes() {
    check(|| {
        let memory = Memory::<false>::new();
        let other = {
            let memory = memory.clone();
            thread::spawn(move || memory.flush())
        };
        let peer = {
            let memory = memory.clone();
            thread::spawn(move || {
                memory.theirs.store(1, Relaxed);
                fence(SeqCst);
                memory.ours.load(Relaxed)
            })
        };
        memory.ours.store(1, Relaxed);
        memory.stored.note();
        memory.flush();
        let seen = memory.theirs.load(Relaxed);
        let seen_by_peer = peer.join().expect("a peer");
        other.join().expect("a thread");
        assert!(seen + seen_by_peer > 0, "neither saw the other's put");
    });
}

/// A rank gets a flag, flushes, and gets what was put before the flag.
fn flag_and_data<const IN_ORDER: bool>() {
    check(|| {
        let memory = Memory::<IN_ORDER>::new();
        let peer = {
            let memory = memory.clone();
            thread::spawn(move || {
                memory.theirs.store(1, Relaxed);
                fence(SeqCst);
                memory.ours.store(1, Relaxed);
            })
        };
        let flag = memory.ours.load(Relaxed);
        memory.flush();
        let data = memory.theirs.load(Relaxed);
        peer.join().expect("a peer");
        assert!(flag == 0 || data == 1, "the data came after the flag");
    });
}

#[test]
fn gets_that_a_flush_parts_are_in_order() {
    flag_and_data::<false>();
}

/// Loom's memory is not in order: there a mark, which only stores set, is not enough.
#[test]
#[should_panic(expected = "the data came after the flag")]
fn a_flag_is_not_enough_where_memory_is_not_in_order() {
    flag_and_data::<true>();
}
