//! `examples/transpose`, the real program under the real launcher. It checks its own result.

use std::path::Path;
use std::process::Command;

use transom_testing::launcher;
use transom_testing::programs::{endings, printed, program};

transom_testing::tests! {
    the_classic_on_any_number_of_ranks,
    matrices_of_all_shapes,
    it_starts_its_ranks_as_it_is_told,
    every_way_of_the_soft_device,
    the_types_are_shown,
    what_cannot_be_done_is_said_once,
}

/// The program on these ranks, for a matrix of this size.
fn transpose(ranks: u32, rows: u32, columns: u32) -> Command {
    let mut command = launcher::command(ranks, &[]);
    command
        .arg(program("transpose"))
        .args(["--rows", &rows.to_string()])
        .args(["--columns", &columns.to_string()]);
    command
}

fn check(command: &mut Command, values: u32) {
    let said = printed(command);
    let right = format!("rank 1: all {values} values are right");
    assert!(said.starts_with(&right), "{command:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
}

fn the_classic_on_any_number_of_ranks() {
    for ranks in [2, 3, 5, 8] {
        let mut command = launcher::command(ranks, &[]);
        check(command.arg(program("transpose")), 10_000);
    }
}

fn matrices_of_all_shapes() {
    for (rows, columns) in [(1, 1), (1, 500), (500, 1), (2, 3), (37, 101), (700, 300)] {
        check(&mut transpose(2, rows, columns), rows * columns);
    }
}

fn it_starts_its_ranks_as_it_is_told() {
    for ranks in [&["-n", "3"][..], &["-np", "3"], &["-np3"], &["-np=3"]] {
        check(Command::new(program("transpose")).args(ranks), 10_000);
    }
}

fn every_way_of_the_soft_device() {
    for device in [
        "soft:map=off",
        "soft:cma=off",
        "soft:map=off,cma=off",
        "soft:adversarial,seed=1,delay=20",
        "soft:adversarial,seed=2,delay=20",
    ] {
        for (rows, columns) in [(12, 30), (1, 9)] {
            let mut command = transpose(3, rows, columns);
            check(command.env("TRANSOM_DEVICE", device), rows * columns);
        }
    }
}

fn the_types_are_shown() {
    let said = printed(transpose(2, 3, 5).arg("--verbose"));
    assert!(said.contains("at the origin: 15 × [i32]"), "{said}");
    assert!(said.contains("hvector"), "{said}");
}

fn what_cannot_be_done_is_said_once() {
    let alone = endings(1, &program("transpose"), &[]);
    assert_eq!(alone.text(), "ended 1\n");
    let remedy = "2 ranks are needed: start it with -n 2, or by `transom run -n 2`";
    assert!(alone.stderr.contains(remedy), "{}", alone.stderr);
    let large = ["--rows=100000", "--columns=100000"].map(Path::new);
    let done = endings(3, &program("transpose"), &large);
    assert_eq!(done.text(), "ended 1\n".repeat(3));
    assert!(done.stderr.contains("too many"), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    let done = endings(3, &program("transpose"), &[Path::new("--rows=0")]);
    assert_eq!(done.text(), "ended 2\n".repeat(3));
    assert_eq!(done.stderr.matches("error:").count(), 1, "{}", done.stderr);
}
