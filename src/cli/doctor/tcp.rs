//! By which addresses ranks of other hosts reach this one over TCP.

use rdma_sys_shim::Surroundings;
use transom::devices::REGISTRY;

use super::finding::{Finding, Level};
use super::machine::Probes;
use super::wanted::Wanted;

/// Opens the device, and says which addresses peers are told; or why not.
pub(super) fn probe(wanted: &Wanted) -> Result<Vec<String>, String> {
    let spec = match wanted {
        Wanted::Tcp(spec) => spec,
        _ => "tcp",
    };
    let opened = REGISTRY.open(spec, &Surroundings::default());
    opened.map_err(|error| error.to_string())?;
    let listed = REGISTRY.list().into_iter().find(|one| one.name == "tcp");
    let mut addresses = listed.map_or_else(Vec::new, |one| one.addresses);
    if let Some((_, interface)) = spec.split_once(':') {
        addresses.retain(|address| address.starts_with(&format!("{interface}: ")));
        addresses.truncate(1);
    }
    Ok(addresses)
}

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
            "only the loopback is up, so that no rank of another host reaches this one",
        ),
        Ok(addresses) => Finding::ok(
            CHECK,
            format!(
                "ranks of other hosts reach this one at {}",
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
