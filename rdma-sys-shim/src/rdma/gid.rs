//! GIDs: the addresses of RDMA ports.

use std::fmt;
use std::net::Ipv6Addr;

/// The address of a port: 16 bytes, which read like an IPv6 address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid([u8; 16]);

impl Gid {
    /// The GID of these bytes, in network order.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, in network order.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// True for the empty entry of a table.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }

    /// True if it stands for an IPv4 address (`::ffff:a.b.c.d`).
    #[must_use]
    pub fn is_ipv4_mapped(self) -> bool {
        self.ipv6().to_ipv4_mapped().is_some()
    }

    /// True if it has no meaning beyond the link (`fe80::/10`).
    #[must_use]
    pub fn is_link_local(self) -> bool {
        self.ipv6().is_unicast_link_local()
    }

    fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from(self.0)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ipv6().fmt(f)
    }
}

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
        if gid.is_ipv4_mapped() {
            Self::Ipv4
        } else {
            Self::Ipv6
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> Gid {
        Gid::new(text.parse::<Ipv6Addr>().unwrap().octets())
    }

    #[test]
    fn kinds_of_gids_are_told_apart() {
        let mapped = gid("::ffff:10.1.2.3");
        assert!(mapped.is_ipv4_mapped() && !mapped.is_link_local() && !mapped.is_zero());
        assert_eq!(mapped.to_string(), "::ffff:10.1.2.3");
        assert_eq!(Family::from(mapped), Family::Ipv4);
        let local = gid("fe80::5054:ff:fe12:3456");
        assert!(local.is_link_local() && !local.is_ipv4_mapped());
        assert_eq!(Family::from(local), Family::Ipv6);
        let global = gid("2001:db8::1");
        assert!(!global.is_link_local() && !global.is_ipv4_mapped());
        assert!(Gid::default().is_zero());
    }
}
