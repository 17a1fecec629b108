//! The tcp provider: windows over plain Ethernet, or any other network that carries TCP.
//!
//! Every process has a thread, the [`agent`], that carries out what its peers ask for, in the order of each connection's
//! stream. An origin opens a connection to a target when it first needs one; its own threads send the requests and receive the
//! answers. So a pair that accesses memory in both directions has two connections, and no thread that sends to a peer has to
//! serve it meanwhile.

mod agent;
mod dial;
mod endpoint;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod interfaces;
mod origin;
mod peers;
mod proof;
mod record;
mod regions;
mod socket;
mod stream;
mod target;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{env, fs, io};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// The name that `--device` takes.
use crate::error::TCP as DEVICE;
use crate::fork::OfProcess;
use crate::provider::{self, DeviceInfo, Provider, State, Surroundings};
use crate::system::{Host, allow_descriptors, host_name, random};
use crate::{
    Access, AtomicDomain, Capabilities, Device, Endpoint, Error, Region, Result, TargetThread,
    Usage,
};

use agent::{Agent, Serving};
use endpoint::TcpEndpoint;
use interfaces::Interface;
use origin::Peer;
use peers::KnownPeers;
use proof::Key;
use record::{LONGEST_HOST, Namespace, Network, Record};
use regions::Regions;
use socket::Own;

const INTERFACE: &str = "TRANSOM_TCP_INTERFACE";

static CAPABILITIES: Capabilities = Capabilities {
    // The agent's instructions are the processor's.
    atomic_domain: AtomicDomain::Global,
    narrow_atomics: true,
    max_message: u64::MAX,
    target_thread: TargetThread::ForAll,
    pins_memory: false,
};

/// The tcp device as a provider: this machine has one.
pub(crate) struct Tcp;

impl Provider for Tcp {
    fn name(&self) -> &'static str {
        DEVICE
    }

    fn list(&self) -> Vec<DeviceInfo> {
        let mut info = DeviceInfo::ready(DEVICE, DEVICE, CAPABILITIES.clone());
        info.joins_hosts = true;
        match interfaces::all().and_then(|all| interfaces::published(&all, &named(""))) {
            Ok(found) if found.is_empty() => {
                info.state = State::Unusable("no network interface is up".to_owned());
            }
            Ok(found) => info.addresses = found.iter().map(ToString::to_string).collect(),
            Err(error) => info.state = State::Unusable(error.to_string()),
        }
        vec![info]
    }

    fn open(&self, spec: &str, _: &Surroundings) -> Result<Arc<dyn Device>> {
        let interface = named(provider::options(spec, DEVICE));
        Ok(Arc::new(TcpDevice::open(&interface)?))
    }

    fn remedy_between_hosts(&self) -> Option<&'static str> {
        Some("bring up a network interface with an address on each host")
    }
}

/// The interface that a spec's options name, or else the environment; empty: none.
fn named(options: &str) -> String {
    match options {
        "" => env::var(INTERFACE).unwrap_or_default(),
        interface => interface.to_owned(),
    }
}

pub(crate) struct TcpDevice {
    own: Record,
    published: Vec<Interface>,
    regions: Arc<Regions>,
    peers: Arc<KnownPeers>,
    endpoints: Mutex<HashMap<u64, Arc<TcpEndpoint>>>,
    agent: OfProcess<Agent>,
}

impl TcpDevice {
    fn open(interface: &str) -> Result<Self> {
        let mut published = interfaces::published(&interfaces::all()?, interface)?;
        if !interface.is_empty() {
            published.truncate(1);
        }
        let networks: Vec<_> = published.iter().map(|one| one.network).collect();
        let named = networks.first().filter(|_| !interface.is_empty());
        // Each peer takes two.
        allow_descriptors();
        let listener = listen(named)?;
        let port = listener
            .local_addr()
            .map_err(|error| Error::os("getsockname", error))?
            .port();
        let own = Record {
            pid: std::process::id(),
            host: short_host_name(),
            instance: u64::from_ne_bytes(random()?),
            key: Key(random()?),
            namespace: namespace()?,
            port,
            networks,
        };
        let regions = Regions::new(u64::from(u32::from_ne_bytes(random()?)) << 16);
        let peers = Arc::<KnownPeers>::default();
        let serving = Serving {
            instance: own.instance,
            key: own.key.clone(),
            regions: regions.clone(),
            peers: peers.clone(),
        };
        Ok(Self {
            agent: OfProcess::new(Agent::start(Own::new(listener), serving)?),
            own,
            published,
            regions,
            peers,
            endpoints: Mutex::default(),
        })
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<u64, Arc<TcpEndpoint>>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens at a port that the system chooses: at all addresses, or at the one of an interface that was named.
fn listen(named: Option<&Network>) -> Result<TcpListener> {
    let wanted = match named {
        Some(network) => vec![network.address],
        None => vec![
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ],
    };
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in wanted {
        match listen_at(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(Error::os("listening for peers by TCP", failure))
}

fn listen_at(address: IpAddr) -> io::Result<TcpListener> {
    /// All ranks of a large job may connect at once.
    const BACKLOG: i32 = 4096;
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        // It takes IPv4, too, whatever the system's default is.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &SocketAddr::new(address, 0))?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

fn namespace() -> Result<Namespace> {
    let net = fs::metadata("/proc/thread-self/ns/net");
    Ok(Namespace {
        boot: Host::this()?.boot,
        inode: net.map_or(0, |net| net.ino()),
    })
}

/// As much of the host's name as a record has room for.
fn short_host_name() -> String {
    let mut name = host_name();
    let mut ends = (0..=LONGEST_HOST.min(name.len())).rev();
    let end = ends.find(|&end| name.is_char_boundary(end));
    name.truncate(end.unwrap_or(0));
    name
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
        self.own.encode()
    }

    fn connect(&self, address: &[u8]) -> Result<Arc<dyn Endpoint>> {
        let peer = Record::decode(address)?;
        if let Some(endpoint) = self.endpoints().get(&peer.instance) {
            return Ok(endpoint.clone());
        }
        // Not under the lock: it may take seconds.
        let stream = dial::dial(&self.own, &peer)?;
        let instance = peer.instance;
        let status = self.peers.status(instance);
        let peer = Peer {
            pid: peer.pid,
            host: peer.host.into(),
            status,
        };
        let endpoint = Arc::new(TcpEndpoint::new(peer, stream));
        Ok(self.endpoints().entry(instance).or_insert(endpoint).clone())
    }

    fn allocate(&self, len: usize, align: usize) -> Result<Region> {
        self.regions.allocate(len, align)
    }

    unsafe fn register(&self, base: *mut u8, len: usize, access: Access) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.regions.register(base, len, access) }
    }

    fn close(&self) {
        let endpoints: Vec<_> = self.endpoints().values().cloned().collect();
        let end = Instant::now() + 2 * stream::SILENCE;
        for say_farewell in [false, true] {
            // All are asked before one is waited for, so that many that are gone take no longer.
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
