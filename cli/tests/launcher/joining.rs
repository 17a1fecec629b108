//! PMI over real sockets: our client under `transom run` and under Hydra, and a foreign
//! client under `transom run`.

use std::process::Command;

use libtest_mimic::Trial;
use transom_testing::environment;
use transom_testing::job::{Done, Job, playing, quiet, read_lines, run, until};

use crate::{role, transom_run, trials};

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = trials!["joining":
        ranks_exchange_values,
        a_foreign_client_is_served,
        an_abort_ends_the_job,
        an_abort_ends_the_job_though_others_may_run_on,
        a_rank_that_leaves_early_ends_the_job,
        a_rank_that_leaves_early_is_named_to_the_others,
        a_rank_that_never_joins_ends_the_job,
        children_of_ranks_are_not_ranks,
        variables_that_contradict_the_launcher_are_an_error,
        without_a_launcher_a_process_is_alone,
        values_that_mean_nothing_are_told,
        ranks_are_told_their_launcher_and_device,
        ranks_start_though_their_launcher_names_no_nodes,
    ];
    let under_hydra = trials!["joining":
        hydra_is_spoken,
        hydra_obeys_an_abort,
        under_hydra_a_rank_that_never_joins_is_missed,
        under_hydra_ranks_do_not_wait_without_their_launcher,
    ];
    let missing = environment::hydra().is_none();
    // Shown as ignored; `--include-ignored` without the variable makes them fail, and say why.
    tests.extend(
        under_hydra
            .into_iter()
            .map(|test| test.with_ignored_flag(missing)),
    );
    tests
}

#[track_caller]
fn check_exchange(done: Done, ranks: u32) {
    let done = done.expect(0);
    let mut expected: Vec<_> = (0..ranks)
        .map(|rank| format!("rank {rank} of {ranks}, hosts: one"))
        .collect();
    expected.sort_unstable();
    assert_eq!(done.sorted(), expected, "{}", done.stderr);
}

fn ranks_exchange_values() {
    for ranks in [1, 2, 13] {
        check_exchange(run(&mut role(ranks, &[], "exchange")), ranks);
    }
}

fn a_foreign_client_is_served() {
    let script = r#"
        ask() { printf '%s\n' "$1" >&$PMI_FD; read -r reply <&$PMI_FD; echo "$PMI_RANK: $reply"; }
        ask "cmd=init pmi_version=1 pmi_subversion=1"
        ask "cmd=get_maxes"
        ask "cmd=get_appnum"
        ask "cmd=get_universe_size"
        ask "cmd=put kvsname=$PMI_JOBID key=key$PMI_RANK value=value$PMI_RANK"
        ask "cmd=barrier_in"
        ask "cmd=get kvsname=$PMI_JOBID key=key$((1 - PMI_RANK))"
        ask "cmd=get kvsname=$PMI_JOBID key=nobody"
        ask "cmd=publish_name service=x"
        ask "nonsense"
        ask "cmd=finalize"
    "#;
    let done = run(&mut transom_run(&["-n", "2", "bash", "-c", script])).expect(0);
    for rank in 0..2 {
        let label = format!("{rank}: ");
        let replies = done
            .text()
            .lines()
            .filter_map(|line| line.strip_prefix(&label));
        let got = format!("cmd=get_result rc=0 value=value{}", 1 - rank);
        let expected = [
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024 transom_vallen_max=32768",
            "cmd=appnum rc=0 appnum=0",
            "cmd=universe_size rc=0 size=2",
            "cmd=put_result rc=0",
            "cmd=barrier_out rc=0",
            &got,
            "cmd=get_result rc=-1 msg=key_not_found",
            "cmd=publish_name_result rc=-1 msg=unknown_command",
            "cmd=error rc=-1 msg=malformed_request",
            "cmd=finalize_ack rc=0",
        ];
        assert_eq!(replies.collect::<Vec<_>>(), expected);
    }
}

fn an_abort_ends_the_job() {
    run(&mut role(3, &[], "abort"))
        .expect(9)
        .says("transom run: rank 1 (pid ")
        .says(") called abort with code 9: the residual is NaN\n");
}

fn an_abort_ends_the_job_though_others_may_run_on() {
    run(&mut role(3, &["--keep-going"], "abort"))
        .expect(9)
        .says("called abort with code 9");
}

fn a_rank_that_leaves_early_ends_the_job() {
    let done = run(&mut role(3, &[], "leave")).expect(1);
    assert_eq!(done.text(), "");
    done.says("rank 1 (pid ")
        .says("exited with code 0, but other ranks still needed it");
}

fn a_rank_that_leaves_early_is_named_to_the_others() {
    let done = run(&mut role(3, &["--keep-going"], "leave")).expect(1);
    for (rank, line) in [0, 2].into_iter().zip(done.sorted()) {
        let expected =
            format!("rank {rank}: the launcher refused barrier: rank_1_has_left_the_job");
        assert_eq!(line, expected);
    }
    assert_eq!(done.sorted().len(), 2);
}

fn a_rank_that_never_joins_ends_the_job() {
    run(&mut role(3, &[], "leave-before-joining"))
        .expect(1)
        .says("rank 1 (pid ");
}

fn children_of_ranks_are_not_ranks() {
    let done = run(&mut role(2, &[], "child")).expect(0);
    assert_eq!(done.text().lines().count(), 2);
    for line in done.text().lines() {
        assert!(line.starts_with("PMI_FD is not an open socket"), "{line}");
        assert!(
            line.contains("PMI_FD=\"") && line.contains("srun --mpi=pmi2"),
            "{line}"
        );
    }
}

