//! The networks of this machine's network devices, as the kernel shows them: which RoCE ports can reach each other.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::Gid;
use super::sysfs::text;

/// The kernel's directory of network tables.
pub const PROC_NET: &str = "/proc/net";

/// The network devices of this network namespace, and their networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    netdevs: Vec<String>,
    networks: Vec<Network>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Network {
    netdev: String,
    /// In the form of a GID, with IPv4 addresses mapped.
    address: u128,
    mask: u128,
}

/// The bits of a mapped address before the IPv4 address.
const MAPPED: u128 = !0 << 32;

impl Networks {
    /// Reads the tables under `net` (on this machine: [`PROC_NET`]). Parts that cannot be read are left out.
    #[must_use]
    pub fn read(net: &Path) -> Self {
        let read = |file| text(&net.join(file)).unwrap_or_default();
        let (netdevs, routes, addresses) = (read("dev"), read("route"), read("if_inet6"));
        let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
        let found = routes.lines().filter_map(route);
        Self {
            netdevs: netdevs.lines().filter_map(name).collect(),
            networks: found.chain(addresses.lines().filter_map(address)).collect(),
        }
    }

    /// Whether the network device is in this network namespace, as far as known. A port's table has the GIDs of all
    /// namespaces.
    pub(super) fn has(&self, netdev: &str) -> bool {
        self.netdevs.is_empty() || self.netdevs.iter().any(|known| known == netdev)
    }

    /// The network of an address of a network device, as a number that identifies and orders networks.
    pub(super) fn of(&self, netdev: &str, gid: Gid) -> Option<u128> {
        let address = gid.to_bits();
        self.networks
            .iter()
            .filter(|network| network.netdev == netdev)
            .filter(|network| address & network.mask == network.address)
            .max_by_key(|network| network.mask)
            .map(|network| network.address)
    }
}

/// Parses a line of the table of IPv4 routes: a route without a gateway leads to a network of the device.
fn route(line: &str) -> Option<Network> {
    let mut fields = line.split_whitespace();
    let netdev = fields.next()?.to_owned();
    let mut number = || u32::from_str_radix(fields.next()?, 16).ok();
    let (destination, gateway) = (number()?, number()?);
    let mut rest = line.split_whitespace().skip(7);
    let mask = u32::from_str_radix(rest.next()?, 16).ok()?;
    // Both are in network byte order, printed as numbers of this machine.
    let address = Ipv4Addr::from_bits(destination.to_be()).to_ipv6_mapped();
    let is_default = mask == 0;
    (gateway == 0 && !is_default).then_some(Network {
        netdev,
        address: address.to_bits(),
        mask: MAPPED | u128::from(mask.to_be()),
    })
}

/// Parses a line of the list of IPv6 addresses. Link-local ones do not identify a network.
fn address(line: &str) -> Option<Network> {
    let mut fields = line.split_whitespace();
    let address = u128::from_str_radix(fields.next()?, 16).ok()?;
    let prefix = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
    let netdev = fields.nth(2)?.to_owned();
    let mask = match prefix {
        1..=128 => !0 << (128 - prefix),
        _ => return None,
    };
    let is_wide = !Ipv6Addr::from_bits(address).is_unicast_link_local();
    is_wide.then_some(Network {
        netdev,
        address: address & mask,
        mask,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
eth1\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
short
";
    const ADDRESSES: &str = "\
20010db8000100000000000000000007 04 40 00 80     eth0
20010db8000200000000000000000007 05 40 00 80     eth1
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
nonsense
";
    const NETDEVS: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 5188810   31284    0    0    0     0          0         0 25129386   33125    0    0    0     0       0          0
";

    fn networks() -> Networks {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("route"), ROUTES).unwrap();
        fs::write(folder.path().join("if_inet6"), ADDRESSES).unwrap();
        fs::write(folder.path().join("dev"), NETDEVS).unwrap();
        Networks::read(folder.path())
    }

    fn gid(address: &str) -> Gid {
        address.parse().unwrap()
    }

    #[test]
    fn addresses_of_one_network_are_on_it() {
        let networks = networks();
        let of = |netdev, address| networks.of(netdev, gid(address));
        let first = of("eth0", "::ffff:192.0.2.1");
        assert!(first.is_some());
        assert_eq!(first, of("eth0", "::ffff:192.0.2.200"));
        assert_eq!(of("eth0", "::ffff:192.0.3.1"), None, "behind a gateway");
        let (wide, narrow) = (of("eth1", "::ffff:10.7.0.1"), of("eth1", "::ffff:10.1.0.1"));
        assert!(wide.is_some() && narrow.is_some() && wide != narrow);
        let six = of("eth0", "2001:db8:1::7");
        assert!(six.is_some() && six != of("eth1", "2001:db8:2::7"));
        assert_eq!(of("eth1", "2001:db8:1::7"), None);
    }

    #[test]
    fn network_devices_of_other_namespaces_are_none_of_this_one() {
        let networks = networks();
        assert_eq!(
            ["eth0", "lo", "eth1", "face |bytes"].map(|name| networks.has(name)),
            [true, true, false, false]
        );
        assert!(Networks::default().has("eth1"), "nothing is known");
    }

    #[test]
    fn an_address_of_the_link_says_nothing_of_the_network() {
        assert_eq!(networks().of("eth0", gid("fe80::fc:ff:fe00:1")), None);
        let nothing = Networks::read(Path::new("/no/such/folder"));
        assert_eq!(nothing.of("eth0", gid("::ffff:192.0.2.1")), None);
    }
}
