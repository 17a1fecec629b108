//! What the launcher in front of the command says: whether it is one of the program's MPI.

use std::ffi::OsStr;
use std::path::Path;

use super::host::Host;

/// Commands that start ranks, and are no programs of MPI themselves.
const NAMES: [&str; 11] = [
    "mpiexec",
    "mpirun",
    "mpiexec.hydra",
    "mpiexec.mpich",
    "mpirun.mpich",
    "mpiexec.openmpi",
    "mpirun.openmpi",
    "orterun",
    "prterun",
    "srun",
    "transom",
];

pub(super) fn is_launcher(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| NAMES.contains(&name))
}

/// What rank 0 is told if the launcher is another MPI's: each rank is a job of one then, and reports success.
pub(super) fn foreign(host: Host, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_set = |name: &str| variable(name).is_some();
    let first_of_several =
        |rank, size| variable(rank).as_deref() == Some("0") && variable(size) != Some("1".into());
    let (theirs, rank, size) = match host {
        // Slurm's PMI-2 is known to Open MPI where it was built for that.
        Host::Openmpi if is_set("PMIX_RANK") || is_set("SLURM_PROCID") => return None,
        Host::Openmpi => ("MPICH's or Intel MPI's", "PMI_RANK", "PMI_SIZE"),
        Host::Mpich if is_set("PMI_RANK") => return None,
        Host::Mpich => ("Open MPI's", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        Host::Abi => return None,
    };
    first_of_several(rank, size).then(|| {
        format!(
            "the launcher is {theirs} ({rank} is set), the program is of {host}: if that does not know the launcher, \
             each rank is a job of its own; start it with the program's own mpiexec"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_names() {
        for name in ["mpiexec", "/usr/bin/mpirun", "./srun"] {
            assert!(is_launcher(Path::new(name)), "{name}");
        }
        for name in ["mpiexec-results", "python3", "/opt/mpirun/prog"] {
            assert!(!is_launcher(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_launcher_of_another_mpi_is_told_to_rank_0() {
        const HYDRA: [(&str, &str); 2] = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        const MPIRUN: [(&str, &str); 3] = [
            ("PMIX_RANK", "0"),
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ];
        let none: &[(&str, &str)] = &[];
        let cases = [
            (Host::Mpich, none, false),
            (Host::Mpich, &HYDRA, false),
            (Host::Mpich, &MPIRUN, true),
            (Host::Mpich, &[&MPIRUN[..], &HYDRA].concat(), false),
            (Host::Openmpi, none, false),
            (Host::Openmpi, &MPIRUN, false),
            (Host::Openmpi, &HYDRA, true),
            (Host::Openmpi, &[&MPIRUN[..], &HYDRA].concat(), false),
            (
                Host::Openmpi,
                &[("PMI_RANK", "1"), ("PMI_SIZE", "2")],
                false,
            ),
            (
                Host::Openmpi,
                &[("PMI_RANK", "0"), ("PMI_SIZE", "1")],
                false,
            ),
            (
                Host::Openmpi,
                &[&HYDRA[..], &[("SLURM_PROCID", "0")]].concat(),
                false,
            ),
            (Host::Abi, &MPIRUN, false),
        ];
        for (host, variables, told) in cases {
            let found = foreign(host, |name| {
                let (_, value) = variables.iter().find(|(key, _)| *key == name)?;
                Some((*value).to_owned())
            });
            assert_eq!(found.is_some(), told, "{host}, {variables:?}: {found:?}");
        }
    }
}
