//! Ports, and the way from one to another.

use super::objects::{AddressVector, Partition, Qos};
use crate::fields::Fields;
use crate::rdma::{Choice, Family, Gid, GidType, LinkLayer};

/// The network type of a port. Ports of different types cannot communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    InfiniBand,
    /// Ethernet frames with their own type.
    RoceV1,
    /// UDP over IPv4 if the GID is IPv4-mapped, otherwise over IPv6.
    RoceV2,
}

impl Transport {
    pub(crate) const ALL: [Self; 3] = [Self::InfiniBand, Self::RoceV1, Self::RoceV2];

    pub(crate) fn of(choice: &Choice) -> Self {
        match (choice.link_layer, &choice.gid) {
            (LinkLayer::InfiniBand, _) => Self::InfiniBand,
            (_, Some(entry)) if entry.kind == GidType::IbOrRoceV1 => Self::RoceV1,
            _ => Self::RoceV2,
        }
    }

    /// Whether packets carry GIDs: always on Ethernet, and between InfiniBand subnets.
    fn routes_by_gid(self, from: Gid, to: Gid) -> bool {
        self != Self::InfiniBand || from.to_bits() >> 64 != to.to_bits() >> 64
    }

    /// The LID to which packets to the GID `to` go, whose port has this LID in its own subnet. In another subnet it
    /// means another port, and packets go to the router's.
    ///
    /// # Errors
    /// The router is not known; in words.
    fn lid_towards(self, from: Gid, to: Gid, lid: u16) -> Result<u16, String> {
        if self != Self::InfiniBand || !self.routes_by_gid(from, to) {
            return Ok(lid);
        }
        match (forwarding(from), forwarding(to)) {
            (Some((_, ours)), Some((_, theirs))) if ours == theirs => Ok(lid),
            (Some(_), Some((router, _))) => Ok(router),
            _ => Err(format!(
                "its GID is {to} and ours {from}: they are in two InfiniBand subnets, and no GIDs with the LID of the \
                 router between them (fec0:0:LID:SUBNET::) are chosen; choose ports of one subnet by \
                 TRANSOM_RDMA_SUBNET, GIDs with this LID by TRANSOM_DEVICE=NAME:PORT:GID, or TRANSOM_DEVICE=tcp"
            )),
        }
    }

    /// The default traffic class. For RoCE v2, it is DSCP 26 for packets that switches may mark as congested: vendors'
    /// guides make it lossless, and UCX uses it.
    pub(super) fn traffic_class(self, of_port: Option<u8>) -> u8 {
        match self {
            Self::RoceV2 => of_port.unwrap_or(106),
            Self::InfiniBand | Self::RoceV1 => 0,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}

/// The LID by which all subnets forward packets to the one of this GID (FLID), and the number of that subnet. A
/// site-local prefix may carry both.
fn forwarding(gid: Gid) -> Option<(u16, u16)> {
    match gid.segments() {
        [0xfec0, 0, router, subnet, ..] if router != 0 => Some((router, subnet)),
        _ => None,
    }
}

/// A value for each address family in which a port has a GID. InfiniBand GIDs count as IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Families<T>([Option<T>; 2]);

impl<T: Copy> Families<T> {
    pub(crate) const NONE: Self = Self([None; 2]);

    /// Sets the value for the family of `gid`, and returns the previous one.
    pub(crate) fn insert(&mut self, gid: Gid, one: T) -> Option<T> {
        self.0[Family::from(gid) as usize].replace(one)
    }

    /// The values for the first family that both have, IPv4 before IPv6. So the two ends of a pair find the same.
    fn common<U: Copy>(&self, other: &Families<U>) -> Option<(T, U)> {
        let both = self.0.into_iter().zip(other.0);
        both.flat_map(|(own, other)| own.zip(other)).next()
    }

    fn iter(&self) -> impl Iterator<Item = T> {
        self.0.into_iter().flatten()
    }
}

/// The address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortAddress {
    /// The best GID of each family.
    gids: Families<Gid>,
    /// Zero on Ethernet.
    pub(crate) lid: u16,
    /// Whether packets to the port have to carry its GID.
    needs_gid: bool,
    /// The key of its partition; 0: unknown.
    partition: u16,
}

/// A flag in the number of GIDs: packets have to carry a GID.
const NEEDS_GID: u8 = 0x80;

impl PortAddress {
    /// `gids` are of different families.
    pub(crate) fn new(gids: impl IntoIterator<Item = Gid>, lid: u16) -> Self {
        let mut families = Families::NONE;
        for gid in gids {
            families.insert(gid, gid);
        }
        Self {
            gids: families,
            lid,
            needs_gid: false,
            partition: 0,
        }
    }

