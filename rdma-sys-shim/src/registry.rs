//! The list of providers, and which provider a spec belongs to.
//!
//! A job on one host uses soft. A job on several hosts uses the first provider of the registry that can join hosts and
//! has a usable device on every rank: verbs before tcp. At the start each rank says which providers have one, and
//! whether one of its RDMA devices has atomics (`Registry::joining`). If one rank has no such device, agents carry out
//! the atomics on all ranks.

use std::sync::Arc;

use crate::neighbours::{Setting, WithNeighbours};
use crate::provider::{DeviceInfo, Found, JobSpan, Joining, Provider, State, Surroundings};
use crate::rdma::Seat;
use crate::rdma_devices::RdmaDevices;
use crate::soft::Soft;
use crate::tcp::Tcp;
use crate::{AtomicDomain, Device, Error, Result};

/// The providers of this crate. The first is for jobs whose ranks share a host.
const BUILT_IN: [&dyn Provider; 3] = [&Soft, &RdmaDevices, &Tcp];

/// The providers that a program knows: those of this crate, and its own. This is the only list of providers.
#[derive(Clone, Copy)]
pub struct Registry {
    others: &'static [&'static dyn Provider],
}

impl Registry {
    /// The providers of this crate, and `others`.
    #[must_use]
    pub const fn new(others: &'static [&'static dyn Provider]) -> Self {
        Self { others }
    }

    fn providers(self) -> impl Iterator<Item = &'static dyn Provider> {
        BUILT_IN.into_iter().chain(self.others.iter().copied())
    }

    /// The names of this crate's providers.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(Provider::name)
    }

    /// The name of the provider that jobs on one host use.
    #[must_use]
    pub fn name_on_one_host(self) -> &'static str {
        BUILT_IN[0].name()
    }

    /// The devices of this machine, usable or not. The first is the one for jobs that run on this host alone.
    #[must_use]
    pub fn list(self) -> Vec<DeviceInfo> {
        self.providers().flat_map(Provider::list).collect()
    }

    /// The provider of the device that `spec` names: the one with the longest name that `spec` begins with.
    fn provider_of(self, spec: &str) -> Result<&'static dyn Provider> {
        let begins = |name: &str| {
            let rest = spec.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ',']))
        };
        let named = self.providers().filter(|provider| begins(provider.name()));
        let named = named.max_by_key(|provider| provider.name().len());
        let found = named.or_else(|| self.providers().find(|one| one.takes_device_names()));
        found.ok_or_else(|| Error::UnknownDevice {
            name: spec.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The device of `devices` that `spec` leads to. `spec` must not be automatic.
    ///
    /// # Errors
    /// The spec leads to no device.
    pub fn find(self, spec: &str, devices: &[DeviceInfo], seat: &Seat) -> Result<Found> {
        self.provider_of(spec)?.find(spec, devices, seat)
    }

    /// The spec of the device `name` if `spec` was requested: the name with the options of `spec`.
    #[must_use]
    pub fn spec_of(self, spec: &str, name: &str) -> String {
        let spec = self.on_one_host(spec);
        match spec.split_once(':') {
            _ if spec.starts_with(name) => spec,
            Some((head, options))
                if self
                    .providers()
                    .any(|one| one.name() == head && one.takes_device_names()) =>
            {
                format!("{name}:{options}")
            }
            _ => name.to_owned(),
        }
    }

    /// `spec`, with the name of the provider for one host if `spec` leaves the provider open.
    fn on_one_host(self, spec: &str) -> String {
        let name = self.name_on_one_host();
        match spec.split_once(':') {
            Some((head, options)) if is_automatic(head) => format!("{name}:{options}"),
            None if is_automatic(spec) => name.to_owned(),
            _ => spec.to_owned(),
        }
    }

    /// The equally good devices, as specs, among which [`Registry::open`] would choose for `spec` on these processors.
    /// `None` if there is no such choice.
    #[must_use]
    pub fn alternatives(self, spec: &str, processors: &[u32]) -> Option<Vec<String>> {
        let provider = match is_automatic(spec) {
            true => self.between_hosts().next()?,
            false => self.provider_of(spec).ok()?,
        };
        let spec = if is_automatic(spec) {
            provider.name()
        } else {
            spec
        };
        provider.alternatives(spec, processors)
    }

    /// Opens the device that `spec` names: a name, or a name and its options, as in `soft:cma=off,map=off`. Empty or
    /// `auto` means the device for one host if all ranks share one, otherwise a device that joins hosts. The span
    /// matters only then.
    ///
    /// # Errors
    /// No such device or option, no device joins several hosts, or the system refuses.
    pub fn open(self, spec: &str, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let device = match around.span {
            JobSpan::SeveralHosts if is_automatic(spec) => self.open_between_hosts(around),
            _ => {
                let spec = self.on_one_host(spec);
                self.provider_of(&spec)?.open(&spec, around)
            }
        }?;
        with_neighbours(device, around.launcher)
    }

    /// The providers whose devices join ranks of several hosts.
    fn between_hosts(self) -> impl Iterator<Item = &'static dyn Provider> {
        self.providers()
            .filter(|provider| provider.remedy_between_hosts().is_some())
    }

    /// The providers that have a device on this machine that can join ranks of several hosts.
    #[must_use]
    pub fn joining(self) -> Joining {
        let (mut providers, mut device_atomics) = (0, false);
        for (place, provider) in self.between_hosts().enumerate() {
            let devices = provider.list();
            if devices.iter().any(can_join) {
                providers |= 1 << place;
            }
            device_atomics |= provider.has_device_atomics(&devices);
        }
        Joining::new(providers, device_atomics)
    }

    /// The device of `devices` that jobs on several hosts use if no spec names one.
    #[must_use]
    pub fn find_between_hosts(self, devices: &[DeviceInfo], seat: &Seat) -> Option<Found> {
        let is_of = |provider: &&dyn Provider| {
            let mut its = devices
                .iter()
                .filter(|info| info.provider == provider.name());
            its.any(can_join)
        };
        let provider = self.between_hosts().find(is_of)?;
        provider.find(provider.name(), devices, seat).ok()
    }

    fn open_between_hosts(self, around: &Surroundings) -> Result<Arc<dyn Device>> {
        let here = self.joining().providers();
        let common = here & around.joining.providers();
        let mut providers = self.between_hosts();
        let Some(provider) = providers.nth(common.trailing_zeros() as usize) else {
            return Err(self.none_between_hosts(self.list()));
        };
        let name = provider.name();
        match here == common {
            true => tracing::info!("the ranks run on several hosts: {name} joins them"),
            false => tracing::info!(
                "the ranks run on several hosts: {name} joins them, and what this host could use besides is missing on others"
            ),
        }
        provider.open(name, around)
    }

    fn none_between_hosts(self, devices: Vec<DeviceInfo>) -> Error {
        let found = devices.into_iter().map(|device| match device.state {
            State::Ready if device.joins_hosts => {
                format!("{}: missing on another host", device.name)
            }
            State::Ready => format!("{}: joins the ranks of one host", device.name),
            State::Unusable(reason) => format!("{}: {reason}", device.name),
        });
        let found: Vec<String> = found.collect();
        // The last provider has the fewest requirements.
        let remedies = self
            .between_hosts()
            .filter_map(|one| one.remedy_between_hosts());
        Error::NoneBetweenHosts {
            found: found.join(", "),
            remedy: remedies.last().unwrap_or_default(),
        }
    }
}

