//! What a provider of devices tells the registry.

use std::fmt;
use std::sync::Arc;

use crate::rdma::{Choice, RdmaInfo, Seat};
use crate::{Capabilities, Device, Result};

/// A kind of device. It is registered by standing in the list of a [`Registry`](crate::Registry).
pub trait Provider: Sync {
    /// The prefix of this provider's specs. A spec is this name alone, or the name, then `:` or `,`, then options.
    fn name(&self) -> &'static str;

    /// The devices of this machine, usable or not. They are listed under their names by `transom devices`.
    fn list(&self) -> Vec<DeviceInfo>;

    /// Whether a spec may also begin with the name of a device. A spec that begins with no provider's name goes to the first
    /// provider that says so, which opens it or refuses it.
    fn takes_device_names(&self) -> bool {
        false
    }

    /// Which of `devices`, and what of it, a spec for this provider leads to.
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

    /// Whether the device of `devices` that this process would open has atomics of its own that ranks of all hosts can use.
    fn has_device_atomics(&self, devices: &[DeviceInfo]) -> bool {
        let _ = devices;
        false
    }

    /// Opens the device that a spec for this provider names.
    ///
    /// # Errors
    /// No such device or option, or the system refuses.
    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>>;

    /// The devices that a spec leaves to [`Provider::open`] to take one of, where several are as good from these
    /// processors: as specs.
    fn alternatives(&self, spec: &str, processors: &[u32]) -> Option<Vec<String>> {
        let _ = (spec, processors);
        None
    }

    /// For a provider whose devices join ranks of several hosts: what helps on a machine where no device does. `None` for
    /// others.
    fn remedy_between_hosts(&self) -> Option<&'static str> {
        None
    }
}

/// The options of a spec that begins with a provider's name, which may be none.
#[must_use]
pub fn options<'s>(spec: &'s str, name: &str) -> &'s str {
    let rest = spec.strip_prefix(name).unwrap_or_default();
    rest.strip_prefix([':', ',']).unwrap_or_default()
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What names it in a spec.
    pub name: String,
    /// The name of its provider.
    pub provider: &'static str,
    /// Whether it can be used.
    pub state: State,
    /// What it can do, as far as that is known without opening it.
    pub capabilities: Option<Capabilities>,
    /// Whether it can join ranks of several hosts.
    pub joins_hosts: bool,
    /// By which addresses of this host peers reach it, each with its network interface, if it publishes such.
    pub addresses: Vec<String>,
    /// What only RDMA devices have.
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

/// What a spec leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The device's name.
    pub device: String,
    /// The port and GID, of an RDMA device.
    pub choice: Option<Choice>,
    /// The addresses that peers are told, of a device that they reach by those of a network; as in [`DeviceInfo::addresses`].
    pub addresses: Vec<String>,
}

/// Where the ranks of a job run: it decides what `auto` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobSpan {
    /// All on this host.
    #[default]
    OneHost,
    /// On several, or nobody knows.
    SeveralHosts,
}

/// What only the ranks of a job know, whoever reads what they publish; zeros if there is no such thing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSecret(pub [u8; 32]);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret")
    }
}

/// What a choice depends on besides the devices.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The process from which all ranks of this job on this host descend, if known.
    pub launcher: Option<u32>,
    /// Where the ranks run.
    pub span: JobSpan,
    /// Where this one sits among them.
    pub seat: Seat,
    /// If they run on several hosts: what [`Registry::joining`](crate::Registry::joining) says on all of them.
    pub joining: Joining,
    /// By which processes prove that they are of the job, besides what they publish.
    pub secret: JobSecret,
}

/// The providers that can join the ranks of several hosts here: a bit for each, by its place among the registry's providers
/// that join hosts. The highest bit is set if such a device carries out atomics itself.
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
    /// All.
    fn default() -> Self {
        Self(u32::MAX)
    }
}
