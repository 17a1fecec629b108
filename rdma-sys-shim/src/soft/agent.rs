//! The agent: a thread of the target that carries out operations that its peers cannot carry out
//! themselves: atomics on memory that they cannot map, and every transfer if the kernel forbids
//! cross-memory attach.
//!
//! It runs while a region that needs it is registered, and for a short time afterwards, so that a
//! program that creates and frees windows in a loop does not start a thread each time.
//!
//! Before it leaves, it clears `running`, and then serves the slots that are ready once more. An origin that finds
//! `running` clear takes its request back. Slots that are ready at the same time are served round robin.
//!
//! A process expects to need an agent if cross-memory attach is unlikely to work here (`cross_memory::is_likely`), or
//! after its own attempt to attach to a peer has failed.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::iovec;
use super::request::{self, Operation};
use super::segment::{SLOT_BYTES, Segment};
use super::servers;
use super::slots::{self, RoundRobin, Slot, Slots};
use super::table;
use crate::device::combine::{self, Combination, Combined};
use crate::guard::{self, AccessFault};
use crate::memory::copy;
use crate::signals::without_signals;
use crate::words::{compare_swap, fetch_add, store};
use crate::{Access, Error, RemoteAddress, Result, Width};

/// Unsuccessful checks for requests before an agent sleeps: some microseconds.
const LOOKS: u32 = 100;
/// How long an agent stays without a region.
const LINGER: Duration = Duration::from_millis(500);

pub(crate) struct Agent {
    shared: Arc<Shared>,
}

struct Shared {
    segment: Arc<Segment>,
    /// The number of regions that need the agent.
    users: AtomicUsize,
    /// Whether the thread serves, and whether it has to end. The bell also says so, but any peer can write to it.
    serves: AtomicBool,
    ends: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Agent {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        Self {
            shared: Arc::new(Shared {
                segment,
                users: AtomicUsize::new(0),
                serves: AtomicBool::new(false),
                ends: AtomicBool::new(false),
                thread: Mutex::new(None),
            }),
        }
    }

    /// Called before a region that needs the agent is published.
    pub(crate) fn retain(&self) -> Result<()> {
        guard::watch();
        // Under the lock: an agent that is about to end either sees the new user, or has already ended.
        let mut thread = self.shared.thread();
        self.shared.users.fetch_add(1, Ordering::SeqCst);
        self.shared.segment.bell().set_running(true);
        if self.shared.serves.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(ended) = thread.take() {
            let _ = ended.join();
        }
        self.shared.serves.store(true, Ordering::Relaxed);
        let shared = self.shared.clone();
        let spawned = without_signals(|| {
            thread::Builder::new()
                .name("transom-agent".into())
                .stack_size(128 << 10)
                .spawn(move || serve(&shared))
        });
        match spawned {
            Ok(handle) => {
                *thread = Some(handle);
                Ok(())
            }
            Err(error) => {
                self.shared.serves.store(false, Ordering::Relaxed);
                self.shared.segment.bell().set_running(false);
                self.shared.users.fetch_sub(1, Ordering::SeqCst);
                Err(Error::os("starting the agent thread", error))
            }
        }
    }

