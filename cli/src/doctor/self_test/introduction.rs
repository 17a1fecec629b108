//! What each rank tells the others about itself, its host and its devices.

use std::env;

use rdma_sys_shim::rdma::{self, Choice, LinkLayer, Seat};
use rdma_sys_shim::{DeviceInfo, HostIdentity, State};
use serde::{Deserialize, Serialize};
use transom::devices::REGISTRY;
use transom_launch::oversubscription;

use super::super::slot::Slot;

/// A device of a rank that may be tested.
#[derive(Serialize, Deserialize)]
pub(super) struct Candidate {
    pub(super) spec: String,
    pub(super) provider: String,
    pub(super) said: String,
    /// The speed of the port in Mb/s; `None` if it has no meaning.
    pub(super) speed: Option<u64>,
    /// The RDMA device and its port, where its counters mean something: the kernel's own device sends again whenever the
    /// processor was late.
    pub(super) port: Option<(String, u8)>,
    /// Whether the user named it, or a job would take it among those of its provider.
    pub(super) is_chosen: bool,
}

/// What a rank tells the others about itself.
#[derive(Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) host: String,
    boot: [u8; 16],
    pid_namespace: u64,
    /// Whether the user named the device to test.
    pub(super) is_named: bool,
    /// See [`rdma_sys_shim::Joining`].
    pub(super) joining: u32,
    pub(super) candidates: Vec<Candidate>,
}

impl Introduction {
    pub(super) fn new(spec: Option<&str>) -> Self {
        let host = HostIdentity::this().ok();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            host: format!(
                "{} (Linux {}, {})",
                name.trim(),
                kernel.trim(),
                env::consts::ARCH
            ),
            boot: host.as_ref().map_or([0; 16], |host| host.boot),
            pid_namespace: host.map_or(0, |host| host.pid_namespace),
            is_named: spec.is_some(),
            joining: REGISTRY.joining().0,
            candidates: candidates(spec),
        }
    }

    /// Whether both ranks run on one host, by the same rule as in jobs.
    pub(super) fn shares_host(&self, other: &Self) -> bool {
        let of = |rank: &Self| (rank.boot, rank.pid_namespace);
        of(self) == of(other) && self.boot != [0; 16] && self.pid_namespace != 0
    }
}

/// The device that the user named, or else all devices that a job could take.
fn candidates(spec: Option<&str>) -> Vec<Candidate> {
    let devices = REGISTRY.list();
    let seat = Seat::here(&oversubscription::allowed());
    let find = |spec: &str| REGISTRY.find(spec, &devices, &seat).ok();
    let Some(spec) = spec else {
        let can_be_opened = |info: &&DeviceInfo| {
            let is_closed = (info.rdma.as_ref()).is_some_and(|rdma| rdma.limits.is_none());
            info.state == State::Ready && !is_closed
        };
        let ready = devices.iter().filter(can_be_opened);
        let candidate = |info: &DeviceInfo| {
            let found = find(&info.name)?;
            let is_chosen = find(info.provider).is_some_and(|it| it.device == info.name);
            Some(Candidate {
                is_chosen,
                ..candidate(info.name.clone(), info, found.choice.as_ref())
            })
        };
        return ready.filter_map(candidate).collect();
    };
    let found = find(spec).and_then(|found| {
        let info = devices.iter().find(|info| info.name == found.device)?;
        Some(candidate(spec.to_owned(), info, found.choice.as_ref()))
    });
    // Opening the device reports why it cannot be used.
    vec![found.unwrap_or_else(|| Candidate {
        spec: spec.to_owned(),
        provider: String::new(),
        said: "not found".to_owned(),
        speed: None,
        port: None,
        is_chosen: true,
    })]
}

fn candidate(spec: String, info: &DeviceInfo, choice: Option<&Choice>) -> Candidate {
    let mut said = vec![info.provider.to_owned()];
    let (mut speed, mut on_port) = (None, None);
    let device = info.rdma.as_ref().map(|rdma| &rdma.device);
    if let (Some(device), Some(choice)) = (device, choice)
        && let Some(port) = device.port(choice.port)
    {
        said.extend(
            device
                .firmware
                .iter()
                .map(|firmware| format!("firmware {firmware}")),
        );
        said.push(format!(
            "port {} {}, {}",
            port.number, port.link_layer, port.rate
        ));
        let slot = Slot::read(&rdma::class(), &device.name);
        said.extend(slot.map(|slot| slot.to_string()));
        if choice.link_layer == LinkLayer::InfiniBand {
            said.push(format!("LID {}", choice.lid));
        }
        said.extend(
            choice
                .gid
                .iter()
                .map(|entry| format!("GID {} {}", entry.index, entry.gid)),
        );
        on_port = (!device.emulated).then(|| (device.name.clone(), port.number));
        speed = (!device.emulated && port.speed() > 0).then(|| port.speed());
    }
    if let Some(limits) = info.rdma.as_ref().and_then(|rdma| rdma.limits.as_ref()) {
        said.push(format!("MTU {}", limits.active_mtu));
    }
    if let Some(can) = &info.capabilities {
        said.push(format!("atomic domain {:?}", can.atomic_domain));
    }
    Candidate {
        spec,
        provider: info.provider.to_owned(),
        said: said.join(", "),
        speed,
        port: on_port,
        is_chosen: true,
    }
}