    /// The GID to which `other` sends packets, if they have a common family.
    pub(crate) fn gid_for(&self, other: &Self) -> Option<Gid> {
        self.gids.common(&other.gids).map(|(gid, _)| gid)
    }

    /// The reason why no packets can go from this port to the one of `peer`, if there is one.
    pub(crate) fn obstacle_to(&self, peer: &Self, transport: Transport) -> Option<String> {
        let Some((own, gid)) = self.gids.common(&peer.gids) else {
            return Some(self.apart_from(peer));
        };
        let router = transport.lid_towards(own, gid, peer.lid);
        router.err().or_else(|| self.other_partition(peer))
    }

    /// The conflict between the partitions of the two ports, if there is one.
    fn other_partition(&self, peer: &Self) -> Option<String> {
        let [ours, theirs] = [self, peer].map(|port| Partition {
            place: 0,
            key: port.partition,
        });
        if ours.key == 0 || theirs.key == 0 {
            return None;
        }
        if !ours.is_that_of(theirs.key) {
            return Some(format!(
                "its partition key is {:#06x} and ours {:#06x}; give all ranks the same \
                 TRANSOM_RDMA_PKEY, of a partition that both ports belong to",
                theirs.key, ours.key
            ));
        }
        (ours.is_limited() && theirs.is_limited()).then(|| {
            format!(
                "both ports are limited members of partition {:#06x}, which reach full members \
                 only; make one a full member, or name another partition by TRANSOM_RDMA_PKEY",
                ours.key
            )
        })
    }

    fn apart_from(&self, peer: &Self) -> String {
        format!(
            "its GID is {} and ours {}, of which one is an IPv4 address and the other is not; give \
             both ports an address of one family, and where TRANSOM_DEVICE=NAME:PORT:GID names a \
             GID, name one of that family or leave it out",
            peer.list(),
            self.list(),
        )
    }

    fn list(&self) -> String {
        let gids: Vec<_> = self.gids.iter().map(|gid| gid.to_string()).collect();
        gids.join(" or ")
    }

    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let flag = if self.needs_gid { NEEDS_GID } else { 0 };
        bytes.push(self.gids.iter().count() as u8 | flag);
        for gid in self.gids.iter() {
            bytes.extend(gid.octets());
        }
        bytes.extend(self.lid.to_le_bytes());
        bytes.extend(self.partition.to_le_bytes());
    }

    /// `None` if the data is truncated, has no GID, or has two GIDs of one family.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let mut gids = Families::NONE;
        let [first] = fields.array()?;
        let (count, needs_gid) = (first & !NEEDS_GID, first & NEEDS_GID != 0);
        for _ in 0..count {
            let gid = Gid::from(fields.array::<16>()?);
            if gids.insert(gid, gid).is_some() {
                return None;
            }
        }
        let lid = u16::from_le_bytes(fields.array()?);
        let partition = u16::from_le_bytes(fields.array()?);
        (count > 0).then_some(Self {
            gids,
            lid,
            needs_gid,
            partition,
        })
    }
}

/// A GID of this process's port, and its index in the port's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnGid {
    pub(crate) index: u8,
    pub(crate) gid: Gid,
}

/// The data of this process's port that sending needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPort {
    pub(crate) number: u8,
    pub(crate) transport: Transport,
    pub(crate) gids: Families<OwnGid>,
    pub(crate) lid: u16,
    pub(crate) needs_gid: bool,
    pub(crate) partition: Partition,
    pub(crate) qos: Qos,
}

impl OwnPort {
    /// The port's address for peers.
    pub(crate) fn address(&self) -> PortAddress {
        PortAddress {
            needs_gid: self.needs_gid,
            partition: self.partition.key,
            ..PortAddress::new(self.gids.iter().map(|own| own.gid), self.lid)
        }
    }

