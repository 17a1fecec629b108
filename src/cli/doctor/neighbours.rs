//! Whether ranks of this host map each other's memory: over soft they have to, over RDMA devices they need not use those.

use super::finding::Finding;
use super::machine::{Machine, Probes};

/// What the kernel calls its first PID namespace.
const FIRST: &str = "pid:[4026531836]";

pub(super) fn check(machine: &Machine, probes: &Probes) -> Finding {
    const CHECK: &str = "memory of other ranks";
    if let Err(error) = &probes.mapping {
        let found = format!(
            "{error}; the device soft cannot join ranks, and over RDMA devices those of one host reach each other by \
             the device"
        );
        let remedy = match machine.status("Seccomp").as_deref() {
            Some("2") => {
                "have the filter of system calls allow memfd_create, and opening /proc/<pid>/fd/<n>"
            }
            _ => {
                "mount the PID namespace's own /proc; its files of this user have to be open to it"
            }
        };
        return Finding::warning(CHECK, found, remedy);
    }
    let namespace = machine.link("/proc/self/ns/pid");
    Finding::ok(
        CHECK,
        match namespace.as_deref() {
            None | Some(FIRST) => "one rank maps another's, if both are of one user",
            // All is well where one container has all ranks of the host.
            Some(_) => {
                "one rank maps another's, if both are of one user and in this PID namespace; ranks in other containers \
                 of this host are reached by an RDMA device, and not by soft, unless all share one (`--pid=host`)"
            }
        },
    )
}
