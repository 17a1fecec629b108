//! The addresses of this machine.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, ptr};

use crate::error::TCP;
use crate::{Error, Result, variable};

/// The limit of the number of addresses, so that a record fits into what a bootstrap carries.
const MOST_NETWORKS: usize = 6;

/// An address, and the number of bits that identify its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

impl Network {
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        let first = differing.checked_shr(128 - u32::from(self.prefix));
        first.unwrap_or(0) == 0
    }
}

/// The interface that the environment names; empty if none.
pub(crate) fn named_interface() -> String {
    variable("TRANSOM_TCP_INTERFACE").unwrap_or_default()
}

/// An address of a network interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) network: Network,
    reach: Reach,
}

/// From where an address leads to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// From other networks, or at least from its own.
    Network,
    Loopback,
    /// From the interface's link alone (`169.254.0.0/16`): peers have to be on that link.
    Link,
    /// As `Link`, for IPv6 (`fe80::`): a peer needs the number of its own interface, too.
    Zone,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Network { address, prefix } = self.network;
        write!(f, "{}: {address}/{prefix}", self.name)
    }
}

/// The interfaces of `all` that are published, beginning with the address `first`, if it is one of them: the best address
/// of the interface `named`, which may be one of its link, or the first `MOST_NETWORKS` addresses that lead to this host
/// from other networks.
pub(crate) fn published(
    all: &[Interface],
    named: &str,
    first: Option<IpAddr>,
) -> Result<Vec<Interface>> {
    let most = if named.is_empty() { MOST_NETWORKS } else { 1 };
    let mut found: Vec<_> = all
        .iter()
        .filter(|one| match named {
            "" => one.reach == Reach::Network,
            name => one.name == name && one.reach != Reach::Zone,
        })
        .cloned()
        .collect();
    found.sort_by_key(|one| (one.reach, Some(one.network.address) != first));
    found.truncate(most);
    if found.is_empty() && !named.is_empty() {
        let usable = all.iter().filter(|one| one.reach != Reach::Zone);
        let names: BTreeSet<_> = usable.map(|one| one.name.as_str()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let mut known = format!("interfaces with an address: {}", names.join(", "));
        if all.iter().any(|one| one.name == named) {
            known += &format!(
                "; {named} has only addresses of its link, fe80::, which peers cannot use"
            );
        }
        return Err(Error::UnknownDevice {
            name: format!("{TCP}:{named}"),
            known,
        });
    }
    Ok(found)
}

/// Why no address is published unless one is named.
pub(crate) fn why_none(all: &[Interface]) -> String {
    let of_link: Vec<_> = all.iter().filter(|one| one.reach == Reach::Link).collect();
    match of_link[..] {
        [] => "no network interface is up".to_owned(),
        [one, ..] => format!(
            "the only addresses are those of a link ({one}), which are used only if TRANSOM_TCP_INTERFACE={} names them",
            one.name
        ),
    }
}

/// The addresses of this machine's interfaces that are up.
pub(crate) fn all() -> Result<Vec<Interface>> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is to a local, to which the call writes a list.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(Error::last_os("getifaddrs"));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an entry of the list, which is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: as above; its name is a string, and its addresses are valid for their families, or null.
        found.extend(unsafe { interface(entry) });
    }
    // SAFETY: the list is not used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// The entry was returned by getifaddrs.
unsafe fn interface(entry: &libc::ifaddrs) -> Option<Interface> {
    // SAFETY: the caller's promise.
    let (address, mask) = unsafe { (address(entry.ifa_addr)?, address(entry.ifa_netmask)?) };
    let reach = match address {
        _ if entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0 => Reach::Loopback,
        IpAddr::V4(address) if address.is_link_local() => Reach::Link,
        IpAddr::V6(address) if address.is_unicast_link_local() => Reach::Zone,
        _ => Reach::Network,
    };
    let prefix = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let is_up = entry.ifa_flags & wanted == wanted;
    is_up.then(|| Interface {
        // SAFETY: the caller's promise.
        name: unsafe { CStr::from_ptr(entry.ifa_name) }
            .to_string_lossy()
            .into_owned(),
        network: Network {
            address,
            prefix: prefix as u8,
        },
        reach,
    })
}

