//! Stores through a neighbour's mapping, as a device may find them.
//!
//! A processor may keep stores back until it is told to fence, and a device that is asked for an atomic before that
//! may have done it while nobody sees them. No machine that tests run on is caught at it. So copies to watched memory
//! are remembered until this process fences or writes a flag; where the adversarial device is asked for an atomic
//! before that, the bytes become again what they were, and what was stored comes later.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::{StoreHooks, copy_unseen};

/// As many stores as a thread is caught with, and bytes of each.
const STORES: usize = 64;
const BYTES: usize = 4096;

/// What the routines tell this file that copy to windows.
pub(crate) static HOOKS: StoreHooks = StoreHooks {
    before_store: note,
    before_flag: settle,
};

/// Whether there is anything to watch.
static WATCHING: AtomicBool = AtomicBool::new(false);
/// How often this process fenced or wrote a flag. What was stored before is not held back.
static FENCES: AtomicU64 = AtomicU64::new(0);
/// Whether `Memory::late` has anything in it.
static ANY_LATE: AtomicBool = AtomicBool::new(false);

static MEMORY: Mutex<Memory> = Mutex::new(Memory {
    watched: Vec::new(),
    late: Vec::new(),
    due: None,
});

struct Memory {
    /// First and last address.
    watched: Vec<(usize, usize)>,
    late: Vec<Store>,
    due: Option<Instant>,
}

struct Store {
    to: *mut u8,
    bytes: Box<[u8]>,
    fences: u64,
}

// SAFETY: the pointer is used under the lock of `MEMORY` only, while the memory is watched.
unsafe impl Send for Store {}

thread_local! {
    /// What stood where this thread stored since it fenced last.
    static OVERWRITTEN: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
}

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// # Safety
    /// `len` bytes at `at` are mapped.
    unsafe fn of(at: *mut u8, len: usize) -> Self {
        let mut bytes = vec![0; len].into_boxed_slice();
        // SAFETY: the caller's promise; the box is as long.
        unsafe { copy_unseen(bytes.as_mut_ptr(), at, len) };
        Self {
            to: at,
            bytes,
            fences: FENCES.load(Ordering::SeqCst),
        }
    }

    /// # Safety
    /// The memory is still mapped.
    unsafe fn carry_out(&self) {
        // SAFETY: the caller's promise.
        unsafe { copy_unseen(self.to, self.bytes.as_ptr(), self.bytes.len()) };
    }
}

impl Memory {
    fn watches(&self, at: *mut u8, len: usize) -> bool {
        let range =
            |&(first, last): &(usize, usize)| first <= at.addr() && at.addr() + (len - 1) <= last;
        self.watched.iter().any(range)
    }

    fn carry_out_late(&mut self) {
        for store in self.late.drain(..) {
            // SAFETY: it was watched when it was held back, and who stops watching comes here first.
            unsafe { store.carry_out() };
        }
        self.due = None;
        ANY_LATE.store(false, Ordering::SeqCst);
    }
}

/// Memory that stores are held back from, until drop; a forked child, which has a copy of the lock, leaves it.
pub(crate) struct Watched {
    first: usize,
    last: usize,
    pid: u32,
}

