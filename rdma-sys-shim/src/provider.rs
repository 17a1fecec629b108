//! What a provider of devices tells the registry.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::rdma::{Choice, RdmaInfo, Seat};
use crate::{Capabilities, Device, Result};

/// A kind of device. The list of a [`Registry`](crate::Registry) registers it.
pub trait Provider: Sync {
    /// The prefix of this provider's specs. A spec is this name, optionally followed by `:` or `,` and options.
    fn name(&self) -> &'static str;

    /// The devices of this machine, usable or not. `transom devices` lists them by name.
    fn list(&self) -> Vec<DeviceInfo>;

    /// Whether a spec may also begin with the name of a device. If a spec begins with no provider's name, the first
    /// provider that returns true here opens or refuses it.
    fn takes_device_names(&self) -> bool {
        false
    }

    /// The device, and the choice within it, that a spec for this provider leads to.
    ///
    /// # Errors
    /// It leads to none.
    fn find(&self, spec: &str, devices: &[DeviceInfo], seat: &Seat) -> Result<Found> {
        let _ = (spec, devices, seat);
        Ok(Found {
            device: self.name().split(':').next().unwrap_or_default().to_owned(),
            choice: None,
            addresses: Vec::new(),
        })
    }

    /// Whether the device that this process would open has its own atomics, and ranks on all hosts can use them.
    fn has_device_atomics(&self, devices: &[DeviceInfo]) -> bool {
        let _ = devices;
        false
    }

    /// Opens the device that a spec for this provider names.
    ///
    /// # Errors
    /// No such device or option, or the system refuses.
    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>>;

    /// The equally good devices among which [`Provider::open`] would choose for this spec on these processors, as
    /// specs. `None` if the spec leaves no such choice.
    fn alternatives(&self, spec: &str, processors: &[u32]) -> Option<Vec<String>> {
        let _ = (spec, processors);
        None
    }

    /// For a provider whose devices join ranks of several hosts: the remedy if no device of the machine does so. `None`
    /// for others.
    fn remedy_between_hosts(&self) -> Option<&'static str> {
        None
    }
}

/// The options of a spec that begins with a provider's name; may be empty.
#[must_use]
pub fn options<'s>(spec: &'s str, name: &str) -> &'s str {
    let rest = spec.strip_prefix(name).unwrap_or_default();
    rest.strip_prefix([':', ',']).unwrap_or_default()
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name that selects it in a spec.
    pub name: String,
    /// The name of its provider.
    pub provider: &'static str,
    /// Whether it can be used.
    pub state: State,
    /// What it can do, as far as known without opening it.
    pub capabilities: Option<Capabilities>,
    /// Whether it can join ranks of several hosts.
    pub joins_hosts: bool,
    /// Addresses of this host at which peers reach the device, each with its network interface; empty if it publishes
    /// none.
    pub addresses: Vec<String>,
    /// Details that only RDMA devices have.
    pub rdma: Option<RdmaInfo>,
}

impl DeviceInfo {
    /// A device that can be used.
    #[must_use]
    pub fn ready(
        name: impl Into<String>,
        provider: &'static str,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            name: name.into(),
            provider,
            state: State::Ready,
            capabilities: Some(capabilities),
            joins_hosts: false,
            addresses: Vec::new(),
            rdma: None,
        }
    }
}

/// Whether a device can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It can.
    Ready,
    /// It cannot, for this reason.
    Unusable(String),
}

/// The result of resolving a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The device's name.
    pub device: String,
    /// The port and GID, for an RDMA device.
    pub choice: Option<Choice>,
    /// The addresses that peers are told, for a device with network addresses; as in [`DeviceInfo::addresses`].
    pub addresses: Vec<String>,
}

/// Where the ranks of a job run; this decides what `auto` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobSpan {
    /// All on this host.
    #[default]
    OneHost,
    /// On several hosts, or unknown.
    SeveralHosts,
}

/// A secret that only the ranks of a job know, whoever reads what they publish; zeros if there is none.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSecret(pub [u8; 32]);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret")
    }
}

/// What the choice of a device depends on, besides the devices.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The process from which all ranks of this job on this host descend, if known.
    pub launcher: Option<u32>,
    /// Where the ranks run.
    pub span: JobSpan,
    /// The place of this rank on its host.
    pub seat: Seat,
    /// If the ranks run on several hosts: the intersection of [`Registry::joining`](crate::Registry::joining) over all
    /// of them.
    pub joining: Joining,
    /// The secret by which processes prove that they belong to the job, besides what they publish.
    pub secret: JobSecret,
    /// The address of this host from which it has reached, or will reach, the other ranks at the start, if known.
    pub met_from: Option<IpAddr>,
}

/// The providers that can join the ranks of several hosts here: one bit each, by its index among the registry's
/// providers that join hosts. The highest bit is set if such a device carries out atomics itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining(pub u32);

impl Joining {
    const DEVICE_ATOMICS: u32 = 1 << 31;

    pub(crate) fn new(providers: u32, device_atomics: bool) -> Self {
        match device_atomics {
            true => Self(providers | Self::DEVICE_ATOMICS),
            false => Self(providers),
        }
    }

    pub(crate) fn providers(self) -> u32 {
        self.0 & !Self::DEVICE_ATOMICS
    }

    #[cfg(feature = "verbs")]
    pub(crate) fn has_device_atomics(self) -> bool {
        self.0 & Self::DEVICE_ATOMICS != 0
    }
}

impl Default for Joining {
    /// All providers, with atomics of the device.
    fn default() -> Self {
        Self(u32::MAX)
    }
}
