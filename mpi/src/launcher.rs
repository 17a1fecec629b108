//! Launchers that the host does not know, such as another MPI's. Each rank that they start is a world of one, and
//! reports success.

use std::env;

use transom::ErrorClass;
use transom::lower::several_ranks;

use crate::errors::{self, bad};
use crate::world::Ranks;
use crate::{constants, loaded, report};

/// This process's rank by its launcher, where no world of the host says it.
pub(crate) fn rank() -> u32 {
    let rank = |name| env::var(name).ok()?.parse().ok();
    ["PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"]
        .into_iter()
        .find_map(rank)
        .unwrap_or(0)
}

/// Reports it if the host's world is this process alone, but a launcher has started several ranks. Rank 0 prints a
/// message. If this is an error, all ranks fail, and the first ends the others.
pub(crate) fn check() {
    let is_alone = Ranks::of(constants::comm_world()).is_ok_and(|ranks| ranks.is_one());
    if !is_alone {
        return;
    }
    let Some((rank, name, size)) = several_ranks() else {
        return;
    };
    let host = loaded::built_for().unwrap_or("the program's MPI");
    let text = format!(
        "the launcher has started {size} ranks ({name}={size}), and {host} does not know it, so that each rank is a job of \
         its own: start the program with the mpiexec of its own MPI, or unset {name} if it is to run alone"
    );
    if report::strict() {
        let failure = bad(ErrorClass::Other, text);
        errors::end_all("MPI_Init", &failure, constants::comm_world());
    }
    if rank == 0 {
        report::trouble(&text);
    }
}
