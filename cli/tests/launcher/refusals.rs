//! What cannot be run: one line that says why, and no rank left running.

use std::process::Command;

use libtest_mimic::Trial;
use transom_testing::job::{quiet, run};

use crate::{TRANSOM, role, transom_run, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["refusals":
        programs_that_cannot_be_run,
        numbers_of_ranks_that_cannot_be,
        options_that_are_not_there,
        limits_are_named,
        control_memory_runs_out_with_an_error,
        ranks_get_the_original_limits,
        no_arguments_print_help,
    ]
}

/// One line on standard error with all of `parts`, and this exit code.
#[track_caller]
fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let done = run(&mut transom_run(args)).expect(code);
    assert_eq!(done.text(), "");
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.stderr.starts_with("transom: "), "{}", done.stderr);
    for part in parts {
        assert!(
            done.stderr.contains(part),
            "{part:?} is not in {:?}",
            done.stderr
        );
    }
}

fn programs_that_cannot_be_run() {
    refused(
        &["-n", "3", "no-such-program"],
        127,
        &["\"no-such-program\"", "PATH"],
    );
    refused(
        &["-n", "3", "./no/such"],
        127,
        &["\"./no/such\"", "no such file"],
    );
    refused(&["-n", "3", "/"], 126, &["\"/\"", "directory"]);
    refused(
        &["-n", "3", "./Cargo.toml"],
        126,
        &["\"./Cargo.toml\"", "executable"],
    );
    refused(&["-n", "3", ""], 127, &["\"\"", "empty"]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    let path = path.to_str().unwrap();
    // Written by a process of its own: children of other tests may hold what this one has open for writing,
    // so that it would not run.
    let script = r##"echo "#!/no/such/interpreter" >"$0"; chmod +x "$0""##;
    let made = Command::new("sh").args(["-c", script, path]).status();
    assert!(made.unwrap().success());
    refused(&["-n", "2", path], 127, &[path, "interpreter"]);
}

fn numbers_of_ranks_that_cannot_be() {
    refused(&["-n", "0", "true"], 2, &["'0'", "1..=65536"]);
    refused(&["-n", "65537", "true"], 2, &["'65537'", "1..=65536"]);
    refused(&["-n", "-1", "true"], 2, &["-1"]);
    refused(&["-n", "many", "true"], 2, &["'many'"]);
    refused(&["true"], 2, &["--ranks <N>"]);
    refused(&["-n", "2"], 2, &["<PROG>"]);
}

fn options_that_are_not_there() {
    refused(
        &["-n", "2", "--lable", "true"],
        2,
        &["'--lable'", "'--label'"],
    );
    // After the program, they are the program's.
    let done = run(&mut transom_run(&[
        "-n", "1", "echo", "--lable", "-n", "5", "--",
    ]))
    .expect(0);
    assert_eq!(done.text(), "--lable -n 5 --\n");
}

/// The launcher under a shell that first lowers a limit.
fn limited(limit: &str, ranks: u32, program: &str) -> Command {
    let mut command = quiet("sh");
    command
        .arg("-c")
        .arg(format!(
            "ulimit {limit}; exec \"$0\" run -n {ranks} sh -c '{program}'"
        ))
        .arg(TRANSOM);
    command
}

fn limits_are_named() {
    let done = run(&mut limited("-n 200", 64, "echo started")).expect(2);
    assert_eq!(done.text(), "");
    done.says("64 ranks need 320 open files, but the limit is 200");
}

fn control_memory_runs_out_with_an_error() {
    let mut command = role(2, &["--device", "soft"], "control-full");
    let done = run(command.env("TRANSOM_CONTROL_BYTES", "200001")).expect(0);
    assert_eq!(done.text().lines().count(), 2, "{}", done.text());
    assert!(
        done.text().contains("TRANSOM_CONTROL_BYTES"),
        "{}",
        done.text()
    );
}

fn ranks_get_the_original_limits() {
    let done = run(&mut limited("-Sn 100", 40, "ulimit -Sn")).expect(0);
    assert_eq!(done.text(), "100\n".repeat(40));
}

fn no_arguments_print_help() {
    let done = run(&mut quiet(TRANSOM)).expect(0);
    assert!(done.text().contains("Usage: transom"), "{}", done.text());
}
