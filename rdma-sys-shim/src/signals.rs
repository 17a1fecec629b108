//! Threads of this crate's own, which run none of the program's signal handlers.

/// Runs `body` with all signals blocked, which a thread started in it inherits: the program's
/// handlers expect the program's threads.
pub(crate) fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: sigfillset initialises the set; the mask of the calling thread alone changes, and is
    // put back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
