//! The rule by which device, port and GID are chosen.
//!
//! A port has to be ACTIVE. On Ethernet it is addressed by a RoCE v2 GID, IPv4-mapped before global
//! IPv6 before link-local, never by a fixed index; and by the best one of the other address family
//! where that is the peer's only one. On InfiniBand it is addressed by LID, and by the GID at
//! index 0 where a global header is needed. Among ports that can be used, [`Merit`] decides.

use super::merit::{Candidate, Merit};
use super::{
    Family, Gid, GidEntry, GidType, LinkLayer, Port, PortState, RdmaDevice, Seat, SelectError,
    Selector, Standing,
};

/// What was chosen.
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
    /// The GID; on InfiniBand `None` is legal, and global headers are then impossible.
    pub gid: Option<GidEntry>,
    /// The best GID of the other address family, for peers that have none of the first one's.
    pub second_gid: Option<GidEntry>,
}

impl Choice {
    /// The index of the GID in the port's table.
    #[must_use]
    pub fn gid_index(&self) -> Option<u8> {
        self.gid.as_ref().map(|entry| entry.index)
    }
}

/// Chooses among `devices` by the rule, as far as `selector` does not say otherwise. A GID that it
/// names is the only one. Of several that are as good, it is the turn of one.
///
/// # Errors
/// No device has this name, the port or GID does not exist or cannot be used, or nothing can.
pub fn choose(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Result<Choice, SelectError> {
    let mut best = alternatives(devices, selector, seat)?;
    let position = seat.position as usize % best.len();
    Ok(best.swap_remove(position))
}

/// The best, and those that are as good and can reach what it reaches: one at least.
///
/// # Errors
/// As for [`choose`].
pub fn alternatives(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Result<Vec<Choice>, SelectError> {
    let candidates = Search::new(devices, selector, seat).candidates()?;
    let Some(best) = candidates.first().cloned() else {
        return Err(SelectError::NoDevice);
    };
    let as_good = candidates
        .into_iter()
        .take_while(|other| other.merit == best.merit)
        .filter(|other| other.choice == best.choice || best.shares_fabric(other));
    Ok(as_good.map(|candidate| candidate.choice).collect())
}

/// How each device compares with the one that is chosen: for those with a port that can be used, by its best.
#[must_use]
pub fn standings(
    devices: &[RdmaDevice],
    selector: &Selector,
    seat: &Seat,
) -> Vec<(String, Standing)> {
    let candidates = Search::new(devices, selector, seat).candidates();
    let candidates = candidates.unwrap_or_default();
    let Some(best) = candidates.first() else {
        return Vec::new();
    };
    let mut standings: Vec<(String, Standing)> = Vec::new();
    for other in &candidates {
        let name = &other.choice.device;
        if standings.iter().all(|(known, _)| known != name) {
            standings.push((name.clone(), other.beside(best)));
        }
    }
    standings
}

/// Parses `spec`; a name that is none of `devices` is said to be unknown, whatever follows it.
///
/// # Errors
/// No device has this name, or the text is malformed.
pub fn selector(spec: &str, devices: &[RdmaDevice]) -> Result<Selector, SelectError> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let named = name.parse::<Selector>()?.name;
    match named.filter(|name| devices.iter().all(|device| device.name != *name)) {
        Some(name) if !rest.is_empty() => Err(unknown(&name, devices)),
        _ => spec.parse(),
    }
}

fn unknown(name: &str, devices: &[RdmaDevice]) -> SelectError {
    SelectError::Unknown {
        name: name.to_owned(),
        known: devices.iter().map(|device| device.name.clone()).collect(),
    }
}

struct Search<'a> {
    devices: &'a [RdmaDevice],
    selector: &'a Selector,
    seat: &'a Seat,
}

impl<'a> Search<'a> {
    fn new(devices: &'a [RdmaDevice], selector: &'a Selector, seat: &'a Seat) -> Self {
        Self {
            devices,
            selector,
            seat,
        }
    }

    /// The ports that can be used, the best first.
    fn candidates(&self) -> Result<Vec<Candidate>, SelectError> {
        let mut ordered: Vec<_> = match &self.selector.name {
            None => self.devices.iter().collect(),
            Some(name) => match self.devices.iter().find(|device| device.name == *name) {
                Some(device) => vec![device],
                None => return Err(unknown(name, self.devices)),
            },
        };
        ordered.sort_by_key(|device| (device.emulated, &device.name));
        let (mut candidates, mut failures) = (Vec::new(), Vec::new());
        for attempt in ordered.into_iter().flat_map(|device| self.device(device)) {
            match attempt {
                Ok(candidate) => candidates.push(candidate),
                Err(failure) => failures.push(failure),
            }
        }
        if candidates.is_empty() {
            return Err(match (failures.len(), failures.pop()) {
                (_, None) => SelectError::NoDevice,
                (1, Some(only)) => only,
                (_, Some(last)) => {
                    failures.push(last);
                    SelectError::NoneUsable(failures)
                }
            });
        }
        // Stable: of those that are as good, the first by name and port comes first.
        candidates.sort_by_key(|candidate| candidate.merit);
        Ok(candidates)
    }

