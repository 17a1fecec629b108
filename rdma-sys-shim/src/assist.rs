//! Assist: a waiting thread serves requests of its process's peers. So peers need not wait for another thread or use
//! the kernel. It costs a program that computes nothing: if no thread takes a request, the origin does without.
//!
//! A thread may also serve *in passing*: waits that are still short call `serve_in_passing`, and a front end has its
//! host call it whenever the host looks for messages. Nobody knows when the next call comes, so such a thread promises
//! nothing. For some milliseconds after it has looked at the slots of soft, and after the end of a wait, origins make
//! requests as if it polled: the next wait may be about to begin. Over tcp, a look that finds requests soon after the
//! look before puts the agent to sleep, and a timer wakes it if none is found for 0.2 ms (`channel::lending`). So a
//! rank that returns and computes leaves requests without service for no longer than that. Looks that find nothing come
//! to be a microsecond apart, those over tcp at least half of one. The thread takes no lock that it would have to wait
//! for, so the host may call it on any thread, on several at once, and within the library's own calls and waits.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Serves requests of peers by a waiting thread.
pub(crate) trait Assisted: Send + Sync {
    /// A thread is about to call [`serve`](Self::serve) repeatedly. Peers may be told, and an agent may sleep
    /// meanwhile. Peers must not depend on the thread, since something may keep it from serving.
    fn lend(&self) {}

    /// The thread stops calling `serve` for a while.
    fn withdraw(&self) {}

    /// Serves the present requests without waiting. Returns the number of requests or connections served. Another call,
    /// or [`withdraw`](Self::withdraw), follows.
    fn serve(&self) -> usize;

    /// As `serve`, by a thread that passes by `now`: it has not called `lend`, and may pass again at once or never. Waits
    /// for no lock.
    fn serve_in_passing(&self, now: Instant) -> usize;

    /// Sleeps for `limit`, or until a peer calls.
    fn sleep(&self, limit: Duration);

    /// Whether a peer has called since the last check: it made a request while no thread assisted.
    fn take_call(&self) -> bool;
}

/// All [`Assisted`] of this process.
static ALL: Mutex<All> = Mutex::new(All {
    users: Vec::new(),
    list: None,
});
/// Their number, so that a wait need not lock `ALL` if there are none. A forked child sets it to 0, since the lock may
/// be held for ever there.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of them have peers that wait for an assisting thread before they do without.
static COUNT_WAITING: AtomicUsize = AtomicUsize::new(0);
/// Requests that threads of this process served while they waited.
static SERVED: AtomicU64 = AtomicU64::new(0);

/// The [`Assisted`] that one wait serves together.
type AssistedList = Arc<[Arc<dyn Assisted>]>;

struct All {
    users: Vec<User>,
    list: Option<AssistedList>,
}

struct User {
    assisted: Arc<dyn Assisted>,
    waits: bool,
    /// The number of [`Attached`]; never 0.
    holders: usize,
}

impl All {
    fn note(&mut self) {
        let list: AssistedList = self
            .users
            .iter()
            .map(|user| user.assisted.clone())
            .collect();
        COUNT.store(list.len(), Ordering::Relaxed);
        let waiting = self.users.iter().filter(|user| user.waits).count();
        COUNT_WAITING.store(waiting, Ordering::Relaxed);
        self.list = (!list.is_empty()).then_some(list);
    }

    fn index(&self, assisted: &Arc<dyn Assisted>) -> Option<usize> {
        let is_it =
            |user: &User| std::ptr::addr_eq(Arc::as_ptr(&user.assisted), Arc::as_ptr(assisted));
        self.users.iter().position(is_it)
    }
}

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this is kept, waiting threads assist.
pub(crate) struct Attached(Arc<dyn Assisted>);

impl Attached {
    /// `waits`: peers wait for an assisting thread before they do without. So threads assist from the beginning of a
    /// wait.
    pub(crate) fn new(assisted: Arc<dyn Assisted>, waits: bool) -> Self {
        WATCHES_FORKS.call_once(watch_forks);
        let mut all = all();
        match all.index(&assisted) {
            Some(index) => all.users[index].holders += 1,
            None => {
                all.users.push(User {
                    assisted: assisted.clone(),
                    waits,
                    holders: 1,
                });
                all.note();
            }
        }
        Self(assisted)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut all = all();
        let Some(index) = all.index(&self.0) else {
            return;
        };
        all.users[index].holders -= 1;
        if all.users[index].holders == 0 {
            all.users.remove(index);
            all.note();
        }
    }
}

static WATCHES_FORKS: Once = Once::new();
/// Forks from the process that was started to this one. An [`Assist`] from before a fork serves nobody in the child.
static FORKS_BEHIND: AtomicU32 = AtomicU32::new(0);

