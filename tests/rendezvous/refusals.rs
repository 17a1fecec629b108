//! Ranks that do not meet: each error says who is at fault, and all that can hear of it do.

use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

use libtest_mimic::Trial;
use transom_testing::job::Job;
use transom_testing::launcher;

use crate::started::{Plan, failed};

pub(crate) fn trials() -> Vec<Trial> {
    let trials: [(&str, fn()); 14] = [
        ("a_port_that_is_taken", a_port_that_is_taken),
        ("an_address_of_another_host", an_address_of_another_host),
        ("another_secret", another_secret),
        ("a_rank_twice", a_rank_twice),
        ("another_size", another_size),
        ("ranks_that_never_come", ranks_that_never_come),
        ("a_rank_that_leaves", a_rank_that_leaves),
        ("rank_0_that_leaves", rank_0_that_leaves),
        ("a_rank_that_cannot_start", a_rank_that_cannot_start),
        ("a_name_of_no_host", a_name_of_no_host),
        ("nobody_listens", nobody_listens),
        ("another_program_listens", another_program_listens),
        (
            "launchers_that_cannot_be_used",
            launchers_that_cannot_be_used,
        ),
        ("ranks_of_a_launcher", ranks_of_a_launcher),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(format!("refusals/{name}"), move || {
            test();
            Ok(())
        })
    };
    trials.into_iter().map(trial).collect()
}

fn a_port_that_is_taken() {
    let plan = Plan::new("127.0.0.1", 2);
    let _taken = TcpListener::bind(("127.0.0.1", plan.port)).expect("a free port");
    failed(vec![(
        plan.rank(0, "ring"),
        &["rank 0 cannot listen at 127.0.0.1:", "another process"],
    )]);
}

fn an_address_of_another_host() {
    // Of those that are kept for documentation.
    let plan = Plan::new("203.0.113.7", 2).with("TRANSOM_JOB_SECRET", "correct horse");
    failed(vec![(
        plan.rank(0, "ring"),
        &[
            "rank 0 cannot listen at 203.0.113.7:",
            "no address of its host",
        ],
    )]);
}

fn another_secret() {
    let plan = Plan::new("127.0.0.1", 3).with("TRANSOM_JOB_SECRET", "correct horse");
    let one = plan.ready(1, "ring");
    let other = plan.with("TRANSOM_JOB_SECRET", "battery staple");
    let other = other.ready(2, "ring");
    let missing = [
        "rank 2 did not come",
        "says that it is rank 2, and has another TRANSOM_JOB_SECRET",
    ];
    failed(vec![
        (plan.briefly().rank(0, "ring"), &missing),
        (one, &missing),
        (other, &["has another TRANSOM_JOB_SECRET than this rank"]),
    ]);
}

fn a_rank_twice() {
    let plan = Plan::new("127.0.0.1", 3);
    let twice = ["two processes say that they are rank 1: at 127.0.0.1:"];
    failed(vec![
        (plan.rank(0, "ring"), &twice),
        (plan.rank(1, "ring"), &twice),
        (plan.rank(1, "ring"), &twice),
    ]);
}

fn another_size() {
    let plan = Plan::new("127.0.0.1", 3);
    let differs = ["rank 1 says that there are 4 ranks, rank 0 that there are 3"];
    failed(vec![
        (plan.rank(0, "ring"), &differs),
        (plan.with("TRANSOM_SIZE", "4").rank(1, "ring"), &differs),
    ]);
}

fn ranks_that_never_come() {
    let plan = Plan::new("127.0.0.1", 7);
    let missing = [
        "ranks 1, 4-6 did not come to 127.0.0.1:",
        "TRANSOM_START_TIMEOUT",
    ];
    let others = [2, 3].map(|rank| plan.ready(rank, "ring"));
    let mut jobs: Vec<(Job, &[&str])> = vec![(plan.briefly().rank(0, "ring"), &missing)];
    jobs.extend(others.map(|job| (job, &missing[..])));
    failed(jobs);
}

/// In the middle: it has met the others, and they wait for what it says.
fn a_rank_that_leaves() {
    let plan = Plan::new("127.0.0.1", 3);
    let mut leaves = plan.rank(2, "leave");
    let left = ["job start: rank 2 ended while the job started"];
    failed(vec![
        (plan.rank(0, "ring"), &left),
        (plan.rank(1, "ring"), &left),
    ]);
    assert!(leaves.wait().success());
}

