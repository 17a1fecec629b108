//! What is detected in various environments.

use super::*;

type Variables<'a> = &'a [(&'a str, &'a str)];

fn with(variables: Variables<'_>) -> Result<Starter, EnvironmentError> {
    detect(|name| {
        let found = variables.iter().find(|(key, _)| *key == name)?;
        Some(found.1.into())
    })
}

fn pmi(rank: u32, size: u32) -> Starter {
    Starter::Pmi(Launcher { fd: 7, rank, size })
}

fn meeting(rank: u32, size: u32, address: &str, secret: &str) -> Starter {
    Starter::Rendezvous(Member {
        rank,
        size,
        address: Address::parse(address).unwrap(),
        secret: Secret::new(secret),
        limited_by: START_TIMEOUT,
    })
}

#[test]
fn starters_are_known_by_their_variables() {
    const LAUNCHER: [(&str, &str); 3] = [("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "3")];
    const TOLD: [(&str, &str); 3] = [
        ("TRANSOM_RANK", "1"),
        ("TRANSOM_SIZE", "4"),
        ("TRANSOM_RENDEZVOUS", "localhost:4711"),
    ];
    const TORCHRUN: [(&str, &str); 5] = [
        ("TORCHELASTIC_RUN_ID", "none"),
        ("RANK", "3"),
        ("WORLD_SIZE", "8"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];
    const SECRET: (&str, &str) = ("TRANSOM_JOB_SECRET", "xyz");
    let and = |first: Variables<'static>, more: Variables<'static>| [first, more].concat();
    let cases = [
        (vec![], Starter::Alone),
        // A batch script, and ranks that are the only one of their job.
        (
            vec![("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")],
            Starter::Alone,
        ),
        (
            vec![("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
            Starter::Alone,
        ),
        (vec![("RANK", "0"), ("WORLD_SIZE", "1")], Starter::Alone),
        (
            vec![("FLUX_TASK_RANK", "0"), ("FLUX_JOB_SIZE", "1")],
            Starter::Alone,
        ),
        (vec![("MV2_COMM_WORLD_SIZE", "1")], Starter::Alone),
        (vec![("TRANSOM_SIZE", "1")], Starter::Alone),
        (
            vec![("TRANSOM_SIZE", "1"), ("JOB_COMPLETION_INDEX", "3")],
            Starter::Alone,
        ),
        (
            vec![("TRANSOM_SIZE", "1"), ("OMPI_COMM_WORLD_SIZE", "4")],
            Starter::Alone,
        ),
        (vec![SECRET], Starter::Alone),
        (LAUNCHER.to_vec(), pmi(2, 3)),
        // A launcher inside a container whose environment has more variables, or the same.
        (
            and(&LAUNCHER, &[("TRANSOM_RENDEZVOUS", "10.0.0.1:4711")]),
            pmi(2, 3),
        ),
        (
            and(&LAUNCHER, &[("TRANSOM_RANK", "2"), ("TRANSOM_SIZE", "3")]),
            pmi(2, 3),
        ),
        (and(&LAUNCHER, &TORCHRUN), pmi(2, 3)),
        (and(&LAUNCHER, &[("FLUX_JOB_SIZE", "3")]), pmi(2, 3)),
        (and(&LAUNCHER, &[("PMIX_RANK", "2")]), pmi(2, 3)),
        (TOLD.to_vec(), meeting(1, 4, "localhost:4711", "")),
        (
            and(&TOLD, &[SECRET]),
            meeting(1, 4, "localhost:4711", "xyz"),
        ),
        // Transom's own variables come before launchers that cannot be used.
        (
            and(&TOLD, &[("PMI_RANK", "0"), ("PMI_SIZE", "9")]),
            meeting(1, 4, "localhost:4711", ""),
        ),
        (
            and(&TOLD, &[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "9")]),
            meeting(1, 4, "localhost:4711", ""),
        ),
        (and(&TOLD, &TORCHRUN), meeting(1, 4, "localhost:4711", "")),
        (TORCHRUN.to_vec(), meeting(3, 8, "127.0.0.1:29501", "")),
        (
            and(
                &TORCHRUN,
                &[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "2")],
            ),
            meeting(3, 8, "127.0.0.1:29501", ""),
        ),
        (
            and(&[("TRANSOM_RENDEZVOUS", "[::1]:99")], &TORCHRUN),
            meeting(3, 8, "[::1]:99", ""),
        ),
        (
            vec![
                ("TORCHELASTIC_RUN_ID", "7"),
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
                ("MASTER_ADDR", "2001:db8::1"),
                ("MASTER_PORT", "65535"),
                SECRET,
            ],
            meeting(0, 2, "[2001:db8::1]:65534", "xyz"),
        ),
        (
            vec![
                ("JOB_COMPLETION_INDEX", "2"),
                ("TRANSOM_SIZE", "5"),
                ("TRANSOM_RENDEZVOUS", "solver-0.pods:4711"),
                SECRET,
            ],
            meeting(2, 5, "solver-0.pods:4711", "xyz"),
        ),
        (
            vec![
                ("FLUX_TASK_RANK", "1"),
                ("FLUX_JOB_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "127.0.0.1:4711"),
            ],
            meeting(1, 2, "127.0.0.1:4711", ""),
        ),
        (
            vec![
                ("RANK", "1"),
                ("WORLD_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "127.0.0.1:4711"),
            ],
            meeting(1, 2, "127.0.0.1:4711", ""),
        ),
        (
            vec![("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "slurm.pmix.7.0")],
            Starter::Pmix,
        ),
        (
            vec![
                ("PMIX_RANK", "1"),
                ("PMIX_NAMESPACE", "7"),
                ("OMPI_COMM_WORLD_SIZE", "2"),
            ],
            Starter::Pmix,
        ),
        // mpirun in a step of one task.
        (
            vec![
                ("PMIX_RANK", "1"),
                ("PMIX_NAMESPACE", "7"),
                ("OMPI_COMM_WORLD_SIZE", "2"),
                ("SLURM_STEP_NUM_TASKS", "1"),
            ],
            Starter::Pmix,
        ),
        (
            vec![("JSM_NAMESPACE_RANK", "0"), ("JSM_NAMESPACE_SIZE", "1")],
            Starter::Alone,
        ),
        (
            vec![("PALS_RANKID", "0"), ("PALS_NRANKS", "1")],
            Starter::Alone,
        ),
        (
            vec![("TORCHELASTIC_RUN_ID", "none"), ("WORLD_SIZE", "1")],
            Starter::Alone,
        ),
        // Many programs use these variables: only together do they say something.
        (vec![("RANK", "major")], Starter::Alone),
        (vec![("WORLD_SIZE", "large")], Starter::Alone),
    ];
    for (variables, expected) in cases {
        let found = with(&variables);
        assert_eq!(found.unwrap(), expected, "{variables:?}");
    }
}

#[test]
fn what_cannot_be_used_is_an_error_that_shows_it() {
    let cases: &[(Variables<'_>, &[&str])] = &[
        (
            &[("OMPI_COMM_WORLD_SIZE", "4")],
            &["OMPI_COMM_WORLD_SIZE=\"4\"", "srun --mpi=pmi2"],
        ),
        (
            &[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")],
            &["SLURM_PROCID=\"1\"", "srun --mpi=pmi2"],
        ),
        (
            &[("MV2_COMM_WORLD_SIZE", "2")],
            &["MV2_COMM_WORLD_SIZE=\"2\"", "TRANSOM_RENDEZVOUS"],
        ),
        (
            &[("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "2")],
            &["FLUX_JOB_SIZE=\"2\"", "no PMI_FD", "pmi=simple"],
        ),
        (
            &[("RANK", "1"), ("WORLD_SIZE", "2")],
            &[
                "RANK=\"1\"",
                "WORLD_SIZE=\"2\"",
                "no TORCHELASTIC_RUN_ID",
                "TRANSOM_SIZE=1",
            ],
        ),
        (
            &[
                ("RANK", "1"),
                ("WORLD_SIZE", "2"),
                ("MASTER_ADDR", "localhost"),
                ("MASTER_PORT", "1"),
            ],
            &["MASTER_ADDR=\"localhost\"", "TRANSOM_RENDEZVOUS"],
        ),
        (
            &[("JOB_COMPLETION_INDEX", "0")],
            &[
                "JOB_COMPLETION_INDEX=\"0\"",
                "no TRANSOM_SIZE",
                "TRANSOM_SIZE=1",
            ],
        ),
        (
            &[("JOB_COMPLETION_INDEX", "0"), ("TRANSOM_SIZE", "4")],
            &["no TRANSOM_RENDEZVOUS", "where the ranks meet"],
        ),
        (&[("TRANSOM_RANK", "0")], &["no TRANSOM_SIZE"]),
        (&[("TRANSOM_SIZE", "2")], &["no TRANSOM_RANK"]),
        (
            &[("TRANSOM_RENDEZVOUS", "127.0.0.1:80")],
            &["no TRANSOM_RANK", "no TRANSOM_SIZE"],
        ),
        (
            &[("TRANSOM_RANK", "0"), ("TRANSOM_SIZE", "2")],
            &["no TRANSOM_RENDEZVOUS"],
        ),
        (
            &[("TRANSOM_RANK", "x"), ("TRANSOM_SIZE", "1")],
            &["TRANSOM_RANK=\"x\"", "no whole number"],
        ),
        (
            &[("TRANSOM_RANK", "0"), ("TRANSOM_SIZE", "-2")],
            &["TRANSOM_SIZE=\"-2\"", "no whole number"],
        ),
        (
            &[
                ("TRANSOM_RANK", "2"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "127.0.0.1:80"),
            ],
            &[
                "TRANSOM_RANK=\"2\"",
                "rank 2 is not below the number of ranks, 2",
            ],
        ),
        (
            &[("TRANSOM_RANK", "5"), ("TRANSOM_SIZE", "2")],
            &["rank 5 is not below the number of ranks, 2", "from 0"],
        ),
        (
            &[
                ("TRANSOM_RANK", "2"),
                ("TRANSOM_SIZE", "4000000000"),
                ("TRANSOM_RENDEZVOUS", "127.0.0.1:80"),
            ],
            &["4000000000 ranks are too many", "65536 are the most"],
        ),
        (
            &[
                ("TRANSOM_RANK", "0"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "::1:80"),
            ],
            &["in brackets", "TRANSOM_RENDEZVOUS=\"::1:80\""],
        ),
        (
            &[
                ("TRANSOM_RANK", "0"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "node-7:80"),
            ],
            &["no TRANSOM_JOB_SECRET", "TRANSOM_RENDEZVOUS=\"node-7:80\""],
        ),
        (
            &[
                ("TRANSOM_RANK", "0"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "localhost:80"),
                ("TRANSOM_JOB_SECRET", ""),
            ],
            &["secret is empty"],
        ),
        (
            &[
                ("PMI_FD", "7"),
                ("PMI_RANK", "0"),
                ("PMI_SIZE", "2"),
                ("TRANSOM_RANK", "1"),
            ],
            &["TRANSOM_RANK=\"1\"", "PMI_RANK=\"0\""],
        ),
        (
            &[
                ("TORCHELASTIC_RUN_ID", "none"),
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
            ],
            &["no MASTER_ADDR", "torchrun"],
        ),
        (
            &[
                ("TORCHELASTIC_RUN_ID", "none"),
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
                ("MASTER_ADDR", "node-7"),
                ("MASTER_PORT", "29500"),
            ],
            &["MASTER_ADDR=\"node-7\"", "no TRANSOM_JOB_SECRET"],
        ),
        // Incomplete variables of Transom do not hide a launcher that cannot be used.
        (
            &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("TRANSOM_RANK", "0")],
            &["no PMI_FD"],
        ),
    ];
    for (variables, shown) in cases {
        let error = with(variables).unwrap_err().to_string();
        for part in *shown {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

#[test]
fn a_secret_is_in_no_error() {
    let variables = [
        ("TRANSOM_RANK", "0"),
        ("TRANSOM_RENDEZVOUS", "nowhere"),
        ("TRANSOM_JOB_SECRET", "correct horse"),
    ];
    let error = with(&variables).unwrap_err().to_string();
    assert!(!error.contains("correct horse"), "{error}");
}

#[test]
fn half_of_pmix_is_an_error_unless_the_process_is_the_only_one() {
    for half in ["PMIX_RANK", "PMIX_NAMESPACE"] {
        let error = with(&[(half, "1")]).unwrap_err().to_string();
        for part in [&format!("{half}=\"1\""), "no PMIX_", "srun --mpi=pmi2"] {
            assert!(error.contains(part), "{error}");
        }
        let only = with(&[(half, "0"), ("OMPI_COMM_WORLD_SIZE", "1")]);
        assert_eq!(only.unwrap(), Starter::Alone);
    }
}

/// Each of several jobs of one rank would report success.
#[test]
fn half_of_what_a_launcher_says_makes_no_job_of_one() {
    let cases: &[(Variables<'_>, &[&str])] = &[
        (
            &[("RANK", "0"), ("WORLD_SIZE", "abc")],
            &["RANK=\"0\"", "WORLD_SIZE=\"abc\""],
        ),
        (&[("RANK", "0"), ("WORLD_SIZE", "0")], &["WORLD_SIZE=\"0\""]),
        (
            &[("TORCHELASTIC_RUN_ID", "none"), ("WORLD_SIZE", "2")],
            &["no RANK", "WORLD_SIZE=\"2\""],
        ),
        (
            &[("TORCHELASTIC_RUN_ID", "none"), ("RANK", "1")],
            &["RANK=\"1\"", "no WORLD_SIZE"],
        ),
        (
            &[("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "abc")],
            &["FLUX_TASK_RANK=\"1\"", "FLUX_JOB_SIZE=\"abc\""],
        ),
        (
            &[("FLUX_TASK_RANK", "1")],
            &["FLUX_TASK_RANK=\"1\"", "no FLUX_JOB_SIZE"],
        ),
        (
            &[("SLURM_STEP_NUM_TASKS", "x")],
            &["SLURM_STEP_NUM_TASKS=\"x\"", "srun --mpi=pmix"],
        ),
        (
            &[("MV2_COMM_WORLD_SIZE", "x")],
            &["MV2_COMM_WORLD_SIZE=\"x\"", "mpirun"],
        ),
        (
            &[("MV2_COMM_WORLD_RANK", "1")],
            &["MV2_COMM_WORLD_RANK=\"1\"", "no MV2_COMM_WORLD_SIZE"],
        ),
        (
            &[("OMPI_COMM_WORLD_RANK", "1")],
            &["OMPI_COMM_WORLD_RANK=\"1\"", "no OMPI_COMM_WORLD_SIZE"],
        ),
        (
            &[("PALS_RANKID", "3"), ("PALS_NRANKS", "4")],
            &["PALS_RANKID=\"3\"", "PALS_NRANKS=\"4\""],
        ),
        (
            &[("PALS_RANKID", "0")],
            &["PALS_RANKID=\"0\"", "no PALS_NRANKS"],
        ),
        (
            &[("JSM_NAMESPACE_RANK", "1"), ("JSM_NAMESPACE_SIZE", "2")],
            &["JSM_NAMESPACE_RANK=\"1\"", "JSM_NAMESPACE_SIZE=\"2\""],
        ),
        (
            &[("JSM_NAMESPACE_SIZE", "2 nodes")],
            &["no JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE=\"2 nodes\""],
        ),
        // A launcher that says that there is one rank does not hide one that says that there are more.
        (
            &[
                ("SLURM_STEP_NUM_TASKS", "1"),
                ("OMPI_COMM_WORLD_SIZE", "2"),
                ("PMIX_RANK", "0"),
            ],
            &["OMPI_COMM_WORLD_SIZE=\"2\"", "no PMIX_NAMESPACE"],
        ),
    ];
    for (variables, shown) in cases {
        let error = match with(variables) {
            Err(error) => error.to_string(),
            Ok(starter) => panic!("{variables:?}: {starter:?}"),
        };
        for part in *shown {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
        assert!(error.contains("TRANSOM_SIZE=1"), "{error}");
    }
}
