//! Kernel features that make the soft device faster but that it does not require.

use super::finding::Finding;
use super::machine::{Machine, Probes};

pub(super) fn check(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "cross-memory attach";
    let scope = machine.text("/proc/sys/kernel/yama/ptrace_scope");
    let yama = match scope.as_deref() {
        None => String::new(),
        Some(scope) => format!(" (Yama's ptrace_scope is {scope})"),
    };
    let Err(error) = &probes.attach else {
        return Finding::ok(CHECK, format!("one rank may read another's memory{yama}"));
    };
    let found = format!(
        "{error}{yama}; a thread of the target then moves what is in windows over a program's \
         own memory, which is slower"
    );
    let remedy = match scope.as_deref() {
        Some("2") => "`sysctl kernel.yama.ptrace_scope=1`",
        Some("3") => {
            "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and restart: 3 stays until \
                      then"
        }
        _ if machine.status("Seccomp").as_deref() == Some("2") => {
            "a filter of system calls is active: have it allow process_vm_readv and process_vm_writev; for a container, \
             `--cap-add SYS_PTRACE` or a `--security-opt seccomp=` profile does"
        }
        _ => "the kernel has to allow process_vm_readv and process_vm_writev",
    };
    Finding::warning(CHECK, found, remedy)
}
