//! Which of the ports that can be used is the best, and why.

use std::cmp::Reverse;
use std::fmt;
use std::path::Path;

use super::{Choice, LinkLayer, NODES, Nearness, Networks, PROC_NET, Port, RdmaDevice};

/// From where a device is chosen: where the process runs, and which of those it is that choose alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub(super) nearness: Nearness,
    pub(super) networks: Networks,
    pub(super) position: u32,
}

impl Seat {
    /// On the machine whose files are under `root`, from these processors.
    #[must_use]
    pub fn read(root: &Path, processors: &[u32]) -> Self {
        let path = |path: &str| root.join(path.trim_start_matches('/'));
        Self {
            nearness: Nearness::read(&path(NODES), processors),
            networks: Networks::read(&path(PROC_NET)),
            position: 0,
        }
    }

    /// On this machine.
    #[must_use]
    pub fn here(processors: &[u32]) -> Self {
        Self::read(Path::new("/"), processors)
    }

    /// As the one with this number among those that choose alike.
    #[must_use]
    pub fn with_position(self, position: u32) -> Self {
        Self { position, ..self }
    }

    /// What the port is connected to, as far as that is known: the subnet's prefix on InfiniBand, on Ethernet the
    /// network of the GID.
    pub(super) fn fabric(&self, port: &Port, choice: &Choice) -> Option<u128> {
        let entry = choice.gid.as_ref()?;
        match port.link_layer {
            LinkLayer::InfiniBand => Some(u128::from_be_bytes(entry.gid.bytes()) >> 64),
            _ => {
                let netdev = entry.netdev.as_deref().or(port.netdev.as_deref())?;
                self.networks.of(netdev, entry.gid)
            }
        }
    }
}

/// What a port is worth; the least is the best. Real hardware comes before devices that the kernel emulates, then
/// the faster one, InfiniBand before Ethernet, and the nearer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Merit {
    emulated: bool,
    speed: Reverse<u64>,
    ethernet: bool,
    distance: u32,
}

impl Merit {
    pub(super) fn new(device: &RdmaDevice, port: &Port, nearness: &Nearness) -> Self {
        Self {
            emulated: device.emulated,
            speed: Reverse(port.speed()),
            ethernet: port.link_layer != LinkLayer::InfiniBand,
            distance: nearness.to(device.numa_node),
        }
    }
}

/// A port that can be used.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) choice: Choice,
    pub(super) merit: Merit,
    pub(super) fabric: Option<u128>,
}

impl Candidate {
    /// Whether both are known to reach the same peers.
    pub(super) fn shares_fabric(&self, other: &Self) -> bool {
        self.fabric.is_some() && self.fabric == other.fabric
    }

    pub(super) fn beside(&self, best: &Self) -> Standing {
        let than = best.choice.device.clone();
        let (mine, its) = (self.merit, best.merit);
        if self.choice == best.choice {
            Standing::Best
        } else if mine == its && best.shares_fabric(self) {
            Standing::AsGood { than }
        } else if mine == its {
            Standing::Elsewhere { than }
        } else if mine.emulated != its.emulated {
            Standing::Emulated { than }
        } else if mine.speed != its.speed {
            Standing::Slower {
                than,
                speeds: [mine.speed.0, its.speed.0],
            }
        } else if mine.ethernet != its.ethernet {
            Standing::Ethernet { than }
        } else {
            Standing::Farther {
                than,
                distances: [mine.distance, its.distance],
            }
        }
    }
}

/// How a device compares with the best one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the best, or the first of those that are.
    Best,
    /// It is as good, and ranks of a host share these out.
    AsGood {
        /// The best one.
        than: String,
    },
    /// It is as good, but is not known to reach the same peers.
    Elsewhere {
        /// The best one.
        than: String,
    },
    /// The kernel emulates it, and not the best one.
    Emulated {
        /// The best one.
        than: String,
    },
    /// It is slower.
    Slower {
        /// The best one.
        than: String,
        /// Its speed and the best one's, in Mb/s.
        speeds: [u64; 2],
    },
    /// It is on Ethernet, and the best one on InfiniBand.
    Ethernet {
        /// The best one.
        than: String,
    },
    /// It is farther from the processors of this process.
    Farther {
        /// The best one.
        than: String,
        /// Its NUMA distance and the best one's.
        distances: [u32; 2],
    },
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabits = |speed: u64| speed as f64 / 1000.0;
        match self {
            Self::Best => f.write_str("chosen"),
            Self::AsGood { than } => write!(
                f,
                "chosen in turn: as good as {than}, with which the ranks of a host share it"
            ),
            Self::Elsewhere { than } => write!(
                f,
                "not chosen: as good as {than}, but not known to be on the same network"
            ),
            Self::Emulated { than } => {
                write!(
                    f,
                    "not chosen: the kernel emulates it, and {than} is hardware"
                )
            }
            Self::Slower {
                than,
                speeds: [mine, its],
            } => write!(
                f,
                "not chosen: {} Gb/s, where {than} has {}",
                gigabits(*mine),
                gigabits(*its)
            ),
            Self::Ethernet { than } => {
                write!(f, "not chosen: Ethernet, where {than} is on InfiniBand")
            }
            Self::Farther {
                than,
                distances: [mine, its],
            } => write!(
                f,
                "not chosen: NUMA distance {mine} from this process's processors, {than} {its}"
            ),
        }
    }
}
