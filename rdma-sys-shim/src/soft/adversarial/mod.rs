//! Soft's second personality, for tests: it does what an RC queue pair may do, not what is usual.
//!
//! Operations are queued, and a thread of the origin carries them out later: split, delayed and in
//! every order that [`Endpoint`] allows; some only when they are asked about. Sources are read late,
//! results are written later, and reports come after both. Failures are injected on request. Choices
//! follow from a seed.

mod endpoint;
mod engine;
mod lane;
mod operation;
mod options;
mod random;
mod schedule;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use endpoint::{AdversarialEndpoint, Choices};
use engine::{Engine, Message};
use lane::{Lane, Progress};
pub(crate) use options::AdversarialOptions;
use random::Random;
use schedule::Schedule;

use super::SoftDevice;
use super::process::ProcessId;
use crate::system;
use crate::{Access, Capabilities, Device, Endpoint, Region, Result};

/// The name that `--device` takes.
pub(crate) const DEVICE: &str = "soft:adversarial";

/// How long a device that is closed waits for what was posted.
const DRAIN: Duration = Duration::from_secs(2);

pub(crate) struct AdversarialDevice {
    soft: SoftDevice,
    capabilities: Capabilities,
    engine: Arc<Engine>,
    seed: u64,
    options: AdversarialOptions,
    endpoints: AtomicU64,
    operations: Arc<AtomicU64>,
    progress: Mutex<Vec<Weak<Progress>>>,
}

impl AdversarialDevice {
    /// `launcher`: as for [`SoftDevice::open`]; a seed that is not given is drawn for all that have
    /// the same one.
    pub(crate) fn open(options: AdversarialOptions, launcher: Option<u32>) -> Result<Self> {
        let inner = super::Options {
            cross_memory: options.cross_memory,
            map: false,
            assist: true,
        };
        let seed = match (options.seed, launcher.and_then(ProcessId::of)) {
            (Some(seed), _) => seed,
            (None, Some(id)) => Random::new(id.start_time, u64::from(id.pid)).next() >> 32,
            (None, None) => u64::from_ne_bytes(system::random()?) >> 32,
        };
        if options.seed.is_none() {
            tracing::info!(seed, "{DEVICE} drew its seed");
        }
        let soft = SoftDevice::open(inner, launcher)?;
        Ok(Self {
            capabilities: Capabilities {
                atomic_domain: options.atomics,
                narrow_atomics: false,
                ..soft.capabilities().clone()
            },
            soft,
            engine: Arc::new(Engine::start(seed)?),
            seed,
            options,
            endpoints: AtomicU64::new(0),
            operations: Arc::default(),
            progress: Mutex::default(),
        })
    }
}

impl Device for AdversarialDevice {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn address(&self) -> Vec<u8> {
        self.soft.address()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let way = Arc::new(self.soft.endpoint(address)?);
        let number = self.endpoints.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::new(Progress::default());
        let (seed, options) = (self.seed, &self.options);
        let schedule = Schedule::new(seed, number, options.delay, options.order);
        let lane = Lane::new(way.clone(), progress.clone(), schedule, seed);
        self.engine.send(Message::Open(number, Box::new(lane)));
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

    fn allocate(&self, len: usize, align: usize) -> Result<Region> {
        self.soft.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.soft.register(base, len, access) }
    }

    /// A queue whose peer is gone fails; one whose peer is stopped is left behind.
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
        self.soft.close();
    }
}
