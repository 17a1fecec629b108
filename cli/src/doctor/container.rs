//! The limits of a container or another control group.

use super::finding::{Finding, bytes};
use super::machine::{Machine, Probes};

/// The memory that a rank needs: the control region, buffers, and some for windows.
const RANK_BYTES: u64 = 64 << 20;
/// The processes and threads of a rank, and those of the launcher.
const RANK_TASKS: u64 = 4;
const LAUNCHER_TASKS: u64 = 8;
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

struct Limit {
    value: u64,
    folder: String,
}

/// The lowest visible limit on this process: of its control group, or of one above. `files` are the names in versions 2
/// and 1.
fn tightest(machine: &Machine, controller: &str, files: [&str; 2]) -> Option<Limit> {
    let groups = machine.text("/proc/self/cgroup")?;
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().unwrap_or("");
        let path = parts.next().unwrap_or("");
        let (base, file) = match controllers {
            "" => ("/sys/fs/cgroup".to_owned(), files[0]),
            _ => (format!("/sys/fs/cgroup/{controller}"), files[1]),
        };
        let ours = controllers.is_empty() || controllers.split(',').any(|name| name == controller);
        folders(path)
            .filter(move |_| ours)
            .filter_map(move |folder| {
                let folder = format!("{base}{folder}");
                let text = machine.text(&format!("{folder}/{file}"))?;
                let value = text.parse().ok().filter(|&value| value < NO_LIMIT)?;
                Some(Limit { value, folder })
            })
            .collect::<Vec<_>>()
    });
    limits.min_by_key(|limit| limit.value)
}

/// `/a/b`, `/a` and the empty path.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|at| &path[..at]))
}
