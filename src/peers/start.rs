//! Starting: which device this rank uses, and where the other ranks run.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rdma_sys_shim::rdma::Seat;
use rdma_sys_shim::{Device, HostIdentity, JobSecret, JobSpan, Joining, Surroundings, variable};
use transom_launch::oversubscription;

use crate::devices::REGISTRY;
use crate::error::{Error, Misuse, Result};

const DEVICE: &str = "TRANSOM_DEVICE";

/// The device that the environment names; `None` if this library chooses the kind of device, or one among several
/// equally good ones. It is opened before the launcher counts this rank as joined, so that after a wrong name another
/// can be tried.
pub(crate) fn named_device(secret: JobSecret) -> Result<Option<Arc<dyn Device>>> {
    let spec = spec();
    if rdma_sys_shim::is_automatic(&spec) || shared_out() != 0 {
        return Ok(None);
    }
    // If a device was requested, the ranks' hosts do not matter.
    let here = Whereabouts {
        secret,
        ..Whereabouts::default()
    };
    open(&spec, here).map(Some)
}

/// The environment's choice of the device.
pub(super) fn spec() -> String {
    variable(DEVICE).unwrap_or_default()
}

/// Local. The secret of the job's ranks, from the environment.
pub(crate) fn job_secret() -> JobSecret {
    transom_launch::start::secret().map_or_else(JobSecret::default, JobSecret)
}

/// This rank's place among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub(super) span: JobSpan,
    /// Its number among the ranks of its host that can choose from the same devices.
    pub(super) position: u32,
    /// The devices that can connect the ranks, if they run on several hosts.
    pub(super) joining: Joining,
    pub(super) secret: JobSecret,
}

/// Local. The devices that could connect this rank with ranks of other hosts, unless the environment chooses one.
pub(super) fn joining() -> Joining {
    match rdma_sys_shim::is_automatic(&spec()) {
        true => REGISTRY.joining(),
        false => Joining::default(),
    }
}

/// Local. A digest of the equally good devices of this rank; 0 if there is no such choice.
pub(super) fn shared_out() -> u32 {
    let Some(ports) = REGISTRY.alternatives(&spec(), &oversubscription::allowed()) else {
        return 0;
    };
    let mut digest = DefaultHasher::new();
    ports.hash(&mut digest);
    (digest.finish() as u32).max(1)
}

/// The number of earlier ranks with the same host and the same digest of [`shared_out`].
pub(super) fn position<T: PartialEq>(before: impl Iterator<Item = T>, own: &T) -> u32 {
    before.filter(|other| other == own).count() as u32
}

/// The best device of a kind for a rank at this place.
pub(super) fn open(spec: &str, here: Whereabouts) -> Result<Arc<dyn Device>> {
    let around = Surroundings {
        launcher: Some(launcher_process()?),
        span: here.span,
        seat: Seat::here(&oversubscription::allowed()).with_position(here.position),
        joining: here.joining,
        secret: here.secret,
        met_from: transom_launch::start::toward_rendezvous(),
    };
    let opened = REGISTRY.open(spec, &around);
    opened.map_err(|error| Error::from(error).during("job start"))
}

/// The [`HostIdentity`] of this process, in hexadecimal digits. If the system hides it, no two ranks seem to share a
/// host: a wrong "yes" would cause an error at the first contact.
///
/// # Errors
/// It may be readable, but there was no free descriptor to read it.
pub(crate) fn host_identity(rank: u32) -> Result<String> {
    let HostIdentity {
        boot,
        pid_namespace,
        ..
    } = HostIdentity::this().map_err(|error| Error::from(error).during("job start"))?;
    Ok(match (u128::from_be_bytes(boot), pid_namespace) {
        (0, _) | (_, 0) => format!("{rank:x}"),
        (boot, processes) => format!("{boot:032x}{processes:x}"),
    })
}

/// Local. The boot of this machine, by which ranks know that they share processors; 0 if it is unknown. Then ranks are
/// assumed to share, since yielding a processor in vain costs less than keeping it from a rank.
pub(super) fn machine_identity() -> u64 {
    let boot = HostIdentity::this().map_or([0; 16], |host| host.boot);
    u128::from_be_bytes(boot) as u64
}

/// Local. The network namespace of this rank, which reaches those of the same one at loopback addresses; 0 if it is
/// unknown.
pub(super) fn network_identity() -> u64 {
    HostIdentity::this().map_or(0, |host| host.network_namespace)
}

/// Warns of variables in the environment that had an effect in earlier versions. Rank 0 does so for all ranks.
pub(super) fn warn_of_retired_variables(rank: u32) {
    const SECOND_THREAD: &str = "TRANSOM_SECOND_THREAD";
    if rank == 0 && std::env::var_os(SECOND_THREAD).is_some() {
        tracing::warn!(
            "{SECOND_THREAD} has no effect any more: every copy is made by the thread that asks for it"
        );
    }
}

/// Under Yama, processes that descend from this one may attach.
fn launcher_process() -> Result<u32> {
    const VARIABLE: &str = "TRANSOM_LAUNCHER_PID";
    let Some(text) = variable(VARIABLE) else {
        return Ok(std::os::unix::process::parent_id());
    };
    text.parse().map_err(|_| {
        let misuse = Misuse::BadVariable {
            name: VARIABLE,
            value: text,
            legal: "the number of a process",
        };
        Error::new("job start", misuse)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_host_that_choose_alike_share_out_devices() {
        // Bound by turns to two sockets of host a, with devices 7 and 8 beside them; two on host b.
        let all = [
            ("a", 7),
            ("a", 8),
            ("a", 7),
            ("b", 7),
            ("a", 8),
            ("b", 7),
            ("a", 7),
        ];
        let positions: Vec<u32> = (0..all.len())
            .map(|rank| position(all[..rank].iter(), &&all[rank]))
            .collect();
        assert_eq!(positions, [0, 0, 1, 0, 1, 1, 2]);
    }
}