    /// Called after a region that needed the agent was withdrawn.
    pub(crate) fn release(&self) {
        self.shared.users.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let thread = self.shared.thread().take();
        if let Some(thread) = thread {
            self.shared.users.store(0, Ordering::SeqCst);
            self.shared.ends.store(true, Ordering::SeqCst);
            slots::ring(self.shared.segment.bell());
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn thread(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(shared: &Shared) {
    let segment = &*shared.segment;
    let bell = segment.bell();
    let serve_one = |index: usize, slot: &Slot| carry_out(segment, index, slot);
    let mut last_needed = Instant::now();
    let mut round_robin = RoundRobin::default();
    loop {
        let mut idle = true;
        for _ in 0..LOOKS {
            if slots::serve_ready(segment, &mut round_robin, serve_one) {
                idle = false;
                break;
            }
            // No `yield_now`: a thread that polls would keep the processor to the end of its time slice.
            spin_loop();
        }
        let ends = shared.ends.load(Ordering::SeqCst);
        if !idle && !ends {
            continue;
        }
        if shared.users.load(Ordering::SeqCst) > 0 {
            last_needed = Instant::now();
        } else if ends || last_needed.elapsed() >= LINGER {
            // Under the lock, as in `retain`.
            let _guard = shared.thread();
            if shared.users.load(Ordering::SeqCst) == 0 {
                shared.serves.store(false, Ordering::Relaxed);
                slots::leave(segment, serve_one);
                return;
            }
        }
        bell.sleep(LINGER);
    }
}

/// Carries out the request in a slot of this process. `None` if the table does not allow it, or if the memory is no
/// longer mapped with the necessary right ([`request::FAULTED`]).
pub(super) fn carry_out(segment: &Segment, index: usize, slot: &Slot) -> Option<u64> {
    servers::serve(|| check_and_apply(segment, index, slot)).flatten()
}

fn check_and_apply(segment: &Segment, index: usize, slot: &Slot) -> Option<u64> {
    let operation = Operation::from_code(slot.operation.load(Ordering::Relaxed))?;
    let width = slot.width.load(Ordering::Relaxed) as usize;
    let rkey = slot.rkey.load(Ordering::Relaxed);
    let address = slot.address.load(Ordering::Relaxed);
    let len = slot.len.load(Ordering::Relaxed) as usize;
    let [first, second] = [0, 1].map(|i| slot.operands[i].load(Ordering::Relaxed));
    let words = match operation {
        Operation::Write | Operation::Read => len <= SLOT_BYTES,
        Operation::FetchAdd | Operation::CompareSwap => len == width,
        Operation::AddEach | Operation::StoreEach => {
            len <= SLOT_BYTES && matches!(width, 1 | 2 | 4 | 8) && len.is_multiple_of(width)
        }
        Operation::Scatter | Operation::Gather | Operation::Combine => true,
    };
    if !words || table::allows(segment, rkey, address, len as u64, operation.need()).is_err() {
        return None;
    }
    let at = address as usize as *mut u8;
    if operation == Operation::Combine {
        let lock = RemoteAddress {
            address: first,
            rkey: second,
        };
        combine(segment, index, (at, len, rkey), lock)?;
        return Some(slot.operands[0].load(Ordering::Relaxed));
    }
    let data = request::data(segment, index, operation, len);
    // SAFETY: the range was just found in the table of registered memory that this process alone writes. The region's
    // owner promised (`Device::register`) that peers, for whom this thread acts, may access it. `servers::serve` keeps
    // the region from being withdrawn meanwhile. If the memory is no longer mapped, the guard ends the access; a copy
    // or atomic of a slot's length holds no lock or value to drop. The slot's data is shared memory of the segment.
    let old = unsafe {
        guard::guarded(at, len, || {
            apply(operation, at, width, len, [first, second], data)
        })
    };
    let old = match old {
        Ok(old) => old?,
        Err(AccessFault) => {
            slot.width.store(request::FAULTED, Ordering::Relaxed);
            return None;
        }
    };
    Some(match operation {
        // The operand may contain the data.
        Operation::Write | Operation::Read => slot.operands[0].load(Ordering::Relaxed),
        _ => old,
    })
}

/// Carries out an accumulate on `len` bytes at `at`, which the table allows. As for [`carry_out`]; if it was locked out, the
/// slot says so.
fn combine(
    segment: &Segment,
    index: usize,
    (at, len, rkey): (*mut u8, usize, u64),
    lock: RemoteAddress,
) -> Option<()> {
    let slot = segment.slot(index);
    let what = Combination::decode(slot.width.load(Ordering::Relaxed).to_ne_bytes())?;
    let (combiner, address) = (segment.combiner.get()?, at.addr() as u64);
    let (element, needs_lock) = combiner.element(what, address)?;
    let count = element.count(len as u64)?;
    let sent = what.sent(&element).checked_mul(count)?;
    let fetched = what.fetched(&element).checked_mul(count)?;
    let allows =
        |rkey, address, len| table::allows(segment, rkey, address, len, Access::ATOMIC).is_ok();
    let may = match needs_lock {
        true => lock.address.is_multiple_of(8) && allows(lock.rkey, lock.address, 8),
        false => allows(rkey, address, len as u64),
    };
    if fetched.checked_add(sent)? > SLOT_BYTES || !may {
        return None;
    }
    let (operands, old) = request::combined(segment, index, sent, fetched);
    let lock = needs_lock.then_some(lock.address as usize as *mut u8);
    // SAFETY: as in `check_and_apply`, for both places. What is sent and fetched has room in the slot.
    let combined =
        unsafe { combine::carry_out(combiner, what, lock, (at, count, len), operands, old) };
    slot.width.store(
        match combined {
            Combined::Done => return Some(()),
            Combined::Busy => request::LOCKED_OUT,
            Combined::Faulted => request::FAULTED,
            Combined::NotALock => 0,
        },
        Ordering::Relaxed,
    );
    None
}

/// Carries out one operation on `len` bytes at `at`. `data` holds the bytes to write, or receives the bytes read.
/// Returns the old value of an atomic; `None` if words are misaligned.
///
/// # Safety
/// `at` is mapped for `len` bytes, and all other accesses to them meanwhile are those of memory shared with peers.
/// `data` is readable for `len` bytes, and writable for a read; for a list of pieces it is writable for [`SLOT_BYTES`].
/// Atomics on single words do not use it.
pub(crate) unsafe fn apply(
    operation: Operation,
    at: *mut u8,
    width: usize,
    len: usize,
    [first, second]: [u64; 2],
    data: *mut u8,
) -> Option<u64> {
    // From the last to the first, as `Update::Store` asks; sums need no order.
    let each = |update: &dyn Fn(*mut u8, u64) -> Option<u64>| {
        let mut widths = [Width::W1, Width::W2, Width::W4, Width::W8].into_iter();
        let word = widths.find(|word| word.bytes() == width)?;
        for offset in (0..len).step_by(width).rev() {
            // SAFETY: inside `data`, by the caller's promise.
            let value = unsafe { word.load(data.add(offset)) };
            update(at.wrapping_add(offset), value)?;
        }
        Some(0)
    };
    match operation {
        Operation::Write => {
            // SAFETY: the caller's promise.
            unsafe { copy(at, data, len) };
            Some(0)
        }
        Operation::Read => {
            // SAFETY: the caller's promise.
            unsafe { copy(data, at, len) };
            Some(0)
        }
        // SAFETY: the caller's promise.
        Operation::FetchAdd => unsafe { fetch_add(at, width, first) },
        // SAFETY: the caller's promise.
        Operation::CompareSwap => unsafe { compare_swap(at, width, first, second) },
        // SAFETY: the caller's promise, for each word.
        Operation::AddEach => each(&|at, value| unsafe { fetch_add(at, width, value) }),
        Operation::Scatter | Operation::Gather => {
            // SAFETY: the caller's promise.
            let applied = unsafe { iovec::apply(operation, at, len as u64, width, data) };
            applied.map(|()| 0)
        }
        // It is more than an operation on memory: see `combine`.
        Operation::Combine => None,
        // SAFETY: the caller's promise, for each word.
        Operation::StoreEach => each(&|at, value| unsafe { store(at, width, value) }),
    }
}
