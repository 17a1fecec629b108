//! Which devices there are, and opening one by name.

use std::path::Path;
use std::sync::Arc;

use crate::rdma::{self, Choice, RdmaDevice, Selector, VerbsLimits};
use crate::soft;
use crate::{AtomicDomain, Capabilities, Device, Error, Result};

const NO_PROVIDER: &str = "this build has no verbs provider";

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name that [`open`] takes.
    pub name: String,
    /// `soft` or `verbs`.
    pub provider: &'static str,
    /// Whether it can be used.
    pub state: State,
    /// What it can do, as far as that is known without opening it.
    pub capabilities: Option<Capabilities>,
    /// The RDMA device; `None` for soft.
    pub rdma: Option<RdmaDevice>,
    /// The port and GID that the rule chooses on it, if it can be used.
    pub choice: Option<Choice>,
    /// What the verbs library says of it; `None` without the verbs provider, and for soft.
    pub limits: Option<VerbsLimits>,
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

/// The devices of this machine, usable or not.
#[must_use]
pub fn list() -> Vec<DeviceInfo> {
    list_with(rdma::read(Path::new(rdma::CLASS)), crate::has_verbs())
}

fn list_with(rdma: Vec<RdmaDevice>, has_verbs: bool) -> Vec<DeviceInfo> {
    let soft = DeviceInfo {
        name: soft::DEVICE.to_owned(),
        provider: "soft",
        state: State::Ready,
        capabilities: Some(soft::capabilities()),
        rdma: None,
        choice: None,
        limits: None,
    };
    let described = rdma.into_iter().map(|device| describe(device, has_verbs));
    [soft].into_iter().chain(described).collect()
}

fn describe(device: RdmaDevice, has_verbs: bool) -> DeviceInfo {
    let choice = rdma::choose(std::slice::from_ref(&device), &Selector::default(), None);
    let limits = choice.as_ref().ok().and_then(limits);
    let missing = (!has_verbs).then(|| NO_PROVIDER.to_owned());
    let obstacle = choice.as_ref().err().map(ToString::to_string);
    let reasons: Vec<_> = missing.into_iter().chain(obstacle).collect();
    DeviceInfo {
        name: device.name.clone(),
        provider: "verbs",
        state: match reasons.is_empty() {
            true => State::Ready,
            false => State::Unusable(reasons.join("; ")),
        },
        capabilities: limits.as_ref().map(capabilities),
        rdma: Some(device),
        choice: choice.ok(),
        limits,
    }
}

#[cfg(feature = "verbs")]
fn limits(choice: &Choice) -> Option<VerbsLimits> {
    crate::verbs::limits(choice)
        .inspect_err(|error| tracing::warn!(%error, "asking an RDMA device for its limits"))
        .ok()
}

#[cfg(not(feature = "verbs"))]
fn limits(_: &Choice) -> Option<VerbsLimits> {
    None
}

/// What a verbs device with these limits can do.
fn capabilities(limits: &VerbsLimits) -> Capabilities {
    Capabilities {
        atomic_domain: AtomicDomain::Device,
        narrow_atomics: false,
        max_message: limits.max_message,
        pins_memory: true,
    }
}

/// Opens the device that `spec` names: a name, or a name and its options, as in
/// `soft:adopt=off,cma=off`. Empty or `auto`: the best device that can be used.
///
/// `launcher` is the process from which all ranks of this job on this host descend, if known.
///
/// # Errors
/// No such device or option, or the system refuses.
pub fn open(spec: &str, launcher: Option<u32>) -> Result<Arc<dyn Device>> {
    let (name, options) = spec.split_once(':').unwrap_or((spec, ""));
    match name {
        "" | "auto" | soft::DEVICE => soft::open(options, launcher),
        _ => open_rdma(spec, &rdma::read(Path::new(rdma::CLASS))),
    }
}

fn open_rdma(spec: &str, devices: &[RdmaDevice]) -> Result<Arc<dyn Device>> {
    let selector = rdma::selector(spec, devices)?;
    let choice = rdma::choose(devices, &selector, None)?;
    open_chosen(choice)
}

#[cfg(feature = "verbs")]
fn open_chosen(choice: Choice) -> Result<Arc<dyn Device>> {
    Ok(Arc::new(crate::verbs::VerbsDevice::open(choice)?))
}

#[cfg(not(feature = "verbs"))]
fn open_chosen(choice: Choice) -> Result<Arc<dyn Device>> {
    Err(Error::NoProvider {
        device: choice.device,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn devices() -> Vec<RdmaDevice> {
        let class = tempfile::tempdir().unwrap();
        for (device, state) in [("mlx5_1", "4: ACTIVE"), ("mlx5_0", "1: DOWN")] {
            let port = class.path().join(device).join("ports/1");
            fs::create_dir_all(&port).unwrap();
            fs::write(port.join("state"), state).unwrap();
            fs::write(port.join("link_layer"), "InfiniBand").unwrap();
        }
        rdma::read(class.path())
    }

    #[test]
    fn rdma_devices_are_listed_behind_soft_with_what_stands_in_their_way() {
        let listed = list_with(devices(), true);
        let names: Vec<_> = listed.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["soft", "mlx5_0", "mlx5_1"]);
        let State::Unusable(reason) = &listed[1].state else {
            panic!("{listed:?}");
        };
        assert!(reason.starts_with("mlx5_0 port 1 is DOWN"), "{reason}");
        assert_eq!(listed[1].choice, None);
        assert_eq!(listed[2].state, State::Ready);
        assert_eq!(listed[2].choice.as_ref().unwrap().port, 1);

        let listed = list_with(devices(), false);
        let reason = |at: usize| match &listed[at].state {
            State::Unusable(reason) => reason.as_str(),
            other => panic!("{other:?}"),
        };
        assert!(reason(1).starts_with("this build has no verbs provider; mlx5_0 port 1 is DOWN"));
        assert_eq!(reason(2), NO_PROVIDER);
    }

    #[test]
    fn a_build_without_the_provider_says_so_after_what_is_wrong_with_the_name() {
        let message = |spec| refuse(spec, &devices()).to_string();
        assert_eq!(
            message("mlx5_7"),
            "no device \"mlx5_7\" (known: soft, mlx5_0, mlx5_1)"
        );
        assert_eq!(
            message("mlx5_7:adopt=off"),
            "no device \"mlx5_7\" (known: soft, mlx5_0, mlx5_1)"
        );
        assert!(message("mlx5_1:x").contains("port \"x\" is not a number"));
        assert!(message("mlx5_0").contains("mlx5_0 port 1 is DOWN"));
        assert!(message("mlx5_0").contains("ACTIVE: mlx5_1:1"));
        let missing = "RDMA device \"mlx5_1\" cannot be used: this build has no verbs provider";
        assert!(message("mlx5_1").starts_with(missing));
        assert!(message("verbs").starts_with(missing));
    }

    #[test]
    fn unknown_names_and_options_are_refused_with_what_is_known() {
        let message = |spec| open(spec, None).err().unwrap().to_string();
        assert!(message("sotf").contains("known: soft"));
        assert!(message("soft:adopt").contains("adopt=on|off"));
        assert!(message("soft:adopt=maybe").contains("adopt=maybe"));
        assert!(message("soft:speed=on").contains("speed=on"));
        assert!(open("auto", None).is_ok());
        assert!(open("soft:map=off,cma=off", None).is_ok());
    }
}