    /// Of each of its ports that is asked for, whether it can be used.
    fn device(&self, device: &RdmaDevice) -> Vec<Result<Candidate, SelectError>> {
        let missing = |port| {
            vec![Err(SelectError::NoPort {
                device: device.name.clone(),
                port,
                known: device.ports.iter().map(|port| port.number).collect(),
            })]
        };
        let candidate = |port: &Port| {
            let choice = self.port(device, port)?;
            Ok(Candidate {
                merit: Merit::new(device, port, &self.seat.nearness),
                fabric: self.seat.fabric(port, &choice),
                choice,
            })
        };
        match self.selector.port {
            Some(number) => match device.port(number) {
                Some(port) => vec![candidate(port)],
                None => missing(Some(number)),
            },
            None if device.ports.is_empty() => missing(None),
            None => device.ports.iter().map(candidate).collect(),
        }
    }

    fn port(&self, device: &RdmaDevice, port: &Port) -> Result<Choice, SelectError> {
        let unsupported = |reason| SelectError::Unsupported {
            device: device.name.clone(),
            port: port.number,
            reason,
        };
        if device.iwarp {
            return Err(unsupported(
                "it is iWARP, whose connections need a connection manager; InfiniBand or RoCE \
                 is needed",
            ));
        }
        if port.state != PortState::Active {
            return Err(SelectError::PortInactive {
                device: device.name.clone(),
                port: Box::new(port.clone()),
                active: self.active(),
            });
        }
        let mut second_gid = None;
        let gid = match port.link_layer {
            LinkLayer::Other => {
                return Err(unsupported(
                    "its link layer is neither InfiniBand nor Ethernet",
                ));
            }
            _ if self.selector.gid_index.is_some() => self.named_gid(device, port)?,
            LinkLayer::InfiniBand => port.gids.iter().find(|entry| entry.index == 0).cloned(),
            LinkLayer::Ethernet => {
                let best = best_gid(port, |_| true).ok_or_else(|| SelectError::NoRoceV2 {
                    device: device.name.clone(),
                    port: Box::new(port.clone()),
                })?;
                let family = Family::from(best.gid);
                second_gid = best_gid(port, |other| other != family);
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
        })
    }

    fn named_gid(&self, device: &RdmaDevice, port: &Port) -> Result<Option<GidEntry>, SelectError> {
        let Some(index) = self.selector.gid_index else {
            return Ok(None);
        };
        let entry = port.gids.iter().find(|entry| entry.index == index);
        let entry = entry.ok_or_else(|| SelectError::NoGidAt {
            device: device.name.clone(),
            port: port.number,
            index,
            known: port.gids.iter().map(|entry| entry.index).collect(),
        })?;
        let v2: Vec<_> = roce_v2(port).map(|entry| entry.index).collect();
        if port.link_layer == LinkLayer::Ethernet && !v2.is_empty() && !v2.contains(&index) {
            return Err(SelectError::GidType {
                device: device.name.clone(),
                port: port.number,
                index,
                v2,
            });
        }
        Ok(Some(entry.clone()))
    }

    fn active(&self) -> Vec<String> {
        let ports = self.devices.iter().flat_map(|device| {
            let active = device
                .ports
                .iter()
                .filter(|port| port.state == PortState::Active);
            active.map(|port| format!("{}:{}", device.name, port.number))
        });
        ports.collect()
    }
}

/// The best GID of RoCE v2 among those of the families that are wanted.
fn best_gid(port: &Port, wanted: impl Fn(Family) -> bool) -> Option<GidEntry> {
    let rank = |gid: Gid| match (Family::from(gid), gid.is_link_local()) {
        (Family::Ipv4, _) => 0,
        (Family::Ipv6, false) => 1,
        (Family::Ipv6, true) => 2,
    };
    roce_v2(port)
        .filter(|entry| wanted(entry.gid.into()))
        .min_by_key(|entry| (rank(entry.gid), entry.index))
        .cloned()
}

fn roce_v2(port: &Port) -> impl Iterator<Item = &GidEntry> {
    port.gids
        .iter()
        .filter(|entry| entry.kind == GidType::RoceV2)
}

#[cfg(test)]
mod machines;
#[cfg(test)]
mod tests;
