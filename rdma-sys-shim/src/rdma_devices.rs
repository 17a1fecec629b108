//! RDMA devices as a provider. Builds without the verbs library list them, and refuse to open them.

use std::sync::Arc;

use crate::agent_atomics::{self, AtomicsSetting};
use crate::provider::{DeviceInfo, Found, Provider, State, Surroundings};
use crate::rdma::{self, Choice, RdmaDevice, RdmaInfo, Seat, SelectError, Selector, VerbsLimits};
use crate::{AtomicDomain, Device, Error, Result};

/// The provider's name, which also stands for the device that the rule chooses.
const VERBS: &str = "verbs";
const NO_PROVIDER: &str = "this build has no verbs provider";

pub(crate) struct RdmaDevices;

impl Provider for RdmaDevices {
    fn name(&self) -> &'static str {
        VERBS
    }

    fn list(&self) -> Vec<DeviceInfo> {
        list_with(read(), crate::has_verbs())
    }

    fn takes_device_names(&self) -> bool {
        true
    }

    fn find(&self, spec: &str, devices: &[DeviceInfo], seat: &Seat) -> Result<Found> {
        let devices = (devices.iter()).filter_map(|info| Some(info.rdma.as_ref()?.device.clone()));
        let choice = choose(spec, &devices.collect::<Vec<_>>(), seat)?;
        Ok(Found {
            device: choice.device.clone(),
            choice: Some(choice),
            addresses: Vec::new(),
        })
    }

    fn has_device_atomics(&self, devices: &[DeviceInfo]) -> bool {
        let Ok(found) = self.find(VERBS, devices, &Seat::here(&[])) else {
            return false;
        };
        let info = devices.iter().find(|info| info.name == found.device);
        info.is_some_and(|info| {
            info.state == State::Ready && info.rdma.as_ref().is_some_and(|rdma| !rdma.agent_atomics)
        })
    }

    fn open(&self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        open_chosen(choose(spec, &read(), &around.seat)?, around)
    }

    fn alternatives(&self, spec: &str, processors: &[u32]) -> Option<Vec<String>> {
        if spec.split(':').next() != Some(VERBS) {
            return None;
        }
        let devices = read();
        let selector = rdma::selector(spec, &devices).ok()?;
        let best = rdma::alternatives(&devices, &selector, &Seat::here(processors)).ok()?;
        let port = |choice: &Choice| format!("{}:{}", choice.device, choice.port);
        (best.len() > 1).then(|| best.iter().map(port).collect())
    }

    fn remedy_between_hosts(&self) -> Option<&'static str> {
        let devices = rdma::read(&rdma::class());
        Some(remedy(!devices.is_empty(), crate::has_verbs()))
    }
}

fn read() -> Vec<RdmaDevice> {
    let mut devices = rdma::read(&rdma::class());
    // The query has to open a device, which takes milliseconds. With a single device, it changes no choice.
    if devices.len() > 1 {
        let by_agent = matches!(AtomicsSetting::from_env(), Ok(AtomicsSetting::Agent));
        for device in &mut devices {
            ask(device, has_atomics, by_agent);
        }
    }
    devices
}

/// Notes properties for the choice that only an open device tells. `by_agent`: nobody uses its atomics.
fn ask(
    device: &mut RdmaDevice,
    has_atomics: impl FnOnce(&str) -> Result<Option<bool>>,
    by_agent: bool,
) {
    match has_atomics(&device.name) {
        Ok(found) => device.atomics = found.filter(|_| !by_agent),
        Err(error) => {
            let device_name = device.name.as_str();
            tracing::warn!(device = device_name, %error, "an RDMA device cannot be opened, and is chosen last");
            device.fails_to_open = true;
        }
    }
}

fn choose(spec: &str, devices: &[RdmaDevice], seat: &Seat) -> Result<Choice> {
    let selector = rdma::selector(spec, devices)?;
    Ok(rdma::choose(devices, &selector, seat)?)
}

