//! The rule by which device, port and GID are chosen.
//!
//! A port has to be ACTIVE. On Ethernet it is addressed by a RoCE v2 GID, IPv4-mapped before global
//! IPv6 before link-local, one of this network namespace before those of others, never by a fixed
//! index; and by the best one of the other address family where that is the peer's only one. On
//! InfiniBand it is addressed by LID, and by the GID at index 0 where a global header is needed.
//! Among ports that can be used, [`Merit`] decides.

use super::gid::Subnet;
use super::merit::{Candidate, Merit};
use super::{
    Family, Gid, GidEntry, GidType, LinkLayer, Port, RdmaDevice, Seat, SelectError, Selector,
    Standing,
};

/// The result of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// True if the kernel emulates it over an ordinary network device.
    pub emulated: bool,
    /// The port's number.
    pub port: u8,
    /// What the port is connected to.
    pub link_layer: LinkLayer,
    /// The port's LID; 0 on Ethernet.
    pub lid: u16,
    /// The GID; on InfiniBand `None` is legal, but then global headers are impossible.
    pub gid: Option<GidEntry>,
    /// The best GID of the other address family, for peers that have none of the first family.
    pub second_gid: Option<GidEntry>,
    /// Whether several devices of this host have an active port.
    pub is_one_of_several: bool,
}

impl Choice {
    /// The index of the GID in the port's table.
    #[must_use]
    pub fn gid_index(&self) -> Option<u8> {
        self.gid.as_ref().map(|entry| entry.index)
    }
}

fn has_several(devices: &[RdmaDevice]) -> bool {
    let is_active = |device: &&RdmaDevice| device.ports.iter().any(Port::is_active);
    devices.iter().filter(is_active).nth(1).is_some()
}

/// Chooses among `devices` by the rule, unless `selector` overrides it. A GID that it names is the only one used. The
/// position of `seat` decides among equally good devices.
///
/// # Errors
/// No device has this name, the port or GID does not exist or cannot be used, or no port can be used.
pub fn choose(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Result<Choice, SelectError> {
    let mut best = alternatives(devices, selector, seat)?;
    let position = seat.position as usize % best.len();
    Ok(best.swap_remove(position))
}

/// The best port, and the equally good ones that reach the same peers: at least one.
///
/// # Errors
/// As for [`choose`].
pub fn alternatives(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Result<Vec<Choice>, SelectError> {
    let search = Search {
        devices,
        selector,
        seat,
    };
    let candidates = search.candidates()?;
    let best = candidates[0].clone();
    let as_good = candidates
        .into_iter()
        .take_while(|other| other.merit == best.merit)
        .filter(|other| other.choice == best.choice || best.shares_fabric(other));
    Ok(as_good.map(|candidate| candidate.choice).collect())
}

/// How each device with a usable port compares with the chosen one, by its best port.
#[must_use]
pub fn standings(devices: &[RdmaDevice], selector: &Selector, seat: &Seat) -> Vec<Standing> {
    let search = Search {
        devices,
        selector,
        seat,
    };
    let candidates = search.candidates().unwrap_or_default();
    let mut standings: Vec<Standing> = Vec::new();
    for other in &candidates {
        if standings
            .iter()
            .all(|known| known.device != other.choice.device)
        {
            standings.push(other.beside(&candidates[0]));
        }
    }
    standings
}

/// InfiniBand ports that a job may use, on subnets with the default prefix. The prefix does not tell whether these are
/// the same subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPrefix {
    /// In the form `NAME:PORT`; at least two.
    pub ports: Vec<String>,
    /// A LID that two of the ports have, which shows that they are on different subnets.
    pub common_lid: Option<u16>,
}

/// The ports with the default prefix, if there are several that are as good as the best, except for the distance.
#[must_use]
pub fn default_prefix(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Option<DefaultPrefix> {
    let search = Search {
        devices,
        selector,
        seat,
    };
    let candidates = search.candidates().ok()?;
    let best = candidates[0].clone();
    let meant = |one: &&Candidate| {
        one.merit.but_for_distance() == best.merit.but_for_distance() && one.has_default_prefix()
    };
    let all: Vec<&Candidate> = candidates.iter().filter(meant).collect();
    let twice = |one: &&&Candidate| all.iter().any(|other| one.has_lid_of(other));
    (all.len() > 1).then(|| DefaultPrefix {
        ports: all
            .iter()
            .map(|one| format!("{}:{}", one.choice.device, one.choice.port))
            .collect(),
        common_lid: all.iter().find(twice).map(|one| one.choice.lid),
    })
}

/// Parses `spec`. If it names none of `devices`, the error is an unknown name, whatever follows the name.
///
/// # Errors
/// No device has this name, or the text is malformed.
pub fn selector(spec: &str, devices: &[RdmaDevice]) -> Result<Selector, SelectError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let named = name.parse::<Selector>()?.name;
    match named.filter(|name| devices.iter().all(|device| device.name != *name)) {
        Some(name) if !rest.is_empty() => Err(SelectError::unknown(&name, devices)),
        _ => spec.parse(),
    }
}

struct Search<'a> {
    devices: &'a [RdmaDevice],
    selector: &'a Selector,
    seat: &'a Seat,
}

