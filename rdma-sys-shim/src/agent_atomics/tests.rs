//! Over a device that reports writes complete before they are in the target's memory, where only a read behind them brings them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::WithAgentAtomics;
use super::endpoint::AgentAtomicsEndpoint;
use super::order::Which;
use crate::provider::{JobSecret, Surroundings};
use crate::tcp::Tcp;
use crate::testkit::{self, Peers, alone, fetch_add, finish, memory};
use crate::{
    Access, Capabilities, Device, DeviceInfo, Direction, Endpoint, Error, Fetch, LocalRegion,
    Mapping, Provider, Registry, RemoteAddress, RemoteRegion, Result, Ticket, Update, Width,
};

const NAME: &str = "late-writes";

struct LateWrites(Arc<dyn Device>);

struct LateEndpoint {
    device: Arc<dyn Endpoint>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    posted: u64,
    late: Vec<(RemoteAddress, Vec<u8>)>,
    failure: Option<Error>,
}

impl Device for LateWrites {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn address(&self) -> Vec<u8> {
        self.0.address()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        Ok(Arc::new(LateEndpoint {
            device: self.0.connect(address)?,
            queue: Mutex::default(),
        }))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        self.0.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.0.register(base, len, access) }
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Endpoint for LateEndpoint {
    unsafe fn transfer(
        &self,
        direction: Direction,
        local: *mut u8,
        len: usize,
        at: RemoteAddress,
    ) -> Result<Ticket> {
        let mut queue = self.queue.lock().unwrap();
        queue.failure.clone().map_or(Ok(()), Err)?;
        queue.posted += 1;
        let ticket = Ticket(queue.posted);
        if direction == Direction::Write {
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(local, len) };
            queue.late.push((at, bytes.to_vec()));
            return Ok(ticket);
        }
        // The last first: writes may overtake each other.
        while let Some((to, bytes)) = queue.late.pop() {
            let (from, len) = (bytes.as_ptr().cast_mut(), bytes.len());
            // SAFETY: the bytes are there until the device has taken them, which it does in the call.
            let written = unsafe { (self.device).transfer(Direction::Write, from, len, to) };
            if let Err(error) = written {
                queue.failure = Some(error.clone());
                return Err(error);
            }
        }
        // SAFETY: the caller's promise.
        let read = unsafe { self.device.transfer(direction, local, len, at)? };
        assert_eq!(read, Ticket::DONE);
        Ok(ticket)
    }

    unsafe fn fetch(&self, _: RemoteAddress, _: Width, _: Fetch, _: *mut u64) -> Result<Ticket> {
        unreachable!("atomics are the agent's")
    }

    unsafe fn update_each(
        &self,
        _: RemoteAddress,
        _: Width,
        _: Update,
        _: *const u8,
        _: usize,
    ) -> Result<Ticket> {
        unreachable!("atomics are the agent's")
    }

    fn store(&self, _: RemoteAddress, _: u64, _: u64) -> Result<Ticket> {
        unreachable!("stores are the agent's")
    }

    fn completed(&self, ticket: Ticket) -> Result<bool> {
        let queue = self.queue.lock().unwrap();
        assert!(ticket.0 <= queue.posted, "{ticket:?} of {}", queue.posted);
        queue.failure.clone().map_or(Ok(true), Err)
    }

    fn intact(&self) -> Result<()> {
        self.device.intact()
    }

    fn map(&self, region: &RemoteRegion) -> Result<Option<Mapping>> {
        self.device.map(region)
    }

    fn liveness(&self) -> Result<()> {
        self.device.liveness()
    }

    fn known_liveness(&self) -> Result<()> {
        self.device.known_liveness()
    }
}

struct OverLateWrites;

impl Provider for OverLateWrites {
    fn name(&self) -> &'static str {
        NAME
    }

    fn list(&self) -> Vec<DeviceInfo> {
        Vec::new()
    }

    fn open(&self, _: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let soft = Registry::new(&[]).open("soft:map=off", around)?;
        let device = WithAgentAtomics::new(Arc::new(LateWrites(soft)), around.secret)?;
        Ok(Arc::new(device))
    }
}

