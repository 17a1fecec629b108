//! Whether ranks of this host map each other's memory. With soft they have to. With RDMA devices, ranks that cannot do
//! so use the device.

use super::finding::{Finding, Level};
use super::machine::{Machine, Probes};
use super::wanted::Wanted;

/// The kernel's name of its first PID namespace.
const FIRST: &str = "pid:[4026531836]";

const OPEN: &str = "ranks have to be of one user, in one user and PID namespace with a /proc of its own; a filter \
                    of system calls has to allow memfd_create and opening /proc/<pid>/fd/<n>";

pub(super) fn check(machine: &Machine, probes: &Probes, wanted: &Wanted) -> Finding {
    const CHECK: &str = "memory of other ranks";
    if let Err(error) = &probes.mapping {
        let (level, result) = match wanted {
            Wanted::Rdma(_) => (
                Level::Warning,
                "ranks of one host reach each other by the RDMA device",
            ),
            Wanted::Tcp(_) => (Level::Warning, "ranks of one host reach each other by TCP"),
            // Jobs on one host use soft, whatever RDMA devices there are.
            Wanted::Any | Wanted::Soft => (Level::Failure, "the device soft cannot join ranks"),
        };
        return Finding::bad(level, CHECK, format!("{result}: {error}"), OPEN.to_owned());
    }
    let namespace = machine.link("/proc/self/ns/pid");
    Finding::ok(
        CHECK,
        match namespace.as_deref() {
            None | Some(FIRST) => "one rank maps another's, if both are of one user",
            // All is well if one container has all ranks of the host.
            Some(_) => {
                "one rank maps another's, if both are of one user and in this container; those in others on this host \
                 are reached by an RDMA device or tcp, and not by soft, unless they share its PID and user namespaces \
                 (`--pid=host`)"
            }
        },
    )
}
