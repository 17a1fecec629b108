//! Why no device, port or GID was chosen.

use super::{LinkLayer, PortState};

/// What stands in the way of a choice, and what would work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Text that is no selector.
    #[error("device {spec:?}: {reason} (the form is NAME[:PORT[:GID]], as in rxe0 or rxe0:1:3)")]
    Malformed {
        /// The text.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The machine has no RDMA device at all.
    #[error(
        "there is no RDMA device (`rdma link add rxe0 type rxe netdev NETDEV` makes one of a \
         network device, by soft-RoCE)"
    )]
    NoDevice,
    /// The device has no port of this number.
    #[error("{device} has no port {port} (its ports: {})", list(.known))]
    NoPort {
        /// The device.
        device: String,
        /// The port asked for.
        port: u8,
        /// The ports that it has.
        known: Vec<u8>,
    },
    /// A port that is not active.
    #[error("{device} port {port} is {state} ({remedy}{})", Active(.active))]
    PortInactive {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Its state.
        state: PortState,
        /// What usually helps.
        remedy: String,
        /// The ports of this machine that are active, as `NAME:PORT`.
        active: Vec<String>,
    },
    /// A port or device whose kind is not supported.
    #[error("{device} port {port} cannot be used: {reason}")]
    Unsupported {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What it is.
        reason: &'static str,
    },
    /// The entry of the GID table that was asked for does not exist or is empty.
    #[error("{device} port {port} has no GID at index {index} (its GIDs: {})", list(.known))]
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
    #[error(
        "the GID at index {index} of {device} port {port} is RoCE v1, which Transom uses only \
         where there is no other (RoCE v2: index {})", list(.v2)
    )]
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
    /// An active port without a GID that the rule allows.
    #[error("{device} port {port} ({link_layer}) has no usable GID: {found}")]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// What it is connected to.
        link_layer: LinkLayer,
        /// What was found instead, and what helps.
        found: String,
    },
    /// The device has no ports.
    #[error("{device} has no port")]
    NoPorts {
        /// The device.
        device: String,
    },
    /// Several ports or devices were looked at, and each has something in the way.
    #[error("no port of an RDMA device can be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoneUsable(Vec<SelectError>),
}

fn list(numbers: &[u8]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    let numbers: Vec<_> = numbers.iter().map(u8::to_string).collect();
    numbers.join(", ")
}

struct Active<'a>(&'a [String]);

impl std::fmt::Display for Active<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => f.write_str("; no port is ACTIVE"),
            ports => write!(f, "; ACTIVE: {}", ports.join(", ")),
        }
    }
}