    /// The way to a peer's port.
    ///
    /// # Errors
    /// The two have no GIDs of one family, or the router between them is not known; in words.
    pub(crate) fn route_to(&self, peer: &PortAddress) -> Result<AddressVector, String> {
        let common = self.gids.common(&peer.gids);
        let (own, gid) = common.ok_or_else(|| self.address().apart_from(peer))?;
        Ok(AddressVector {
            port: self.number,
            gid_index: own.index,
            gid: gid.octets(),
            global: self.needs_gid || peer.needs_gid || self.transport.routes_by_gid(own.gid, gid),
            lid: self.transport.lid_towards(own.gid, gid, peer.lid)?,
            qos: self.qos,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPED: &str = "::ffff:10.0.0.1";
    const GLOBAL: &str = "2001:db8::1";

    fn gid(text: &str) -> Gid {
        text.parse().unwrap()
    }

    fn address(gids: &[&str], lid: u16) -> PortAddress {
        PortAddress::new(gids.iter().copied().map(gid), lid)
    }

    /// A port with these GIDs in its table from index 3 on.
    fn own(transport: Transport, gids: &[&str]) -> OwnPort {
        let mut families = Families::NONE;
        for (index, gid) in (3..).zip(gids.iter().copied().map(gid)) {
            families.insert(gid, OwnGid { index, gid });
        }
        OwnPort {
            number: 2,
            transport,
            gids: families,
            lid: 4,
            needs_gid: false,
            partition: Partition::default(),
            qos: Qos::default(),
        }
    }

    fn bytes(port: &PortAddress) -> Vec<u8> {
        let mut bytes = Vec::new();
        port.put(&mut bytes);
        bytes
    }

    #[test]
    fn two_ports_meet_in_the_first_family_that_both_have() {
        let both = [MAPPED, GLOBAL];
        for (ours, theirs, by) in [
            (&both[..], &both[..], Some((3, MAPPED))),
            (&both[..], &both[..1], Some((3, MAPPED))),
            (&both[..], &both[1..], Some((4, GLOBAL))),
            (&both[1..], &both[..], Some((3, GLOBAL))),
            (&both[..1], &both[..], Some((3, MAPPED))),
            (&both[..1], &both[1..], None),
            (&both[1..], &both[..1], None),
        ] {
            let [here, there] = [ours, theirs].map(|gids| own(Transport::RoceV2, gids));
            let [out, back] =
                [(here, there), (there, here)].map(|(from, to)| from.route_to(&to.address()));
            let apart = here.address().obstacle_to(&there.address(), here.transport);
            let Some((index, to)) = by else {
                let text = apart.unwrap();
                assert_eq!(out, Err(text.clone()));
                assert!(back.is_err());
                let words = format!("its GID is {} and ours {}", theirs[0], ours[0]);
                assert!(text.starts_with(&words), "{text}");
                continue;
            };
            let (out, back) = (out.unwrap(), back.unwrap());
            assert_eq!((apart, out.gid_index), (None, index));
            assert_eq!((out.gid, back.gid), (gid(to).octets(), gid(to).octets()));
            assert_eq!(there.address().gid_for(&here.address()), Some(gid(to)));
        }
    }

    #[test]
    fn ports_survive_the_journey_and_damaged_ones_are_refused() {
        for gids in [&[MAPPED][..], &[GLOBAL], &[MAPPED, GLOBAL]] {
            let port = address(gids, 9);
            let bytes = bytes(&port);
            assert_eq!(bytes.len(), 1 + 16 * gids.len() + 2 + 2);
            let mut fields = Fields(&bytes);
            assert_eq!(PortAddress::take(&mut fields), Some(port));
            assert!(fields.0.is_empty());
            let strict = PortAddress {
                needs_gid: true,
                partition: 0x8001,
                ..port
            };
            let marked = self::bytes(&strict);
            assert_eq!(PortAddress::take(&mut Fields(&marked)), Some(strict));
            for cut in 0..bytes.len() {
                assert_eq!(PortAddress::take(&mut Fields(&bytes[..cut])), None);
            }
        }
        let with = |count: u8, gids: &[&str]| {
            let gids = gids.iter().flat_map(|text| gid(text).octets());
            let bytes: Vec<u8> = [count].into_iter().chain(gids).chain([0; 64]).collect();
            PortAddress::take(&mut Fields(&bytes))
        };
        assert_eq!(with(1, &[MAPPED]), Some(address(&[MAPPED], 0)));
        assert_eq!(with(0, &[]), None, "no GID");
        assert_eq!(with(2, &[GLOBAL, "fe80::1"]), None, "two of one family");
        assert_eq!(
            with(3, &[MAPPED, GLOBAL]),
            None,
            "more than there are families"
        );
        assert_eq!(with(255, &[MAPPED, GLOBAL]), None);
    }

    #[test]
    fn ports_of_two_partitions_do_not_reach_each_other() {
        let member = |key| PortAddress {
            partition: key,
            ..address(&["fe80::1"], 4)
        };
        let obstacle =
            |ours, theirs| member(ours).obstacle_to(&member(theirs), Transport::InfiniBand);
        for (ours, theirs) in [
            (0xffff, 0xffff),
            (0x8001, 1),
            (1, 0x8001),
            (0, 0x8001),
            (1, 0),
        ] {
            assert_eq!(obstacle(ours, theirs), None, "{ours:#06x} {theirs:#06x}");
        }
        let other = obstacle(0x8002, 0x8001).unwrap();
        assert!(
            other.starts_with("its partition key is 0x8001 and ours 0x8002; "),
            "{other}"
        );
        let limited = obstacle(0x7fff, 0x7fff).unwrap();
        assert!(
            limited.starts_with("both ports are limited members of partition 0x7fff"),
            "{limited}"
        );
    }

    #[test]
    fn packets_carry_gids_where_either_port_needs_that() {
        let plain = own(Transport::InfiniBand, &["fe80::1"]);
        let strict = OwnPort {
            needs_gid: true,
            ..plain
        };
        for (from, to, global) in [
            (plain, plain, 0),
            (plain, strict, 1),
            (strict, plain, 1),
            (strict, strict, 1),
        ] {
            let route = from.route_to(&to.address()).unwrap();
            let attributes = route.attributes();
            assert_eq!(
                (attributes.is_global, attributes.grh.sgid_index),
                (global, 3 * global)
            );
        }
    }

    #[test]
    fn the_traffic_class_of_roce_v2_is_the_ports_or_that_of_lossless_networks() {
        assert_eq!(Transport::RoceV2.traffic_class(Some(104)), 104);
        let unset = Transport::ALL.map(|transport| transport.traffic_class(None));
        assert_eq!(unset, [0, 0, 106]);
    }

    #[test]
    fn packets_are_marked_as_the_environment_says() {
        let qos = Qos {
            level: 3,
            traffic_class: 104,
            hop_limit: 1,
        };
        let marked = OwnPort {
            qos,
            ..own(Transport::RoceV2, &[MAPPED])
        };
        let route = marked.route_to(&marked.address()).unwrap();
        let attributes = route.attributes();
        assert_eq!((attributes.sl, attributes.grh.traffic_class), (3, 104));
        assert_eq!(attributes.grh.hop_limit, 1);
        let plain = own(Transport::RoceV2, &[MAPPED]);
        let attributes = plain.route_to(&marked.address()).unwrap().attributes();
        assert_eq!((attributes.sl, attributes.grh.hop_limit), (0, 64));
    }

    #[test]
    fn packets_carry_gids_between_subnets_and_on_ethernet() {
        let (near, far) = (address(&["fe80::2"], 5), address(&["fe80:0:0:1::2"], 6));
        for (transport, peer, global) in [
            (Transport::InfiniBand, near, false),
            (Transport::RoceV1, near, true),
            (Transport::RoceV2, near, true),
            (Transport::RoceV2, far, true),
        ] {
            let route = own(transport, &["fe80::1"]).route_to(&peer).unwrap();
            assert_eq!(route.global, global, "{transport:?}");
            assert_eq!((route.port, route.gid_index), (2, 3));
            assert_eq!(route.lid, peer.lid);
            let attributes = route.attributes();
            let wanted = (global.into(), peer.lid);
            assert_eq!((attributes.is_global, attributes.dlid), wanted);
        }
    }

    /// A LID means something in its own subnet only.
    #[test]
    fn packets_between_subnets_go_to_the_router() {
        let port = |text| own(Transport::InfiniBand, &[text]);
        let (first, second) = ("fec0:0:41:1::1", "fec0:0:42:2::2");
        let route = port(first).route_to(&address(&[second], 7)).unwrap();
        assert_eq!((route.lid, route.global), (0x42, true));
        let beside = address(&["fec0:0:43:1::3"], 7);
        assert_eq!(port(first).route_to(&beside).unwrap().lid, 7, "one subnet");
        for (ours, theirs) in [
            ("fe80::1", "fe80:0:0:1::2"),
            ("fec0:0:0:1::1", "fec0:0:0:2::2"),
            (first, "fec0:0:0:2::2"),
            ("fe80::1", second),
        ] {
            let (port, peer) = (port(ours), address(&[theirs], 7));
            let text = port.route_to(&peer).unwrap_err();
            let words = format!("its GID is {theirs} and ours {ours}: they are in two InfiniBand");
            assert!(text.starts_with(&words), "{text}");
            let obstacle = |transport| port.address().obstacle_to(&peer, transport);
            assert_eq!(obstacle(Transport::InfiniBand), Some(text));
            assert_eq!(obstacle(Transport::RoceV1), None);
        }
    }
}