/// A forked child has a copy of the state, but peers do not mean the child: threads that wait there serve nobody.
fn watch_forks() {
    extern "C" fn in_child() {
        COUNT.store(0, Ordering::Relaxed);
        COUNT_WAITING.store(0, Ordering::Relaxed);
        FORKS_BEHIND.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores to atomics.
    let rc = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if rc != 0 {
        tracing::warn!(
            rc,
            "pthread_atfork failed: a forked child may serve peers by mistake"
        );
    }
}

/// Whether peers of this process wait for an assisting thread, since it has memory that they cannot map. If so, a
/// waiting thread lends them an [`Assist`] from the beginning.
#[inline]
#[must_use]
pub fn has_attached() -> bool {
    COUNT_WAITING.load(Ordering::Relaxed) != 0
}

/// Threads pass by some tens of nanoseconds apart, and then a look for requests would cost them more than anything else.
/// So looks that find nothing come to be `APART` from each other, but at most `MOST_SKIPPED` calls.
const APART: Duration = Duration::from_micros(1);
const MOST_SKIPPED: u32 = 63;

struct Passing {
    looked: Option<Instant>,
    /// The calls between the last look and the next one.
    skipped: u32,
}

/// One thread at a time looks.
static PASSING: Mutex<Passing> = Mutex::new(Passing {
    looked: None,
    skipped: 0,
});
/// The calls until the next look.
static CALLS_LEFT: AtomicU32 = AtomicU32::new(0);

/// Serves requests of peers by a thread that passes by, and does not wait in the library; returns how many. Most calls
/// are two loads; if no peer can make a request, all are one. It waits for no lock, so it may be called from anywhere,
/// by several threads.
pub fn serve_in_passing() -> usize {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    // Threads may lose each other's counts.
    let left = CALLS_LEFT.load(Ordering::Relaxed);
    if left > 0 {
        CALLS_LEFT.store(left - 1, Ordering::Relaxed);
        return 0;
    }
    let Some(mut passing) = try_lock(&PASSING) else {
        return 0;
    };
    let Some(list) = try_lock(&ALL).and_then(|all| all.list.clone()) else {
        return 0;
    };
    let now = Instant::now();
    let served: usize = list.iter().map(|one| one.serve_in_passing(now)).sum();
    if served > 0 {
        SERVED.fetch_add(served as u64, Ordering::Relaxed);
    }
    CALLS_LEFT.store(passing.skip(now, served > 0), Ordering::Relaxed);
    served
}

impl Passing {
    /// How many calls come before the next look.
    fn skip(&mut self, now: Instant, has_served: bool) -> u32 {
        let before = self.looked.replace(now);
        let since = before.map(|before| now.saturating_duration_since(before));
        self.skipped = match since {
            Some(since) if !has_served && since < APART => (2 * self.skipped + 1).min(MOST_SKIPPED),
            Some(since) if !has_served && since < 2 * APART => self.skipped,
            Some(_) if !has_served => self.skipped / 2,
            _ => 0,
        };
        self.skipped
    }
}

/// `None` while another thread has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The service of a waiting thread for peers of its process.
pub struct Assist {
    list: AssistedList,
    is_lent: bool,
    /// `FORKS_BEHIND` at creation.
    forks_behind: u32,
}

impl Assist {
    /// `None` if peers can make no request that a thread could serve.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return None;
        }
        all().list.clone().map(Self::of)
    }

    fn of(list: AssistedList) -> Self {
        Self {
            list,
            is_lent: false,
            forks_behind: FORKS_BEHIND.load(Ordering::Relaxed),
        }
    }

    /// Only of `assisted`.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_one(assisted: Arc<dyn Assisted>) -> Self {
        Self::of([assisted].into())
    }

    /// The list, if this process made it; empty in a forked child.
    fn own(&self) -> &[Arc<dyn Assisted>] {
        match self.forks_behind == FORKS_BEHIND.load(Ordering::Relaxed) {
            true => &self.list,
            false => &[],
        }
    }

    /// Tells peers that the calling thread is about to call [`serve`](Self::serve) repeatedly.
    pub fn lend(&mut self) {
        if !self.is_lent {
            self.is_lent = true;
            self.own().iter().for_each(|one| one.lend());
        }
    }

    /// Tells peers that the thread stops serving for a while.
    pub fn withdraw(&mut self) {
        if self.is_lent {
            self.is_lent = false;
            self.own().iter().for_each(|one| one.withdraw());
        }
    }

    /// Serves requests of peers; returns whether there were any.
    pub fn serve(&self) -> bool {
        let served: usize = self.own().iter().map(|one| one.serve()).sum();
        if served > 0 {
            SERVED.fetch_add(served as u64, Ordering::Relaxed);
        }
        served > 0
    }

    /// The number of requests that threads of this process have served by assist.
    #[must_use]
    pub fn served_by_process() -> u64 {
        SERVED.load(Ordering::Relaxed)
    }

    /// Sleeps for `limit`, or until a peer calls.
    pub fn sleep(&self, limit: Duration) {
        // The first is the device that joins all ranks, if that device is assisted.
        match self.own().first() {
            Some(one) => one.sleep(limit),
            None => std::thread::sleep(limit),
        }
    }

    /// Whether a peer has called since the last check.
    #[must_use]
    pub fn take_call(&self) -> bool {
        let all = self.own().iter();
        all.fold(false, |called, one| one.take_call() | called)
    }
}

impl Drop for Assist {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_passing_that_find_nothing_come_to_be_apart() {
        let mut passing = Passing {
            looked: None,
            skipped: 0,
        };
        let mut now = Instant::now();
        let mut skips = |nanos: u64, has_served| {
            now += Duration::from_nanos(nanos);
            passing.skip(now, has_served)
        };
        let often: Vec<u32> = (0..8).map(|_| skips(50, false)).collect();
        assert_eq!(often, [0, 1, 3, 7, 15, 31, 63, 63]);
        assert_eq!(skips(1500, false), 63);
        assert_eq!(skips(5000, false), 31);
        assert_eq!(skips(50, true), 0);
        // Calls that are far apart each look.
        let seldom: Vec<u32> = (0..3).map(|_| skips(5000, false)).collect();
        assert_eq!(seldom, [0; 3]);
    }
}
