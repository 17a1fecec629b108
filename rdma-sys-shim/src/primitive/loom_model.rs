//! The primitives of loom's models.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
pub(crate) use loom::thread::yield_now;

/// Looking again shows nothing new to whoever tries all interleavings.
pub(crate) const SPINS: u32 = 0;

/// It stands still.
pub fn milliseconds() -> u32 {
    1
}

/// Sleeping without a limit, so that a wake-up that is lost shows as a deadlock.
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

    /// Nothing in the models sleeps on what this is for.
    pub(crate) fn wake_one(word: &AtomicU32) {
        wake(word);
    }

    pub(crate) fn wake(word: &AtomicU32) {
        let mut sleepers = SLEEPERS.lock().expect("not poisoned");
        sleepers.asleep.retain(|(place, _)| *place != key(word));
        WOKEN.notify_all();
    }
}
