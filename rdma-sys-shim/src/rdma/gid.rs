//! GIDs: the addresses of RDMA ports.

use std::fmt;
use std::net::Ipv6Addr;

/// The address of a port, which has the form of an IPv6 address, or of an IPv4-mapped one.
pub type Gid = Ipv6Addr;

/// How packets to and from a GID are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 on Ethernet: the kernel has one name for both.
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
    /// The network device that it belongs to; on Ethernet only.
    pub netdev: Option<String>,
}

/// The address family in which a peer is reached.
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

#[cfg(test)]
mod tests {
    use super::*;

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
