//! `transom doctor` as a user calls it, on whatever machine this is.

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use transom_testing::terminal::terminal;

fn doctor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.arg("doctor").args(args);
    command.env_remove("TRANSOM_DEVICE").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stderr), "");
    (status.code().unwrap(), String::from_utf8(stdout).unwrap())
}

/// Level, check, finding and remedy of a line.
#[track_caller]
fn parse(line: &str) -> (i32, &str, &str, Option<&str>) {
    let (word, rest) = line.split_at(9);
    let level = match word {
        "ok       " => 0,
        "warning  " => 1,
        "FAILURE  " => 2,
        other => panic!("{other:?} in {line:?}"),
    };
    let (check, rest) = rest.split_once(": ").unwrap();
    assert!(!check.is_empty() && !rest.is_empty(), "{line:?}");
    match rest.split_once(" -> ") {
        Some((found, remedy)) => (level, check, found, Some(remedy)),
        None => (level, check, rest, None),
    }
}

#[test]
fn each_line_has_a_level_and_the_exit_code_is_the_worst() {
    for args in [&[][..], &["--device", "soft"], &["--device", "verbs"]] {
        let (code, text) = run(&mut doctor(args));
        let lines: Vec<_> = text.lines().map(parse).collect();
        let worst = lines.iter().map(|(level, ..)| *level).max().unwrap();
        assert_eq!(code, worst, "{text}");
        for (level, check, _, remedy) in &lines {
            assert!(*level > 0 || remedy.is_none(), "{check} is ok: {text}");
        }
        let (level, check, ..) = *lines.last().unwrap();
        assert_eq!((level, check), (worst, "verdict"), "{text}");
        for check in [
            "locked memory",
            "open files",
            "clock",
            "processors",
            "tasks of the control group",
        ] {
            let count = lines.iter().filter(|line| line.1 == check).count();
            assert_eq!(count, 1, "{check} in {text}");
        }
    }
}

#[test]
fn rdma_that_is_not_named_fails_no_machine() {
    let (_, text) = run(&mut doctor(&[]));
    let checks = [
        "RDMA",
        "verbs provider",
        "kernel modules",
        "device",
        "port",
        "GID",
    ];
    for (level, check, ..) in text.lines().map(parse) {
        let has_device = std::path::Path::new("/sys/class/infiniband").exists();
        let most = i32::from(has_device);
        assert!(level <= most || !checks.contains(&check), "{text}");
    }
    let verdict = text.lines().last().unwrap();
    assert!(verdict[9..].starts_with("verdict: jobs on this machine use soft: "));
}

#[test]
fn a_terminal_breaks_no_word() {
    let (_, whole) = run(&mut doctor(&["--device", "verbs"]));
    assert!(whole.lines().any(|line| line.len() > 80), "{whole}");
    let (mut screen, theirs) = terminal(80);
    let mut command = doctor(&["--device", "verbs"]);
    command.env("NO_COLOR", "1").stdout(theirs);
    let mut child = command.spawn().unwrap();
    // Holds the other end of the terminal.
    drop(command);
    let mut shown = Vec::new();
    // At the end, Linux says EIO.
    let _ = screen.read_to_end(&mut shown);
    child.wait().unwrap();
    let shown = String::from_utf8(shown).unwrap();
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(&shown), words(&whole));
    for line in shown.lines() {
        let length = line.chars().count();
        assert!(length <= 80 || !line.trim_start().contains(' '), "{line}");
    }
}

#[test]
fn json_says_the_same() {
    let (code, text) = run(&mut doctor(&["--device", "soft"]));
    let (json_code, json) = run(&mut doctor(&["--device", "soft", "--json"]));
    assert_eq!(code, json_code);
    assert_eq!(text.lines().count(), json.lines().count());
    for (line, object) in text.lines().zip(json.lines()) {
        let (level, check, _, _) = parse(line);
        let object: Value = serde_json::from_str(object).unwrap();
        assert_eq!(object["check"], check);
        assert_eq!(
            object["level"],
            ["ok", "warning", "failure"][level as usize]
        );
        assert!(object["found"].is_string());
        assert_eq!(object["remedy"].is_null(), level == 0, "{object}");
    }
}

