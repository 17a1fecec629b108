//! Where ranks meet: `HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};

use super::error::RendezvousError;

/// Where rank 0 listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Socket(SocketAddr),
    Named { host: String, port: u16 },
}

/// The longest possible name of a host.
const LONGEST_NAME: usize = 253;

/// `ip link` shows the numbers.
const ZONE: &str = "a link-local IPv6 address needs a zone, which is the number of this host's interface and not its \
                    name ([fe80::1%2]:PORT); another address of rank 0's host needs none";

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(Kind::Socket(address))
    }
}

impl Address {
    /// `HOST:PORT`: an IPv4 address, an IPv6 address in brackets, or the name of a host.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let address = match text.parse::<SocketAddr>() {
            Ok(socket) => Self(Kind::Socket(socket)),
            Err(_) => Self::parse_name(text)?,
        };
        match &address.0 {
            _ if address.port() == 0 => Err("the port is 0, at which nobody can be met"),
            Kind::Socket(socket) if socket.ip().is_unspecified() => {
                Err("the address is that of no host")
            }
            Kind::Socket(SocketAddr::V6(socket))
                if socket.ip().is_unicast_link_local() && socket.scope_id() == 0 =>
            {
                Err(ZONE)
            }
            _ => Ok(address),
        }
    }

    fn parse_name(text: &str) -> Result<Self, &'static str> {
        let (host, port) = (text.rsplit_once(':')).ok_or("it has no port (HOST:PORT)")?;
        let Ok(port) = port.parse() else {
            return Err("its port is no number from 1 to 65535 (HOST:PORT)");
        };
        if host.contains(':') && host.contains('%') {
            return Err(ZONE);
        }
        if host.contains(':') {
            return Err("an IPv6 address stands in brackets ([HOST]:PORT)");
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match host.len() {
            1..=LONGEST_NAME if host.bytes().all(is_of_name) => {
                let host = host.to_owned();
                Ok(Self(Kind::Named { host, port }))
            }
            _ => Err("its host is neither an address nor a name (HOST:PORT)"),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        match &self.0 {
            Kind::Socket(socket) => socket.port(),
            Kind::Named { port, .. } => *port,
        }
    }

    /// Whether only processes of this host can connect to it.
    pub(crate) fn is_local(&self) -> bool {
        match &self.0 {
            Kind::Socket(socket) => is_loopback(socket.ip()),
            Kind::Named { host, .. } => {
                let host = host.to_ascii_lowercase();
                host == "localhost" || host.ends_with(".localhost")
            }
        }
    }

    /// Where to look for rank 0. A local name gives local addresses only.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.0 {
            Kind::Socket(socket) => Ok(vec![*socket]),
            Kind::Named { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs()?;
                let may = |found: &SocketAddr| !self.is_local() || is_loopback(found.ip());
                let mut found: Vec<_> = found.filter(may).collect();
                found.dedup();
                match found.is_empty() {
                    false => Ok(found),
                    true => Err(io::Error::other("it has no address")),
                }
            }
        }
    }

    /// Rank 0's part. The name of a host may resolve to a forwarding address, or to something else on the host itself.
    /// So with a name, rank 0 listens at all of its own addresses.
    pub(super) fn listen(&self) -> Result<Vec<TcpListener>, RendezvousError> {
        let everywhere = matches!(self.0, Kind::Named { .. }) && !self.is_local();
        let places = match everywhere {
            true => [
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ]
            .map(|host| SocketAddr::from((host, self.port())))
            .to_vec(),
            false => {
                (self.resolve()).map_err(RendezvousError::io(format!("looking for {self}")))?
            }
        };
        let mut listeners = Vec::new();
        let mut refused = None;
        for place in places {
            match TcpListener::bind(place) {
                Ok(listener) => listeners.push(listener),
                // A host need not support both families.
                Err(error) if is_not_here(&error) => refused = Some(error),
                // The first listener serves both families, unless the system was configured otherwise.
                Err(error)
                    if everywhere
                        && !listeners.is_empty()
                        && error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(self.refused(error)),
            }
        }
        match refused {
            Some(error) if listeners.is_empty() => Err(self.refused(error)),
            _ => Ok(listeners),
        }
    }

    fn refused(&self, source: io::Error) -> RendezvousError {
        let address = self.clone();
        match source.kind() {
            io::ErrorKind::AddrInUse => RendezvousError::PortTaken { address },
            _ if is_not_here(&source) => RendezvousError::NotHere { address },
            _ => RendezvousError::io(format!("listening at {self}"))(source),
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn is_not_here(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Socket(socket) => socket.fmt(f),
            Kind::Named { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_have_a_port() {
        for text in [
            "10.1.2.3:4711",
            "[::1]:80",
            "[fe80::1%2]:80",
            "node-7.cluster.local:65535",
            "under_score:1",
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
        }
        let wrong = [
            ("", "no port"),
            ("host", "no port"),
            ("host:", "no number"),
            ("host:x", "no number"),
            ("host:65536", "no number"),
            ("host:-1", "no number"),
            ("host:0", "port is 0"),
            ("127.0.0.1:0", "port is 0"),
            ("::1:80", "in brackets"),
            (":80", "neither"),
            ("[::1]", "no number"),
            ("[::1:80", "in brackets"),
            ("a b:80", "neither"),
            ("http://host:80", "in brackets"),
            ("0.0.0.0:80", "no host"),
            ("[::]:80", "no host"),
            ("[fe80::1%eth0]:80", "not its name"),
            ("[fe80::1]:80", "needs a zone"),
        ];
        for (text, words) in wrong {
            let problem = Address::parse(text).unwrap_err();
            assert!(problem.contains(words), "{text:?}: {problem}");
        }
        let long = format!("{}:80", "x".repeat(LONGEST_NAME + 1));
        assert!(Address::parse(&long).is_err());
    }

    #[test]
    fn local_is_what_other_hosts_cannot_reach() {
        let is_local = |text| Address::parse(text).unwrap().is_local();
        for text in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "localhost:1",
            "LocalHost:1",
            "a.localhost:1",
        ] {
            assert!(is_local(text), "{text}");
        }
        for text in [
            "10.0.0.1:1",
            "[2001:db8::1]:1",
            "host:1",
            "localhost.evil:1",
        ] {
            assert!(!is_local(text), "{text}");
        }
    }
}