/// # Safety
/// `address` is null, or a socket address of its family.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match libc::c_int::from((*address).sa_family) {
            libc::AF_INET => {
                let address = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(Ipv4Addr::from_bits(u32::from_be(address)).into())
            }
            libc::AF_INET6 => {
                let address = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                Some(Ipv6Addr::from(address).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn network(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network {
            address: address.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
        }
    }

    #[test]
    fn a_network_holds_the_addresses_with_its_first_bits() {
        let wide = network("192.0.2.1/24");
        assert!(wide.holds("192.0.2.255".parse().unwrap()));
        assert!(!wide.holds("192.0.3.1".parse().unwrap()));
        assert!(!wide.holds("::ffff:192.0.2.2".parse().unwrap()));
        assert!(network("0.0.0.0/0").holds("9.9.9.9".parse().unwrap()));
        assert!(!network("2001:db8::1/128").holds("2001:db8::2".parse().unwrap()));
    }

    #[test]
    fn this_machine_has_a_loopback_which_peers_are_told_only_if_it_is_named() {
        let all = all().unwrap();
        let is_loopback = |one: &&Interface| one.reach == Reach::Loopback;
        let loopback = all.iter().find(is_loopback).unwrap();
        assert!(loopback.network.address.is_loopback());
        let told = published(&all, &loopback.name, None).unwrap();
        assert_eq!(told, std::slice::from_ref(loopback));
        let told = published(&all, "", None).unwrap();
        assert!(told.iter().all(|one| !one.network.address.is_loopback()));
        let message = published(&all, "no0", None).unwrap_err().to_string();
        assert!(
            message.contains("tcp:no0") && message.contains(&loopback.name),
            "{message}"
        );
    }

    #[test]
    fn addresses_of_a_link_are_published_only_if_they_are_named() {
        let interface = |name: &str, address, reach| Interface {
            name: name.to_owned(),
            network: network(address),
            reach,
        };
        let [zone, link, wide] = [
            interface("eth0", "fe80::1/64", Reach::Zone),
            interface("eth0", "169.254.9.1/16", Reach::Link),
            interface("eth0", "192.0.2.1/24", Reach::Network),
        ];
        let all = [zone.clone(), link.clone()];
        assert_eq!(published(&all, "", None).unwrap(), []);
        assert_eq!(published(&all, "eth0", None).unwrap(), all[1..]);
        let why = why_none(&all);
        assert!(
            why.contains("eth0: 169.254.9.1/16") && why.contains("TRANSOM_TCP_INTERFACE=eth0"),
            "{why}"
        );
        let message = published(&all[..1], "eth0", None).unwrap_err().to_string();
        assert!(
            message.contains("eth0 has only addresses of its link"),
            "{message}"
        );
        let all = [zone, link, wide.clone()];
        assert_eq!(published(&all, "eth0", None).unwrap(), [wide]);
    }

    #[test]
    fn an_interface_of_several_addresses_is_named_once() {
        let interface = |name: &str, address| Interface {
            name: name.to_owned(),
            network: network(address),
            reach: Reach::Network,
        };
        let all = [
            interface("eth0", "192.0.2.1/24"),
            interface("eth1", "198.51.100.1/24"),
            interface("eth0", "2001:db8::1/64"),
        ];
        let message = published(&all, "no0", None).unwrap_err().to_string();
        assert!(message.ends_with("eth0, eth1)"), "{message}");
    }

    #[test]
    fn the_address_at_which_ranks_have_met_is_published_first_of_many() {
        let interface = |number: u32| Interface {
            name: format!("eth{number}"),
            network: network(&format!("192.0.{number}.1/24")),
            reach: Reach::Network,
        };
        let all: Vec<_> = (0..9).map(interface).collect();
        let numbers = |first: Option<&str>| {
            let first = first.map(|text| text.parse().unwrap());
            let found = published(&all, "", first).unwrap();
            found
                .iter()
                .map(|one| one.name.clone())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(numbers(None), "eth0eth1eth2eth3eth4eth5");
        assert_eq!(numbers(Some("192.0.7.1")), "eth7eth0eth1eth2eth3eth4");
        assert_eq!(numbers(Some("198.51.100.1")), numbers(None));
    }
}
