//! The smallest provider: devices of one process, which find each other in a table, and the contract over them.
//! docs/providers.md says in which order it was written.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use libtest_mimic::{Arguments, Trial};
use rdma_sys_shim::testkit;
use rdma_sys_shim::{
    ALIGNMENT, Access, AtomicDomain, Capabilities, Device, DeviceInfo, Direction, Endpoint, Error,
    Fetch, Liveness, LocalRegion, Mapping, Provider, Registry, RemoteAddress, RemoteRegion, Result,
    Surroundings, TargetThread, Ticket, Update, Width,
};

const NAME: &str = "toy";

/// The devices that are open, by the numbers that their addresses hold.
static OPEN: Mutex<BTreeMap<u64, Arc<Shown>>> = Mutex::new(BTreeMap::new());
/// Numbers of devices and keys of regions, none of which is used twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What a device shows to its peers.
#[derive(Default)]
struct Shown {
    regions: Mutex<BTreeMap<u64, Entry>>,
    has_closed: AtomicBool,
}

/// Memory that peers may access.
#[derive(Clone, Copy)]
struct Entry {
    memory: RemoteRegion,
    access: Access,
}

static CAPABILITIES: Capabilities = Capabilities {
    atomic_domain: AtomicDomain::Cpu,
    narrow_atomics: false,
    max_message: u64::MAX,
    target_thread: TargetThread::Never,
    pins_memory: false,
};

struct ToyProvider;

impl Provider for ToyProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn list(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::ready(NAME, NAME, CAPABILITIES.clone())]
    }

    fn open(&self, spec: &str, _: &Surroundings) -> Result<Arc<dyn Device>> {
        match rdma_sys_shim::options(spec, NAME) {
            "" => Ok(Arc::new(Toy::open())),
            option => Err(Error::BadOption {
                device: NAME,
                option: option.to_owned(),
                known: "none",
            }),
        }
    }
}

struct Toy {
    number: u64,
    shown: Arc<Shown>,
}

impl Toy {
    fn open() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let shown = Arc::new(Shown::default());
        OPEN.lock().unwrap().insert(number, shown.clone());
        Self { number, shown }
    }

    /// Shows memory to peers until the region is dropped.
    fn show(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
        memory: Option<Block>,
    ) -> LocalRegion {
        let rkey = NEXT.fetch_add(1, Ordering::Relaxed);
        let remote = RemoteRegion {
            address: base.addr() as u64,
            len: len as u64,
            rkey,
        };
        let entry = Entry {
            memory: remote,
            access,
        };
        self.shown.regions.lock().unwrap().insert(rkey, entry);
        let registration = Registration(self.shown.clone(), rkey);
        // The entry goes before the memory.
        LocalRegion::new(base, remote, (registration, memory))
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        OPEN.lock().unwrap().remove(&self.number);
    }
}

impl Device for Toy {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn address(&self) -> Vec<u8> {
        [NAME.as_bytes(), &self.number.to_le_bytes()].concat()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let number = address.strip_prefix(NAME.as_bytes());
        let number = number.and_then(|number| Some(u64::from_le_bytes(number.try_into().ok()?)));
        let open = OPEN.lock().unwrap();
        let peer = number.and_then(|number| open.get(&number));
        let peer = peer.ok_or(Error::BadAddress {
            device: NAME,
            reason: "no such device is open in this process",
        })?;
        Ok(Arc::new(ToyEndpoint(peer.clone())))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        let block = Block::new(len, align).ok_or_else(|| {
            let call = format!("allocating {len} bytes");
            Error::os(call, io::Error::from_raw_os_error(libc::ENOMEM))
        })?;
        Ok(self.show(block.base, len, Access::ALL, Some(block)))
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        let access = rdma_sys_shim::access_allowed(base.addr(), len, access)?;
        Ok(self.show(base, len, access, None))
    }

    /// Every operation is complete when its call returns.
    fn close(&self) {
        self.shown.has_closed.store(true, Ordering::Release);
    }
}

/// Memory that the device allocated.
struct Block {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: the pointer is used to free the memory only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(len: usize, align: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), align.max(ALIGNMENT)).ok()?;
        // SAFETY: the layout has a byte at least.
        let base = unsafe { alloc_zeroed(layout) };
        (!base.is_null()).then_some(Self { base, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no longer shown to peers.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// A region's entry in the table.
struct Registration(Arc<Shown>, u64);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.regions.lock().unwrap().remove(&self.1);
    }
}

struct ToyEndpoint(Arc<Shown>);

