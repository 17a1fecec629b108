//! What protocols between threads and processes are built of. Under `--cfg loom` it is loom's, which
//! tries every interleaving; the models beside the protocols run on it.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub(crate) use std::thread::yield_now;

    /// How often to look again before going to sleep.
    pub(crate) const SPINS: u32 = 100;

    /// Of a clock that all processes of the machine have, to some milliseconds: cheap enough to be asked often. Never 0.
    #[must_use]
    pub fn milliseconds() -> u32 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a live structure; this clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
        ((now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000) as u32).max(1)
    }
}

#[cfg(loom)]
mod loom_model;
#[cfg(loom)]
use loom_model as real;

pub use real::milliseconds;
pub(crate) use real::*;

/// Sleeping on a word of shared memory.
#[cfg(not(loom))]
pub(crate) mod futex {
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
        wake_some(word, i32::MAX);
    }

    /// Wakes one of those who sleep on `word`.
    pub(crate) fn wake_one(word: &AtomicU32) {
        wake_some(word, 1);
    }

    fn wake_some(word: &AtomicU32, most: i32) {
        // SAFETY: the kernel uses the address only as a key.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most);
        }
    }
}
