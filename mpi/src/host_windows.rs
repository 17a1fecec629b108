//! Lets only one thread at a time make or free windows of the host: MPICH 5.0 loses track of its windows and crashes if
//! several threads do.
//!
//! When the host frees a window, it calls the program's functions for the window's attributes. These may free windows
//! themselves, still in this thread's turn. They may also wait for other processes, whose threads may wait for their
//! turns. So the wait for a turn has a limit, after which the thread goes on without it. A turn lasts that long only in
//! such functions, and during them the host does not use its own windows.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::windows::lock;

const LIMIT: Duration = Duration::from_secs(1);

struct Holder {
    thread: ThreadId,
    /// How many nested turns the thread has.
    depth: usize,
}

static HOLDER: Mutex<Option<Holder>> = Mutex::new(None);
static FREE: Condvar = Condvar::new();

/// A turn. It ends when the thread that took it drops this.
pub(crate) struct HostWindows {
    taken: bool,
}

/// Waits for other threads' turns to end.
pub(crate) fn take() -> HostWindows {
    let me = thread::current().id();
    let waiting =
        |holder: &mut Option<Holder>| holder.as_ref().is_some_and(|holder| holder.thread != me);
    let (mut holder, waited) = FREE
        .wait_timeout_while(lock(&HOLDER), LIMIT, waiting)
        .unwrap_or_else(PoisonError::into_inner);
    if waited.timed_out() {
        return HostWindows { taken: false };
    }
    holder
        .get_or_insert(Holder {
            thread: me,
            depth: 0,
        })
        .depth += 1;
    HostWindows { taken: true }
}

impl Drop for HostWindows {
    fn drop(&mut self) {
        if !self.taken {
            return;
        }
        let mut holder = lock(&HOLDER);
        match holder.as_mut() {
            Some(mine) if mine.depth > 1 => mine.depth -= 1,
            _ => {
                *holder = None;
                FREE.notify_one();
            }
        }
    }
}
