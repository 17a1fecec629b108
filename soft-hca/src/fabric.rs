//! The file that all processes of a job map: which queue pairs and regions there are, and what is under way.
//!
//! It stands for the network and for the tables in the adapters. A process writes its own entries; the process that
//! sends to a queue pair reads that pair's entry and the region that the request names, as the target's adapter would.
//! Entries of processes that have died are taken again by others.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::lock::SharedLock;
use crate::placement::Posted;
use crate::process;

pub(crate) const REGIONS: usize = 1 << 16;
pub(crate) const PAIRS: usize = 1 << 14;
pub(crate) const CONTEXTS: usize = 1 << 12;
/// The most receive requests of a queue pair.
pub(crate) const RECEIVES: usize = 512;
pub(crate) const RECEIVE_PIECES: usize = 4;
/// The most adapters of a host, and in all.
pub(crate) const PER_HOST: usize = 4;
pub(crate) const ADAPTERS: usize = 4 * PER_HOST;

/// Whose an entry is.
#[repr(transparent)]
pub(crate) struct Owner(AtomicI32);

impl Owner {
    const NOBODY: i32 = 0;

    pub(crate) fn process(&self) -> i32 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes the entry if it is nobody's, or that of a process that has died.
    fn take(&self) -> bool {
        let owner = self.process();
        let free = owner == Self::NOBODY || !process::is_there(owner);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        free && (self.0)
            .compare_exchange(owner, process::own(), success, failure)
            .is_ok()
    }

    pub(crate) fn release(&self) {
        self.0.store(Self::NOBODY, Ordering::Release);
    }
}

/// A registered region.
#[repr(C)]
pub(crate) struct RegionEntry {
    pub(crate) owner: Owner,
    /// Zero until the entry is complete. Its upper bits are the entry's place.
    pub(crate) key: AtomicU32,
    pub(crate) adapter: AtomicU32,
    pub(crate) domain: AtomicU32,
    pub(crate) access: AtomicU32,
    /// Work requests of the owner that use it.
    pub(crate) uses: AtomicU32,
    pub(crate) address: AtomicU64,
    pub(crate) len: AtomicU64,
}

/// A receive request.
#[repr(C)]
pub(crate) struct Receive {
    pub(crate) id: AtomicU64,
    pub(crate) pieces: [Piece; RECEIVE_PIECES],
    pub(crate) piece_count: AtomicU32,
    /// What the sender says of it: status, operation, length and immediate data.
    pub(crate) status: AtomicU32,
    pub(crate) opcode: AtomicU32,
    pub(crate) len: AtomicU32,
    pub(crate) immediate: AtomicU32,
    pub(crate) flags: AtomicU32,
}

#[repr(C)]
pub(crate) struct Piece {
    pub(crate) address: AtomicU64,
    pub(crate) len: AtomicU32,
    pub(crate) key: AtomicU32,
}

/// What peers need to know of a queue pair.
#[repr(C)]
pub(crate) struct PairEntry {
    pub(crate) owner: Owner,
    pub(crate) generation: AtomicU32,
    /// Zero while the entry is not complete.
    pub(crate) number: AtomicU32,
    pub(crate) state: AtomicI32,
    pub(crate) adapter: AtomicU32,
    pub(crate) context: AtomicU32,
    pub(crate) domain: AtomicU32,
    pub(crate) access: AtomicU32,
    pub(crate) reads_in: AtomicU32,
    pub(crate) peer: AtomicU32,
    pub(crate) receive_psn: AtomicU32,
    pub(crate) receive_timer: AtomicU32,
    /// An event that a peer's request has caused, plus one.
    pub(crate) event: AtomicU32,
    /// The receive queue: posted by the owner, filled by the peer, taken by the owner.
    pub(crate) posted: AtomicU32,
    pub(crate) filled: AtomicU32,
}

/// An open device.
#[repr(C)]
pub(crate) struct ContextEntry {
    pub(crate) owner: Owner,
    bell: AtomicU32,
    asleep: AtomicU32,
    pub(crate) adapter: AtomicU32,
    /// The thread of the device, by which the kernel finds the process's memory even if its first thread has ended.
    pub(crate) thread: AtomicI32,
    /// Counts what peers have done that concerns any of its queue pairs.
    pub(crate) attention: AtomicU32,
    /// The address of a byte of the process, by which others see whether it is alive.
    pub(crate) pulse: AtomicU64,
    pub(crate) counters: Counters,
}

impl ContextEntry {
    /// Wakes the thread of the device.
    pub(crate) fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) != 0 {
            self.futex(libc::FUTEX_WAKE, 1, ptr::null());
        }
    }

    pub(crate) fn rings(&self) -> u32 {
        self.bell.load(Ordering::SeqCst)
    }

    /// Sleeps until the bell has rung more often than `seen`, at most for `limit`.
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) {
        self.asleep.store(1, Ordering::SeqCst);
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        };
        self.futex(libc::FUTEX_WAIT, seen, &limit);
        self.asleep.store(0, Ordering::SeqCst);
    }

    fn futex(&self, what: c_int, value: u32, limit: *const libc::timespec) {
        let bell = self.bell.as_ptr();
        // SAFETY: an aligned word that outlives the call, and a limit that is null or readable. Errors mean that there
        // was nothing to wait for.
        unsafe { libc::syscall(libc::SYS_futex, bell, what, value, limit) };
    }
}

/// An adapter, which several processes use.
#[repr(C)]
pub(crate) struct AdapterEntry {
    /// One operation at a time: so atomics are atomic to each other.
    pub(crate) posted: SharedLock<Posted>,
    pub(crate) port_down: AtomicU32,
}

