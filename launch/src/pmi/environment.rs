//! What the environment says about a launcher that speaks PMI-1.

use std::ffi::OsString;

use crate::environment::EnvironmentError;

/// A launcher that speaks PMI-1, as its variables describe it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    pub(crate) fd: i32,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

const PMI: [&str; 4] = ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT"];

const USE_PMI: &str = "start the job with `transom run`, `mpiexec.hydra`, Open MPI's `mpirun`, `srun --mpi=pmi2` \
                       or `srun --mpi=pmix`, or unset these variables for a job of one rank";

/// Finds the launcher, if there is one.
pub(crate) fn detect(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Launcher>, EnvironmentError> {
    let broken = |problem| Err(EnvironmentError::new(problem, &PMI, &variable, USE_PMI));
    let set = |name: &str| variable(name).is_some();
    let number = |name: &str| -> Option<u32> { variable(name)?.to_str()?.parse().ok() };

    if !PMI.iter().any(|name| set(name)) {
        return Ok(None);
    }
    if !set("PMI_FD") {
        return broken("the launcher gives no socket in PMI_FD");
    }
    let Some(fd) = number("PMI_FD").and_then(|fd| i32::try_from(fd).ok()) else {
        return broken("PMI_FD is not a file descriptor");
    };
    match (number("PMI_RANK"), number("PMI_SIZE")) {
        (Some(rank), Some(size)) if rank < size => Ok(Some(Launcher { fd, rank, size })),
        (Some(_), Some(_)) => broken("PMI_RANK is not less than PMI_SIZE"),
        _ => broken("PMI_RANK and PMI_SIZE are not both numbers"),
    }
}

/// The error for a `PMI_FD` that is a number but not a socket.
pub(super) fn not_a_socket() -> EnvironmentError {
    EnvironmentError::new(
        "PMI_FD is not an open socket; this may be a child process of a rank, which inherits the \
         variables but not the connection",
        &PMI,
        |name| std::env::var_os(name),
        USE_PMI,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Option<Launcher>, EnvironmentError> {
        detect(|name| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(found.1.into())
        })
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
        ];
        for (variables, shown) in broken {
            let error = with(variables).unwrap_err().to_string();
            assert!(error.contains(shown), "{error}");
            assert!(error.contains("srun --mpi=pmi2"), "{error}");
        }
    }
}