/// What this binary makes of an environment without a launcher, or half of one.
fn reported(variables: &[(&str, &str)]) -> String {
    let done = run(&mut without_launcher("grandchild", variables)).expect(0);
    done.text().trim_end().to_owned()
}

fn without_launcher(role: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = playing(quiet("env"), role);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["PMI", "SLURM", "OMPI"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(&*name);
        }
    }
    command.envs(variables.iter().copied());
    command
}

fn values_that_mean_nothing_are_told() {
    for (name, value, is_error) in [
        ("TRANSOM_DEVICE", "sofft", true),
        ("TRANSOM_NEIGHBOURS", "no", true),
        ("TRANSOM_CONTROL_BYTES", "64k", true),
        ("TRANSOM_LAUNCHER_PID", "launcher", true),
        ("TRANSOM_LOG", "loud", false),
        ("TRANSOM_REPORT", "maybe", false),
        ("TRANSOM_WAIT_WARNING", "soon", false),
    ] {
        let started = |value| {
            let mut command =
                without_launcher("init", &[("TRANSOM_DEVICE", "soft"), (name, value)]);
            let done = run(&mut command).expect(0);
            (done.text().to_owned(), done.stderr)
        };
        let (error, complaint) = started(value);
        let told = if is_error { &error } else { &complaint };
        assert!(
            told.contains(name) || told.contains(value),
            "{name}: {error}{complaint}"
        );
        assert_eq!(error.is_empty(), !is_error, "{name}: {error}");
        assert_eq!(started(""), (String::new(), String::new()), "{name}");
    }
}

fn variables_that_contradict_the_launcher_are_an_error() {
    for (name, value) in [
        ("TRANSOM_SIZE", "3"),
        ("TRANSOM_SIZE", "1"),
        ("TRANSOM_RANK", "7"),
    ] {
        let done = run(role(2, &["--keep-going"], "init").env(name, value)).expect(0);
        for part in [
            "the launcher says something else",
            &format!("{name}={value:?}"),
        ] {
            assert!(done.text().contains(part), "{}", done.text());
        }
    }
    let agrees = run(role(2, &[], "init").env("TRANSOM_SIZE", "2")).expect(0);
    assert_eq!(agrees.text(), "");
    // A rank of another job may start one.
    let mut nested = role(2, &[], "init");
    nested.env("TRANSOM_RANK", "1").env("TRANSOM_SIZE", "5");
    nested.env("TRANSOM_RENDEZVOUS", "localhost:1");
    assert_eq!(run(&mut nested).expect(0).text(), "");
}

fn without_a_launcher_a_process_is_alone() {
    assert_eq!(reported(&[]), "alone");
    let half = reported(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]);
    assert!(
        half.contains("no PMI_FD") && half.contains("PMI_SIZE=\"4\""),
        "{half}"
    );
    // Open, but no socket: standard input.
    let file = reported(&[("PMI_FD", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]);
    assert!(file.contains("not an open socket"), "{file}");
}

fn ranks_are_told_their_launcher_and_device() {
    let script = "echo $TRANSOM_DEVICE $PPID; kill -0 $TRANSOM_LAUNCHER_PID \
                  && test $PPID = $TRANSOM_LAUNCHER_PID";
    let args = ["-n", "1", "--device", "some device", "sh", "-c", script];
    let done = run(&mut transom_run(&args)).expect(0);
    assert!(done.text().starts_with("some device "), "{}", done.text());
}

fn ranks_start_though_their_launcher_names_no_nodes() {
    let done = run(&mut role(3, &[], "unmapped")).expect(0);
    assert_eq!(
        done.sorted(),
        ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"],
        "{}",
        done.stderr
    );
}

fn hydra(ranks: u32, role: &str) -> Done {
    run(&mut hydra_command(ranks, role))
}

fn hydra_command(ranks: u32, role: &str) -> Command {
    let launcher = environment::hydra().expect("TRANSOM_TEST_HYDRA, Hydra's mpiexec");
    let mut command = quiet(launcher);
    command.args(["-n", &ranks.to_string()]);
    playing(command, role)
}

fn hydra_is_spoken() {
    for ranks in [1, 2, 5] {
        check_exchange(hydra(ranks, "exchange"), ranks);
    }
}

fn hydra_obeys_an_abort() {
    hydra(3, "abort").expect(9);
}

fn under_hydra_a_rank_that_never_joins_is_missed() {
    let done = hydra(3, "leave-before-joining");
    assert!(!done.status.success());
    done.says("a rank on this node ended before it joined the job");
    // Nobody knows with which code.
    let done = hydra(3, "fail-before-joining");
    assert!(!done.status.success());
    assert!(!done.stderr.contains("exit code 0"), "{}", done.stderr);
}

fn under_hydra_ranks_do_not_wait_without_their_launcher() {
    let mut job = Job::start(&mut hydra_command(3, "wait"));
    let mut stdout = job.child.stdout.take().unwrap();
    read_lines(&mut stdout, 3);
    let is_proxy = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim_end() == "hydra_pmi_proxy")
    };
    let proxy = job.processes().into_iter().find(is_proxy).expect("a proxy");
    // SAFETY: kill takes two integers; the process bears the mark of this job.
    unsafe { libc::kill(proxy.cast_signed(), libc::SIGKILL) };
    until("no rank waits", || job.processes().is_empty());
    job.wait();
}
