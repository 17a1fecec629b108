//! Why no device, port or GID can be chosen.

use std::sync::Arc;

use super::{GidEntry, LinkLayer, Port, RdmaDevice, SUBNET};
use crate::Error;
use crate::error::{IfKnown, SOFT, TCP};

/// The reason why a choice is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found}{}", IfKnown(" (", .remedy, ")"))]
pub struct SelectError {
    /// What was found.
    pub found: String,
    /// What would work instead, if known.
    pub remedy: Option<String>,
    /// What the error is about.
    pub subject: Subject,
}

/// What a [`SelectError`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A name that no RDMA device has.
    Name {
        /// The name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Another part of the request: its form, or a device or port that does not exist.
    Request,
    /// Ports that exist but cannot be used.
    Ports,
}

impl SelectError {
    pub(super) fn new(subject: Subject, found: String, remedy: Option<String>) -> Self {
        Self {
            found,
            remedy,
            subject,
        }
    }

    pub(super) fn unknown(name: &str, devices: &[RdmaDevice]) -> Self {
        let known: Vec<_> = devices.iter().map(|device| device.name.clone()).collect();
        Self {
            found: format!("no device {name:?}"),
            remedy: (!known.is_empty()).then(|| format!("known: {}", known.join(", "))),
            subject: Subject::Name {
                name: name.to_owned(),
                known,
            },
        }
    }

    fn no_device() -> Self {
        let made = "`rdma link add rxe0 type rxe netdev NETDEV` makes one of a network \
                    device, by soft-RoCE";
        let remedy = match crate::has_verbs() {
            true => made.to_owned(),
            false => format!("{made}; to use it, build with `--features verbs`"),
        };
        Self::new(
            Subject::Request,
            "there is no RDMA device".to_owned(),
            Some(remedy),
        )
    }

    pub(super) fn no_port(device: &RdmaDevice, port: Option<u8>) -> Self {
        let name = &device.name;
        match port {
            Some(port) => Self::new(
                Subject::Request,
                format!("{name} has no port {port}"),
                Some(format!(
                    "its ports: {}",
                    list(device.ports.iter().map(|port| port.number))
                )),
            ),
            None => Self::new(Subject::Request, format!("{name} has no port"), None),
        }
    }

    /// For a port or device of an unsupported kind.
    pub(super) fn unsupported(place: &str, reason: &str) -> Self {
        Self::new(
            Subject::Ports,
            format!("{place} cannot be used: {reason}"),
            None,
        )
    }

    /// `active`: the active ports of this machine, as `NAME:PORT`.
    pub(super) fn inactive(place: &str, port: &Port, active: &[String]) -> Self {
        let active = match active {
            [] => "no port is ACTIVE".to_owned(),
            ports => format!("ACTIVE: {}", ports.join(", ")),
        };
        let remedy = format!("{}; {active}", activation(port));
        Self::new(
            Subject::Ports,
            format!("{place} is {}", port.state),
            Some(remedy),
        )
    }

    pub(super) fn no_gid_at(place: &str, index: u8, port: &Port) -> Self {
        let known = list(port.gids.iter().map(|entry| entry.index));
        Self::new(
            Subject::Ports,
            format!("{place} has no GID at index {index}"),
            Some(format!("its GIDs: {known}")),
        )
    }

    /// For a request of a RoCE v1 GID on a port that has RoCE v2.
    pub(super) fn gid_type<'a>(
        place: &str,
        index: u8,
        v2: impl Iterator<Item = &'a GidEntry>,
    ) -> Self {
        let v2 = list(v2.map(|entry| entry.index));
        Self::new(
            Subject::Ports,
            format!("the GID at index {index} of {place} is RoCE v1"),
            Some(format!(
                "RoCE v1 is used only where there is no other; RoCE v2: index {v2}"
            )),
        )
    }

    /// For an active Ethernet port.
    pub(super) fn no_roce_v2(place: &str, device: &RdmaDevice, port: &Port) -> Self {
        match port.gids.first() {
            None => Self::new(
                Subject::Ports,
                format!("{place} has no GID"),
                Some(format!(
                    "give its network device an address: `ip addr add ADDRESS/PREFIX dev {}`",
                    netdev(port)
                )),
            ),
            Some(entry) => Self::new(
                Subject::Ports,
                format!("{place} has no GID of RoCE v2"),
                Some(format!(
                    "to use RoCE v1, name its GID: {}:{}:{}",
                    device.name, port.number, entry.index
                )),
            ),
        }
    }

    pub(super) fn no_subnet(text: &str) -> Self {
        Self::new(
            Subject::Request,
            format!("{SUBNET}={text} is not a subnet"),
            Some("the form is ADDRESS/BITS, as in 10.1.0.0/16 or fec0:0:0:1::/64".to_owned()),
        )
    }

    /// For a port without a GID in the subnet that the environment names.
    pub(super) fn outside(place: &str, subnet: &str, port: &Port) -> Self {
        let gids = list(port.gids.iter().map(|entry| entry.gid));
        Self::new(
            Subject::Ports,
            format!("{place} has no GID in {SUBNET}={subnet}"),
            Some(format!("its GIDs: {gids}")),
        )
    }

    /// Combines the errors of all ports, if none can be used.
    pub(super) fn none_usable(mut failures: Vec<Self>) -> Self {
        match failures.len() {
            0 => Self::no_device(),
            1 => failures.remove(0),
            _ => {
                let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
                Self::new(
                    Subject::Ports,
                    format!("no port can be used: {}", failures.join("; ")),
                    None,
                )
            }
        }
    }
}

impl From<SelectError> for Error {
    /// The name may also belong to a device that is not an RDMA device.
    fn from(error: SelectError) -> Self {
        match error.subject {
            Subject::Name { name, known } => Self::UnknownDevice {
                name,
                known: [[SOFT, TCP].map(str::to_owned).to_vec(), known]
                    .concat()
                    .join(", "),
            },
            _ => Self::Select(Arc::new(error)),
        }
    }
}

/// What usually activates a port.
fn activation(port: &Port) -> String {
    match (port.link_layer, port.state.as_str()) {
        (LinkLayer::InfiniBand, "INIT" | "ARMED") => {
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

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    let items: Vec<_> = items.map(|item| item.to_string()).collect();
    match items.is_empty() {
        true => "none".to_owned(),
        false => items.join(", "),
    }
}