impl Search<'_> {
    /// The usable ports, best first: at least one.
    fn candidates(&self) -> Result<Vec<Candidate>, SelectError> {
        let subnet = match &self.seat.subnet {
            None => None,
            Some(text) => Some(Subnet::parse(text).ok_or_else(|| SelectError::no_subnet(text))?),
        };
        let mut ordered: Vec<_> = match &self.selector.name {
            None => self.devices.iter().collect(),
            Some(name) => match self.devices.iter().find(|device| device.name == *name) {
                Some(device) => vec![device],
                None => return Err(SelectError::unknown(name, self.devices)),
            },
        };
        ordered.sort_by_key(|device| (device.emulated, &device.name));
        let (mut candidates, mut failures) = (Vec::new(), Vec::new());
        for attempt in ordered
            .into_iter()
            .flat_map(|device| self.device(device, subnet))
        {
            match attempt {
                Ok(candidate) => candidates.push(candidate),
                Err(failure) => failures.push(failure),
            }
        }
        if candidates.is_empty() {
            return Err(SelectError::none_usable(failures));
        }
        // Stable: equally good ones stay in the order of name and port.
        candidates.sort_by_key(|candidate| candidate.merit);
        Ok(candidates)
    }

    /// Whether each selected port of the device can be used.
    fn device(
        &self,
        device: &RdmaDevice,
        subnet: Option<Subnet>,
    ) -> Vec<Result<Candidate, SelectError>> {
        let candidate = |port: &Port| {
            let choice = self.port(device, port, subnet)?;
            let fabric = self.seat.fabric(port, &choice);
            let is_elsewhere = choice.gid.as_ref().is_some_and(|gid| !self.is_here(gid));
            let nearness = &self.seat.nearness;
            Ok(Candidate {
                merit: Merit::new(device, port, is_elsewhere, fabric, nearness),
                choice,
            })
        };
        match self.selector.port {
            Some(number) => match device.port(number) {
                Some(port) => vec![candidate(port)],
                None => vec![Err(SelectError::no_port(device, Some(number)))],
            },
            None if device.ports.is_empty() => vec![Err(SelectError::no_port(device, None))],
            None => device.ports.iter().map(candidate).collect(),
        }
    }

    fn port(
        &self,
        device: &RdmaDevice,
        port: &Port,
        subnet: Option<Subnet>,
    ) -> Result<Choice, SelectError> {
        let place = format!("{} port {}", device.name, port.number);
        if device.iwarp {
            return Err(SelectError::unsupported(
                &place,
                "it is iWARP, whose connections need a connection manager; InfiniBand or RoCE \
                 is needed",
            ));
        }
        if !port.is_active() {
            return Err(SelectError::inactive(&place, port, &self.active()));
        }
        let mut second_gid = None;
        let gid = match (port.link_layer, self.selector.gid_index) {
            (LinkLayer::Other, _) => {
                return Err(SelectError::unsupported(
                    &place,
                    "its link layer is neither InfiniBand nor Ethernet",
                ));
            }
            (_, Some(index)) => Some(named_gid(&place, port, index)?),
            (LinkLayer::InfiniBand, _) => {
                let first = port.gids.iter().find(|entry| entry.index == 0).cloned();
                if let Some(subnet) = subnet
                    && !first
                        .as_ref()
                        .is_some_and(|entry| subnet.contains(entry.gid))
                {
                    return Err(self.outside(&place, port));
                }
                first
            }
            (LinkLayer::Ethernet, _) => {
                let inside = |gid| subnet.is_none_or(|subnet| subnet.contains(gid));
                let best = self.best_gid(port, inside);
                let best = best.ok_or_else(|| match roce_v2(port).next() {
                    None => SelectError::no_roce_v2(&place, device, port),
                    Some(_) => self.outside(&place, port),
                })?;
                let family = Family::from(best.gid);
                second_gid = self.best_gid(port, |gid| Family::from(gid) != family && inside(gid));
                // Peers may prefer the second GID, so it must not be worse.
                second_gid.take_if(|second| self.is_here(&best) && !self.is_here(second));
                Some(best)
            }
        };
        Ok(Choice {
            device: device.name.clone(),
            emulated: device.emulated,
            port: port.number,
            link_layer: port.link_layer,
            lid: port.lid,
            gid,
            second_gid,
            is_one_of_several: has_several(self.devices),
        })
    }

    /// The best RoCE v2 GID for which `wanted` is true. Among GIDs of one kind, it prefers one on a network of its
    /// network device: another namespace may have a device of the same name.
    fn best_gid(&self, port: &Port, wanted: impl Fn(Gid) -> bool) -> Option<GidEntry> {
        let networks = &self.seat.networks;
        let rank = |entry: &&GidEntry| {
            let kind = match (Family::from(entry.gid), entry.gid.is_unicast_link_local()) {
                (Family::Ipv4, _) => 0,
                (Family::Ipv6, false) => 1,
                (Family::Ipv6, true) => 2,
            };
            let netdev = entry.netdev.as_deref();
            let network = netdev.and_then(|netdev| networks.of(netdev, entry.gid));
            (!self.is_here(entry), kind, network.is_none(), entry.index)
        };
        let wanted = roce_v2(port).filter(|entry| wanted(entry.gid));
        wanted.min_by_key(rank).cloned()
    }

    /// Whether the GID's network device is in this network namespace, as far as known.
    fn is_here(&self, entry: &GidEntry) -> bool {
        let netdev = entry.netdev.as_deref();
        netdev.is_none_or(|netdev| self.seat.networks.has(netdev))
    }

    /// The error of a port that has no GID in the requested subnet.
    fn outside(&self, place: &str, port: &Port) -> SelectError {
        let subnet = self.seat.subnet.as_deref().unwrap_or_default();
        SelectError::outside(place, subnet, port)
    }

    fn active(&self) -> Vec<String> {
        let ports = self.devices.iter().flat_map(|device| {
            let active = device.ports.iter().filter(|port| port.is_active());
            active.map(|port| format!("{}:{}", device.name, port.number))
        });
        ports.collect()
    }
}

fn named_gid(place: &str, port: &Port, index: u8) -> Result<GidEntry, SelectError> {
    let entry = port.gids.iter().find(|entry| entry.index == index);
    let entry = entry.ok_or_else(|| SelectError::no_gid_at(place, index, port))?;
    let is_v1 = port.link_layer == LinkLayer::Ethernet && entry.kind != GidType::RoceV2;
    if is_v1 && roce_v2(port).next().is_some() {
        return Err(SelectError::gid_type(place, index, roce_v2(port)));
    }
    Ok(entry.clone())
}

fn roce_v2(port: &Port) -> impl Iterator<Item = &GidEntry> {
    port.gids
        .iter()
        .filter(|entry| entry.kind == GidType::RoceV2)
}

#[cfg(test)]
mod tests;
