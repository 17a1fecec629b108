//! Ports, and the way from one to another.

use std::net::Ipv6Addr;

use crate::rdma::{Choice, GidType, LinkLayer};
use crate::verbs::objects::Route;

/// What joins ports to one another. Ports of different kinds do not understand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fabric {
    InfiniBand,
    /// Ethernet frames of their own type.
    RoceV1,
    /// UDP over IPv4 where the GID is IPv4-mapped, else over IPv6.
    RoceV2,
}

impl Fabric {
    pub(super) const ALL: [Self; 3] = [Self::InfiniBand, Self::RoceV1, Self::RoceV2];

    pub(crate) fn of(choice: &Choice) -> Self {
        match (choice.link_layer, &choice.gid) {
            (LinkLayer::InfiniBand, _) => Self::InfiniBand,
            (_, Some(entry)) if entry.kind == GidType::IbOrRoceV1 => Self::RoceV1,
            _ => Self::RoceV2,
        }
    }

    pub(super) fn is_roce(self) -> bool {
        self != Self::InfiniBand
    }

    /// Whether packets carry GIDs: always on Ethernet, and between subnets of InfiniBand.
    fn routes_by_gid(self, from: [u8; 16], to: [u8; 16]) -> bool {
        self.is_roce() || from[..8] != to[..8]
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}

/// A port as packets find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortAddress {
    pub(crate) gid: [u8; 16],
    /// Zero on Ethernet.
    pub(crate) lid: u16,
}

impl PortAddress {
    /// The GID as the Internet address that it is on Ethernet.
    pub(super) fn gid(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.gid)
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.gid().to_ipv4_mapped().is_some()
    }
}

/// This process's port, as its packets leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPort {
    pub(crate) number: u8,
    pub(crate) fabric: Fabric,
    pub(crate) gid_index: u8,
    pub(crate) address: PortAddress,
}

impl OwnPort {
    /// The way to a peer's port, for datagrams and connections alike.
    pub(crate) fn route_to(&self, peer: &PortAddress) -> Route {
        Route {
            port: self.number,
            gid_index: self.gid_index,
            gid: peer.gid,
            global: self.fabric.routes_by_gid(self.address.gid, peer.gid),
            lid: peer.lid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBNET: u64 = 0xfe80 << 48;

    fn address(subnet: u64, interface: u64, lid: u16) -> PortAddress {
        let gid = u128::from(subnet) << 64 | u128::from(interface);
        PortAddress {
            gid: gid.to_be_bytes(),
            lid,
        }
    }

    fn own(fabric: Fabric) -> OwnPort {
        OwnPort {
            number: 2,
            fabric,
            gid_index: 3,
            address: address(SUBNET, 1, 4),
        }
    }

    #[test]
    fn packets_carry_gids_between_subnets_and_on_ethernet() {
        let (near, far) = (address(SUBNET, 2, 5), address(SUBNET + 1, 2, 6));
        for (fabric, peer, global) in [
            (Fabric::InfiniBand, near, false),
            (Fabric::InfiniBand, far, true),
            (Fabric::RoceV1, near, true),
            (Fabric::RoceV2, near, true),
            (Fabric::RoceV2, far, true),
        ] {
            let route = own(fabric).route_to(&peer);
            assert_eq!(route.global, global, "{fabric:?}");
            assert_eq!((route.port, route.gid_index), (2, 3));
            assert_eq!((route.gid, route.lid), (peer.gid, peer.lid));
            let attributes = route.attributes();
            assert_eq!(
                (attributes.is_global, attributes.dlid),
                (global.into(), peer.lid)
            );
        }
    }
}
