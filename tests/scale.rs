//! `examples/scale`, the real program under the real launcher: each step is reported, over every device.

use transom_testing::launcher;
use transom_testing::programs::{printed, program};

transom_testing::tests! {
    every_step_is_reported,
    a_death_ends_the_job,
}

const STEPS: [&str; 15] = [
    "memory of a rank after start",
    "allocate and free a window",
    "barrier",
    "allreduce",
    "allgather",
    "fence",
    "lock_all, unlock_all",
    "post, start, complete, wait, 4 neighbours",
    "memory of a rank after these",
    "3 first contacts of each rank",
    "the same again",
    "memory of a rank after these",
    "allocate 2 windows of 100 bytes",
    "memory of a rank after these",
    "free 2 windows of 100 bytes",
];

fn every_step_is_reported() {
    for (device, ranks) in [
        ("soft", 7),
        ("soft:adversarial", 4),
        ("tcp", 4),
        ("soft", 1),
    ] {
        let mut command = launcher::command(ranks, &[]);
        command
            .env("TRANSOM_DEVICE", device)
            .arg(program("scale"))
            .args(["--repeat", "2", "--contacts", "3"])
            .args(["--windows", "2", "--bytes", "100"]);
        let said = printed(&mut command);
        let contacts = format!("{} first contacts of each rank", 3.min(ranks - 1));
        for (line, step) in said.lines().zip(STEPS) {
            let step = if step.starts_with('3') {
                &contacts
            } else {
                step
            };
            let number = line
                .strip_prefix(step)
                .and_then(|rest| rest.strip_prefix(": "));
            let number = number.and_then(|rest| rest.split_once(' '));
            let value: Option<f64> = number.and_then(|(value, _)| value.parse().ok());
            assert!(
                value.is_some_and(|value| value >= 0.0),
                "{device}: {step}: {line}"
            );
        }
        assert_eq!(said.lines().count(), STEPS.len(), "{device}: {said}");
    }
}

fn a_death_ends_the_job() {
    let mut command = launcher::command(4, &[]);
    let command = command
        .arg(program("scale"))
        .args(["--repeat", "1", "--kill", "2"]);
    let output = command.output().expect("the launcher starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(
        said.contains("rank 2") && said.contains("SIGKILL"),
        "{said}"
    );
}
