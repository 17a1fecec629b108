//! The limit of locked memory: registering memory with an RDMA device locks it.

use rdma_sys_shim::rdma::{SEND_QUEUE, queue_bytes};

use super::finding::{Finding, Level, bytes};
use super::machine::Machine;

const CHECK: &str = "locked memory";

/// The least with which a rank starts: it registers its control region of 4 MiB, and locks the queues of its connection
/// to itself.
const START: u64 = 6 << 20;
/// With less, programs soon get errors: every window is registered, and so are the buffers of large transfers.
const COMFORT: u64 = 64 << 20;

const CAP_IPC_LOCK: u32 = 14;

/// `missing` is the level if RDMA cannot be used.
pub(super) fn check(machine: &Machine, missing: Level) -> Finding {
    let Some((soft, hard)) = machine.limit("Max locked memory") else {
        return Finding::warning(
            CHECK,
            "the limit is not known",
            "mount /proc; `ulimit -l` shows it",
        );
    };
    let Some(limit) = soft else {
        return Finding::ok(CHECK, "not limited");
    };
    let said = format!("limited to {} per process", bytes(limit));
    if missing == Level::Ok {
        return Finding::ok(CHECK, format!("{said}, which only RDMA devices look at"));
    }
    if may_ignore_limits(machine) {
        let found = format!("{said}, which does not bind this user (CAP_IPC_LOCK)");
        return Finding::ok(CHECK, found);
    }
    let (level, found) = match limit {
        ..START => (
            missing,
            format!(
                "{said}; a rank needs {} to start on an RDMA device",
                bytes(START)
            ),
        ),
        START..COMFORT => (
            Level::Warning,
            format!(
                "{said}; a rank starts with {}, and larger windows on an RDMA device fail with \"cannot allocate \
                 memory\"",
                peers(limit)
            ),
        ),
        _ => return Finding::ok(CHECK, format!("{said}: {}", peers(limit))),
    };
    Finding::bad(level, CHECK, found, Some(remedy(hard)))
}

/// The number of peers to which a rank without windows can connect within the limit.
fn peers(limit: u64) -> String {
    let each = queue_bytes(SEND_QUEUE);
    let peers = limit.saturating_sub(START) / each;
    format!(
        "room for the queues of {peers} peers ({} each on mlx5), less what windows and buffers take",
        bytes(each)
    )
}

fn remedy(hard: Option<u64>) -> String {
    match hard {
        None => "`ulimit -l unlimited`, which the hard limit allows".to_owned(),
        Some(hard) if hard >= COMFORT => {
            format!("`ulimit -l {}`, which the hard limit allows", hard >> 10)
        }
        Some(_) => "raise it: \"* - memlock unlimited\" in /etc/security/limits.conf and log in \
                    again; LimitMEMLOCK=infinity in a systemd unit; `--ulimit memlock=-1` for a \
                    container"
            .to_owned(),
    }
}

/// Whether the kernel lets this process lock any amount of memory. It checks for the capability in the first user
/// namespace, so a capability of a container's own namespace does not count.
fn may_ignore_limits(machine: &Machine) -> bool {
    let capabilities = machine.status("CapEff").unwrap_or_default();
    let capable = u64::from_str_radix(&capabilities, 16).unwrap_or(0) >> CAP_IPC_LOCK & 1 == 1;
    let map = machine.text("/proc/self/uid_map").unwrap_or_default();
    let first_namespace = map.split_whitespace().eq(["0", "0", "4294967295"]);
    capable && first_namespace
}
