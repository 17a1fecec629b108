//! The example `model`, also with what the example `scale` has measured.

use std::fs;
use std::process::Command;

use transom_testing::launcher;
use transom_testing::programs::{Folder, printed, program};

transom_testing::tests! {
    a_large_job_is_gone_through_in_one_process,
    times_are_fitted_and_predicted,
    the_model_reads_what_was_measured,
}

fn model(args: &[&str]) -> String {
    printed(Command::new(program("model")).args(args))
}

#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    let mut command = Command::new(program("model"));
    let output = command.args(args).output().expect("the example runs");
    let error = String::from_utf8(output.stderr).expect("a text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

fn a_large_job_is_gone_through_in_one_process() {
    let calls = ["--per-host", "4", "--call", "fence,pscw,create"];
    let out = model(&[&["-n", "8,100000"][..], &calls].concat());
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 7, "{out}");
    // A leader hears of three ranks, tells the other one, and releases two.
    assert_eq!(rows[1][..3], ["8", "2", "fence"]);
    assert_eq!(rows[1][5..], ["3", "2"], "{out}");
    assert_eq!(rows[5][..3], ["100000", "25000", "pscw"]);
    assert_eq!(rows[5][5], "8", "{out}");

    let out = model(&["--table", "-n", "1000,1000000"]);
    assert!(out.contains("1000 RANKS  1000000 RANKS"), "{out}");
    refused(&["-n", "0"], &["'0'", "--ranks"]);
    refused(&["--latency=-1"], &["--latency", "0 to 1000000000"]);
    refused(&["--call", "fense"], &["'fence'"]);
}

fn times_are_fitted_and_predicted() {
    let folder = Folder::new();
    let times = b"# call ranks per_host ns\nfence 4 4 1000\n\nfence 16 16 1900\nfence 64 64 3100\n";
    let file = folder.file("times", times);
    let file = file.to_str().expect("a text");
    let picture = folder.0.path().join("times.svg");
    let to = ["--plot", picture.to_str().expect("a text")];
    let out = model(&[&["--fit", file, "--fit-ranks", "16"][..], &to].concat());
    let last: Vec<&str> = out
        .lines()
        .last()
        .expect("a line")
        .split_whitespace()
        .collect();
    assert_eq!(
        (last[0], last[1], last[8]),
        ("fence", "64", "predicted"),
        "{out}"
    );
    let ratio: f64 = last[7].parse().expect("a number");
    assert!((0.7..1.3).contains(&ratio), "{out}");
    let drawn = fs::read_to_string(&picture).expect("the picture");
    assert!(drawn.contains(">\nmeasured\n"), "{drawn}");

    let folder = Folder::new();
    let wrong = folder.file("times", b"fence 4 4 1000\nfence 16 1900\n");
    let wrong = wrong.to_str().expect("a text");
    let parts = ["line 2", "CALL RANKS PER_HOST NANOSECONDS"];
    refused(&["--fit", wrong], &parts);
    let none = folder.0.path().join("none");
    refused(&["--fit", none.to_str().expect("a text")], &["cannot read"]);
}

fn the_model_reads_what_was_measured() {
    let mut text = String::new();
    for ranks in [2, 3] {
        let mut command = launcher::command(ranks, &[]);
        command.arg(program("scale"));
        text += &printed(command.args(["--lines", "--repeat", "1", "--calls", "3"]));
    }
    let folder = Folder::new();
    let file = folder.file("times", text.as_bytes());
    let said = model(&["--fit", file.to_str().expect("a text")]);
    for call in ["barrier", "allreduce", "allgather", "fence", "pscw"] {
        assert_eq!(said.matches(&format!("\n{call}")).count(), 2, "{said}");
    }
}
