//! The limits of a container or another control group.

use rdma_sys_shim::rdma::{ObjectKind, object_limit};
use rdma_sys_shim::{ControlGroup, control_groups};

use super::finding::{Finding, Level, bytes};
use super::machine::{Machine, Probes};

/// The memory that a rank needs: the control region, buffers, and some for windows.
const RANK_BYTES: u64 = 64 << 20;
/// The processes and threads of a rank, and those of the launcher.
const RANK_TASKS: u64 = 4;
const LAUNCHER_TASKS: u64 = 8;
/// The objects of an RDMA device with which a rank starts: its domain, its queues to itself, its regions.
const RANK_OBJECTS: u64 = 10;
/// From this value on, a limit in version 1 of control groups means "no limit".
const NO_LIMIT: u64 = 1 << 60;

pub(super) fn check(machine: &Machine, probes: &Probes) -> Vec<Finding> {
    vec![memory(machine, probes), tasks(machine, probes)]
}

fn memory(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "memory of the control group";
    let files = ["memory.max", "memory.limit_in_bytes"];
    let Some(limit) = tightest(machine, "memory", files) else {
        return Finding::ok(CHECK, "not limited");
    };
    let found = format!("limited to {}", bytes(limit.value));
    let need = RANK_BYTES.saturating_mul(probes.processors);
    if limit.value >= need {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        format!(
            "{found}, all windows included; a rank on each processor wants {}",
            bytes(need)
        ),
        "raise it (`--memory` of a container, MemoryMax of a systemd unit), or start fewer ranks",
    )
}

fn tasks(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "tasks of the control group";
    let Some(limit) = tightest(machine, "pids", ["pids.max"; 2]) else {
        return Finding::ok(CHECK, "not limited");
    };
    let used = machine.text(&format!("{}/pids.current", limit.folder));
    let used = used.and_then(|text| text.parse().ok()).unwrap_or(0);
    let left = limit.value.saturating_sub(used);
    let found = format!(
        "limited to {} processes and threads, {left} left",
        limit.value
    );
    let need = RANK_TASKS * probes.processors + LAUNCHER_TASKS;
    if left >= need {
        return Finding::ok(CHECK, found);
    }
    Finding::warning(
        CHECK,
        format!("{found}; a rank on each processor wants {need}"),
        "raise it (`--pids-limit` of a container, TasksMax of a systemd unit), or start fewer ranks",
    )
}

/// The limits on the objects of an RDMA device, where a control group sets any. `missing` is the level if no rank can
/// use the device.
pub(super) fn objects(
    machine: &Machine,
    probes: &Probes,
    device: &str,
    missing: Level,
) -> Vec<Finding> {
    const CHECK: &str = "RDMA objects of the control group";
    let needs = [(ObjectKind::Handle, 1), (ObjectKind::Object, RANK_OBJECTS)];
    let limits = needs.into_iter().filter_map(|(kind, rank)| {
        let limit = object_limit(&machine.path("/"), device, kind)?;
        let (name, file, most, left) = (kind.name(), &limit.file, limit.most, limit.left());
        let found = format!("{device} is limited to {name}={most} ({file}), {left} left");
        let all = rank * probes.processors;
        if left >= all {
            return Some(Finding::ok(CHECK, found));
        }
        let (level, found) = match left < rank {
            true => (missing, format!("{found}; a rank needs {rank} to start")),
            false => (
                missing.min(Level::Warning),
                format!("{found}; ranks on each processor need {all} to start"),
            ),
        };
        Some(Finding::bad(level, CHECK, found, Some(limit.remedy())))
    });
    limits.collect()
}

struct Limit {
    value: u64,
    folder: String,
}

/// The lowest visible limit on this process: of its control group, or of one above. `files` are the names in versions 2
/// and 1.
fn tightest(machine: &Machine, controller: &str, files: [&str; 2]) -> Option<Limit> {
    let limits = control_groups(&machine.path("/"), controller)
        .into_iter()
        .filter_map(|ControlGroup { folder, is_unified }| {
            let file = files[usize::from(!is_unified)];
            let text = machine.text(&format!("{folder}/{file}"))?;
            let value = text.parse().ok().filter(|&value| value < NO_LIMIT)?;
            Some(Limit { value, folder })
        });
    limits.min_by_key(|limit| limit.value)
}
