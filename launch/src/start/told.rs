//! What the environment says of a launcher, whether or not this process can join its job.

use std::env;

/// The variables that tell a process its rank and the number of ranks. Slurm sets its other counts in batch scripts,
/// too.
const LAUNCHERS: [[&str; 2]; 7] = [
    ["PMI_RANK", "PMI_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
    ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
    ["PALS_RANKID", "PALS_NRANKS"],
    ["JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"],
    ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"],
];

/// Local. This process's rank and the number of ranks by the launcher, and the variable of the number. `None` if there
/// is no launcher, or one launcher says that there is one rank: it may have started the program within a job of another.
#[must_use]
pub fn several_ranks() -> Option<(u32, &'static str, u32)> {
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let mut told = LAUNCHERS
        .into_iter()
        .filter_map(|[rank, size]| Some((number(rank)?, size, number(size)?)));
    let first = told.next()?;
    let several = |&(_, _, size): &(u32, &str, u32)| size > 1;
    (several(&first) && told.all(|launcher| several(&launcher))).then_some(first)
}