const REGISTRY: Registry = Registry::new(&[&OverLateWrites]);

#[test]
fn the_contract_of_every_device_is_kept() {
    for (name, run) in testkit::over(REGISTRY, vec![NAME]) {
        eprintln!("{name}");
        run();
    }
}

/// Posts a write of one word.
fn post(way: &dyn Endpoint, value: &u64, to: RemoteAddress) -> Result<Ticket> {
    let from = std::ptr::from_ref(value).cast_mut().cast();
    // SAFETY: the tests keep the value until the write is complete or has failed.
    unsafe { way.transfer(Direction::Write, from, 8, to) }
}

#[test]
fn a_failure_before_the_other_device_has_something_is_that_of_what_was_under_way() {
    let _alone = alone();
    let Peers { target, way, .. } = testkit::peers(REGISTRY, NAME, false);
    let region = target.allocate(64, 8).unwrap();
    let at = |offset| region.remote().at(offset);
    let one = 1;
    assert_eq!(fetch_add(&*way, at(8), Width::W8, 5).unwrap(), 0);
    let bad = post(&*way, &one, at(1 << 40)).unwrap();
    let refused = way.store(at(0), 0, 1).unwrap_err();
    assert!(refused.is_remote_access(), "{refused}");
    for error in [
        way.completed(bad).unwrap_err(),
        way.released(bad).unwrap_err(),
        post(&*way, &one, at(0)).unwrap_err(),
        fetch_add(&*way, at(8), Width::W8, 1).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), refused.to_string());
    }
    // Neither the store nor the atomic was posted.
    assert_eq!(memory(&region)[..8], [0; 8]);
    assert_eq!(memory(&region)[8..16], 5_u64.to_ne_bytes());
}

#[test]
fn a_refused_atomic_is_the_failure_of_what_follows() {
    let _alone = alone();
    let Peers { target, way, .. } = testkit::peers(REGISTRY, NAME, false);
    let region = target.allocate(64, 8).unwrap();
    let (one, mut old) = (1, 0);
    let before = post(&*way, &one, region.remote().at(0)).unwrap();
    let outside = region.remote().at(1 << 40);
    // SAFETY: a local that outlives the operation, which fails below.
    let bad = unsafe { way.fetch(outside, Width::W8, Fetch::Add(1), &raw mut old) }.unwrap();
    assert!(way.completed(before).unwrap(), "it was complete before");
    assert_eq!(memory(&region)[..8], 1_u64.to_ne_bytes());
    let error = finish(&*way, Ok(bad)).unwrap_err();
    assert!(error.is_remote_access(), "{error}");
    let later = post(&*way, &one, region.remote().at(8)).unwrap_err();
    assert_eq!(later.to_string(), error.to_string());
}

