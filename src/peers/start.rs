//! Starting: which device this rank uses, and where the other ranks run.

use std::sync::Arc;

use rdma_sys_shim::{Device, Host, Placement};
use transom_launch::pmi::Client;

use crate::error::{Error, Result};

const DEVICE: &str = "TRANSOM_DEVICE";
/// Under which rank 0 publishes whether all ranks share a host.
const VERDICT: &str = "transom-placement";

/// The device that the environment names, or `None` if the choice is ours. It is opened before the
/// launcher counts this rank as joined, so that after a wrong name another can be tried.
pub(crate) fn named_device() -> Result<Option<Arc<dyn Device>>> {
    let spec = std::env::var(DEVICE).unwrap_or_default();
    if rdma_sys_shim::is_automatic(&spec) {
        return Ok(None);
    }
    // Where the ranks run makes no difference to a device that was asked for.
    open(&spec, Placement::OneHost).map(Some)
}

/// The best device for ranks that run there.
pub(super) fn choose_device(placement: Placement) -> Result<Arc<dyn Device>> {
    open(&std::env::var(DEVICE).unwrap_or_default(), placement)
}

/// For ranks of one host, beside another device.
pub(super) fn open_beside() -> Result<Arc<dyn Device>> {
    open("soft", Placement::OneHost)
}

fn open(spec: &str, placement: Placement) -> Result<Arc<dyn Device>> {
    rdma_sys_shim::open(spec, launcher_process(), placement)
        .map_err(|error| Error::from(error).during("job start"))
}

/// Collective. Whether all ranks share this host. A launcher that knows of one node (`ranks_here` of
/// the ranks run on this one) is believed; several of its nodes may be one host, as Slurm's are where
/// several of its daemons run on a machine: so the ranks tell each other.
pub(super) fn placement(client: &Client, ranks_here: Option<usize>) -> Result<Placement> {
    let one_node = ranks_here == Some(client.size() as usize);
    Ok(
        match one_node || client.size() == 1 || share_host(client)? {
            true => Placement::OneHost,
            false => Placement::SeveralHosts,
        },
    )
}

/// Collective. Rank 0 compares, so that the launcher is not asked size × size questions.
fn share_host(client: &Client) -> Result<bool> {
    let key = |rank: u32| format!("transom-host-{rank}");
    client.put(&key(client.rank()), &host_identity(client.rank())?)?;
    client.barrier()?;
    if client.rank() == 0 {
        let ours = host_identity(0)?;
        let mut shared = true;
        for rank in 1..client.size() {
            shared &= client.get(&key(rank))? == ours;
        }
        client.put(VERDICT, if shared { "1" } else { "0" })?;
    }
    client.barrier()?;
    Ok(client.get(VERDICT)? == "1")
}

/// Names the [`Host`] of this process, in hexadecimal digits. Where the system hides it, no two ranks seem
/// to share one: a wrong "yes" would end in an error at the first contact.
///
/// # Errors
/// It may be readable, but no descriptor was free to read it with.
pub(crate) fn host_identity(rank: u32) -> Result<String> {
    let Host {
        boot,
        pid_namespace,
    } = Host::this().map_err(|error| Error::from(error).during("job start"))?;
    Ok(match (u128::from_be_bytes(boot), pid_namespace) {
        (0, _) | (_, 0) => format!("{rank:x}"),
        (boot, processes) => format!("{boot:032x}{processes:x}"),
    })
}

/// Under Yama, peers may attach if they descend from this process.
fn launcher_process() -> Option<u32> {
    std::env::var("TRANSOM_LAUNCHER_PID")
        .ok()
        .and_then(|pid| pid.parse().ok())
        .or_else(|| Some(std::os::unix::process::parent_id()))
}
