//! What protocols between threads and processes are built of. Under `--cfg loom` it is loom's, which
//! tries every interleaving; the models beside the protocols run on it.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub(crate) use std::thread::yield_now;

    /// Checks before a thread goes to sleep.
    pub(crate) const SPINS: u32 = 100;

    /// Milliseconds of a clock that all processes of the machine share, precise to a few of them, and cheap to read.
    /// Never 0. It wraps after 49.7 days. So callers subtract with wrap-around, and a time may be taken for one that is
    /// 49.7 days later: this may put off a check once, by its interval.
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

    use rustix::thread::futex::{self, Flags, Timespec};

    /// Not private: waiter and waker are different processes.
    const SHARED: Flags = Flags::empty();

    /// Sleeps until woken, until `word` differs from `seen`, or for `limit`; may return early.
    pub(crate) fn wait(word: &AtomicU32, seen: u32, limit: Duration) {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let _ = futex::wait(word, SHARED, seen, Some(&limit));
    }

    /// Wakes all threads that sleep on `word`.
    pub(crate) fn wake(word: &AtomicU32) {
        let _ = futex::wake(word, SHARED, i32::MAX as u32);
    }

    /// Wakes one thread that sleeps on `word`.
    pub(crate) fn wake_one(word: &AtomicU32) {
        let _ = futex::wake(word, SHARED, 1);
    }
}
