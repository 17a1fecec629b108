//! Assist: a thread that waits carries out what peers ask of memory that they cannot map. That spares them the
//! kernel's calls, and takes nothing from a program that computes: what nobody takes up goes by the kernel after a moment.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use super::agent;
use super::segment::Segment;
use super::slots::{self, SLOTS, Slots};
use crate::guard;

/// The segments of this process through which peers find memory that they cannot map.
static SEGMENTS: Mutex<Segments> = Mutex::new(Segments {
    users: Vec::new(),
    all: None,
});
/// How many there are, for waits where there are none: so, too, in a forked child, which may have the lock above held for
/// ever.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Requests that threads of this process served while they waited.
static SERVED: AtomicU64 = AtomicU64::new(0);

/// What is looked at together.
type SegmentList = Option<Arc<[Arc<Segment>]>>;

struct Segments {
    users: Vec<User>,
    all: SegmentList,
}

struct User {
    segment: Arc<Segment>,
    /// With memory that peers cannot map; never 0.
    regions: usize,
}

impl Segments {
    fn note(&mut self) {
        let segments: Arc<[_]> = self.users.iter().map(|user| user.segment.clone()).collect();
        COUNT.store(segments.len(), Ordering::Relaxed);
        self.all = (!segments.is_empty()).then_some(segments);
    }
}

fn segments() -> MutexGuard<'static, Segments> {
    SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kept by a region that peers cannot map: who waits looks at the slots of its segment from the beginning.
pub(crate) struct Attached(Arc<Segment>);

impl Attached {
    pub(crate) fn new(segment: &Arc<Segment>) -> Self {
        guard::watch();
        WATCHES_FORKS.call_once(watch_forks);
        let mut segments = segments();
        let mut users = segments.users.iter_mut();
        match users.find(|user| Arc::ptr_eq(&user.segment, segment)) {
            Some(user) => user.regions += 1,
            None => {
                segments.users.push(User {
                    segment: segment.clone(),
                    regions: 1,
                });
                segments.note();
            }
        }
        Self(segment.clone())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut segments = segments();
        let of_this = |user: &User| Arc::ptr_eq(&user.segment, &self.0);
        let Some(index) = segments.users.iter().position(of_this) else {
            return;
        };
        segments.users[index].regions -= 1;
        if segments.users[index].regions == 0 {
            segments.users.remove(index);
            segments.note();
        }
    }
}

static WATCHES_FORKS: Once = Once::new();
/// From the process that was started to this one: those of its parent serve nobody here.
static FORKS_BEHIND: AtomicU32 = AtomicU32::new(0);

/// What a forked child has is a copy, and not what peers mean: nothing that waits there serves them.
fn watch_forks() {
    extern "C" fn in_child() {
        COUNT.store(0, Ordering::Relaxed);
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

/// Whether this process has memory that peers cannot map: then who waits lends them a [`Assist`] from the beginning.
#[inline]
#[must_use]
pub fn has_attached() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// What a thread that waits does for peers of its process: reads and writes of memory that they cannot map.
pub struct Assist {
    segments: Arc<[Arc<Segment>]>,
    is_lent: bool,
    /// As many as there were when it was made.
    forks_behind: u32,
}

impl Assist {
    /// For memory that peers cannot map; `None` where there is none.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        if !has_attached() {
            return None;
        }
        segments().all.clone().map(Self::of)
    }

    fn of(segments: Arc<[Arc<Segment>]>) -> Self {
        Self {
            segments,
            is_lent: false,
            forks_behind: FORKS_BEHIND.load(Ordering::Relaxed),
        }
    }

    /// Of nobody else's.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_segment(segment: &Arc<Segment>) -> Self {
        Self::of([segment.clone()].into())
    }

    /// Those that are this process's: in a forked child, none.
    fn own_segments(&self) -> &[Arc<Segment>] {
        match self.forks_behind == FORKS_BEHIND.load(Ordering::Relaxed) {
            true => &self.segments,
            false => &[],
        }
    }

    /// Tells peers that the calling thread is about to call [`serve`](Self::serve) again and again.
    pub fn lend(&mut self) {
        if !self.is_lent {
            self.is_lent = true;
            self.own_segments()
                .iter()
                .for_each(|segment| segment.assist().lend());
        }
    }

    /// Tells them that it will not, for a while.
    pub fn withdraw(&mut self) {
        if self.is_lent {
            self.is_lent = false;
            self.own_segments()
                .iter()
                .for_each(|segment| segment.assist().withdraw());
        }
    }

    /// Does what peers ask for; whether they asked for anything.
    pub fn serve(&self) -> bool {
        let served = self.own_segments().iter().fold(0, |served, segment| {
            let carry_out =
                |index: usize, slot: &slots::Slot| agent::carry_out(segment, index, slot);
            slots::serve_offered(&**segment, 0..SLOTS, carry_out) + served
        });
        if served > 0 {
            SERVED.fetch_add(served as u64, Ordering::Relaxed);
        }
        served > 0
    }

    /// How many requests of peers threads of this process have served so.
    #[must_use]
    pub fn served_by_process() -> u64 {
        SERVED.load(Ordering::Relaxed)
    }

    /// Sleeps for `limit`, or until a peer calls.
    pub fn sleep(&self, limit: Duration) {
        // Hardly any process has two devices.
        match self.own_segments().first() {
            Some(segment) => segment.assist().sleep(limit),
            None => std::thread::sleep(limit),
        }
    }

    /// Whether a peer called since this was asked last: it moved much while no thread served.
    #[must_use]
    pub fn take_call(&self) -> bool {
        let segments = self.own_segments().iter();
        segments.fold(false, |called, segment| {
            segment.assist().take_call() | called
        })
    }
}

impl Drop for Assist {
    fn drop(&mut self) {
        self.withdraw();
    }
}
