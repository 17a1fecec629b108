//! What loom models have in common. Ranks wait in them until some word has changed: spinning would have no
//! end, since loom lets the others wait as long as it likes.
//!
//! Who waits learns of the change through a mutex, which also orders memory. So a model has to look
//! once before it waits: where that succeeds, the protocol's own orders are all there is.

use loom::model::Builder;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};

use crate::error::Result;
use crate::memory::word::{LockWord, SharedWord};

/// Runs a model in every interleaving with so many preemptions at the most.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

pub(crate) struct Changes {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self {
            count: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// To be called after every change.
    pub(crate) fn note(&self) {
        *self.count.lock().expect("not poisoned") += 1;
        self.changed.notify_all();
    }

    pub(crate) fn wait_until(&self, over: impl Fn() -> bool) {
        loop {
            let seen = *self.count.lock().expect("not poisoned");
            if over() {
                return;
            }
            let mut count = self.count.lock().expect("not poisoned");
            while *count == seen {
                count = self.changed.wait(count).expect("not poisoned");
            }
        }
    }
}

/// The word of a lock. What is noted is what others may wait for.
pub(crate) struct WatchedWord {
    pub(crate) word: AtomicU64,
    pub(crate) changes: Changes,
}

impl WatchedWord {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            changes: Changes::new(),
        }
    }
}

impl LockWord for WatchedWord {
    fn load(&self) -> Result<u64> {
        Ok(self.word.look())
    }

    fn fetch_add(&self, add: u64) -> Result<u64> {
        let found = self.word.add(add);
        self.changes.note();
        Ok(found)
    }

    fn compare_swap(&self, expect: u64, new: u64) -> Result<u64> {
        let found = self.word.replace_if(expect, new);
        if found == expect {
            self.changes.note();
        }
        Ok(found)
    }
}