/// Opens the device. Its atomics are the agent's if it has none, if the environment says so, or if a rank has no device
/// with atomics.
#[cfg(feature = "verbs")]
fn open_chosen(choice: Choice, around: &Surroundings) -> Result<Arc<dyn Device>> {
    let setting = AtomicsSetting::from_env()?;
    let is_agent = match setting {
        AtomicsSetting::Automatic => !around.joining.has_device_atomics(),
        AtomicsSetting::Device => false,
        AtomicsSetting::Agent => true,
    };
    let device = crate::verbs::VerbsDevice::open(choice, around.secret, is_agent)?;
    if device.has_atomics() {
        return Ok(Arc::new(device));
    }
    let name = device.name().to_owned();
    if setting == AtomicsSetting::Device {
        return Err(Error::NoAtomics { device: name });
    }
    tracing::info!(
        device = name,
        "atomics are carried out by a thread of the target, over TCP"
    );
    let device = agent_atomics::WithAgentAtomics::new(Arc::new(device), around.secret)?;
    Ok(Arc::new(device))
}

#[cfg(not(feature = "verbs"))]
fn open_chosen(choice: Choice, _: &Surroundings) -> Result<Arc<dyn Device>> {
    Err(Error::LeftOut {
        device: format!("RDMA device {:?}", choice.device),
        why: "this build has no verbs provider (build with `--features verbs`, or use the device soft)",
    })
}

fn list_with(devices: Vec<RdmaDevice>, has_verbs: bool) -> Vec<DeviceInfo> {
    let described = devices
        .into_iter()
        .map(|device| describe(device, has_verbs));
    described.collect()
}

/// The remedy if no device joins several hosts.
fn remedy(has_devices: bool, has_verbs: bool) -> &'static str {
    match (has_devices, has_verbs) {
        (true, false) => "build transom with `--features verbs` to use an RDMA device",
        (true, true) => "`transom doctor` says what keeps an RDMA device from being used",
        (false, _) => {
            "on each host, an RDMA device is needed (soft-RoCE makes one of any network \
             interface: `rdma link add rxe0 type rxe netdev eth0`) and a transom that was \
             built with `--features verbs`"
        }
    }
}

fn describe(device: RdmaDevice, has_verbs: bool) -> DeviceInfo {
    let choice = best_port(&device);
    let limits = choice.as_ref().ok().and_then(limits);
    describe_with(
        device,
        choice,
        limits,
        has_verbs,
        AtomicsSetting::from_env(),
    )
}

/// The port that would be chosen if this were the only device.
fn best_port(device: &RdmaDevice) -> std::result::Result<Choice, SelectError> {
    let alone = std::slice::from_ref(device);
    rdma::choose(alone, &Selector::default(), &Seat::default())
}

