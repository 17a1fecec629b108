//! Whether this process is a forked child of a rank. Then the job belongs to its parent.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Misuse, Result};

static FORKED: AtomicBool = AtomicBool::new(false);

/// From now on, children of this process know that they were forked.
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

/// Fails in a forked child.
#[inline]
pub(crate) fn not_forked(operation: &'static str) -> Result<()> {
    match is_forked() {
        false => Ok(()),
        true => Err(Error::new(operation, Misuse::Forked)),
    }
}
