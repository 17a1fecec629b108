//! Stores through a neighbour's mapping, as a device may see them.
//!
//! Until a fence, a processor may delay stores. A device may then carry out an atomic while the stores are not yet
//! visible. No test machine actually shows this. So this file records copies to watched memory until this process
//! fences or writes a flag. If the adversarial device gets an atomic before that, the old bytes are restored, and the
//! stores take effect later.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::{StoreHooks, copy_unseen};

/// The most stores of a thread that are recorded, and the most bytes of each.
const STORES: usize = 64;
const BYTES: usize = 4096;

/// The hooks by which the routines that copy to windows call this file.
pub(crate) static HOOKS: StoreHooks = StoreHooks {
    before_store: note,
    before_flag: settle,
};

/// Whether any memory is watched.
static WATCHING: AtomicBool = AtomicBool::new(false);
/// How often this process fenced or wrote a flag. Earlier stores are not held back.
static FENCES: AtomicU64 = AtomicU64::new(0);
/// Whether `Memory::late` is not empty.
static ANY_LATE: AtomicBool = AtomicBool::new(false);

static MEMORY: Mutex<Memory> = Mutex::new(Memory {
    watched: Vec::new(),
    late: Vec::new(),
    due: None,
});

struct Memory {
    /// The first and the last address of each.
    watched: Vec<(usize, usize)>,
    late: Vec<Store>,
    due: Option<Instant>,
}

struct Store {
    to: *mut u8,
    bytes: Box<[u8]>,
    fences: u64,
}

// SAFETY: other threads use the pointer only under the lock of `MEMORY`, while the memory is watched.
unsafe impl Send for Store {}

thread_local! {
    /// The old bytes at the places to which this thread has stored since its last fence.
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
            // SAFETY: the memory was watched when the store was held back. Before memory is unwatched, its stores are
            // carried out here.
            unsafe { store.carry_out() };
        }
        self.due = None;
        ANY_LATE.store(false, Ordering::SeqCst);
    }
}

/// Memory from which stores are held back, until this is dropped. A forked child has a copy of the lock, and does
/// nothing.
pub(crate) struct Watched {
    first: usize,
    last: usize,
    pid: u32,
}

impl Watched {
    /// # Safety
    /// The memory is mapped for reading and writing until the value is dropped.
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
    // SAFETY: the memory is watched, and so mapped. The thread that copies to it keeps it mapped.
    let overwritten = unsafe { Store::of(to, len) };
    let _ = OVERWRITTEN.try_with(|stores| {
        let mut stores = stores.borrow_mut();
        stores.retain(|store| store.fences == overwritten.fences);
        if stores.len() < STORES {
            stores.push(overwritten);
        }
    });
}

/// Makes earlier stores visible to all before the next action.
fn settle() {
    if is_watching() {
        FENCES.fetch_add(1, Ordering::SeqCst);
        if ANY_LATE.load(Ordering::SeqCst) {
            memory().carry_out_late();
        }
    }
}

/// Hides this thread's stores for `pause`, unless something has ordered them.
pub(crate) fn hold_back(pause: Duration) {
    if !is_watching() {
        return;
    }
    let overwritten = OVERWRITTEN.try_with(RefCell::take).unwrap_or_default();
    let mut memory = memory();
    // Any thread that fences from here on waits until these stores are handled.
    ANY_LATE.store(true, Ordering::SeqCst);
    let fences = FENCES.load(Ordering::SeqCst);
    let mut held = Vec::new();
    for old in overwritten.into_iter().rev() {
        if old.fences != fences || !memory.watches(old.to, old.bytes.len()) {
            continue;
        }
        // SAFETY: the memory is still watched, and so mapped.
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

/// Carries out stores that are due, and returns when the next is due.
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

    /// Copies 7 over 1. Returns the value while stores are held back, and the value afterwards.
    fn found_after(in_between: impl FnOnce()) -> (u64, u64) {
        set_store_hooks(&HOOKS);
        let mut word = 1_u64;
        let to = (&raw mut word).cast::<u8>();
        // SAFETY: the local outlives both the watch and the copy to it.
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
        // Other tests of this process may fence in between.
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
