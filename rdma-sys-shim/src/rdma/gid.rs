//! GIDs: the addresses of RDMA ports.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The address of a port: an IPv6 address in form, possibly IPv4-mapped.
pub type Gid = Ipv6Addr;

/// How packets to and from a GID are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 on Ethernet: the kernel uses one name for both.
    IbOrRoceV1,
    /// RoCE v2: UDP over IP.
    RoceV2,
}

impl fmt::Display for GidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::IbOrRoceV1 => "IB/RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// An entry of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Its index in the table.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
    /// How its packets are framed.
    pub kind: GidType,
    /// The network device that it belongs to; only on Ethernet.
    pub netdev: Option<String>,
}

/// The address family for reaching a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4: an IPv4-mapped GID.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl From<Gid> for Family {
    fn from(gid: Gid) -> Self {
        match gid.to_ipv4_mapped() {
            Some(_) => Self::Ipv4,
            None => Self::Ipv6,
        }
    }
}

/// The variable that restricts the choice to GIDs of one subnet.
pub const SUBNET: &str = "TRANSOM_RDMA_SUBNET";

/// A set of GIDs: an IP network, or an InfiniBand subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    address: u128,
    mask: u128,
}

impl Subnet {
    /// Parses `ADDRESS/BITS`, of IPv4 or IPv6. The address must be zero after the first `BITS` bits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.trim().split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        let (address, bits) = match address.parse().ok()? {
            IpAddr::V4(address) if bits <= 32 => (address.to_ipv6_mapped(), 96 + bits),
            IpAddr::V6(address) if bits <= 128 => (address, bits),
            _ => return None,
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let address = address.to_bits();
        (address & !mask == 0).then_some(Self { address, mask })
    }

    pub(super) fn contains(&self, gid: Gid) -> bool {
        gid.to_bits() & self.mask == self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_contains_the_gids_with_its_first_bits() {
        for (text, inside, outside) in [
            ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.0.1"),
            ("10.1.2.3/32", "::ffff:10.1.2.3", "::ffff:10.1.2.4"),
            ("0.0.0.0/0", "::ffff:10.1.2.3", "2001:db8::1"),
            (" fec0:0:0:1::/64 ", "fec0:0:0:1:9803:9b03:0:1", "fe80::1"),
        ] {
            let subnet = Subnet::parse(text).unwrap();
            assert!(subnet.contains(inside.parse().unwrap()), "{text}");
            assert!(!subnet.contains(outside.parse().unwrap()), "{text}");
        }
        assert!(Subnet::parse("::/0").is_some_and(|all| all.contains(Gid::LOCALHOST)));
        for wrong in [
            "",
            "10.1.0.0",
            "10.1.0.1/16",
            "10.1.0.0/33",
            "fe80::/129",
            "eth0/8",
            "10.1.0.0/x",
        ] {
            assert_eq!(Subnet::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_mapped_gid_is_of_ipv4_and_all_others_of_ipv6() {
        for (text, family) in [
            ("::ffff:10.1.2.3", Family::Ipv4),
            ("fe80::5054:ff:fe12:3456", Family::Ipv6),
            ("2001:db8::1", Family::Ipv6),
            ("::a01:203", Family::Ipv6),
        ] {
            let gid: Gid = text.parse().unwrap();
            assert_eq!(Family::from(gid), family, "{text}");
            assert_eq!(gid.to_string(), text);
        }
    }
}
