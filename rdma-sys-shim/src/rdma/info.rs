//! What a list of devices says of an RDMA device besides what it says of all.

use super::{Choice, RdmaDevice, VerbsLimits};

/// Details of an RDMA device in a list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaInfo {
    /// The device as the kernel describes it.
    pub device: RdmaDevice,
    /// The port and GID that the rule chooses, if the device can be used.
    pub choice: Option<Choice>,
    /// The limits from the verbs library, in builds that have it.
    pub limits: Option<VerbsLimits>,
    /// Whether a thread of the target carries out its atomics, over TCP.
    pub agent_atomics: bool,
}
