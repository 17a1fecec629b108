//! A device for tests: it does everything that an RC queue pair may do, and not only what is usual.
//!
//! It is outside of the device layer and uses only its public items. Operations are queued, and a thread of the origin
//! carries them out later, through the device for one host: split, delayed, in any order that [`Endpoint`] allows, and
//! some only when a caller asks for their completion. Sources are read late, results are written later, and completion
//! is reported after both. Failures are injected on request. Choices follow from a seed.

mod endpoint;
mod engine;
mod inner;
mod late;
mod operation;
mod options;
mod queue;
mod random;
mod schedule;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use endpoint::{AdversarialEndpoint, Choices};
use engine::{Engine, Message};
use inner::Inner;
use options::{AdversarialOptions, DEVICE};
use queue::{Progress, Queue};
use random::Random;
use rdma_sys_shim::memory::set_store_hooks;
use rdma_sys_shim::testkit;
use rdma_sys_shim::{
    Access, Capabilities, Device, DeviceInfo, Endpoint, Error, LocalRegion, Mapping, Provider,
    Registry, Result, Surroundings,
};
use schedule::Schedule;

/// How long closing a device waits for posted operations.
const DRAIN: Duration = Duration::from_secs(2);

/// The provider. `transom devices` lists no such device.
pub struct Adversarial;

impl Provider for Adversarial {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn list(&self) -> Vec<DeviceInfo> {
        Vec::new()
    }

    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let options = AdversarialOptions::parse(rdma_sys_shim::options(spec, DEVICE))?;
        let agent_atomics = options.agent_atomics;
        let device = Arc::new(AdversarialDevice::open(options, around)?);
        match agent_atomics {
            true => testkit::with_agent_atomics(device, around.secret),
            false => Ok(device),
        }
    }
}

struct AdversarialDevice {
    inner: Arc<dyn Device>,
    capabilities: Capabilities,
    engine: Arc<Engine>,
    seed: u64,
    options: AdversarialOptions,
    endpoints: AtomicU64,
    operations: Arc<AtomicU64>,
    progress: Mutex<Vec<Weak<Progress>>>,
}

impl AdversarialDevice {
    /// If no seed is given, all processes with the same launcher draw the same one.
    fn open(options: AdversarialOptions, around: &Surroundings) -> Result<Self> {
        let seed = match (options.seed, around.launcher) {
            (Some(seed), _) => seed,
            (None, Some(pid)) => Random::new(start_time(pid), u64::from(pid)).next() >> 32,
            (None, None) => RandomState::new().hash_one(0) >> 32,
        };
        if options.seed.is_none() {
            tracing::info!(seed, "{DEVICE} drew its seed");
        }
        let cross_memory = if options.cross_memory { "on" } else { "off" };
        let spec = format!("soft:map=off,cma={cross_memory}");
        let inner = Registry::new(&[]).open(&spec, around)?;
        set_store_hooks(&late::HOOKS);
        Ok(Self {
            capabilities: Capabilities {
                atomic_domain: options.atomics,
                narrow_atomics: false,
                ..inner.capabilities().clone()
            },
            inner,
            engine: Arc::new(Engine::start(seed)?),
            seed,
            options,
            endpoints: AtomicU64::new(0),
            operations: Arc::default(),
            progress: Mutex::default(),
        })
    }
}

/// When a process was started, in the system's unit; 0 if it has ended. With it, a process with a reused PID draws
/// another seed.
fn start_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name, in parentheses, may contain any characters.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = after_name.split_whitespace().nth(19);
    field
        .and_then(|field| field.parse().ok())
        .unwrap_or_default()
}

impl Device for AdversarialDevice {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn address(&self) -> Vec<u8> {
        let mut address = std::process::id().to_le_bytes().to_vec();
        address.extend(self.inner.address());
        address
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let (pid, address) = address.split_first_chunk().ok_or(Error::BadAddress {
            device: DEVICE,
            reason: "it is too short",
        })?;
        let endpoint = self.inner.connect(address)?;
        let way = Arc::new(Inner::new(endpoint, u32::from_le_bytes(*pid)));
        let number = self.endpoints.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::new(Progress::default());
        let (seed, options) = (self.seed, &self.options);
        let schedule = Schedule::new(seed, number, options.delay, options.order);
        let queue = Queue::new(way.clone(), progress.clone(), schedule, seed);
        self.engine.send(Message::Open(number, Box::new(queue)));
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|progress| progress.strong_count() > 0);
        all.push(Arc::downgrade(&progress));
        Ok(Arc::new(AdversarialEndpoint {
            number,
            way,
            engine: self.engine.clone(),
            progress,
            choices: Mutex::new(Choices {
                fate: Random::new(!seed, number),
                patience: Random::new(!seed, !number),
            }),
            options: options.clone(),
            count: self.operations.clone(),
        }))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        self.inner.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.register(base, len, access) }
    }

    fn cancel_when(&self, is_aborted: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.inner.cancel_when(is_aborted);
    }

    /// Stores to the mapping may become visible late.
    fn accompany(&self, mapping: Mapping) -> Mapping {
        // SAFETY: the memory is mapped as long as the mapping has its owner, which is dropped after the value stored
        // with it.
        let watched = unsafe { late::Watched::new(mapping.base(), mapping.len() as usize) };
        mapping.kept_with(watched)
    }

    /// A queue whose peer has ended fails. A queue whose peer is stopped is abandoned.
    fn close(&self) {
        if !self.engine.is_here() {
            return;
        }
        let all: Vec<_> = {
            let all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        self.engine.send(Message::Ask(None));
        let begun = Instant::now();
        let busy = |one: &Arc<Progress>| one.pending() > 0 && one.intact().is_ok();
        while all.iter().any(busy) && begun.elapsed() < DRAIN {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.inner.close();
    }
}
