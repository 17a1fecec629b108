//! The tcp provider: windows over plain Ethernet, or any other network that carries TCP.
//!
//! Every process has a thread, the [`ChannelAgent`], that carries out what its peers ask for, in the order of each
//! connection's stream. An origin opens a connection to a target when it first needs one; its own threads send the
//! requests and receive the answers. So a pair of ranks that accesses memory in both directions has two connections,
//! and a thread that sends to a peer need not serve it at the same time.
//!
//! An accumulate is a request of its own (`Kind::Combine`), whose operands are combined from where they arrive, in parts of
//! some KiB. If another process has its lock, the connection pauses for a millisecond, and the others are served.

mod endpoint;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod origin;
mod regions;
mod serving;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::channel::{
    self, ChannelAgent, Dialling, Interface, KnownPeers, Opened, Record, Redialled, SILENCE,
};
use crate::device::cancellation::IsAborted;
use crate::device::combine::{Combiner, GivenCombiner};
/// The name that `--device` takes.
use crate::error::TCP as DEVICE;
use crate::fork::OfProcess;
use crate::provider::{self, DeviceInfo, Found, JobSecret, Provider, State, Surroundings};
use crate::rdma::Seat;
use crate::system::random;
use crate::{
    Access, AtomicDomain, Capabilities, Device, Endpoint, LocalRegion, Result, TargetThread, Usage,
};

use endpoint::TcpEndpoint;
use origin::Peer;
use regions::{Keys, Regions};
use serving::Serving;

/// Addresses of other devices begin differently. The last byte is the version of the protocol.
const MARK: [u8; 4] = *b"tTC\x06";

/// How long a rank of an aborted job waits for others.
const AFTER_ABORT: Duration = Duration::from_secs(1);

pub(crate) static CAPABILITIES: Capabilities = Capabilities {
    // The agent uses instructions of the processor.
    atomic_domain: AtomicDomain::Global,
    narrow_atomics: true,
    max_message: u64::MAX,
    target_thread: TargetThread::ForAll,
    pins_memory: false,
};

/// The tcp device as a provider. Every machine has one.
pub(crate) struct Tcp;

impl Provider for Tcp {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn list(&self) -> Vec<DeviceInfo> {
        let mut info = DeviceInfo::ready(DEVICE, DEVICE, CAPABILITIES.clone());
        info.joins_hosts = true;
        match published("") {
            Ok(found) if found.is_empty() => {
                let all = channel::all().unwrap_or_default();
                info.state = State::Unusable(channel::why_none(&all));
            }
            Ok(found) => info.addresses = found,
            Err(error) => info.state = State::Unusable(error.to_string()),
        }
        vec![info]
    }

    fn find(&self, spec: &str, _: &[DeviceInfo], _: &Seat) -> Result<Found> {
        Ok(Found {
            device: DEVICE.to_owned(),
            choice: None,
            addresses: published(provider::options(spec, DEVICE))?,
        })
    }

    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let interface = named(provider::options(spec, DEVICE));
        let device = TcpDevice::open(&interface, around.secret, around.met_from, Keys::Own)?;
        Ok(Arc::new(device))
    }

    fn remedy_between_hosts(&self) -> Option<&'static str> {
        Some(
            "each host needs a network interface that is up and has an address; TRANSOM_TCP_INTERFACE, where it is set, has to name one",
        )
    }
}

/// The addresses that are published to peers.
fn published(options: &str) -> Result<Vec<String>> {
    let found = channel::published(&channel::all()?, &named(options), None)?;
    Ok(found.iter().map(ToString::to_string).collect())
}

/// The interface named in a spec's options, otherwise in the environment; empty if none.
fn named(options: &str) -> String {
    match options {
        "" => channel::named_interface(),
        interface => interface.to_owned(),
    }
}

pub(crate) struct TcpDevice {
    own: Record,
    published: Vec<Interface>,
    regions: Arc<Regions>,
    keys: Keys,
    peers: Arc<KnownPeers>,
    endpoints: Mutex<HashMap<u64, Arc<TcpEndpoint>>>,
    dialling: Dialling,
    combiner: GivenCombiner,
    agent: OfProcess<ChannelAgent<Serving>>,
}

impl TcpDevice {
    /// Opens a device for operations on memory that another device has registered: [`TcpDevice::register_as`].
    pub(crate) fn beside_another(secret: JobSecret) -> Result<Self> {
        Self::open(&channel::named_interface(), secret, None, Keys::OfAnother)
    }

