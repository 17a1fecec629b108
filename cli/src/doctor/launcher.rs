//! Whether `transom run` can start a job here.

use transom::launcher::LaunchError;

use super::finding::{Finding, Level};
use super::machine::Probes;
use super::wanted::Wanted;

pub(super) fn check(probes: &Probes, wanted: &Wanted) -> Finding {
    const CHECK: &str = "launcher";
    let Err(error) = &probes.launcher else {
        return Finding::ok(CHECK, "`transom run` can start jobs");
    };
    let (found, remedy) = match error {
        LaunchError::Forbidden { what, call, source } => (
            format!("{what}: {call} failed: {source}"),
            Some(format!(
                "have the filter of system calls allow {call} (of a container, by a profile that `--security-opt \
                 seccomp=` names), unless the kernel is older than Linux 5.3; or use another launcher"
            )),
        ),
        other => (other.to_string(), Some("use another launcher".to_owned())),
    };
    let level = match wanted {
        Wanted::Any | Wanted::Soft => Level::Failure,
        // Jobs on several hosts have other launchers.
        Wanted::Tcp(_) | Wanted::Rdma(_) => Level::Warning,
    };
    let found = format!("`transom run` cannot start jobs: {found}");
    Finding::bad(level, CHECK, found, remedy)
}
