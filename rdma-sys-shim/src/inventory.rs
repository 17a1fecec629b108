//! Which devices there are, and opening one by name.

use std::path::Path;
use std::sync::Arc;

use crate::neighbours::{Setting, WithNeighbours};
use crate::rdma::{
    self, AtomicScope, Choice, RdmaDevice, Seat, SelectError, Selector, VerbsLimits,
};
use crate::soft;
use crate::{AtomicDomain, Capabilities, Device, Error, Result};

/// The provider's name, which is also taken for whichever of its devices the rule chooses.
const VERBS: &str = "verbs";
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
        capabilities: Some(soft::capabilities(true, true)),
        rdma: None,
        choice: None,
        limits: None,
    };
    let described = rdma.into_iter().map(|device| describe(device, has_verbs));
    [soft].into_iter().chain(described).collect()
}

fn describe(device: RdmaDevice, has_verbs: bool) -> DeviceInfo {
    let choice = best_port(&device);
    let limits = choice.as_ref().ok().and_then(limits);
    describe_with(device, choice, limits, has_verbs)
}

/// Its port that would be chosen, were there no other device.
fn best_port(device: &RdmaDevice) -> std::result::Result<Choice, SelectError> {
    let alone = std::slice::from_ref(device);
    rdma::choose(alone, &Selector::default(), &Seat::default())
}

fn describe_with(
    device: RdmaDevice,
    choice: std::result::Result<Choice, SelectError>,
    limits: Option<VerbsLimits>,
    has_verbs: bool,
) -> DeviceInfo {
    let missing = (!has_verbs).then(|| NO_PROVIDER.to_owned());
    let obstacle = choice.as_ref().err().map(ToString::to_string);
    let without_atomics = (limits.as_ref())
        .filter(|limits| limits.atomic_scope == AtomicScope::None)
        .map(|_| {
            let device = device.name.clone();
            Error::NoAtomics { device }.to_string()
        });
    let reasons = [missing, obstacle, without_atomics].into_iter().flatten();
    let reasons: Vec<_> = reasons.collect();
    DeviceInfo {
        name: device.name.clone(),
        provider: VERBS,
        state: match reasons.is_empty() {
            true => State::Ready,
            false => State::Unusable(reasons.join("; ")),
        },
        capabilities: (limits.as_ref())
            .map(|limits| limits.atomic_scope.capabilities(limits.max_message)),
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

/// Where the ranks of a job run: it decides what `auto` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// All on this host.
    #[default]
    OneHost,
    /// On several, or nobody knows.
    SeveralHosts,
}

/// What a choice depends on besides the devices.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The process from which all ranks of this job on this host descend, if known.
    pub launcher: Option<u32>,
    /// Where the ranks run.
    pub placement: Placement,
    /// Where this one sits among them.
    pub seat: Seat,
}

/// Whether `spec` leaves the choice of the device to [`open`], so that it depends on where the ranks run.
#[must_use]
pub fn is_automatic(spec: &str) -> bool {
    matches!(spec.split(':').next(), None | Some("" | "auto"))
}

/// The ports of RDMA devices, as `NAME:PORT`, that are as good from these processors, if `spec` leaves it to [`open`]
/// to take one, and there are several.
#[must_use]
pub fn shared_out(spec: &str, processors: &[u32]) -> Option<Vec<String>> {
    let automatic = is_automatic(spec);
    let spec = if automatic { VERBS } else { spec };
    if spec.split(':').next() != Some(VERBS) {
        return None;
    }
    let devices = rdma::read(Path::new(rdma::CLASS));
    let selector = rdma::selector(spec, &devices).ok()?;
    let best = rdma::alternatives(&devices, &selector, &Seat::here(processors)).ok()?;
    let port = |choice: &Choice| format!("{}:{}", choice.device, choice.port);
    (best.len() > 1).then(|| best.iter().map(port).collect())
}

/// Opens the device that `spec` names: a name, or a name and its options, as in
/// `soft:cma=off,map=off`. Empty or `auto`: soft if all ranks share a host, else a verbs device;
/// only then the placement matters.
///
/// # Errors
/// No such device or option, none that joins several hosts, or the system refuses.
pub fn open(spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
    let Surroundings {
        launcher,
        placement,
        seat,
    } = around;
    let (name, options) = spec.split_once(':').unwrap_or((spec, ""));
    match name {
        "" | "auto" if *placement == Placement::SeveralHosts => open_between_hosts(seat),
        "" | "auto" | soft::DEVICE => soft::open(options, *launcher),
        _ => open_rdma(spec, &rdma::read(Path::new(rdma::CLASS)), seat),
    }
    .and_then(|device| with_neighbours(device, *launcher))
}

/// Where the processor cannot stand in for the device, ranks of one host reach each other's memory besides.
fn with_neighbours(device: Arc<dyn Device>, launcher: Option<u32>) -> Result<Arc<dyn Device>> {
    if device.capabilities().atomic_domain == AtomicDomain::Cpu {
        return Ok(device);
    }
    let setting = Setting::from_env()?;
    Ok(Arc::new(WithNeighbours::new(device, setting, launcher)))
}

