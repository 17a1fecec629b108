//! A hook that long waits call from time to time, so that other work makes progress.

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;
use super::must_return::must_return;

/// Called on the thread that waits.
pub(crate) type Hook = dyn Fn() + Send + Sync;

/// The job's: a process is a rank of one.
static HOOK: Mutex<Option<Arc<Hook>>> = Mutex::new(None);
/// Whether there is one, for waits that have none.
static IS_SET: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// In place of an earlier one.
pub(crate) fn set_hook(hook: Option<Arc<Hook>>) {
    IS_SET.store(hook.is_some(), Ordering::Relaxed);
    let before = mem::replace(&mut *lock(&HOOK), hook);
    // What it holds may wait itself when it is dropped.
    drop(before);
}

/// Calls it, unless this thread is in it; false if there is none.
#[inline]
pub(super) fn call() -> bool {
    IS_SET.load(Ordering::Relaxed) && call_it()
}

#[cold]
fn call_it() -> bool {
    let Some(hook) = lock(&HOOK).clone() else {
        return false;
    };
    if !CALLING.replace(true) {
        must_return("the hook of long waits", || {
            hook();
            // It may have been replaced meanwhile, and go here with what it holds.
            drop(hook);
        });
        CALLING.set(false);
    }
    true
}
