//! The command's own manners: spellings, suggestions, colours, what it says of itself.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error.
fn transom(args: &[&str]) -> (i32, String, String) {
    run(Command::new(env!("CARGO_BIN_EXE_transom")).args(args))
}

fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    let (code, out, error) = transom(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    for part in parts {
        assert!(
            error.contains(part),
            "{args:?}: {part:?} is not in {error:?}"
        );
    }
}

/// In how many writes the command says on standard error what it has to say.
fn writes(args: &[&str], variables: &[(&str, &str)]) -> usize {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.stderr(OwnedFd::from(theirs)).stdout(Stdio::null());
    command.args(args).envs(variables.iter().copied());
    command.status().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    std::iter::from_fn(|| ours.recv(&mut buffer).ok()).count()
}

#[test]
fn a_line_on_standard_error_is_one_write() {
    for forced in ["0", "1"] {
        let variables = [("CLICOLOR_FORCE", forced)];
        for args in [
            &["bench", "-n", "1"][..],
            &["run", "-n", "1", "/no/such/program"],
            &["bnech"],
        ] {
            assert_eq!(writes(args, &variables), 1, "{args:?}");
        }
    }
}

/// All that the command prints, but for the measurements of `bench`.
const PRINTING: [&[&str]; 9] = [
    &["man"],
    &["devices"],
    &["devices", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["completions", "bash"],
    &["--help"],
    &["help", "run"],
    &["--version"],
];

#[test]
fn output_that_cannot_be_written_is_told() {
    for args in PRINTING {
        let is_doctor = args[0] == "doctor";
        let mut full = Command::new(env!("CARGO_BIN_EXE_transom"));
        full.args(args).stdin(Stdio::null());
        full.stdout(fs::File::create("/dev/full").unwrap());
        let mut closed = Command::new("sh");
        closed.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_transom")]);
        closed.args(args);
        let causes = ["No space left on device", "Bad file descriptor"];
        for (mut command, cause) in [full, closed].into_iter().zip(causes) {
            let output = command.stderr(Stdio::piped()).spawn().unwrap();
            let output = output.wait_with_output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            let line = format!("transom: cannot write to standard output: {cause}");
            assert!(error.starts_with(&line), "{args:?}: {error:?}");
            assert_eq!(error.lines().count(), 1, "{args:?}: {error:?}");
            // With 1, doctor would say that there are warnings only.
            let expected = if is_doctor { 2 } else { 1 };
            assert_eq!(output.status.code(), Some(expected), "{args:?}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_trouble() {
    for args in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(args).stdin(Stdio::null()).stdout(writer);
        let output = command.stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        if args[0] == "doctor" {
            assert_eq!(output.status.code(), Some(transom(args).0), "{args:?}");
        }
    }
}

#[test]
fn np_is_as_good_as_n_and_that_of_a_program_is_its_own() {
    let (code, out, error) = transom(&["run", "-np", "2", "echo", "-np", "4"]);
    assert_eq!(
        (code, out.as_str(), error.as_str()),
        (0, "-np 4\n-np 4\n", "")
    );
    let (code, out, _) = transom(&["run", "--np", "1", "--", "echo", "-np"]);
    assert_eq!((code, out.as_str()), (0, "-np\n"));
    let fast = [
        "--quick",
        "--op",
        "put",
        "--sizes",
        "8",
        "--bind-to",
        "none",
    ];
    let (code, out, error) = transom(&[&["bench", "-np", "3"], &fast[..]].concat());
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.starts_with("3 ranks,"), "{out}");
    refused(&["run", "-np", "0", "true"], &["'0'", "--ranks <N>"]);
    refused(&["run", "-np"], &["--ranks <N>"]);
}

#[test]
fn a_device_that_does_not_exist_is_said_before_other_mistakes() {
    for ranks in ["1", "2"] {
        let (_, out, error) = transom(&[
            "bench",
            "-n",
            ranks,
            "--device",
            "nosuch",
            "--hint",
            "no_locks=2",
        ]);
        assert_eq!(out, "");
        assert!(
            error.starts_with("transom: no device \"nosuch\""),
            "{error}"
        );
    }
}

#[test]
fn what_was_meant_is_suggested() {
    refused(
        &["bnech"],
        &["'bnech'", "similar subcommand exists: 'bench'"],
    );
    refused(&["bnech", "-n", "4", "--quick"], &["'bench'"]);
    refused(&["help", "bnech"], &["similar subcommand exists: 'bench'"]);
    for (wrong, right) in [("rnu", "run"), ("mna", "man"), ("mip", "mpi")] {
        let similar = format!("similar subcommand exists: '{right}'");
        refused(&[wrong], &[&similar]);
        refused(&["help", wrong], &[&similar]);
    }
    for far in [&["nur"][..], &["help", "nur"], &["start"]] {
        refused(far, &["subcommands are run, bench,", "man"]);
    }
    refused(&["./prog", "7"], &["transom run -n N ./prog"]);
    refused(&["-np", "4", "./prog"], &["transom run -n N PROG"]);
    refused(
        &["mpi", "-np", "4", "./prog"],
        &["mpiexec -n N transom mpi PROG"],
    );
    refused(&["run", "--lable", "-n", "2", "true"], &["'--label'"]);
    refused(&["completions", "bsh"], &["'bash'"]);
}

#[test]
fn colours_are_for_those_who_want_them() {
    let with = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        let (_, out, error) = run(command.args(args).envs(variables.iter().copied()));
        out + &error
    };
    let forced = ("CLICOLOR_FORCE", "1");
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["bnech"],
        &["devices"],
        &["doctor"],
    ] {
        let (piped, forced) = (with(&[], args), with(&[forced], args));
        assert!(!piped.contains('\x1b'), "{piped:?}");
        assert!(forced.contains("\x1b["), "{forced:?}");
        assert_eq!(anstream::adapter::strip_str(&forced).to_string(), piped);
        assert_eq!(with(&[("NO_COLOR", "1")], args), piped);
    }
    assert!(!with(&[forced], &["devices", "--json"]).contains('\x1b'));
}

