//! What ranks say of themselves, their hosts and their devices.

use std::env;

use rdma_sys_shim::rdma::{self, LinkLayer, Seat};
use rdma_sys_shim::{DeviceInfo, Host, State};
use serde::{Deserialize, Serialize};
use transom::devices::REGISTRY;
use transom_launch::oversubscription;

/// A device of a rank that may be tested.
#[derive(Serialize, Deserialize)]
pub(super) struct Candidate {
    pub(super) spec: String,
    pub(super) provider: String,
    pub(super) said: String,
    /// Of the port, in Mb/s; `None` if that means nothing.
    pub(super) speed: Option<u64>,
}

/// What a rank says of itself.
#[derive(Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) host: String,
    pub(super) boot: [u8; 16],
    pub(super) candidates: Vec<Candidate>,
}

impl Introduction {
    pub(super) fn new(spec: Option<&str>) -> Self {
        let host = Host::this().ok();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            host: format!(
                "{} (Linux {}, {})",
                name.trim(),
                kernel.trim(),
                env::consts::ARCH
            ),
            boot: host.map_or([0; 16], |host| host.boot),
            candidates: candidates(spec),
        }
    }
}

/// The device that is named, or else all that are ready.
fn candidates(spec: Option<&str>) -> Vec<Candidate> {
    let devices = REGISTRY.list();
    let Some(spec) = spec else {
        let ready = devices.iter().filter(|info| info.state == State::Ready);
        return ready
            .map(|info| candidate(info.name.clone(), info))
            .collect();
    };
    let seat = Seat::here(&oversubscription::allowed());
    let found = REGISTRY.find(spec, &devices, &seat).ok();
    let info = found.and_then(|found| devices.iter().find(|info| info.name == found.device));
    vec![match info {
        Some(info) => candidate(spec.to_owned(), info),
        // To open it says why.
        None => Candidate {
            spec: spec.to_owned(),
            provider: String::new(),
            said: "not found".to_owned(),
            speed: None,
        },
    }]
}

fn candidate(spec: String, info: &DeviceInfo) -> Candidate {
    let mut said = vec![info.provider.to_owned()];
    let mut speed = None;
    if let (Some(device), Some(choice)) = (&info.rdma, &info.choice)
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
        said.extend(slot(&device.name));
        if choice.link_layer == LinkLayer::InfiniBand {
            said.push(format!("LID {}", choice.lid));
        }
        said.extend(
            choice
                .gid
                .iter()
                .map(|entry| format!("GID {} {}", entry.index, entry.gid)),
        );
        speed = (!device.emulated && port.speed() > 0).then(|| port.speed());
    }
    if let Some(limits) = &info.limits {
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
    }
}

/// The speed and the width of an adapter's slot, as the kernel says them.
fn slot(device: &str) -> Option<String> {
    let read = |file| {
        let path = format!("{}/{device}/device/{file}", rdma::CLASS);
        std::fs::read_to_string(path).ok()
    };
    let (speed, width) = (read("current_link_speed")?, read("current_link_width")?);
    Some(format!("{}, width {}", speed.trim(), width.trim()))
}
