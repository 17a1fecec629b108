//! Which devices there are, and opening one by name.

use std::path::Path;
use std::sync::Arc;

use crate::soft;
use crate::{Capabilities, Device, Error, Result};

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
}

/// Whether a device can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It can.
    Ready,
    /// It cannot, for this reason.
    Unusable(&'static str),
}

/// The devices of this machine, usable or not.
#[must_use]
pub fn list() -> Vec<DeviceInfo> {
    list_with(Path::new("/sys/class/infiniband"))
}

fn list_with(rdma_class: &Path) -> Vec<DeviceInfo> {
    let mut devices = vec![DeviceInfo {
        name: soft::DEVICE.to_owned(),
        provider: "soft",
        state: State::Ready,
        capabilities: Some(soft::capabilities()),
    }];
    let mut rdma: Vec<_> = std::fs::read_dir(rdma_class)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|name| DeviceInfo {
            name,
            provider: "verbs",
            state: State::Unusable("this build has no verbs provider"),
            capabilities: None,
        })
        .collect();
    rdma.sort_by(|a, b| a.name.cmp(&b.name));
    devices.extend(rdma);
    devices
}

/// Where the ranks of a job run: it decides what `auto` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All on this host.
    OneHost,
    /// On several, or nobody knows.
    SeveralHosts,
}

/// Whether `spec` leaves the choice of the device to [`open`].
#[must_use]
pub fn is_automatic(spec: &str) -> bool {
    matches!(spec.split(':').next(), None | Some("" | "auto"))
}

/// Opens the device that `spec` names: a name, or a name and its options, as in
/// `soft:adopt=off,cma=off`. Empty or `auto`: soft if all ranks share a host, else a verbs device;
/// only then `placement` matters.
///
/// `launcher` is the process from which all ranks of this job on this host descend, if known.
///
/// # Errors
/// No such device or option, none that joins several hosts, or the system refuses.
pub fn open(spec: &str, launcher: Option<u32>, placement: Placement) -> Result<Arc<dyn Device>> {
    let (name, options) = spec.split_once(':').unwrap_or((spec, ""));
    match name {
        "" | "auto" if placement == Placement::SeveralHosts => Err(none_between_hosts(list())),
        "" | "auto" | soft::DEVICE => soft::open(options, launcher),
        _ => Err(unknown(name, list())),
    }
}

fn none_between_hosts(devices: Vec<DeviceInfo>) -> Error {
    let has_hardware = devices.iter().any(|device| device.provider == "verbs");
    let found: Vec<String> = devices
        .into_iter()
        .map(|device| match device.state {
            State::Ready => format!("{}: joins the ranks of one host", device.name),
            State::Unusable(reason) => format!("{}: {reason}", device.name),
        })
        .collect();
    Error::NoneBetweenHosts {
        found: found.join(", "),
        remedy: match has_hardware {
            true => "build transom with `--features verbs` to use an RDMA device",
            false => {
                "on each host, an RDMA device is needed (soft-RoCE makes one of any network \
                 interface: `rdma link add rxe0 type rxe netdev eth0`) and a transom that was \
                 built with `--features verbs`"
            }
        },
    }
}

fn unknown(name: &str, devices: Vec<DeviceInfo>) -> Error {
    let known: Vec<String> = devices
        .into_iter()
        .map(|device| match device.state {
            State::Ready => device.name,
            State::Unusable(reason) => format!("{}: {reason}", device.name),
        })
        .collect();
    Error::UnknownDevice {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdma_devices_are_listed_and_said_to_be_unusable() {
        let class = tempfile::tempdir().unwrap();
        std::fs::create_dir(class.path().join("mlx5_1")).unwrap();
        std::fs::create_dir(class.path().join("mlx5_0")).unwrap();
        let devices = list_with(class.path());
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["soft", "mlx5_0", "mlx5_1"]);
        assert!(matches!(devices[1].state, State::Unusable(_)));
        let error = unknown("mlx5_7", devices).to_string();
        assert!(error.contains("\"mlx5_7\""), "{error}");
        assert!(
            error.contains("soft, mlx5_0: this build has no verbs provider"),
            "{error}"
        );
    }

    #[test]
    fn unknown_names_and_options_are_refused_with_what_is_known() {
        let message = |spec| {
            open(spec, None, Placement::OneHost)
                .err()
                .unwrap()
                .to_string()
        };
        assert!(message("sotf").contains("known: soft"));
        assert!(message("soft:adopt").contains("adopt=on|off"));
        assert!(message("soft:adopt=maybe").contains("adopt=maybe"));
        assert!(message("soft:speed=on").contains("speed=on"));
        assert!(open("auto", None, Placement::OneHost).is_ok());
        assert!(open("soft:map=off,cma=off", None, Placement::SeveralHosts).is_ok());
    }

    #[test]
    fn ranks_on_several_hosts_need_another_device_than_soft() {
        assert!(is_automatic("") && is_automatic("auto") && is_automatic("auto:adopt=off"));
        assert!(!is_automatic("soft") && !is_automatic("rxe0:1:1"));
        let class = tempfile::tempdir().unwrap();
        let message = || none_between_hosts(list_with(class.path())).to_string();
        assert!(message().contains("soft: joins the ranks of one host"));
        assert!(message().contains("rxe0 type rxe"), "{}", message());
        std::fs::create_dir(class.path().join("mlx5_0")).unwrap();
        assert!(message().contains("mlx5_0: this build has no verbs provider"));
        assert!(message().contains("--features verbs"), "{}", message());
    }
}
