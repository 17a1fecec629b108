//! The addresses at which ranks of other hosts reach this one over TCP.

use super::finding::{Finding, Level};
use super::machine::Probes;
use super::wanted::Wanted;

pub(super) fn check(probes: &Probes, wanted: &Wanted) -> Option<Finding> {
    const CHECK: &str = "TCP";
    let level = match wanted {
        Wanted::Tcp(_) => Level::Failure,
        Wanted::Any => Level::Warning,
        Wanted::Soft | Wanted::Rdma(_) => return None,
    };
    Some(match &probes.tcp {
        Ok(addresses) if addresses.is_empty() => Finding::ok(
            CHECK,
            "only the loopback has an address that is used without being named (`transom devices`), so that no rank of \
             another host reaches this one",
        ),
        Ok(addresses) => Finding::ok(
            CHECK,
            format!(
                "ranks of other hosts are told the addresses {}",
                addresses.join(", ")
            ),
        ),
        Err(error) => Finding::bad(
            level,
            CHECK,
            error.clone(),
            Some("see docs/tcp.md".to_owned()),
        ),
    })
}
