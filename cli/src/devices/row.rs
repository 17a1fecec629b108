//! A device in the output, as a row of the table and as JSON.

use rdma_sys_shim::rdma::{Choice, GidEntry, Port, Standing, VerbsLimits};
use rdma_sys_shim::{AtomicDomain, DeviceInfo, Found, State};
use serde::Serialize;

use super::super::DEVICE;

#[derive(Serialize)]
pub(super) struct DeviceRow {
    pub(super) device: String,
    pub(super) provider: &'static str,
    pub(super) usable: bool,
    pub(super) state: String,
    /// Whether the environment names it.
    pub(super) named: bool,
    pub(super) atomic_domain: Option<&'static str>,
    /// The sizes in bits of the words on which atomics work.
    pub(super) atomic_widths: Vec<u32>,
    /// Whether an agent of the target carries out the atomics of an RDMA device.
    pub(super) agent_atomics: bool,
    /// In bytes; `None` if transfers are not limited or the limit is not known.
    pub(super) max_message: Option<u64>,
    /// Whether it would be chosen among the RDMA devices, or why not.
    pub(super) choice: Option<String>,
    /// The jobs that would run over it in the present configuration.
    pub(super) chosen_for: Option<Jobs>,
    /// The addresses at which peers reach it, if it is a device without ports.
    pub(super) addresses: Vec<String>,
    pub(super) node_guid: Option<String>,
    pub(super) firmware: Option<String>,
    pub(super) ports: Vec<PortRow>,
    pub(super) limits: Option<LimitsRow>,
}

/// Jobs, by where their ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Jobs {
    OneHost,
    SeveralHosts,
    /// All jobs, because the environment names a device.
    All,
}

#[derive(Serialize)]
pub(super) struct PortRow {
    pub(super) port: u8,
    pub(super) state: String,
    pub(super) phys_state: String,
    pub(super) link_layer: String,
    pub(super) netdev: Option<String>,
    pub(super) rate: String,
    /// `None` where peers are not addressed by LID.
    pub(super) lid: Option<u16>,
    pub(super) gids: Vec<GidRow>,
    /// Whether this port would be used.
    pub(super) chosen: bool,
}

#[derive(Serialize)]
pub(super) struct GidRow {
    pub(super) index: u8,
    pub(super) gid: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) netdev: Option<String>,
    /// Whether this GID would be used.
    pub(super) chosen: bool,
}

/// Values of the verbs library; sizes are in bytes.
#[derive(Serialize)]
pub(super) struct LimitsRow {
    pub(super) atomic_scope: &'static str,
    pub(super) max_inline: u32,
    pub(super) max_message: u64,
    pub(super) max_qp: u32,
    pub(super) max_cqe: u32,
    pub(super) max_mr: u32,
    pub(super) max_qp_rd_atom: u32,
    pub(super) active_mtu: u32,
}

impl DeviceRow {
    /// Records how it compares with the chosen RDMA device.
    pub(super) fn compare(&mut self, standing: &Standing) {
        self.choice = Some(match standing.is_chosen && !self.usable {
            true => "not chosen: it cannot be used".to_owned(),
            false => standing.words.clone(),
        });
    }

    /// Marks the device as the one that the environment names, with its port and GID, or its addresses.
    pub(super) fn name(&mut self, named: &Found) {
        self.named = true;
        self.chosen_for = self.usable.then_some(Jobs::All);
        if let Some(choice) = &named.choice {
            self.choose(choice);
        }
        if !named.addresses.is_empty() {
            self.addresses.clone_from(&named.addresses);
        }
    }

    /// Records that the environment names another device.
    pub(super) fn pass_over(&mut self) {
        if self.chosen_for.take().is_some() {
            self.choice = Some(format!("not chosen: {DEVICE} names another"));
        }
    }

    fn choose(&mut self, choice: &Choice) {
        for port in &mut self.ports {
            port.chosen = port.port == choice.port;
            for gid in &mut port.gids {
                gid.chosen = port.chosen && choice.gid_index() == Some(gid.index);
            }
        }
    }
}

impl From<DeviceInfo> for DeviceRow {
    fn from(device: DeviceInfo) -> Self {
        let (usable, state) = match device.state {
            State::Ready => (true, "ready".to_owned()),
            State::Unusable(reason) => (false, reason),
            _ => (false, "unknown".to_owned()),
        };
        let capabilities = device.capabilities.as_ref();
        let rdma = device.rdma.as_ref();
        let known = rdma.map(|rdma| &rdma.device);
        let mut row = Self {
            device: device.name,
            provider: device.provider,
            usable,
            state,
            named: false,
            atomic_domain: capabilities.map(|can| name(can.atomic_domain)),
            atomic_widths: match capabilities {
                Some(can) if can.narrow_atomics => vec![8, 16, 32, 64],
                Some(_) => vec![64],
                None => Vec::new(),
            },
            agent_atomics: rdma.is_some_and(|rdma| rdma.agent_atomics),
            max_message: capabilities
                .map(|can| can.max_message)
                .filter(|&bytes| bytes != u64::MAX),
            choice: None,
            chosen_for: None,
            addresses: device.addresses,
            node_guid: known.map(|rdma| rdma.node_guid.clone()),
            firmware: known.and_then(|rdma| rdma.firmware.clone()),
            ports: known.map_or_else(Vec::new, |rdma| {
                rdma.ports.iter().map(PortRow::from).collect()
            }),
            limits: rdma.and_then(|rdma| Some(LimitsRow::from(rdma.limits.as_ref()?))),
        };
        if let Some(choice) = rdma.and_then(|rdma| rdma.choice.as_ref()) {
            row.choose(choice);
        }
        row
    }
}

fn name(domain: AtomicDomain) -> &'static str {
    match domain {
        AtomicDomain::Cpu => "cpu",
        AtomicDomain::Device => "device",
        AtomicDomain::Global => "global",
    }
}

impl From<&Port> for PortRow {
    fn from(port: &Port) -> Self {
        Self {
            port: port.number,
            state: port.state.clone(),
            phys_state: port.phys_state.clone(),
            link_layer: port.link_layer.to_string(),
            netdev: port.netdev.clone(),
            rate: port.rate.clone(),
            lid: (port.lid != 0).then_some(port.lid),
            gids: port.gids.iter().map(GidRow::from).collect(),
            chosen: false,
        }
    }
}

impl From<&GidEntry> for GidRow {
    fn from(entry: &GidEntry) -> Self {
        Self {
            index: entry.index,
            gid: entry.gid.to_string(),
            kind: entry.kind.to_string(),
            netdev: entry.netdev.clone(),
            chosen: false,
        }
    }
}

impl From<&VerbsLimits> for LimitsRow {
    fn from(limits: &VerbsLimits) -> Self {
        Self {
            atomic_scope: limits.atomic_scope.map_or("none", name),
            max_inline: limits.max_inline,
            max_message: limits.max_message,
            max_qp: limits.max_qp,
            max_cqe: limits.max_cqe,
            max_mr: limits.max_mr,
            max_qp_rd_atom: limits.max_qp_rd_atom,
            active_mtu: limits.active_mtu,
        }
    }
}
