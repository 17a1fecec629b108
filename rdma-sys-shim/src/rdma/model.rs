//! Devices and ports.

use std::fmt;

use super::GidEntry;

/// A device under `/sys/class/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Its name, such as `rxe0`.
    pub name: String,
    /// The node's GUID, as the kernel writes it.
    pub node_guid: String,
    /// The version of its firmware, if it has one.
    pub firmware: Option<String>,
    /// True if the kernel emulates it over an ordinary network device.
    pub emulated: bool,
    /// Its NUMA node, if it has one.
    pub numa_node: Option<u32>,
    /// True for iWARP, where a connection needs the RDMA connection manager.
    pub iwarp: bool,
    /// Whether it has atomics of eight bytes. The verbs library tells this; the kernel's files do not.
    pub atomics: Option<bool>,
    /// Whether the verbs library tried and failed to open it.
    pub fails_to_open: bool,
    /// Its ports, by number.
    pub ports: Vec<Port>,
}

impl RdmaDevice {
    /// The port with this number.
    #[must_use]
    pub fn port(&self, number: u8) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// From 1.
    pub number: u8,
    /// Its logical state, as the kernel writes it: `ACTIVE`.
    pub state: String,
    /// Its physical state, as the kernel writes it: `LinkUp`.
    pub phys_state: String,
    /// The network type.
    pub link_layer: LinkLayer,
    /// Its speed, as the kernel writes it: `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// The local identifier that the subnet manager gave it; 0 on Ethernet.
    pub lid: u16,
    /// The local identifier of the subnet manager; 0 on Ethernet.
    pub sm_lid: u16,
    /// Its network device, if known; only on Ethernet.
    pub netdev: Option<String>,
    /// Its GIDs, by index, without the empty entries.
    pub gids: Vec<GidEntry>,
}

impl Port {
    /// Whether it can be used.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == "ACTIVE"
    }

    /// Its speed in Mb/s; 0 if unknown.
    #[must_use]
    pub fn speed(&self) -> u64 {
        let number = self.rate.split_whitespace().next().unwrap_or_default();
        let gigabits: f64 = number.parse().unwrap_or(0.0);
        // For text that is not a number or a speed, this is 0.
        (gigabits * 1000.0).round() as u64
    }
}

/// The network type of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: peers are addressed by LID.
    InfiniBand,
    /// Ethernet (RoCE): peers are addressed by GID.
    Ethernet,
    /// Another type, over which no peer can be reached.
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
