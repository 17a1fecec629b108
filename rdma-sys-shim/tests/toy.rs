//! The smallest provider: devices of one process, which find each other in a table, and the contract over them.
//! docs/providers.md says in which order it was written.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use libtest_mimic::{Arguments, Trial};
use rdma_sys_shim::testkit;
use rdma_sys_shim::{
    ALIGNMENT, Access, AtomicDomain, Capabilities, Device, DeviceInfo, Direction, Endpoint, Error,
    Fetch, LocalRegion, Mapping, Provider, Registry, RemoteAddress, RemoteRegion, Result,
    Surroundings, TargetThread, Ticket, Update, Width,
};

const NAME: &str = "toy";

/// The devices that are open, by their addresses.
static OPEN: Mutex<BTreeMap<Vec<u8>, Arc<Shown>>> = Mutex::new(BTreeMap::new());
/// Numbers of devices and keys of regions, none of which is used twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Memory that peers may access, and how, by its key.
type Regions = BTreeMap<u64, (RemoteRegion, Access)>;

/// What a device shows to its peers.
#[derive(Default)]
struct Shown {
    regions: Mutex<Regions>,
    has_closed: AtomicBool,
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
    address: Vec<u8>,
    shown: Arc<Shown>,
}

impl Toy {
    fn open() -> Self {
        let number = NEXT.fetch_add(1, Relaxed);
        let address = format!("{NAME} {number}").into_bytes();
        let shown = Arc::new(Shown::default());
        OPEN.lock().unwrap().insert(address.clone(), shown.clone());
        Self { address, shown }
    }

    /// Shows memory to peers until the region is dropped, and so is `allocated`, which holds it if the device allocated it.
    fn show(&self, base: *mut u8, len: usize, access: Access, allocated: Vec<u8>) -> LocalRegion {
        let rkey = NEXT.fetch_add(1, Relaxed);
        let remote = RemoteRegion {
            address: base.addr() as u64,
            len: len as u64,
            rkey,
        };
        let mut regions = self.shown.regions.lock().unwrap();
        regions.insert(rkey, (remote, access));
        let registration = Registration(self.shown.clone(), rkey);
        // The entry goes before the memory.
        LocalRegion::new(base, remote, (registration, allocated))
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        OPEN.lock().unwrap().remove(&self.address);
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
        self.address.clone()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let open = OPEN.lock().unwrap();
        let peer = open.get(address).ok_or(Error::BadAddress {
            device: NAME,
            reason: "no such device is open in this process",
        })?;
        Ok(Arc::new(ToyEndpoint(peer.clone())))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        let align = align.max(ALIGNMENT);
        let size = len.saturating_add(align);
        let mut memory = Vec::new();
        memory.try_reserve_exact(size).map_err(|_| {
            let call = format!("allocating {len} bytes");
            Error::os(call, io::Error::from_raw_os_error(libc::ENOMEM))
        })?;
        memory.resize(size, 0);
        let base: *mut u8 = memory.as_mut_ptr();
        let base = base.wrapping_add(base.align_offset(align));
        Ok(self.show(base, len, Access::ALL, memory))
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        let access = rdma_sys_shim::access_allowed(base.addr(), len, access)?;
        Ok(self.show(base, len, access, Vec::new()))
    }

    /// Every operation is complete when its call returns.
    fn close(&self) {
        self.shown.has_closed.store(true, Release);
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
    fn check(&self, at: RemoteAddress, len: u64, need: Access) -> Result<MutexGuard<'_, Regions>> {
        let regions = self.0.regions.lock().unwrap();
        let is_inside = |region: &RemoteRegion| {
            let skip = at.address.wrapping_sub(region.address);
            skip.checked_add(len).is_some_and(|end| end <= region.len)
        };
        let is_aligned = need != Access::ATOMIC || at.address.is_multiple_of(8);
        let reason = match regions.get(&at.rkey) {
            None => "no region has this key",
            Some((_, access)) if !access.allows(need) => "the right was not granted",
            Some((region, _)) if !is_inside(region) => "it is outside of the region",
            Some(_) if !is_aligned => "the word is not aligned",
            Some(_) => return Ok(regions),
        };
        Err(refusal(at, len, reason))
    }

    /// Does something to `count` words.
    fn each_word(
        &self,
        at: RemoteAddress,
        width: Width,
        count: usize,
        change: impl Fn(usize, &AtomicU64),
    ) -> Result<Ticket> {
        let len = (count * width.bytes()) as u64;
        if width != Width::W8 {
            return Err(refusal(at, len, "the device has atomics of eight bytes"));
        }
        let _shown = self.check(at, len, Access::ATOMIC)?;
        for index in 0..count {
            let word = (at.address as usize + 8 * index) as *mut u64;
            // SAFETY: an aligned word of a region, which stays while the lock is held.
            change(index, unsafe { AtomicU64::from_ptr(word) });
        }
        Ok(Ticket::DONE)
    }
}

fn refusal(at: RemoteAddress, len: u64, reason: &'static str) -> Error {
    Error::RemoteAccess {
        need: "access",
        address: at.address,
        len,
        pid: std::process::id(),
        host: None,
        rkey: at.rkey,
        reason,
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
        let need = match direction {
            Direction::Write => Access::WRITE,
            Direction::Read => Access::READ,
        };
        let _shown = self.check(at, len as u64, need)?;
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
        self.each_word(at, width, 1, |_, word| {
            let found = match fetch {
                Fetch::Add(add) => word.fetch_add(add, SeqCst),
                Fetch::CompareSwap { expect, new } => word
                    .compare_exchange(expect, new, SeqCst, SeqCst)
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
                Update::Add => drop(word.fetch_add(value, SeqCst)),
                Update::Store => word.store(value, SeqCst),
            }
        })
    }

    fn store(&self, at: RemoteAddress, _old: u64, new: u64) -> Result<Ticket> {
        self.each_word(at, Width::W8, 1, |_, word| word.store(new, SeqCst))
    }

    fn completed(&self, _: Ticket) -> Result<bool> {
        Ok(true)
    }

    fn intact(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        let regions = self.0.regions.lock().unwrap();
        let may_map = regions.get(&region.rkey) == Some(&(*region, Access::ALL));
        let base = region.address as usize as *mut u8;
        Ok((may_map && region.len > 0).then(|| Mapping::new(base, region.len, ())))
    }

    fn liveness(&self) -> Result<()> {
        let pid = std::process::id();
        match self.0.has_closed.load(Acquire) {
            true => Err(Error::PeerClosed { pid, host: None }),
            false => Ok(()),
        }
    }

    fn known_liveness(&self) -> Result<()> {
        self.liveness()
    }
}

fn main() {
    let cases = testkit::over(Registry::new(&[&ToyProvider]), vec![NAME]);
    let trial = |(name, run)| Trial::test(name, testkit::outcome(run));
    libtest_mimic::run(&Arguments::from_args(), cases.map(trial).collect()).exit();
}