impl Watched {
    /// # Safety
    /// The memory is mapped, to be read and written, until the value is dropped.
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Self {
        let (first, last) = (base.addr(), base.addr() + len.max(1) - 1);
        memory().watched.push((first, last));
        WATCHING.store(true, Ordering::SeqCst);
        Self {
            first,
            last,
            pid: std::process::id(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        FENCES.fetch_add(1, Ordering::SeqCst);
        let mut memory = memory();
        memory.carry_out_late();
        let this = |&range: &(usize, usize)| range == (self.first, self.last);
        if let Some(at) = memory.watched.iter().position(this) {
            memory.watched.swap_remove(at);
        }
    }
}

fn is_watching() -> bool {
    WATCHING.load(Ordering::Relaxed)
}

/// To be called before bytes are copied to `to`.
fn note(to: *mut u8, len: usize) {
    if is_watching() && len > 0 {
        note_watched(to, len.min(BYTES));
    }
}

#[cold]
fn note_watched(to: *mut u8, len: usize) {
    {
        let mut memory = memory();
        if !memory.watches(to, len) {
            return;
        }
        // No store overtakes an earlier one to the same place.
        memory.carry_out_late();
    }
    // SAFETY: watched, and so mapped; whoever copies there keeps it so.
    let overwritten = unsafe { Store::of(to, len) };
    let _ = OVERWRITTEN.try_with(|stores| {
        let mut stores = stores.borrow_mut();
        stores.retain(|store| store.fences == overwritten.fences);
        if stores.len() < STORES {
            stores.push(overwritten);
        }
    });
}

/// What was stored is seen by everybody before what comes next.
fn settle() {
    if is_watching() {
        FENCES.fetch_add(1, Ordering::SeqCst);
        if ANY_LATE.load(Ordering::SeqCst) {
            memory().carry_out_late();
        }
    }
}

/// What this thread stored, and nothing has put in order since, is not seen for as long as `pause`.
pub(crate) fn hold_back(pause: Duration) {
    if !is_watching() {
        return;
    }
    let overwritten = OVERWRITTEN.try_with(RefCell::take).unwrap_or_default();
    let mut memory = memory();
    // Whoever fences from here on waits for what becomes of it.
    ANY_LATE.store(true, Ordering::SeqCst);
    let fences = FENCES.load(Ordering::SeqCst);
    let mut held = Vec::new();
    for old in overwritten.into_iter().rev() {
        if old.fences != fences || !memory.watches(old.to, old.bytes.len()) {
            continue;
        }
        // SAFETY: still watched, and so mapped.
        unsafe {
            held.push(Store::of(old.to, old.bytes.len()));
            old.carry_out();
        }
    }
    memory.late.extend(held.into_iter().rev());
    match memory.late.is_empty() {
        true => ANY_LATE.store(false, Ordering::SeqCst),
        false => memory.due = Some(memory.due.unwrap_or_else(|| Instant::now() + pause)),
    }
}

/// Carries out what is due, and says when there is more to do.
pub(crate) fn carry_out_due(now: Instant) -> Option<Instant> {
    if !ANY_LATE.load(Ordering::SeqCst) {
        return None;
    }
    let mut memory = memory();
    if memory.due.is_some_and(|due| due <= now) {
        memory.carry_out_late();
    }
    memory.due
}

#[cfg(test)]
mod tests {
    use rdma_sys_shim::memory::{before_flag, copy, full_fence, set_store_hooks};

    use super::*;

    /// Copies 7 over 1, and says what is there once stores were held back.
    fn found_after(in_between: impl FnOnce()) -> (u64, u64) {
        set_store_hooks(&HOOKS);
        let mut word = 1_u64;
        let to = (&raw mut word).cast::<u8>();
        // SAFETY: a local that outlives what watches it, and what is copied to it.
        let watched = unsafe {
            let watched = Watched::new(to, 8);
            copy(to, (&raw const SEVEN).cast(), 8);
            watched
        };
        in_between();
        hold_back(Duration::from_secs(60));
        // SAFETY: as above.
        let found = unsafe { to.cast::<u64>().read_volatile() };
        drop(watched);
        // SAFETY: as above.
        (found, unsafe { to.cast::<u64>().read_volatile() })
    }
    static SEVEN: u64 = 7;

    #[test]
    fn what_is_not_fenced_comes_late_and_nothing_else() {
        // Other tests of this process may fence meanwhile.
        assert!((0..1000).any(|_| found_after(|| ()) == (1, 7)));
        assert_eq!(found_after(full_fence), (7, 7));
        assert_eq!(found_after(before_flag), (7, 7));
        let from_another_thread = || {
            let held = std::thread::spawn(|| hold_back(Duration::ZERO));
            held.join().unwrap();
            before_flag();
        };
        assert_eq!(found_after(from_another_thread), (7, 7));
    }
}
