//! Which of the ports that can be used is the best, and why.
//!
//! Equally good ports are distributed over the ranks of a host by position: a rank's number among those of the host
//! that have the same choice.

use std::cmp::Reverse;
use std::path::Path;

use super::{Choice, LinkLayer, NODES, Nearness, Networks, PROC_NET, Port, RdmaDevice, SUBNET};
use crate::variable;

/// The conditions of a choice: where the process runs, and its number among the processes that choose by the same rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub(super) nearness: Nearness,
    pub(super) networks: Networks,
    pub(super) position: u32,
    /// The subnet to which the choice is restricted, as the user wrote it.
    pub(super) subnet: Option<String>,
}

impl Seat {
    /// For the machine whose files are under `root`, and these processors.
    #[must_use]
    pub fn read(root: &Path, processors: &[u32]) -> Self {
        let path = |path: &str| root.join(path.trim_start_matches('/'));
        Self {
            nearness: Nearness::read(&path(NODES), processors),
            networks: Networks::read(&path(PROC_NET)),
            position: 0,
            subnet: None,
        }
    }

    /// For this machine, as the environment says.
    #[must_use]
    pub fn here(processors: &[u32]) -> Self {
        Self::read(Path::new("/"), processors).with_subnet(variable(SUBNET))
    }

    /// Restricts the choice to GIDs of this subnet, in the form of [`SUBNET`].
    #[must_use]
    pub fn with_subnet(self, subnet: Option<String>) -> Self {
        Self { subnet, ..self }
    }

    /// For the process with this number among those that choose alike.
    #[must_use]
    pub fn with_position(self, position: u32) -> Self {
        Self { position, ..self }
    }

    /// The network of the port, if known, identified the same way on all hosts. On InfiniBand it is the subnet's prefix
    /// with the LID of its manager, since most subnets have the default prefix. On Ethernet it is the network of the
    /// GID.
    pub(super) fn fabric(&self, port: &Port, choice: &Choice) -> Option<u128> {
        let entry = choice.gid.as_ref()?;
        match port.link_layer {
            LinkLayer::InfiniBand => {
                let prefix = entry.gid.to_bits() & !u128::from(u64::MAX);
                Some(prefix | u128::from(port.sm_lid))
            }
            _ => {
                let netdev = entry.netdev.as_deref().or(port.netdev.as_deref())?;
                self.networks.of(netdev, entry.gid)
            }
        }
    }
}

/// The merit of a port; the least is the best. The criteria in order: it can be opened; its GID is of this network
/// namespace; real hardware rather than emulation; atomics; speed; InfiniBand before Ethernet; a known fabric, in an
/// order that is the same on all hosts; the distance. The fabric precedes the distance, because ranks on two sockets
/// may be near ports that cannot reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merit {
    fails_to_open: bool,
    is_elsewhere: bool,
    emulated: bool,
    lacks_atomics: bool,
    speed: Reverse<u64>,
    ethernet: bool,
    fabric: Fabric,
    distance: u32,
}

/// The fabric of a port. Unknown ones come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fabric {
    Known(u128),
    Unknown,
}

impl Merit {
    /// `is_elsewhere`: its GID belongs to another network namespace.
    pub(super) fn new(
        device: &RdmaDevice,
        port: &Port,
        is_elsewhere: bool,
        fabric: Option<u128>,
        nearness: &Nearness,
    ) -> Self {
        Self {
            fails_to_open: device.fails_to_open,
            is_elsewhere,
            emulated: device.emulated,
            lacks_atomics: device.atomics == Some(false),
            speed: Reverse(port.speed()),
            ethernet: port.link_layer != LinkLayer::InfiniBand,
            fabric: fabric.map_or(Fabric::Unknown, Fabric::Known),
            distance: nearness.to(device.numa_node),
        }
    }

    pub(super) fn but_for_distance(self) -> Self {
        Self {
            distance: 0,
            ..self
        }
    }
}

/// A usable port.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) choice: Choice,
    pub(super) merit: Merit,
}

/// The subnet prefix of an InfiniBand fabric without its own prefix.
const DEFAULT_PREFIX: u64 = 0xfe80 << 48;

impl Candidate {
    /// Whether both are known to reach the same peers. Two ports of a subnet have different LIDs, except those of one
    /// adapter and its virtual functions, among which ranks need not be distributed.
    pub(super) fn shares_fabric(&self, other: &Self) -> bool {
        let is_known = self.merit.fabric != Fabric::Unknown;
        is_known && self.merit.fabric == other.merit.fabric && !self.has_lid_of(other)
    }

    pub(super) fn has_lid_of(&self, other: &Self) -> bool {
        let (mine, its) = (&self.choice, &other.choice);
        mine.lid != 0 && mine.lid == its.lid && (&mine.device, mine.port) != (&its.device, its.port)
    }

    /// Whether it is on an InfiniBand subnet with the default prefix.
    pub(super) fn has_default_prefix(&self) -> bool {
        let gid = self.choice.gid.as_ref();
        self.choice.link_layer == LinkLayer::InfiniBand
            && gid.is_some_and(|entry| (entry.gid.to_bits() >> 64) as u64 == DEFAULT_PREFIX)
    }

    pub(super) fn beside(&self, best: &Self) -> Standing {
        let than = &best.choice.device;
        let (mine, its) = (self.merit, best.merit);
        let is_best = self.choice == best.choice;
        let is_chosen = is_best || mine == its && best.shares_fabric(self);
        let gigabits = |speed: Reverse<u64>| speed.0 as f64 / 1000.0;
        let words = if is_best {
            "chosen".to_owned()
        } else if is_chosen {
            format!("chosen in turn: as good as {than}, with which the ranks of a host share it")
        } else if mine == its {
            format!("not chosen: as good as {than}, but not known to be on the same network")
        } else if mine.fails_to_open != its.fails_to_open {
            format!("not chosen: it cannot be opened, and {than} can")
        } else if mine.is_elsewhere != its.is_elsewhere {
            format!(
                "not chosen: its GIDs are of other network namespaces, and one of {than} is of this one"
            )
        } else if mine.emulated != its.emulated {
            format!("not chosen: the kernel emulates it, and {than} is hardware")
        } else if mine.lacks_atomics != its.lacks_atomics {
            format!("not chosen: it has no atomics, and {than} has")
        } else if mine.speed != its.speed {
            let [mine, its] = [mine.speed, its.speed].map(gigabits);
            format!("not chosen: {mine} Gb/s, where {than} has {its}")
        } else if mine.ethernet != its.ethernet {
            format!("not chosen: Ethernet, where {than} is on InfiniBand")
        } else if mine.fabric == Fabric::Unknown && its.fabric != Fabric::Unknown {
            format!("not chosen: not known to be on the network of {than}")
        } else if mine.fabric != its.fabric {
            format!(
                "not chosen: on another network than {than}, and the ranks of a job have to meet on one"
            )
        } else {
            let [mine, its] = [mine, its].map(|merit| merit.distance);
            format!("not chosen: NUMA distance {mine} from this process's processors, {than} {its}")
        };
        Standing {
            device: self.choice.device.clone(),
            is_chosen,
            words,
        }
    }
}

/// How a device compares with the best one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub device: String,
    /// Whether it is the best, or equally good, so that ranks of a host share these.
    pub is_chosen: bool,
    /// The result in words, with the reason.
    pub words: String,
}
