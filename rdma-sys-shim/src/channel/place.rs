//! Where a process can be reached, and in which order to try the addresses of a peer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use super::bind;
use super::interfaces::{self, Interface, Network};
use crate::Result;
use crate::fields::Fields;
use crate::system::HostIdentity;

/// The network namespace of a process, and its addresses there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPlace {
    /// Processes in one namespace have the same addresses, and reach each other by any of them.
    pub(crate) namespace: Namespace,
    pub(crate) networks: Vec<Network>,
}

/// A network namespace, and the boot of the machine that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) boot: [u8; 16],
    pub(crate) inode: u64,
}

impl NetworkPlace {
    /// Local. Of this process, with the addresses that lead here from other hosts: those of the interface that
    /// `TRANSOM_TCP_INTERFACE` names, if it is set. `first` comes before the others, if it is one of them.
    ///
    /// # Errors
    /// No descriptor is free, or no interface has that name.
    pub fn here(first: Option<IpAddr>) -> Result<Self> {
        let published =
            interfaces::published(&interfaces::all()?, &interfaces::named_interface(), first)?;
        Self::at(&published)
    }

    /// Local. Of this process, for peers of this network namespace.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn local() -> Result<Self> {
        Self::at(&[])
    }

    /// Local. A socket for datagrams of peers. It sends to what [`Self::ways_to`] names.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn datagrams(&self) -> Result<UdpSocket> {
        bind::datagrams(&self.networks)
    }

    /// Local. A listener for connections of peers, which reach it as they reach [`Self::datagrams`].
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listener(&self) -> Result<TcpListener> {
        bind::listener(&self.networks)
    }

    pub(super) fn at(published: &[Interface]) -> Result<Self> {
        let host = HostIdentity::this()?;
        Ok(Self {
            namespace: Namespace {
                boot: host.boot,
                inode: host.network_namespace,
            },
            networks: published.iter().map(|one| one.network).collect(),
        })
    }

    /// Local. Whether both are in one network namespace.
    #[must_use]
    pub fn is_near(&self, peer: &Self) -> bool {
        self.namespace == peer.namespace
    }

    /// Local. Whether both are in different network namespaces of one machine.
    #[must_use]
    pub fn is_apart(&self, peer: &Self) -> bool {
        // An unreadable boot ID is zeros.
        let is_known = self.namespace.boot != [0; 16];
        is_known && self.namespace.boot == peer.namespace.boot && !self.is_near(peer)
    }

    /// Local. The addresses of a peer, in the order in which to try them from here. An address that both hosts have,
    /// such as that of a container bridge, leads nowhere unless both are in one namespace.
    #[must_use]
    pub fn ways_to(&self, peer: &Self) -> Vec<IpAddr> {
        let is_same = self.namespace == peer.namespace;
        let is_own = |address| self.networks.iter().any(|one| one.address == address);
        let is_near = |address| self.networks.iter().any(|one| one.holds(address));
        let theirs = peer.networks.iter().map(|one| one.address);
        let mut found: Vec<_> = theirs
            .filter(|&address| is_same || !is_own(address))
            .collect();
        found.sort_by_key(|&address| !is_near(address));
        let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for address in loopback.into_iter().filter(|_| is_same) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        found
    }

    /// Local. The text of this place for peers, as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.namespace.boot.to_vec();
        bytes.extend(self.namespace.inode.to_le_bytes());
        bytes.push(self.networks.len() as u8);
        for network in &self.networks {
            let address = match network.address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            bytes.extend(address.octets());
            bytes.push(network.prefix);
        }
        bytes
    }

    /// Local. What [`Self::encode`] returned to a peer; `None` if these bytes are something else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let place = Self::read(&mut fields)?;
        fields.0.is_empty().then_some(place)
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let boot = fields.array()?;
        let inode = fields.u64()?;
        let [count] = fields.array()?;
        let networks = (0..count).map(|_| {
            let address = Ipv6Addr::from(fields.array::<16>()?).to_canonical();
            let [prefix] = fields.array()?;
            let longest = if address.is_ipv4() { 32 } else { 128 };
            (prefix <= longest).then_some(Network { address, prefix })
        });
        Some(Self {
            namespace: Namespace { boot, inode },
            networks: networks.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::interfaces::tests::network;
    use super::*;

    fn place(inode: u64, networks: &[&str]) -> NetworkPlace {
        let boot = [1; 16];
        NetworkPlace {
            namespace: Namespace { boot, inode },
            networks: networks.iter().map(|text| network(text)).collect(),
        }
    }

    fn tried(own: &[&str], peer: &[&str]) -> Vec<String> {
        let found = place(1, own).ways_to(&place(2, peer));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_on_a_common_network_come_first() {
        let own = ["172.17.0.1/16", "192.0.2.1/24", "2001:db8::1/64"];
        let peer = [
            "172.17.0.1/16",
            "198.51.100.2/24",
            "192.0.2.2/24",
            "2001:db8::2/64",
        ];
        let expected = ["192.0.2.2", "2001:db8::2", "198.51.100.2"];
        assert_eq!(tried(&own, &peer), expected);
        assert_eq!(
            tried(&["172.17.0.1/16"], &["172.17.0.1/16"]),
            [""; 0],
            "both hosts have the bridge"
        );
        assert_eq!(tried(&["10.0.0.1/8"], &["11.0.0.1/0"]), ["11.0.0.1"]);
    }

    #[test]
    fn in_one_namespace_all_addresses_lead_there() {
        let own = place(1, &["192.0.2.1/24"]);
        let found = own.ways_to(&own);
        let expected =
            ["192.0.2.1", "127.0.0.1", "::1"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_place_survives_the_journey_and_nothing_else_is_one() {
        let place = place(7, &["192.0.2.1/24", "2001:db8::1/64"]);
        let bytes = place.encode();
        assert_eq!(NetworkPlace::decode(&bytes), Some(place));
        assert!((0..bytes.len()).all(|cut| NetworkPlace::decode(&bytes[..cut]).is_none()));
        assert_eq!(NetworkPlace::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
