//! What a list of devices says of an RDMA device besides what it says of all.

use super::{Choice, RdmaDevice, VerbsLimits};

/// What only RDMA devices have, in a list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaInfo {
    /// As the kernel shows it.
    pub device: RdmaDevice,
    /// The port and GID that the rule chooses, if the device can be used.
    pub choice: Option<Choice>,
    /// What the verbs library says, in builds that have it.
    pub limits: Option<VerbsLimits>,
    /// Whether a thread of the target carries out its atomics, over TCP.
    pub agent_atomics: bool,
}