fn open_rdma(spec: &str, devices: &[RdmaDevice], seat: &Seat) -> Result<Arc<dyn Device>> {
    let selector = rdma::selector(spec, devices)?;
    let choice = rdma::choose(devices, &selector, seat)?;
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

fn open_between_hosts(seat: &Seat) -> Result<Arc<dyn Device>> {
    let devices = list();
    let usable = |device: &DeviceInfo| device.provider == VERBS && device.state == State::Ready;
    match devices.iter().any(usable) {
        true => open_rdma(VERBS, &rdma::read(Path::new(rdma::CLASS)), seat),
        false => Err(none_between_hosts(devices)),
    }
}

fn none_between_hosts(devices: Vec<DeviceInfo>) -> Error {
    let has_rdma = devices.iter().any(|device| device.provider == VERBS);
    let found: Vec<String> = devices
        .into_iter()
        .map(|device| match device.state {
            State::Ready => format!("{}: joins the ranks of one host", device.name),
            State::Unusable(reason) => format!("{}: {reason}", device.name),
        })
        .collect();
    Error::NoneBetweenHosts {
        found: found.join(", "),
        remedy: match (has_rdma, crate::has_verbs()) {
            (true, false) => "build transom with `--features verbs` to use an RDMA device",
            (true, true) => "`transom doctor` says what keeps an RDMA device from being used",
            (false, _) => {
                "on each host, an RDMA device is needed (soft-RoCE makes one of any network \
                 interface: `rdma link add rxe0 type rxe netdev eth0`) and a transom that was \
                 built with `--features verbs`"
            }
        },
    }
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

    /// The last device, with atomics of this scope.
    fn with_atomics(atomic_scope: AtomicScope) -> DeviceInfo {
        let device = devices().pop().unwrap();
        let choice = best_port(&device);
        let limits = VerbsLimits {
            atomic_scope,
            max_inline: 0,
            max_message: 1 << 30,
            max_qp: 1,
            max_cqe: 1,
            max_mr: 1,
            max_qp_rd_atom: 1,
            active_mtu: 4096,
        };
        describe_with(device, choice, Some(limits), true)
    }

    #[test]
    fn whose_a_devices_atomics_are_follows_from_their_scope() {
        let domain = |scope| with_atomics(scope).capabilities.unwrap().atomic_domain;
        assert_eq!(domain(AtomicScope::Device), AtomicDomain::Device);
        assert_eq!(domain(AtomicScope::Global), AtomicDomain::Global);
    }

    #[test]
    fn a_device_without_atomics_is_said_to_be_of_no_use() {
        assert_eq!(with_atomics(AtomicScope::Device).state, State::Ready);
        let State::Unusable(reason) = with_atomics(AtomicScope::None).state else {
            panic!("it is taken for usable");
        };
        assert!(reason.contains("mlx5_1 has no atomics"), "{reason}");
        assert!(reason.contains("TRANSOM_DEVICE"), "{reason}");
    }

    #[cfg(not(feature = "verbs"))]
    #[test]
    fn a_build_without_the_provider_says_so_after_what_is_wrong_with_the_name() {
        let message = |spec| {
            open_rdma(spec, &devices(), &Seat::default())
                .err()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            message("mlx5_7"),
            "no device \"mlx5_7\" (known: soft, mlx5_0, mlx5_1)"
        );
        assert_eq!(
            message("mlx5_7:map=off"),
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
        let message = |spec| {
            open(spec, &Surroundings::default())
                .err()
                .unwrap()
                .to_string()
        };
        let between = Surroundings {
            placement: Placement::SeveralHosts,
            ..Surroundings::default()
        };
        assert!(message("sotf").contains("known: soft"));
        assert!(message("soft:cma").contains("cma=on|off"));
        assert!(message("soft:cma=maybe").contains("cma=maybe"));
        assert!(message("soft:speed=on").contains("speed=on"));
        assert!(open("auto", &Surroundings::default()).is_ok());
        assert!(open("soft:map=off,cma=off", &between).is_ok());
    }

    #[test]
    fn ranks_on_several_hosts_need_another_device_than_soft() {
        assert!(is_automatic("") && is_automatic("auto") && is_automatic("auto:map=off"));
        assert!(!is_automatic("soft") && !is_automatic("rxe0:1:1"));
        let class = tempfile::tempdir().unwrap();
        let devices = || list_with(rdma::read(class.path()), crate::has_verbs());
        let message = || none_between_hosts(devices()).to_string();
        assert!(message().contains("soft: joins the ranks of one host"));
        assert!(message().contains("rxe0 type rxe"), "{}", message());
        std::fs::create_dir(class.path().join("mlx5_0")).unwrap();
        let remedy = match crate::has_verbs() {
            true => "`transom doctor` says",
            false => "build transom with `--features verbs`",
        };
        assert!(message().contains(remedy), "{}", message());
    }
}