/// Each counts on in a word by writes, and says by a store behind each how far it is.
#[test]
fn threads_that_post_to_both_devices_keep_their_order() {
    const THREADS: usize = 3;
    const ROUNDS: u64 = 300;
    let _alone = alone();
    let Peers { target, way, .. } = testkit::peers(REGISTRY, NAME, false);
    let region = target.allocate(THREADS * 16, 8).unwrap();
    let word = |index: usize| {
        // SAFETY: an aligned word of the region, which peers change as such.
        let word = unsafe { AtomicU64::from_ptr(region.base().cast::<u64>().add(index)) };
        word.load(Ordering::Acquire)
    };
    let values: Vec<u64> = (0..=ROUNDS).collect();
    let is_over = AtomicBool::new(false);
    let count = |index: usize| {
        let place = |word: usize| region.remote().at(8 * (2 * index + word) as u64);
        for round in 1..=ROUNDS {
            post(&*way, &values[round as usize], place(1)).unwrap();
            let stored = way.store(place(0), round - 1, round);
            if round % 7 == index as u64 {
                finish(&*way, stored).unwrap();
                assert!(word(2 * index) >= round);
            }
        }
        let last = way.store(place(0), ROUNDS, ROUNDS + 1);
        finish(&*way, last).unwrap();
    };
    let count = &count;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|index| scope.spawn(move || count(index)))
            .collect();
        let looking = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for index in 0..THREADS {
                    let said = word(2 * index).min(ROUNDS);
                    let written = word(2 * index + 1);
                    assert!(written >= said, "{said} was said, and {written} is there");
                }
            }
        });
        let counted: Vec<_> = threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::Relaxed);
        looking.join().unwrap();
        counted.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn who_has_other_atomics_is_told_how_to_agree() {
    let soft = Registry::new(&[]).open("soft:map=off", &Surroundings::default());
    let soft = soft.unwrap();
    let ours = WithAgentAtomics::new(soft.clone(), JobSecret::default()).unwrap();
    let tcp = Tcp.open("tcp", &Surroundings::default()).unwrap();
    for theirs in [soft.address(), tcp.address()] {
        let text = ours.connect(&theirs).err().unwrap().to_string();
        assert!(text.contains("TRANSOM_RDMA_ATOMICS"), "{text}");
    }
    let text = tcp.connect(&ours.address()).err().unwrap().to_string();
    assert!(text.contains("TRANSOM_RDMA_ATOMICS"), "{text}");
}

/// A connection that says what it is told to.
#[derive(Default)]
struct Told {
    is_complete: AtomicBool,
    has_failed: AtomicBool,
}

impl Told {
    fn answer(&self) -> Result<Ticket> {
        Ok(Ticket(1))
    }
}

impl Endpoint for Told {
    unsafe fn transfer(
        &self,
        _: Direction,
        _: *mut u8,
        _: usize,
        _: RemoteAddress,
    ) -> Result<Ticket> {
        self.answer()
    }

    unsafe fn fetch(&self, _: RemoteAddress, _: Width, _: Fetch, _: *mut u64) -> Result<Ticket> {
        self.answer()
    }

    unsafe fn update_each(
        &self,
        _: RemoteAddress,
        _: Width,
        _: Update,
        _: *const u8,
        _: usize,
    ) -> Result<Ticket> {
        self.answer()
    }

    fn store(&self, _: RemoteAddress, _: u64, _: u64) -> Result<Ticket> {
        self.answer()
    }

    fn completed(&self, _: Ticket) -> Result<bool> {
        Ok(self.is_complete.load(Ordering::Relaxed))
    }

    fn intact(&self) -> Result<()> {
        match self.has_failed.load(Ordering::Relaxed) {
            true => Err(Error::PeerGone { pid: 1 }),
            false => Ok(()),
        }
    }

    fn liveness(&self) -> Result<()> {
        Ok(())
    }

    fn known_liveness(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn the_failure_of_the_other_device_is_told_once_nothing_is_under_way() {
    for fails in [Which::Data, Which::Atomics] {
        let both = [Arc::<Told>::default(), Arc::default()];
        let endpoint =
            AgentAtomicsEndpoint::new(both[0].clone(), both[1].clone(), RemoteAddress::default());
        let (mut old, at) = (0, RemoteAddress::default());
        // SAFETY: these connections do nothing.
        let posted = unsafe {
            match fails {
                Which::Data => endpoint.fetch(at, Width::W8, Fetch::Add(1), &raw mut old),
                Which::Atomics => endpoint.transfer(Direction::Read, (&raw mut old).cast(), 8, at),
            }
        };
        both[fails as usize]
            .has_failed
            .store(true, Ordering::Relaxed);
        assert!(!endpoint.completed(posted.unwrap()).unwrap());
        assert!(endpoint.intact().is_ok(), "its word is still to come");
        both[fails.other() as usize]
            .is_complete
            .store(true, Ordering::Relaxed);
        assert!(endpoint.intact().is_err());
    }
}
