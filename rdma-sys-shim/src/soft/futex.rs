//! Sleeping on a word of shared memory.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until woken, until `word` differs from `seen`, or for `limit`; may return early.
pub(crate) fn wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: the kernel only reads the word, which the reference keeps alive, and the timeout.
    // Not FUTEX_PRIVATE: waiter and waker are different processes.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &raw const limit,
        );
    }
}

/// Wakes whoever sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
