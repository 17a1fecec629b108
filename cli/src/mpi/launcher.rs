//! Launchers, which have to start this command, and not the other way round.

use std::ffi::OsStr;
use std::path::Path;

/// Commands that start ranks, and are not MPI programs themselves.
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
}
