//! Listening for peers, and what this process publishes for that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::interfaces::{self, Interface};
use super::record::{KEY, LONGEST_HOST, Namespace, Network, Record};
use super::socket::OwnDescriptor;
use crate::fields::beginning;
use crate::proof::Secret;
use crate::provider::JobSecret;
use crate::system::{HostIdentity, allow_descriptors, host_name, random};
use crate::{Error, Result, variable};

/// The interface that the environment names; empty if none.
pub(crate) fn interface() -> String {
    variable("TRANSOM_TCP_INTERFACE").unwrap_or_default()
}

/// An open listener for peers.
pub(crate) struct Opened {
    pub(crate) record: Record,
    pub(crate) listener: OwnDescriptor<TcpListener>,
    /// The interfaces whose addresses are in the record.
    pub(crate) published: Vec<Interface>,
}

/// Listens at the interface of this name, or at all if it is empty. The record has the addresses, `first` in front, and a
/// new instance and key. A process that connects also has to know `secret`.
pub(crate) fn open(interface: &str, secret: JobSecret, first: Option<IpAddr>) -> Result<Opened> {
    let published = interfaces::published(&interfaces::all()?, interface, first)?;
    let networks: Vec<_> = published.iter().map(|one| one.network).collect();
    let named = networks.first().filter(|_| !interface.is_empty());
    // Each peer may take two descriptors.
    allow_descriptors();
    let listener = listen(named)?;
    let port = listener
        .local_addr()
        .map_err(|error| Error::os("getsockname", error))?
        .port();
    let record = Record {
        pid: std::process::id(),
        host: beginning(&host_name(), LONGEST_HOST).to_owned(),
        instance: u64::from_ne_bytes(random()?),
        key: Secret::new(random::<KEY>()?),
        secret,
        namespace: namespace()?,
        port,
        networks,
    };
    Ok(Opened {
        record,
        listener: OwnDescriptor::new(listener),
        published,
    })
}

/// Listens at a port that the system chooses: at all addresses, or at that of the named interface.
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
        // Accepts IPv4 too, whatever the system's default is.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &SocketAddr::new(address, 0))?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

fn namespace() -> Result<Namespace> {
    let net = fs::metadata("/proc/thread-self/ns/net");
    Ok(Namespace {
        boot: HostIdentity::this()?.boot,
        inode: net.map_or(0, |net| net.ino()),
    })
}
