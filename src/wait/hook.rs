//! A hook that long waits call from time to time, so that other work makes progress.

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;
use super::must_return::must_return;

/// Called on a waiting thread.
pub(crate) type Hook = dyn Fn() + Send + Sync;

/// The job's hook: a process is a rank of only one job.
static HOOK: Mutex<Option<Arc<Hook>>> = Mutex::new(None);
/// Whether there is a hook; a fast check for waits without one.
static IS_SET: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Replaces the previous hook.
pub(crate) fn set_hook(hook: Option<Arc<Hook>>) {
    IS_SET.store(hook.is_some(), Ordering::Relaxed);
    let before = mem::replace(&mut *lock(&HOOK), hook);
    // Dropping it may run code that waits.
    drop(before);
}

/// Calls it, unless this thread is already in it; false if there is none.
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
            // If it was replaced meanwhile, its captured values are dropped here.
            drop(hook);
        });
        CALLING.set(false);
    }
    true
}