fn describe_with(
    device: RdmaDevice,
    choice: std::result::Result<Choice, SelectError>,
    limits: Option<VerbsLimits>,
    has_verbs: bool,
    setting: Result<AtomicsSetting>,
) -> DeviceInfo {
    let missing = (!has_verbs).then(|| NO_PROVIDER.to_owned());
    let obstacle = choice.as_ref().err().map(ToString::to_string);
    let lacks_atomics = (limits.as_ref()).is_some_and(|limits| limits.atomic_scope.is_none());
    let wrong = match &setting {
        Ok(AtomicsSetting::Device) if lacks_atomics => {
            let device = device.name.clone();
            Some(Error::NoAtomics { device }.to_string())
        }
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    let agent_atomics = match setting {
        Ok(AtomicsSetting::Agent) => limits.is_some(),
        Ok(AtomicsSetting::Automatic) => lacks_atomics,
        _ => false,
    };
    let reasons = [missing, obstacle, wrong].into_iter().flatten();
    let reasons: Vec<_> = reasons.collect();
    DeviceInfo {
        name: device.name.clone(),
        provider: VERBS,
        state: match reasons.is_empty() {
            true => State::Ready,
            false => State::Unusable(reasons.join("; ")),
        },
        capabilities: limits.as_ref().map(|limits| {
            let domain = limits.atomic_scope.unwrap_or(AtomicDomain::Device);
            let capabilities = rdma::capabilities(domain, limits.max_message);
            match agent_atomics {
                true => agent_atomics::capabilities(&capabilities),
                false => capabilities,
            }
        }),
        joins_hosts: true,
        addresses: Vec::new(),
        rdma: Some(RdmaInfo {
            device,
            choice: choice.ok(),
            limits,
            agent_atomics,
        }),
    }
}

#[cfg(feature = "verbs")]
fn limits(choice: &Choice) -> Option<VerbsLimits> {
    crate::verbs::limits(choice)
        .inspect_err(|error| tracing::warn!(%error, "asking an RDMA device for its limits"))
        .ok()
}

#[cfg(feature = "verbs")]
fn has_atomics(device: &str) -> Result<Option<bool>> {
    crate::verbs::has_atomics(device).map(Some)
}

/// Unknown without the verbs library.
#[cfg(not(feature = "verbs"))]
fn has_atomics(_: &str) -> Result<Option<bool>> {
    Ok(None)
}

#[cfg(not(feature = "verbs"))]
fn limits(_: &Choice) -> Option<VerbsLimits> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::AtomicDomain;

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
    fn devices_are_listed_with_what_stands_in_their_way() {
        let listed = list_with(devices(), true);
        let names: Vec<_> = listed.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["mlx5_0", "mlx5_1"]);
        let State::Unusable(reason) = &listed[0].state else {
            panic!("{listed:?}");
        };
        assert!(reason.starts_with("mlx5_0 port 1 is DOWN"), "{reason}");
        let choice = |at: usize| listed[at].rdma.as_ref().unwrap().choice.as_ref();
        assert_eq!(choice(0), None);
        assert_eq!(listed[1].state, State::Ready);
        assert_eq!(choice(1).unwrap().port, 1);

        let listed = list_with(devices(), false);
        let reason = |at: usize| match &listed[at].state {
            State::Unusable(reason) => reason.as_str(),
            other => panic!("{other:?}"),
        };
        assert!(reason(0).starts_with("this build has no verbs provider; mlx5_0 port 1 is DOWN"));
        assert_eq!(reason(1), NO_PROVIDER);
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_chosen_last() {
        let mut device = devices().pop().unwrap();
        ask(&mut device, |_| Ok(Some(false)), true);
        assert_eq!((device.atomics, device.fails_to_open), (None, false));
        ask(&mut device, |_| Ok(Some(false)), false);
        assert_eq!((device.atomics, device.fails_to_open), (Some(false), false));
        let mut other = devices().pop().unwrap();
        other.name = "mlx5_0".to_owned();
        let refused = |name: &str| {
            let device = name.to_owned();
            Err(Error::NoAtomics { device })
        };
        ask(&mut other, refused, false);
        assert!(other.fails_to_open);
        let both = [other, device];
        let choice = choose("verbs", &both, &Seat::default()).unwrap();
        assert_eq!(choice.device, "mlx5_1");
        let alone = choose("verbs", &both[..1], &Seat::default()).unwrap();
        assert_eq!(alone.device, "mlx5_0", "opening it says what is wrong");
        let why = rdma::standings(&both, &Selector::default(), &Seat::default());
        assert_eq!(
            why[1].words,
            "not chosen: it cannot be opened, and mlx5_1 can"
        );
    }

    /// The last device, with atomics of this scope.
    fn with_atomics(atomic_scope: Option<AtomicDomain>) -> DeviceInfo {
        with_setting(atomic_scope, AtomicsSetting::Automatic)
    }

    fn with_setting(atomic_scope: Option<AtomicDomain>, setting: AtomicsSetting) -> DeviceInfo {
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
        describe_with(device, choice, Some(limits), true, Ok(setting))
    }

    #[test]
    fn whose_a_devices_atomics_are_follows_from_their_scope() {
        let domain = |scope| with_atomics(scope).capabilities.unwrap().atomic_domain;
        assert_eq!(domain(Some(AtomicDomain::Device)), AtomicDomain::Device);
        assert_eq!(domain(Some(AtomicDomain::Global)), AtomicDomain::Global);
    }

    #[test]
    fn a_device_without_atomics_is_used_with_an_agents() {
        for (scope, setting, by_agent) in [
            (None, AtomicsSetting::Automatic, true),
            (None, AtomicsSetting::Agent, true),
            (Some(AtomicDomain::Device), AtomicsSetting::Automatic, false),
            (Some(AtomicDomain::Device), AtomicsSetting::Device, false),
            (Some(AtomicDomain::Device), AtomicsSetting::Agent, true),
        ] {
            let info = with_setting(scope, setting);
            assert_eq!(info.state, State::Ready);
            assert_eq!(info.rdma.unwrap().agent_atomics, by_agent);
            let can = info.capabilities.unwrap();
            let domain = match by_agent {
                true => AtomicDomain::Global,
                false => AtomicDomain::Device,
            };
            assert_eq!((can.atomic_domain, can.narrow_atomics), (domain, by_agent));
            assert!(can.pins_memory);
        }
        let State::Unusable(reason) = with_setting(None, AtomicsSetting::Device).state else {
            panic!("it is taken for usable");
        };
        assert!(reason.contains("mlx5_1 has no atomics"), "{reason}");
        assert!(reason.contains("TRANSOM_RDMA_ATOMICS=device"), "{reason}");
        assert!(reason.contains("TRANSOM_DEVICE"), "{reason}");
    }

    #[test]
    fn a_setting_that_is_none_keeps_devices_from_being_used() {
        let device = devices().pop().unwrap();
        let choice = best_port(&device);
        let setting = Err(Error::BadWord {
            name: "TRANSOM_RDMA_ATOMICS",
            value: "nic".to_owned(),
            known: "device, agent",
        });
        let info = describe_with(device, choice, None, true, setting);
        let State::Unusable(reason) = info.state else {
            panic!("it is taken for usable");
        };
        assert!(reason.contains("TRANSOM_RDMA_ATOMICS"), "{reason}");
    }

    #[cfg(not(feature = "verbs"))]
    #[test]
    fn a_build_without_the_provider_says_so_after_what_is_wrong_with_the_name() {
        let message = |spec| {
            choose(spec, &devices(), &Seat::default())
                .and_then(|choice| open_chosen(choice, &Surroundings::default()))
                .err()
                .unwrap()
                .to_string()
        };
        assert_eq!(
            message("mlx5_7"),
            "no device \"mlx5_7\" (known: soft, tcp, mlx5_0, mlx5_1)"
        );
        assert_eq!(
            message("mlx5_7:map=off"),
            "no device \"mlx5_7\" (known: soft, tcp, mlx5_0, mlx5_1)"
        );
        assert!(message("mlx5_1:x").contains("port \"x\" is not a number"));
        assert!(message("mlx5_0").contains("mlx5_0 port 1 is DOWN"));
        assert!(message("mlx5_0").contains("ACTIVE: mlx5_1:1"));
        let missing = "RDMA device \"mlx5_1\" cannot be used: this build has no verbs provider";
        assert!(message("mlx5_1").starts_with(missing));
        assert!(message("verbs").starts_with(missing));
    }

    #[test]
    fn what_helps_follows_from_devices_and_build() {
        assert!(remedy(false, true).contains("rxe0 type rxe"));
        assert!(remedy(false, false).contains("rxe0 type rxe"));
        assert!(remedy(true, false).contains("build transom with `--features verbs`"));
        assert!(remedy(true, true).contains("`transom doctor` says"));
    }
}
