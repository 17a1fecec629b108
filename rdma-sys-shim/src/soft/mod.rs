//! The soft provider: the verbs on one host, in user space, over shared memory.

mod address;
mod agent;
mod assist;
mod attached;
mod bootstrap_segment;
mod endpoint;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(all(test, not(loom)))]
mod hostile_tests;
mod iovec;
mod limits;
mod memory_file;
mod owned;
mod packed;
mod peer;
pub mod probe;
mod process;
mod request;
mod segment;
mod select;
mod servers;
mod slots;
mod sub_allocator;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use bootstrap_segment::BootstrapSegment;
pub(crate) use endpoint::SoftEndpoint;
pub use segment::SEGMENT_BYTES;

use address::Address;
use agent::Agent;
use owned::Allocations;
use peer::PeerProcess;
use process::ProcessId;
use segment::Segment;
use table::RegionTable;

use crate::cross_memory;
use crate::device::cancellation::{Cancellation, IsAborted};
use crate::device::combine::Combiner;
use crate::fences::take_fences;
use crate::provider::{self, DeviceInfo, Provider, Surroundings};
use crate::system::{HostIdentity, random};
use crate::{
    Access, AtomicDomain, Capabilities, Device, Endpoint, Error, LocalRegion, Result, TargetThread,
};

/// The name that `--device` takes.
pub(crate) use crate::error::SOFT as DEVICE;

/// Features that can be turned off, so that tests can use their fallbacks on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Use the kernel's cross-memory attach; otherwise the agent does every transfer.
    pub(crate) cross_memory: bool,
    /// Let peers map memory at all; otherwise every access is an operation of the device, as on a NIC.
    pub(crate) map: bool,
    /// Let waiting threads serve requests of peers, in place of the kernel.
    pub(crate) assist: bool,
}

const KNOWN_OPTIONS: &str = "cma=on|off, map=on|off, assist=on|off";

impl Options {
    /// Parses `cma=off,map=off`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut options = Self {
            cross_memory: true,
            map: true,
            assist: true,
        };
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let bad = || Error::BadOption {
                device: DEVICE,
                option: option.to_owned(),
                known: KNOWN_OPTIONS,
            };
            let (key, value) = option.split_once('=').ok_or_else(bad)?;
            let value = match value {
                "on" => true,
                "off" => false,
                _ => return Err(bad()),
            };
            match key {
                "cma" => options.cross_memory = value,
                "map" => options.map = value,
                "assist" => options.assist = value,
                "hands" => {
                    tracing::warn!("the option `hands` is called `assist` now");
                    options.assist = value;
                }
                _ => return Err(bad()),
            }
        }
        Ok(options)
    }
}

/// The soft device as a provider. Every machine has one.
pub(crate) struct Soft;

impl Provider for Soft {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn list(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::ready(DEVICE, DEVICE, capabilities(true, true))]
    }

    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let options = Options::parse(provider::options(spec, DEVICE))?;
        Ok(Arc::new(SoftDevice::open(options, around.launcher)?))
    }
}

/// The memory and tables that this process shows to its peers.
pub(crate) struct Own {
    id: ProcessId,
    /// The address that peers get.
    address: Address,
    segment: Arc<Segment>,
    table: RegionTable,
    agent: Agent,
    allocations: Allocations,
    options: Options,
    /// Whether we expect peers to reach memory that they cannot map without the agent.
    attach: AtomicBool,
    cancellation: Cancellation,
}

impl Own {
    /// Whether peers may need the agent for memory that they cannot map.
    fn needs_agent(&self) -> bool {
        !self.options.map || !self.attach.load(Ordering::Relaxed)
    }
}

pub(crate) struct SoftDevice {
    own: Arc<Own>,
    capabilities: Capabilities,
}