fn rank_0_that_leaves() {
    let plan = Plan::new("127.0.0.1", 3);
    let mut leaves = plan.rank(0, "leave");
    let left = ["job start: rank 0 ended while the job started"];
    failed(vec![
        (plan.rank(1, "ring"), &left),
        (plan.rank(2, "ring"), &left),
    ]);
    assert!(leaves.wait().success());
}

fn a_rank_that_cannot_start() {
    let plan = Plan::new("127.0.0.1", 3).with("TRANSOM_DEVICE", "soft");
    let told = ["rank 1", "nonsense"];
    failed(vec![
        (plan.rank(0, "ring"), &told),
        (
            plan.with("TRANSOM_DEVICE", "nonsense").rank(1, "ring"),
            &["nonsense"],
        ),
        (plan.rank(2, "ring"), &told),
    ]);
}

fn a_name_of_no_host() {
    // A name that is kept for those of nobody.
    let plan = Plan::new("no-such-host.invalid", 2).with("TRANSOM_JOB_SECRET", "correct horse");
    let plan = plan.with("TRANSOM_START_TIMEOUT", "1");
    failed(vec![(
        plan.rank(1, "ring"),
        &["host name", "no-such-host.invalid:", "was not found"],
    )]);
}

fn nobody_listens() {
    let plan = Plan::new("127.0.0.1", 2).with("TRANSOM_START_TIMEOUT", "1");
    failed(vec![(
        plan.rank(1, "ring"),
        &["rank 0 was not met at 127.0.0.1:", "Connection refused"],
    )]);
}

fn another_program_listens() {
    let plan = Plan::new("127.0.0.1", 2);
    let listener = TcpListener::bind(("127.0.0.1", plan.port)).expect("a free port");
    let rank = plan.rank(1, "ring");
    let answers = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a rank");
        stream.write_all(b"SSH-2.0-OpenSSH_9.2").expect("a rank");
        // It stays until the rank has heard.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    failed(vec![(rank, &["is no rank 0 of a transom job", "SSH-2.0"])]);
    answers.join().expect("an end");
}

fn launchers_that_cannot_be_used() {
    let plan = Plan::new("127.0.0.1", 2)
        .without("TRANSOM_RENDEZVOUS")
        .without("TRANSOM_SIZE");
    let with = |variables: &[(&str, &str)]| {
        let set = |plan: Plan, (name, value): &(&str, &str)| plan.with(name, value);
        variables.iter().fold(plan.clone(), set).process("start")
    };
    failed(vec![
        (
            with(&[("RANK", "1"), ("WORLD_SIZE", "4")]),
            &["WORLD_SIZE=\"4\"", "TRANSOM_RENDEZVOUS"],
        ),
        (
            with(&[("JOB_COMPLETION_INDEX", "1")]),
            &["JOB_COMPLETION_INDEX=\"1\"", "no TRANSOM_SIZE"],
        ),
        (
            with(&[("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "4")]),
            &["FLUX_JOB_SIZE=\"4\""],
        ),
        (
            with(&[("MV2_COMM_WORLD_SIZE", "4")]),
            &["MV2_COMM_WORLD_SIZE=\"4\""],
        ),
        (
            with(&[("PALS_RANKID", "1")]),
            &["PALS_RANKID=\"1\"", "no PALS_NRANKS"],
        ),
        (
            with(&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "7")]),
            &["PMIX_NAMESPACE=\"7\"", "PMIx"],
        ),
        (
            with(&[
                ("TRANSOM_RANK", "0"),
                ("TRANSOM_SIZE", "2"),
                ("TRANSOM_RENDEZVOUS", "10.0.0.1:80"),
            ]),
            &["no TRANSOM_JOB_SECRET"],
        ),
    ]);
}

/// Whoever starts ranks in a place where this one is told who it is tells its own ranks something else.
fn ranks_of_a_launcher() {
    let mut command = launcher::command(2, &[]);
    let plan = [
        ("TRANSOM_RANK", "1"),
        ("TRANSOM_SIZE", "7"),
        ("TRANSOM_RENDEZVOUS", "127.0.0.1:9"),
    ];
    command.arg("env").envs(plan);
    let done = transom_testing::job::run(&mut command).expect(0);
    assert!(done.text().contains("PMI_RANK=1"), "{}", done.text());
    for (name, _) in plan {
        assert!(!done.text().contains(name), "{}", done.text());
    }
}