fn can_join(info: &DeviceInfo) -> bool {
    info.joins_hosts && info.state == State::Ready
}

/// Whether `spec` leaves the choice of the device to [`Registry::open`], so that it depends on where the ranks run.
#[must_use]
pub fn is_automatic(spec: &str) -> bool {
    matches!(spec.split(':').next(), None | Some("" | "auto"))
}

/// Lets ranks of one host also map each other's memory, if the device's atomics are not the processor's.
fn with_neighbours(device: Arc<dyn Device>, launcher: Option<u32>) -> Result<Arc<dyn Device>> {
    // A value that means nothing is refused on every device.
    let setting = Setting::from_env()?;
    if device.capabilities().atomic_domain == AtomicDomain::Cpu {
        return Ok(device);
    }
    Ok(Arc::new(WithNeighbours::new(device, setting, launcher)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_options_are_refused_with_what_is_known() {
        let message = |spec| {
            Registry::new(&[])
                .open(spec, &Surroundings::default())
                .err()
                .unwrap()
                .to_string()
        };
        let between = Surroundings {
            span: JobSpan::SeveralHosts,
            ..Surroundings::default()
        };
        assert!(message("sotf").contains("known: soft"));
        assert!(message("soft:cma").contains("cma=on|off"));
        assert!(message("soft:cma=maybe").contains("cma=maybe"));
        assert!(message("soft:speed=on").contains("speed=on"));
        assert!(
            Registry::new(&[])
                .open("auto", &Surroundings::default())
                .is_ok()
        );
        assert!(
            Registry::new(&[])
                .open("soft:map=off,cma=off", &between)
                .is_ok()
        );
    }

    #[test]
    fn ranks_on_several_hosts_need_another_device_than_soft() {
        assert!(is_automatic("") && is_automatic("auto") && is_automatic("auto:map=off"));
        assert!(!is_automatic("soft") && !is_automatic("rxe0:1:1"));
        let registry = Registry::new(&[]);
        let around = Surroundings {
            span: JobSpan::SeveralHosts,
            joining: Joining(0),
            ..Surroundings::default()
        };
        let message = registry.open("", &around).err().unwrap().to_string();
        assert!(
            message.contains("soft: joins the ranks of one host"),
            "{message}"
        );
    }

    struct Variant;

    impl Provider for Variant {
        fn name(&self) -> &'static str {
            "soft:variant"
        }

        fn list(&self) -> Vec<DeviceInfo> {
            Vec::new()
        }

        fn open(&self, spec: &str, _: &Surroundings) -> Result<Arc<dyn Device>> {
            Err(Error::UnknownDevice {
                name: crate::options(spec, self.name()).to_owned(),
                known: "it was asked".to_owned(),
            })
        }
    }

    #[test]
    fn a_spec_is_for_the_provider_with_the_longest_name_that_it_begins_with() {
        let registry = Registry::new(&[&Variant]);
        let message = |spec| {
            let opened = registry.open(spec, &Surroundings::default());
            opened
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        for (spec, options) in [
            ("soft:variant", "\"\""),
            ("soft:variant,a=b,c", "\"a=b,c\""),
            ("auto:variant:x", "\"x\""),
        ] {
            let message = message(spec);
            assert!(
                message.contains("it was asked") && message.contains(options),
                "{message}"
            );
        }
        assert_eq!(message("soft:map=off"), "");
        assert!(message("soft:variants").contains("no option \"variants\""));
    }

    #[test]
    fn what_was_asked_for_is_said_of_the_device_that_it_led_to() {
        for (spec, name, expected) in [
            ("", "soft", "soft"),
            ("auto:map=off", "soft", "soft:map=off"),
            ("soft:cma=off", "soft", "soft:cma=off"),
            ("auto:variant,seed=7", "soft:variant", "soft:variant,seed=7"),
            ("soft:variant", "soft:variant", "soft:variant"),
            ("verbs:1:3", "rxe0", "rxe0:1:3"),
            ("rxe0:1", "rxe0", "rxe0:1"),
            // Options of the device for one host are none of the device that ranks on several hosts take.
            ("auto:map=off", "rxe0", "rxe0"),
            ("", "rxe0", "rxe0"),
        ] {
            assert_eq!(Registry::new(&[]).spec_of(spec, name), expected, "{spec}");
        }
    }
}