    /// Registers memory that another device has registered, under its key. No other region has that key.
    ///
    /// # Errors
    /// As for [`Device::register`].
    ///
    /// # Safety
    /// As for [`Device::register`].
    pub(crate) unsafe fn register_as(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
        rkey: u64,
    ) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.regions.register_as(base, len, access, rkey) }
    }

    fn open(interface: &str, secret: JobSecret, first: Option<IpAddr>, keys: Keys) -> Result<Self> {
        let Opened {
            record: own,
            listener,
            published,
        } = channel::open(interface, secret, first)?;
        let regions = Regions::new(u64::from(u32::from_ne_bytes(random()?)) << 16);
        let peers = Arc::<KnownPeers>::default();
        let combiner = GivenCombiner::default();
        let serving = Serving::new(regions.clone(), combiner.clone(), peers.clone());
        Ok(Self {
            agent: OfProcess::new(ChannelAgent::start(listener, &own, serving)?),
            own,
            published,
            regions,
            keys,
            peers,
            endpoints: Mutex::default(),
            dialling: Dialling::default(),
            combiner,
        })
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<u64, Arc<TcpEndpoint>>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel of the peer's host, or something in between, has reset the connection.
fn is_reset(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
    ];
    kinds.contains(&error.kind())
}

fn decode(address: &[u8]) -> Result<Record> {
    Record::decode(MARK, DEVICE, address, |_| Some(())).map(|(record, ())| record)
}

impl Device for TcpDevice {
    fn name(&self) -> &str {
        DEVICE
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn usage(&self) -> Option<Usage> {
        let endpoints: Vec<_> = self.endpoints().values().cloned().collect();
        Some(Usage {
            registered_bytes: self.regions.bytes(),
            connections: endpoints.len() as u32,
            requests: endpoints.iter().map(|endpoint| endpoint.posted()).sum(),
            ..Usage::default()
        })
    }

    fn addresses(&self) -> Option<String> {
        let mut text = format!("listens at port {}", self.own.port);
        for (number, interface) in self.published.iter().enumerate() {
            let before = if number == 0 { " of" } else { "," };
            let _ = write!(text, "{before} {interface}");
        }
        let endpoints = self.endpoints();
        let others = endpoints
            .iter()
            .filter(|(instance, _)| **instance != self.own.instance);
        let reached: BTreeSet<_> = others.filter_map(|(_, to)| to.address()).collect();
        for (number, address) in reached.iter().enumerate() {
            let before = ["; has reached others at", ","][number.min(1)];
            let _ = write!(text, "{before} {address}");
        }
        Some(text)
    }

    fn address(&self) -> Vec<u8> {
        self.own.encode(MARK)
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let peer = decode(address)?;
        if let Some(endpoint) = self.endpoints().get(&peer.instance) {
            return Ok(endpoint.clone());
        }
        // Who tells others of an abort has no time for ranks that do not answer.
        let patience = match self.dialling.cancellation.is_due() {
            true => AFTER_ABORT,
            false => SILENCE,
        };
        // Without the lock: dialing may take seconds.
        let stream = channel::dial(
            &self.own,
            &peer,
            patience,
            "connecting by TCP",
            Some(&self.dialling),
        )?;
        let (own, record) = (self.own.clone(), peer.clone());
        let at = stream.peer_addr().map(|at| at.ip());
        let redial = Box::new(move || match at {
            Ok(at) => channel::redial(&own, &record, at, SILENCE),
            Err(_) => Redialled::Silent,
        });
        let instance = peer.instance;
        let own = (instance == self.own.instance).then(|| self.regions.clone());
        let status = self.peers.status(instance);
        let peer = Peer {
            pid: peer.pid,
            host: peer.host.into(),
            redial,
            status,
        };
        let endpoint = Arc::new(TcpEndpoint::new(
            peer,
            stream,
            self.keys,
            own,
            self.dialling.cancellation.clone(),
            self.combiner.clone(),
        ));
        Ok(self.endpoints().entry(instance).or_insert(endpoint).clone())
    }

    fn allocate(&self, len: usize, align: usize) -> Result<LocalRegion> {
        self.regions.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<LocalRegion> {
        // SAFETY: the caller's promise.
        unsafe { self.regions.register(base, len, access) }
    }

    fn cancel_when(&self, is_aborted: IsAborted) {
        self.dialling.cancellation.when(is_aborted);
    }

    fn combine_by(&self, combiner: Arc<dyn Combiner>) {
        self.combiner.give(combiner);
    }

    fn close(&self) {
        let endpoints: Vec<_> = self.endpoints().values().cloned().collect();
        let limit = match self.dialling.cancellation.is_due() {
            true => AFTER_ABORT,
            false => 2 * SILENCE,
        };
        let end = Instant::now() + limit;
        for say_farewell in [false, true] {
            // All endpoints are told before the wait for one, so that many dead peers do not prolong it.
            for endpoint in &endpoints {
                match say_farewell {
                    true => endpoint.leave(),
                    false => endpoint.progress(),
                }
            }
            for endpoint in &endpoints {
                if !endpoint.drain(end) {
                    tracing::warn!("operations are still under way while the device is closed");
                }
            }
        }
        self.agent.leave();
    }
}