#[test]
fn a_device_that_does_not_exist_is_a_failure_with_those_that_do() {
    let (code, text) = run(&mut doctor(&["--device", "nosuch0"]));
    assert_eq!(code, 2, "{text}");
    // Before what it takes to use any RDMA device.
    assert!(
        text.starts_with("FAILURE  device: no device \"nosuch0\" (known: soft"),
        "{text}"
    );
    let (code, text) = run(&mut doctor(&["--device", "verbs:zero"]));
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("port \"zero\" is not a number from 1 to 255"),
        "{text}"
    );
    assert!(text.contains("-> the form is NAME[:PORT[:GID]]"), "{text}");
}

#[test]
fn the_environment_names_the_device_and_the_option_overrides_it() {
    let (code, text) = run(doctor(&[]).env("TRANSOM_DEVICE", "nosuch0"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("no device \"nosuch0\""), "{text}");
    let (_, text) = run(doctor(&["--device", "soft"]).env("TRANSOM_DEVICE", "nosuch0"));
    assert!(
        text.starts_with("ok       RDMA: not needed by the device soft\n"),
        "{text}"
    );
}

#[test]
fn limits_of_the_shell_are_seen() {
    let transom = env!("CARGO_BIN_EXE_transom");
    let script = format!("ulimit -n 24 && exec '{transom}' doctor --device soft");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdin(Stdio::null());
    let (code, text) = run(&mut shell);
    assert_eq!(code, 2, "{text}");
    let line = text
        .lines()
        .find(|line| line.contains("open files: "))
        .unwrap();
    assert!(
        line.starts_with("FAILURE  open files: limited to 24; `transom run`"),
        "{line}"
    );
    assert!(line.contains(" -> "), "{line}");
}

/// The output of a self-test, which ends with this code.
#[track_caller]
fn self_test(args: &[&str], code: i32) -> String {
    let output = doctor(&[&["--self-test"], args].concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    text
}

#[test]
fn a_self_test_tries_each_device_between_two_ranks_both_ways() {
    let text = self_test(&[], 0);
    let lines: Vec<_> = text.lines().map(parse).collect();
    for device in ["soft", "tcp"] {
        for check in [
            "data",
            "atomics",
            "sums",
            "atomic domain",
            "order (write, store)",
            "order (write, atomic)",
            "bandwidth",
        ] {
            let [first, second] = [0, 1].map(|rank| format!("rank {rank} ({device})"));
            let ways = [
                format!("{first} to {second}: "),
                format!("{second} to {first}: "),
            ];
            for way in ways {
                let made = lines.iter();
                let made = made.filter(|line| line.1 == check && line.2.starts_with(&way));
                // Of atomics, what the origin was answered and what the target found.
                let expected = if check == "atomics" { 2 } else { 1 };
                assert_eq!(made.count(), expected, "{check}, {way}{text}");
            }
        }
    }
    assert_eq!(lines.last().unwrap().1, "verdict");
    assert!(
        text.contains(": 1520 rounds of up to 262144 bytes"),
        "{text}"
    );
}

#[test]
fn a_self_test_of_one_device_says_the_same_as_json() {
    let text = self_test(&["--device", "soft", "--json"], 0);
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |check: &str| objects.iter().filter(|one| one["check"] == check).count();
    assert_eq!(
        (of("data"), of("bandwidth"), of("verdict")),
        (2, 2, 1),
        "{text}"
    );
    assert!(!text.contains("tcp of rank"), "{text}");
}

#[test]
fn a_self_test_of_what_cannot_be_opened_fails_and_says_why() {
    let text = self_test(&["--device", "nosuch0"], 2);
    assert!(
        text.contains("FAILURE  opening: rank 0 (nosuch0), rank 1 (nosuch0): rank 0: "),
        "{text}"
    );
    assert!(text.contains("; rank 1: no device \"nosuch0\""), "{text}");
    assert!(
        text.contains("FAILURE  verdict: something is wrong"),
        "{text}"
    );
}