impl ToyEndpoint {
    /// Checks an access. No region goes while the lock is held.
    fn check(
        &self,
        at: RemoteAddress,
        len: u64,
        need: Access,
        what: &'static str,
    ) -> Result<MutexGuard<'_, BTreeMap<u64, Entry>>> {
        let regions = self.0.regions.lock().unwrap();
        let reason = match regions.get(&at.rkey) {
            None => "no region has this key",
            Some(entry) if !entry.access.allows(need) => "the right was not granted",
            Some(entry) => {
                let skip = at.address.wrapping_sub(entry.memory.address);
                let fits = skip
                    .checked_add(len)
                    .is_some_and(|end| end <= entry.memory.len);
                let is_aligned = need != Access::ATOMIC || at.address.is_multiple_of(8);
                match (fits, is_aligned) {
                    (true, true) => return Ok(regions),
                    (false, _) => "it is outside of the region",
                    (_, false) => "the word is not aligned",
                }
            }
        };
        Err(self.refusal(at, len, what, reason))
    }

    fn refusal(
        &self,
        at: RemoteAddress,
        len: u64,
        need: &'static str,
        reason: &'static str,
    ) -> Error {
        Error::RemoteAccess {
            need,
            address: at.address,
            len,
            pid: std::process::id(),
            host: None,
            rkey: at.rkey,
            reason,
        }
    }

    /// Does something to `count` words.
    fn each_word(
        &self,
        at: RemoteAddress,
        width: Width,
        count: usize,
        change: impl Fn(usize, &AtomicU64),
    ) -> Result<Ticket> {
        if width != Width::W8 {
            return Err(self.refusal(at, width.bytes() as u64, "an atomic", "it is narrow"));
        }
        let _shown = self.check(at, 8 * count as u64, Access::ATOMIC, "an atomic")?;
        for index in 0..count {
            let word = (at.address as usize + 8 * index) as *mut u64;
            // SAFETY: an aligned word of a region, which stays while the lock is held.
            change(index, unsafe { AtomicU64::from_ptr(word) });
        }
        Ok(Ticket::DONE)
    }
}

impl Endpoint for ToyEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let (need, what) = match direction {
            Direction::Write => (Access::WRITE, "a write"),
            Direction::Read => (Access::READ, "a read"),
        };
        let _shown = self.check(at, len as u64, need, what)?;
        // SAFETY: `local` is the caller's promise; the other side is a part of a region.
        unsafe { direction.copy(local, at.address as usize as *mut u8, len) };
        Ok(Ticket::DONE)
    }

    unsafe fn fetch(
        &self,
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: *mut u64,
    ) -> Result<Ticket> {
        const ORDER: Ordering = Ordering::SeqCst;
        self.each_word(at, width, 1, |_, word| {
            let found = match fetch {
                Fetch::Add(add) => word.fetch_add(add, ORDER),
                Fetch::CompareSwap { expect, new } => word
                    .compare_exchange(expect, new, ORDER, ORDER)
                    .unwrap_or_else(|found| found),
            };
            // SAFETY: the caller's promise.
            unsafe { old.write(found) };
        })
    }

    unsafe fn update_each(
        &self,
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: *const u8,
        count: usize,
    ) -> Result<Ticket> {
        self.each_word(at, width, count, |index, word| {
            // SAFETY: the caller's promise.
            let value = unsafe { width.load(values.add(8 * index)) };
            match update {
                Update::Add => drop(word.fetch_add(value, Ordering::SeqCst)),
                Update::Store => word.store(value, Ordering::SeqCst),
            }
        })
    }

    fn store(&self, at: RemoteAddress, _old: u64, new: u64) -> Result<Ticket> {
        self.each_word(at, Width::W8, 1, |_, word| {
            word.store(new, Ordering::SeqCst)
        })
    }

    fn completed(&self, _: Ticket) -> Result<bool> {
        Ok(true)
    }

    fn intact(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        let regions = self.0.regions.lock().unwrap();
        let may_map = |entry: &&Entry| entry.access == Access::ALL && entry.memory == *region;
        let found = regions.get(&region.rkey).filter(may_map);
        let base = region.address as usize as *mut u8;
        Ok(found
            .filter(|_| region.len > 0)
            .map(|_| Mapping::new(base, region.len, ())))
    }

    fn liveness(&self) -> Liveness {
        match self.0.has_closed.load(Ordering::Acquire) {
            true => Liveness::Closed {
                pid: std::process::id(),
            },
            false => Liveness::Alive,
        }
    }
}

fn main() {
    let cases = testkit::over(Registry::new(&[&ToyProvider]), vec![NAME]);
    let trial = |(name, run)| Trial::test(name, testkit::outcome(run));
    let trials = cases.map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
