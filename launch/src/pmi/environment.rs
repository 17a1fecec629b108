//! What the environment says about the launcher.

use std::ffi::OsString;
use std::time::Duration;

use super::PmiError;

/// A launcher that speaks PMI-1, as its variables describe it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Launcher {
    pub(super) fd: i32,
    pub(super) rank: u32,
    pub(super) size: u32,
}

const PMI: [&str; 4] = ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT"];

const USE_PMI: &str = "start the job with `transom run`, `mpiexec.hydra` or `srun --mpi=pmi2`, or \
                       unset these variables for a job of one rank";

const TIMEOUT: &str = "TRANSOM_START_TIMEOUT";

/// Far more than between the first and the last rank of a large job on a slow file system.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Finds the launcher. `None` where there is none: a job of one.
///
/// A process of a larger job that cannot reach its launcher must not become a job of its own:
/// N jobs of one would each report success.
pub(super) fn detect(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Launcher>, PmiError> {
    let broken = |problem, names: &[&str]| {
        Err(PmiError::Environment {
            problem,
            found: describe(names, &variable),
            remedy: USE_PMI,
        })
    };
    let set = |name: &str| variable(name).is_some();
    let number = |name: &str| -> Option<u32> { variable(name)?.to_str()?.parse().ok() };

    if PMI.iter().any(|name| set(name)) {
        if !set("PMI_FD") {
            return broken("the launcher gives no socket in PMI_FD", &PMI);
        }
        let Some(fd) = number("PMI_FD").and_then(|fd| i32::try_from(fd).ok()) else {
            return broken("PMI_FD is not a file descriptor", &PMI);
        };
        return match (number("PMI_RANK"), number("PMI_SIZE")) {
            (Some(rank), Some(size)) if rank < size => Ok(Some(Launcher { fd, rank, size })),
            (Some(_), Some(_)) => broken("PMI_RANK is not less than PMI_SIZE", &PMI),
            _ => broken("PMI_RANK and PMI_SIZE are not both numbers", &PMI),
        };
    }

    // Only variables of a started process count: SLURM_NTASKS and SLURM_PROCID are also set in a
    // batch script, where a job of one is right.
    let tasks = ["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];
    if tasks.iter().any(|name| number(name).is_some_and(|n| n > 1)) {
        return broken(
            "the process is one of several, but its launcher does not offer PMI-1",
            &[
                tasks[0],
                tasks[1],
                "SLURM_MPI_TYPE",
                "SLURM_PROCID",
                "PMIX_RANK",
                "PMI_FD",
            ],
        );
    }
    if set("PMIX_RANK") && !tasks.iter().any(|name| number(name) == Some(1)) {
        return broken(
            "the launcher offers PMIx only, which is not supported",
            &["PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD"],
        );
    }
    Ok(None)
}

/// How long to wait for the launcher's replies, that is, for ranks that start late. `None`: for
/// ever.
pub(super) fn reply_timeout(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Duration>, PmiError> {
    let Some(text) = variable(TIMEOUT) else {
        return Ok(Some(DEFAULT_TIMEOUT));
    };
    match text.to_str().and_then(|text| text.parse::<u32>().ok()) {
        Some(0) => Ok(None),
        Some(seconds) => Ok(Some(Duration::from_secs(seconds.into()))),
        None => Err(PmiError::Environment {
            problem: "TRANSOM_START_TIMEOUT is not a number of seconds",
            found: describe(&[TIMEOUT], variable),
            remedy: "set it to a whole number, to 0 to wait for ever, or unset it for 600",
        }),
    }
}

/// Whether [`detect`] finds a launcher in this process's environment, usable or not.
pub(crate) fn is_launched() -> bool {
    !matches!(detect(|name| std::env::var_os(name)), Ok(None))
}

/// The variables and their values, for an error.
pub(super) fn describe(names: &[&str], variable: impl Fn(&str) -> Option<OsString>) -> String {
    let each = names.iter().map(|name| match variable(name) {
        Some(value) => format!("{name}={value:?}"),
        None => format!("no {name}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The error for a PMI_FD that is a number and nothing more.
pub(super) fn not_a_socket() -> PmiError {
    PmiError::Environment {
        problem: "PMI_FD is not an open socket; this may be a child process of a rank, which \
                  inherits the variables but not the connection",
        found: describe(&PMI, |name| std::env::var_os(name)),
        remedy: USE_PMI,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Option<Launcher>, PmiError> {
        detect(|name| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(found.1.into())
        })
    }

    #[test]
    fn without_a_launcher_the_job_has_one_rank() {
        assert_eq!(with(&[]).unwrap(), None);
        assert_eq!(
            with(&[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")]).unwrap(),
            None
        );
        let batch_script = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")];
        assert_eq!(with(&batch_script).unwrap(), None);
    }

    #[test]
    fn the_timeout_is_in_seconds_and_has_a_default() {
        let timeout = |text: Option<&str>| reply_timeout(|_| text.map(OsString::from));
        assert_eq!(timeout(None).unwrap(), Some(DEFAULT_TIMEOUT));
        assert_eq!(timeout(Some("0")).unwrap(), None);
        assert_eq!(timeout(Some("7")).unwrap(), Some(Duration::from_secs(7)));
        for bad in ["", "soon", "-1", "1.5", "99999999999"] {
            let error = timeout(Some(bad)).unwrap_err().to_string();
            assert!(error.contains(&format!("{TIMEOUT}={bad:?}")), "{error}");
        }
    }

    #[test]
    fn a_launcher_is_found() {
        let launcher = Launcher {
            fd: 7,
            rank: 2,
            size: 3,
        };
        let variables = [("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")];
        assert_eq!(with(&variables).unwrap(), Some(launcher));
    }

    #[test]
    fn half_a_launcher_is_an_error_that_shows_what_was_found() {
        let broken: &[(&[(&str, &str)], &str)] = &[
            (
                &[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")],
                "PMI_FD=\"x\"",
            ),
            (
                &[("PMI_FD", "-1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")],
                "PMI_FD=\"-1\"",
            ),
            (
                &[
                    ("PMI_FD", "4294967295"),
                    ("PMI_RANK", "0"),
                    ("PMI_SIZE", "1"),
                ],
                "4294967295",
            ),
            (&[("PMI_FD", "5"), ("PMI_SIZE", "2")], "no PMI_RANK"),
            (&[("PMI_FD", "5"), ("PMI_RANK", "1")], "no PMI_SIZE"),
            (
                &[("PMI_FD", "5"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")],
                "PMI_RANK=\"2\"",
            ),
            (
                &[("PMI_FD", "5"), ("PMI_RANK", "-1"), ("PMI_SIZE", "2")],
                "PMI_RANK=\"-1\"",
            ),
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], "no PMI_FD"),
            (&[("PMI_PORT", "host:4711")], "PMI_PORT=\"host:4711\""),
            (
                &[("OMPI_COMM_WORLD_SIZE", "4")],
                "OMPI_COMM_WORLD_SIZE=\"4\"",
            ),
            (
                &[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
                "SLURM_PROCID=\"1\"",
            ),
            (&[("PMIX_RANK", "0")], "PMIX_RANK=\"0\""),
            // What `srun --mpi=pmix` sets.
            (
                &[
                    ("PMIX_RANK", "1"),
                    ("PMIX_NAMESPACE", "slurm.pmix.7.0"),
                    ("SLURM_MPI_TYPE", "pmix"),
                    ("SLURM_STEP_NUM_TASKS", "2"),
                ],
                "SLURM_MPI_TYPE=\"pmix\"",
            ),
        ];
        for (variables, shown) in broken {
            let error = with(variables).unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
            assert!(error.contains("srun --mpi=pmi2"), "{error}");
        }
    }
}