#[test]
fn the_version_says_what_is_built_in() {
    let (code, out, _) = transom(&["--version"]);
    // What tests build has the adversarial device.
    let built_in = match cfg!(feature = "verbs") {
        true => "verbs, adversarial",
        false => "adversarial",
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(out, format!("transom {version} (features: {built_in})\n"));
    assert_eq!(code, 0);
    assert_eq!(transom(&["-V"]).1, out);
}

#[test]
fn a_device_name_that_is_printed_can_be_given_again() {
    let fast = [
        "--quick",
        "--op",
        "put",
        "--sizes",
        "8",
        "--window",
        "allocate",
        "--bind-to",
        "none",
    ];
    let device = |spec: &str| {
        let (code, out, error) = transom(&[&["bench", "--device", spec], &fast[..]].concat());
        assert_eq!(code, 0, "{error}");
        let first = out.lines().next().unwrap();
        let (_, rest) = first.split_once("device ").unwrap();
        rest.split_once(", rank 0").unwrap().0.to_owned()
    };
    for spec in [
        "auto",
        "auto:cma=off",
        "soft",
        "soft:cma=off,map=off",
        "auto:adversarial",
        "soft:adversarial,seed=7",
    ] {
        let printed = device(spec);
        assert_eq!(device(&printed), printed, "{spec}");
    }
}

#[test]
fn completions_are_there_for_each_shell() {
    for (shell, begin) in [
        ("bash", "_transom() {"),
        ("zsh", "#compdef transom"),
        ("fish", "# Print an optspec"),
    ] {
        let (code, script, error) = transom(&["completions", shell]);
        assert_eq!((code, error.as_str()), (0, ""));
        assert!(script.starts_with(begin), "{script}");
        assert!(
            script.contains("keep-going") && !script.contains("started"),
            "{script}"
        );
    }
    // What the script defines completes, and so do programs and their arguments.
    let (_, script, _) = transom(&["completions", "bash"]);
    let offered = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., before, word] = words[..] else {
            panic!("{line}");
        };
        let call = format!(
            "COMP_WORDS=({line}); COMP_CWORD={}; _transom_or_program transom '{word}' '{before}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let mut bash = Command::new("bash");
        bash.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let (code, out, error) = run(bash.args(["-c", &format!("{script}\n{call}")]));
        assert_eq!((code, error.as_str()), (0, ""), "{line}");
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (line, words) in [
        ("transom be", &["bench"][..]),
        ("transom run --device s", &["soft"]),
        (
            "transom bench --hint no_locks",
            &["no_locks=true", "no_locks=false"],
        ),
        ("transom bench --op fetch", &["fetch_and_op"]),
        ("transom run -n 2 --keep", &["--keep-going"]),
        (
            "transom run -n 2 --device soft Carg",
            &["Cargo.toml", "Cargo.lock"],
        ),
        ("transom run --device = soft -n 2 Cargo.t", &["Cargo.toml"]),
        ("transom run --label -n2 Cargo.t", &["Cargo.toml"]),
        ("transom mpi --strict -- Cargo.t", &["Cargo.toml"]),
    ] {
        let mut found = offered(line);
        found.sort_by_key(|word| words.iter().position(|known| known == word));
        assert_eq!(found, words, "{line}");
    }
    assert!(offered("transom run -n 2 ec").contains(&"echo".to_owned()));
    assert_eq!(offered("transom run -n 2 prog --keep"), [""]);
}

#[test]
fn manual_pages_are_printed_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("share/man1");
    let (code, out, error) = transom(&["man", made.to_str().unwrap()]);
    assert_eq!((code, out.as_str(), error.as_str()), (0, "", ""));
    let mut names: Vec<_> = fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let commands = [
        "bench",
        "completions",
        "devices",
        "doctor",
        "man",
        "mpi",
        "run",
    ];
    let mut expected: Vec<_> = commands
        .iter()
        .map(|name| format!("transom-{name}.1"))
        .collect();
    expected.push("transom.1".to_owned());
    assert_eq!(names, expected);
    let run = fs::read_to_string(made.join("transom-run.1")).unwrap();
    for part in [
        "keep\\-going",
        ".TH TRANSOM-RUN 1",
        "\\-np N",
        ".SH ENVIRONMENT",
        "TRANSOM_LOG",
        "TRANSOM_TRACE",
    ] {
        assert!(run.contains(part), "{part} is not in {run}");
    }
    for args in [&["--help"][..], &["run", "--help"], &["bench", "-h"]] {
        let (_, help, _) = transom(args);
        for part in [
            "Environment:",
            "TRANSOM_REPORT",
            "TRANSOM_DEVICE",
            "NO_COLOR",
        ] {
            assert!(help.contains(part), "{args:?}: {part} is not in {help}");
        }
    }
    let (_, page, _) = transom(&["man"]);
    assert_eq!(page, fs::read_to_string(made.join("transom.1")).unwrap());

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(
        &["man", file.to_str().unwrap()],
        &["cannot make the folder", file.to_str().unwrap()],
    );
}
