//! Whether this process is a forked child of the rank: then the job is its parent's.

use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// From now on, children of this process know that they are.
pub(super) fn watch() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores to an atomic.
    let rc = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if rc != 0 {
        tracing::warn!(
            rc,
            "pthread_atfork failed: a forked child may use the job by mistake"
        );
    }
}

#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}
