//! Sockets that are bound, each at a port that the system chooses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::interfaces::{self, Network};
use crate::{Error, Result};

/// Listens at a port that the system chooses: at all addresses, or at that of the named interface.
pub(super) fn listen(named: Option<&Network>) -> Result<TcpListener> {
    let wanted = named.map_or(EVERYWHERE.to_vec(), |network| vec![network.address]);
    first_of(wanted, listen_at).map_err(|error| Error::os("listening for peers by TCP", error))
}

/// A socket for datagrams, at a port that the system chooses.
pub(super) fn datagrams(networks: &[Network]) -> Result<UdpSocket> {
    let open = |address| Ok(UdpSocket::from(bound_to(address, SocketType::DGRAM)?));
    let opened = first_of(reached_at(networks), open);
    opened.map_err(|error| Error::os("opening a socket for datagrams", error))
}

/// A listener, at a port that the system chooses.
pub(super) fn listener(networks: &[Network]) -> Result<TcpListener> {
    let opened = first_of(reached_at(networks), listen_at);
    opened.map_err(|error| Error::os("listening for peers by TCP", error))
}

/// Where the processes of one host reach this place, if it has no addresses for others; at the address of the interface
/// that the environment names, or else at all addresses.
fn reached_at(networks: &[Network]) -> Vec<IpAddr> {
    match networks {
        [] => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        [named] if !interfaces::named_interface().is_empty() => vec![named.address],
        _ => EVERYWHERE.to_vec(),
    }
}

const EVERYWHERE: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
];

/// The first that works.
fn first_of<T>(addresses: Vec<IpAddr>, open: impl Fn(IpAddr) -> io::Result<T>) -> io::Result<T> {
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match open(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn listen_at(address: IpAddr) -> io::Result<TcpListener> {
    /// All ranks of a large job may connect at once.
    const BACKLOG: i32 = 4096;
    let socket = bound_to(address, SocketType::STREAM)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// At a port that the system chooses.
fn bound_to(address: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        // Accepts IPv4 too, whatever the system's default is.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &SocketAddr::new(address, 0))?;
    Ok(socket)
}
