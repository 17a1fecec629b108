//! One thread at a time is where the host makes windows and frees them: MPICH 5.0 loses track of its windows, and
//! crashes, if several are.
//!
//! As the host frees a window it calls the program's functions for what the window carries. Those may free windows
//! themselves, which is this thread's turn still; and wait for other processes, whose threads may wait for theirs. So
//! a turn is waited for with a limit, and done without beyond it: for as long a turn lasts only in such functions,
//! while the host is not at its own windows.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::windows::lock;

const LIMIT: Duration = Duration::from_secs(1);

struct Holder {
    thread: ThreadId,
    /// How many turns it has, one within the other.
    depth: usize,
}

static HOLDER: Mutex<Option<Holder>> = Mutex::new(None);
static FREE: Condvar = Condvar::new();

/// Ends when it is dropped, by the thread that took it.
pub(crate) struct HostWindows {
    taken: bool,
}

/// Waits for those that have theirs.
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
