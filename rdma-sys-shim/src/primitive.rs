//! What protocols between threads and processes are built of. Under `--cfg loom` it is loom's, which
//! tries every interleaving; the models beside the protocols run on it.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub(crate) use std::thread::yield_now;

    /// How often to look again before going to sleep.
    pub(crate) const SPINS: u32 = 100;
}

#[cfg(loom)]
mod real {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
    pub(crate) use loom::thread::yield_now;

    /// Looking again shows nothing new to whoever tries all interleavings.
    pub(crate) const SPINS: u32 = 0;
}

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
        // SAFETY: the kernel uses the address only as a key.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        }
    }
}

/// Sleeping without a limit, so that a wake-up that is lost shows as a deadlock.
#[cfg(loom)]
pub(crate) mod futex {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Condvar, Mutex};

    /// Who sleeps on which word.
    #[derive(Default)]
    struct Sleepers {
        next: usize,
        asleep: Vec<(usize, usize)>,
    }

    loom::lazy_static! {
        static ref SLEEPERS: Mutex<Sleepers> = Mutex::new(Sleepers::default());
        static ref WOKEN: Condvar = Condvar::new();
    }

    fn key(word: &AtomicU32) -> usize {
        (&raw const *word).addr()
    }

    pub(crate) fn wait(word: &AtomicU32, seen: u32, _limit: Duration) {
        let mut sleepers = SLEEPERS.lock().expect("not poisoned");
        if word.load(Ordering::Relaxed) != seen {
            return;
        }
        let me = (key(word), sleepers.next);
        sleepers.next += 1;
        sleepers.asleep.push(me);
        while sleepers.asleep.contains(&me) {
            sleepers = WOKEN.wait(sleepers).expect("not poisoned");
        }
    }

    pub(crate) fn wake(word: &AtomicU32) {
        let mut sleepers = SLEEPERS.lock().expect("not poisoned");
        sleepers.asleep.retain(|(place, _)| *place != key(word));
        WOKEN.notify_all();
    }
}