#[repr(C)]
pub(crate) struct Shared {
    ready: AtomicU32,
    domains: AtomicU32,
    next_region: AtomicU32,
    next_pair: AtomicU32,
    next_context: AtomicU32,
    regions: [RegionEntry; REGIONS],
    pairs: [PairEntry; PAIRS],
    contexts: [ContextEntry; CONTEXTS],
    adapters: [AdapterEntry; ADAPTERS],
    receives: [[Receive; RECEIVES]; PAIRS],
}

/// The mapping of the job's file.
pub(crate) struct Fabric(NonNull<Shared>);

// SAFETY: everything in the file is atomic, or under a lock in it.
unsafe impl Send for Fabric {}
// SAFETY: as above.
unsafe impl Sync for Fabric {}

/// How long another process may take to prepare the file.
const PREPARATION: Duration = Duration::from_secs(5);
const PREPARING: u32 = 1;
const PREPARED: u32 = 2;

impl Fabric {
    /// Maps the file, which is made if there is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path)?;
        let len = size_of::<Shared>();
        file.set_len(len as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that has this length, and that nobody shortens.
        let address = unsafe {
            let fd = file.as_raw_fd();
            libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping above; advice changes no content.
        unsafe { libc::madvise(address, len, libc::MADV_DONTDUMP) };
        let fabric = NonNull::new(address.cast()).map(Self);
        let fabric = fabric.ok_or_else(|| io::Error::other("the file was mapped at address 0"))?;
        fabric.prepare()?;
        Ok(fabric)
    }

    fn prepare(&self) -> io::Result<()> {
        let shared = self.shared();
        let order = Ordering::AcqRel;
        let first = (shared.ready).compare_exchange(0, PREPARING, order, Ordering::Acquire);
        if first.is_ok() {
            for adapter in &shared.adapters {
                adapter.posted.prepare()?;
            }
            shared.ready.store(PREPARED, Ordering::Release);
        }
        let end = Instant::now() + PREPARATION;
        while shared.ready.load(Ordering::Acquire) != PREPARED {
            if Instant::now() > end {
                let words = "another process has begun to prepare the fabric, and does not end";
                return Err(io::Error::other(words));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping lasts as long as `self`. Zeros, which a new file consists of, are a value of each member.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn new_domain(&self) -> u32 {
        self.shared().domains.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn adapter(&self, adapter: usize) -> &AdapterEntry {
        &self.shared().adapters[adapter]
    }

    pub(crate) fn context(&self, context: usize) -> &ContextEntry {
        &self.shared().contexts[context]
    }

    /// Takes an entry for an open device. Those of closed devices keep their counters as long as possible.
    pub(crate) fn take_context(&self) -> Option<(usize, &ContextEntry)> {
        let shared = self.shared();
        let place = take(&shared.next_context, CONTEXTS, |place| {
            shared.contexts[place].owner.take()
        })?;
        Some((place, &shared.contexts[place]))
    }

    /// The open devices of an adapter.
    pub(crate) fn contexts_of(&self, adapter: usize) -> impl Iterator<Item = &ContextEntry> {
        let entries = self.shared().contexts.iter();
        entries.filter(move |entry| {
            entry.owner.process() != 0 && entry.adapter.load(Ordering::Relaxed) as usize == adapter
        })
    }

    /// What all devices have counted.
    pub(crate) fn counted(&self) -> Counters {
        let sum = Counters::default();
        for context in &self.shared().contexts {
            context.counters.add_to(&sum);
        }
        sum
    }

    /// Takes an entry for a region. Its place is not zero.
    pub(crate) fn take_region(&self) -> Option<(usize, &RegionEntry)> {
        let shared = self.shared();
        let place = take(&shared.next_region, REGIONS, |place| {
            shared.regions[place].owner.take()
        })?;
        Some((place, &shared.regions[place]))
    }

    /// The entry that a key names, whether or not it is that region's.
    pub(crate) fn region(&self, key: u32) -> &RegionEntry {
        &self.shared().regions[(key >> 8) as usize % REGIONS]
    }

    /// Takes an entry for a queue pair, and gives it a number that no other one has had for long.
    pub(crate) fn take_pair(&self) -> Option<(u32, &PairEntry)> {
        let shared = self.shared();
        let place = take(&shared.next_pair, PAIRS, |place| {
            shared.pairs[place].owner.take()
        })?;
        let entry = &shared.pairs[place];
        let generation = entry.generation.fetch_add(1, Ordering::Relaxed);
        // Numbers have 24 bits.
        let number = (generation % (1 << 10)) << 14 | place as u32;
        Some((number, entry))
    }

    /// The entry that a number names, whether or not it is that queue pair's.
    pub(crate) fn pair(&self, number: u32) -> &PairEntry {
        &self.shared().pairs[number as usize % PAIRS]
    }

    /// Place `at` of a queue pair's receive queue.
    pub(crate) fn receive(&self, number: u32, at: u32) -> &Receive {
        &self.shared().receives[number as usize % PAIRS][at as usize % RECEIVES]
    }
}

/// Takes the next free place after the last that was taken, never place 0.
fn take(next: &AtomicU32, places: usize, take: impl Fn(usize) -> bool) -> Option<usize> {
    (0..places).find_map(|_| {
        let place = next.fetch_add(1, Ordering::Relaxed) as usize % places;
        (place != 0 && take(place)).then_some(place)
    })
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}
