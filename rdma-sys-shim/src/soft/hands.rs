//! Lending a hand: a thread that waits carries out what peers ask of memory that they cannot map. That spares them the
//! kernel's calls, and takes nothing from a program that computes: what nobody takes up goes by the kernel after a moment.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use super::agent;
use super::port::SoftPort;
pub use super::slots::Wanted;
use super::slots::{self, SLOTS, Slots};

/// Of this process, those with memory that peers cannot map.
static PORTS: Mutex<Ports> = Mutex::new(Ports {
    users: Vec::new(),
    all: None,
});
/// How many these are, for waits that have none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Requests that threads of this process served while they waited.
static SERVED: AtomicU64 = AtomicU64::new(0);

struct Ports {
    /// Each with its regions.
    users: Vec<(Arc<SoftPort>, usize)>,
    all: Option<Arc<[Arc<SoftPort>]>>,
}

impl Ports {
    fn note(&mut self) {
        COUNT.store(self.users.len(), Ordering::Relaxed);
        self.all = match self.users.is_empty() {
            true => None,
            false => Some(self.users.iter().map(|(port, _)| port.clone()).collect()),
        };
    }
}

fn ports() -> MutexGuard<'static, Ports> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kept by a region that peers cannot map: who waits looks at the slots of its port.
pub(crate) struct Attached(Arc<SoftPort>);

impl Attached {
    pub(crate) fn new(port: &Arc<SoftPort>) -> Self {
        WATCHES_FORKS.call_once(watch_forks);
        let mut ports = ports();
        let mut known = ports.users.iter_mut();
        match known.find(|(other, _)| Arc::ptr_eq(other, port)) {
            Some((_, regions)) => *regions += 1,
            None => {
                ports.users.push((port.clone(), 1));
                ports.note();
            }
        }
        Self(port.clone())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut ports = ports();
        let mut known = ports.users.iter();
        let Some(index) = known.position(|(port, _)| Arc::ptr_eq(port, &self.0)) else {
            return;
        };
        ports.users[index].1 -= 1;
        if ports.users[index].1 == 0 {
            ports.users.swap_remove(index);
            ports.note();
        }
    }
}

static WATCHES_FORKS: Once = Once::new();
/// From the process that was started to this one: a hand of another is nobody's here.
static FORKS_BEHIND: AtomicU32 = AtomicU32::new(0);

/// What a forked child has is a copy, and not what peers mean: nothing that waits there serves them.
fn watch_forks() {
    extern "C" fn in_child() {
        COUNT.store(0, Ordering::Relaxed);
        FORKS_BEHIND.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores to an atomic.
    let rc = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if rc != 0 {
        tracing::warn!(
            rc,
            "pthread_atfork failed: a forked child may serve peers by mistake"
        );
    }
}

/// Whether this process has memory that peers cannot map: then who waits may as well lend them a [`Hand`].
#[inline]
#[must_use]
pub fn has_attached() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// What a thread that waits does for peers of its process: reads and writes of memory that they cannot map.
pub struct Hand {
    ports: Arc<[Arc<SoftPort>]>,
    is_lent: bool,
    /// As many as there were when it was made.
    forks_behind: u32,
}

impl Hand {
    /// `None` where there is no such memory.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        if !has_attached() {
            return None;
        }
        let ports = ports().all.clone()?;
        Some(Self::of(ports))
    }

    fn of(ports: Arc<[Arc<SoftPort>]>) -> Self {
        Self {
            ports,
            is_lent: false,
            forks_behind: FORKS_BEHIND.load(Ordering::Relaxed),
        }
    }

    /// Of nobody else's.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_port(port: &Arc<SoftPort>) -> Self {
        Self::of([port.clone()].into())
    }

    /// Those that are this process's: in a forked child, none.
    fn own_ports(&self) -> &[Arc<SoftPort>] {
        match self.forks_behind == FORKS_BEHIND.load(Ordering::Relaxed) {
            true => &self.ports,
            false => &[],
        }
    }

    /// Tells peers that the calling thread is about to call [`serve`](Self::serve) again and again.
    pub fn lend(&mut self) {
        if !self.is_lent {
            self.is_lent = true;
            self.own_ports().iter().for_each(|port| port.hands().lend());
        }
    }

    /// Tells them that it will not, for a while.
    pub fn withdraw(&mut self) {
        if self.is_lent {
            self.is_lent = false;
            self.own_ports()
                .iter()
                .for_each(|port| port.hands().withdraw());
        }
    }

    /// Does what peers ask for; false if they ask for nothing.
    pub fn serve(&self) -> bool {
        let served = self.own_ports().iter().fold(0, |served, port| {
            let carry_out = |index: usize, slot: &slots::Slot| agent::carry_out(port, index, slot);
            slots::serve_offered(&**port, SLOTS, carry_out) + served
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

    /// Sleeps for `limit`, or until a peer calls for a hand.
    pub fn sleep(&self, limit: Duration) {
        // Hardly any process has two devices.
        match self.own_ports().first() {
            Some(port) => port.hands().sleep(limit),
            None => std::thread::sleep(limit),
        }
    }

    /// Whether a peer would have liked to ask while no hand was lent, since this was called last.
    #[must_use]
    pub fn was_wanted(&self) -> Wanted {
        self.own_ports().iter().fold(Wanted::No, |wanted, port| {
            port.hands().were_wanted().max(wanted)
        })
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.withdraw();
    }
}
