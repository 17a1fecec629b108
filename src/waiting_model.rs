//! How ranks wait in loom models: until some word has changed. Spinning would have no end, since loom
//! lets the others wait as long as it likes.
//!
//! Who waits learns of the change through a mutex, which also orders memory. So a model has to look
//! once before it waits: where that succeeds, the protocol's own orders are all there is.

use loom::sync::{Condvar, Mutex};

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
