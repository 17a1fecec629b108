//! Devices and ports.

use std::fmt;

use super::GidEntry;

/// A device under `/sys/class/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Its name, as `rxe0`.
    pub name: String,
    /// The node's GUID, as the kernel writes it.
    pub node_guid: String,
    /// The version of its firmware, if it has one.
    pub firmware: Option<String>,
    /// True if the kernel emulates it over an ordinary network device.
    pub emulated: bool,
    /// The NUMA node that it belongs to, if to one.
    pub numa_node: Option<u32>,
    /// True for iWARP, where a connection needs the RDMA connection manager.
    pub iwarp: bool,
    /// Its ports, by number.
    pub ports: Vec<Port>,
}

impl RdmaDevice {
    /// Its port of this number.
    #[must_use]
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Counted from 1.
    pub number: u8,
    /// Its logical state.
    pub state: PortState,
    /// Its physical state, as the kernel writes it: `LinkUp`.
    pub phys_state: String,
    /// What it is connected to.
    pub link_layer: LinkLayer,
    /// Its speed, as the kernel writes it: `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// The local identifier that the subnet manager gave it; 0 on Ethernet.
    pub lid: u16,
    /// The network device under it, where one is known; on Ethernet only.
    pub netdev: Option<String>,
    /// Its GIDs, by index, without the empty entries.
    pub gids: Vec<GidEntry>,
}

impl Port {
    /// Its speed in Mb/s; 0 if it is not known.
    #[must_use]
    pub fn speed(&self) -> u64 {
        let number = self.rate.split_whitespace().next().unwrap_or_default();
        let gigabits: f64 = number.parse().unwrap_or(0.0);
        // Of what is no number, or none of a speed, this is 0.
        (gigabits * 1000.0).round() as u64
    }
}

/// A port's logical state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// A link that the subnet manager has not configured.
    Init,
    /// Configured, not yet active.
    Armed,
    /// It can be used.
    Active,
    /// Active, with the link lost a moment ago.
    ActiveDefer,
    /// None that is known here.
    Unknown,
}

impl PortState {
    /// The state of this number, which is verbs' own.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            5 => Self::ActiveDefer,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Down => "DOWN",
            Self::Init => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
            Self::ActiveDefer => "ACTIVE_DEFER",
            Self::Unknown => "UNKNOWN",
        })
    }
}

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: peers are addressed by LID.
    InfiniBand,
    /// Ethernet (RoCE): peers are addressed by GID.
    Ethernet,
    /// Something else, over which no peer can be reached.
    Other,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::Other => "unknown link layer",
        })
    }
}