impl SoftDevice {
    /// `launcher`: the process from which all ranks of this job on this host descend.
    pub(crate) fn open(options: Options, launcher: Option<u32>) -> Result<Self> {
        let id = ProcessId::own()?;
        let host = HostIdentity::this()?;
        let attach = options.cross_memory && cross_memory::is_likely(launcher);
        let nonce = u64::from_ne_bytes(random()?);
        let segment = Arc::new(Segment::create(id.pid, nonce)?);
        // Takes milliseconds if the process has several threads. Otherwise the first request would wait for it.
        if options.assist {
            let _ = take_fences();
        }
        Ok(Self {
            own: Arc::new(Own {
                id,
                address: Address::of(segment.published(id), options, &host),
                table: RegionTable::new(segment.clone()),
                agent: Agent::new(segment.clone()),
                allocations: Allocations::default(),
                segment,
                options,
                attach: AtomicBool::new(attach),
                cancellation: Cancellation::default(),
            }),
            capabilities: capabilities(options.map, attach),
        })
    }

    /// A device that allocates memory for another device, which neighbours map. `launcher`: as for
    /// [`open`](Self::open).
    pub(crate) fn for_neighbours(launcher: Option<u32>) -> Result<Self> {
        let options = Options {
            cross_memory: false,
            map: true,
            assist: false,
        };
        Self::open(options, launcher)
    }

    /// The endpoint of the process that published `address`; `None` if it is on another host.
    ///
    /// # Errors
    /// The process is on this host, but cannot be reached: it is in another container, or belongs to another user.
    pub(crate) fn neighbour(&self, address: &[u8]) -> Result<Option<SoftEndpoint>> {
        let peer = Address::decode(address)?;
        match self.own.address.is_of_host(&peer) {
            true => self.endpoint_of(&peer).map(Some),
            false => Ok(None),
        }
    }

    fn endpoint(&self, address: &[u8]) -> Result<SoftEndpoint> {
        self.endpoint_of(&Address::decode(address)?)
    }

    fn endpoint_of(&self, address: &Address) -> Result<SoftEndpoint> {
        let own = &self.own;
        if *address == own.address {
            let peer = PeerProcess::new(own.id, own.id, address.segment.nonce, None);
            return Ok(SoftEndpoint::to_self(
                peer,
                own.segment.clone(),
                own.options,
            ));
        }
        own.address.must_share_host_with(address)?;
        let (segment, peer) = Segment::open(DEVICE, own.id, &address.segment)?;
        let peer = peer.until(&own.cancellation);
        let combiner = own.segment.combiner.clone();
        let endpoint = SoftEndpoint::to_peer(peer, segment, own.options, combiner)?;
        if !endpoint.attaches() {
            // A restriction on this process's access probably also applies to the peer's access.
            own.attach.store(false, Ordering::Relaxed);
        }
        Ok(endpoint)
    }
}

/// `map`: peers may map memory; `attach`: peers use cross-memory attach for memory that they cannot map.
pub(crate) fn capabilities(map: bool, attach: bool) -> Capabilities {
    Capabilities {
        atomic_domain: AtomicDomain::Cpu,
        narrow_atomics: true,
        max_message: u64::MAX,
        target_thread: match (map, attach) {
            (true, true) => TargetThread::Never,
            (true, false) => TargetThread::ForRegistered,
            (false, _) => TargetThread::ForAll,
        },
        pins_memory: false,
    }
}

impl Device for SoftDevice {
    fn name(&self) -> &str {
        DEVICE
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn address(&self) -> Vec<u8> {
        self.own.address.encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        Ok(Arc::new(self.endpoint(address)?))
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        owned::allocate(&self.own, len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { owned::register(&self.own, base, len, access) }
    }

    fn cancel_when(&self, is_aborted: IsAborted) {
        self.own.cancellation.when(is_aborted);
    }

    fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        self.own.segment.combiner.give(combiner);
    }

    /// Every operation is complete when its call returns.
    fn close(&self) {
        self.own.segment.close();
    }
}
