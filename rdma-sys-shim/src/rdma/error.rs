//! Why no device, port or GID was chosen.

use std::fmt;
use std::sync::Arc;

use super::{LinkLayer, Port, PortState};
use crate::Error;
use crate::error::SOFT;

/// What stands in the way of a choice. [`remedy`](Self::remedy) says what would work, and is
/// part of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Text that is no selector.
    Malformed {
        /// The text.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No RDMA device has this name.
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The machine has no RDMA device at all.
    NoDevice,
    /// The device has no port of this number.
    NoPort {
        /// The device.
        device: String,
        /// The port asked for; `None` if it has none at all.
        port: Option<u8>,
        /// The ports that it has.
        known: Vec<u8>,
    },
    /// A port that is not active.
    PortInactive {
        /// The device.
        device: String,
        /// The port, as it was found.
        port: Box<Port>,
        /// The ports of this machine that are active, as `NAME:PORT`.
        active: Vec<String>,
    },
    /// A port or device whose kind is not supported.
    Unsupported {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What it is.
        reason: &'static str,
    },
    /// The entry of the GID table that was asked for does not exist or is empty.
    NoGidAt {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index asked for.
        index: u8,
        /// The indexes of the GIDs that exist.
        known: Vec<u8>,
    },
    /// A GID of RoCE v1 was asked for where RoCE v2 can be had.
    GidType {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index asked for.
        index: u8,
        /// The indexes of RoCE v2.
        v2: Vec<u8>,
    },
    /// An active Ethernet port without a GID of RoCE v2.
    NoRoceV2 {
        /// The device.
        device: String,
        /// The port, as it was found.
        port: Box<Port>,
    },
    /// Several ports or devices were looked at, and each has something in the way.
    NoneUsable(Vec<SelectError>),
}

impl SelectError {
    /// What was found, without the remedy.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            Self::Malformed { spec, reason } => format!("device {spec:?}: {reason}"),
            Self::Unknown { name, .. } => format!("no device {name:?}"),
            Self::NoDevice => "there is no RDMA device".to_owned(),
            Self::NoPort { device, port, .. } => match port {
                Some(port) => format!("{device} has no port {port}"),
                None => format!("{device} has no port"),
            },
            Self::PortInactive { device, port, .. } => {
                format!("{device} port {} is {}", port.number, port.state)
            }
            Self::Unsupported {
                device,
                port,
                reason,
            } => format!("{device} port {port} cannot be used: {reason}"),
            Self::NoGidAt {
                device,
                port,
                index,
                ..
            } => format!("{device} port {port} has no GID at index {index}"),
            Self::GidType {
                device,
                port,
                index,
                ..
            } => format!("the GID at index {index} of {device} port {port} is RoCE v1"),
            Self::NoRoceV2 { device, port } if port.gids.is_empty() => {
                format!("{device} port {} has no GID", port.number)
            }
            Self::NoRoceV2 { device, port } => {
                format!("{device} port {} has no GID of RoCE v2", port.number)
            }
            Self::NoneUsable(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                format!("no port can be used: {}", errors.join("; "))
            }
        }
    }

    /// What would work instead, where something is known to.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Malformed { .. } => {
                "the form is NAME[:PORT[:GID]], as in rxe0 or rxe0:1:3".to_owned()
            }
            Self::Unknown { known, .. } if known.is_empty() => return None,
            Self::Unknown { known, .. } => format!("known: {}", known.join(", ")),
            Self::NoDevice => {
                let made = "`rdma link add rxe0 type rxe netdev NETDEV` makes one of a network \
                            device, by soft-RoCE";
                match crate::has_verbs() {
                    true => made.to_owned(),
                    false => format!("{made}; to use it, build with `--features verbs`"),
                }
            }
            Self::NoPort { port: None, .. } | Self::Unsupported { .. } | Self::NoneUsable(_) => {
                return None;
            }
            Self::NoPort { known, .. } => format!("its ports: {}", list(known)),
            Self::PortInactive { port, active, .. } => {
                let active = match active.as_slice() {
                    [] => "no port is ACTIVE".to_owned(),
                    ports => format!("ACTIVE: {}", ports.join(", ")),
                };
                format!("{}; {active}", activation(port))
            }
            Self::NoGidAt { known, .. } => format!("its GIDs: {}", list(known)),
            Self::GidType { v2, .. } => format!(
                "RoCE v1 is used only where there is no other; RoCE v2: index {}",
                list(v2)
            ),
            Self::NoRoceV2 { device, port } => match port.gids.first() {
                None => format!(
                    "give its network device an address: `ip addr add ADDRESS/PREFIX dev {}`",
                    netdev(port)
                ),
                Some(entry) => format!(
                    "to use RoCE v1, name its GID: {device}:{}:{}",
                    port.number, entry.index
                ),
            },
        })
    }
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found())?;
        match self.remedy() {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl From<SelectError> for Error {
    /// A name may also be that of a device that is none of RDMA.
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::Unknown { name, known } => Self::UnknownDevice {
                name,
                known: [vec![SOFT.to_owned()], known].concat().join(", "),
            },
            error => Self::Select(Arc::new(error)),
        }
    }
}

/// What usually makes a port active.
fn activation(port: &Port) -> String {
    match (port.link_layer, port.state) {
        (LinkLayer::InfiniBand, PortState::Init | PortState::Armed) => {
            "a subnet manager has to run on the fabric, as `opensm` does".to_owned()
        }
        (LinkLayer::InfiniBand, _) => {
            let phys_state = &port.phys_state;
            format!("the link is in state {phys_state}: check cable and switch")
        }
        _ => format!("`ip link set {} up`", netdev(port)),
    }
}

fn netdev(port: &Port) -> &str {
    port.netdev.as_deref().unwrap_or("NETDEV")
}

fn list(numbers: &[u8]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    let numbers: Vec<_> = numbers.iter().map(u8::to_string).collect();
    numbers.join(", ")
}
