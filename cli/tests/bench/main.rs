//! `transom bench` and `transom devices` as a user calls them.

mod saved;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use transom_testing::terminal::terminal;

/// What `rma_bench.c` prints of each kind of window, less what does not exist yet, and what only
/// Transom has.
const STANDARD: [(&str, &str); 35] = [
    ("create_free_4K", "us"),
    ("put8_flush", "ns"),
    ("get8_flush", "ns"),
    ("acc_i64_flush", "ns"),
    ("acc_f64_flush", "ns"),
    ("fetch_add_flush", "ns"),
    ("cas_flush", "ns"),
    ("put8_rate", "Mops/s"),
    ("acc_i64_rate", "Mops/s"),
    ("put4K_bw", "GB/s"),
    ("put64K_bw", "GB/s"),
    ("put1024K_bw", "GB/s"),
    ("put16384K_bw", "GB/s"),
    ("get4K_bw", "GB/s"),
    ("get64K_bw", "GB/s"),
    ("get1024K_bw", "GB/s"),
    ("get16384K_bw", "GB/s"),
    ("acc_f64_4K_bw", "GB/s"),
    ("acc_i64_4K_bw", "GB/s"),
    ("acc_f64_64K_bw", "GB/s"),
    ("acc_i64_64K_bw", "GB/s"),
    ("acc_f64_1024K_bw", "GB/s"),
    ("acc_i64_1024K_bw", "GB/s"),
    ("put_col1024", "us"),
    ("excl_lock_put8_unlock", "ns"),
    ("shared_lock_put8_unlock", "ns"),
    ("lock_all_unlock_all", "ns"),
    ("put8_fence", "ns"),
    ("put8_pscw", "ns"),
    ("put8_notify", "ns"),
    ("contended_fetch_add", "Mops/s"),
    ("busy_target_put", "us"),
    ("acc_i64_4K_coarse_bw", "GB/s"),
    ("acc_i64_64K_coarse_bw", "GB/s"),
    ("acc_i64_1024K_coarse_bw", "GB/s"),
];
/// What transfers of memory of the caller's are held against.
const BY_KERNEL: [(&str, &str); 4] = [
    ("put8_by_kernel", "ns"),
    ("put64K_bw_by_kernel", "GB/s"),
    ("get8_by_kernel", "ns"),
    ("get64K_bw_by_kernel", "GB/s"),
];
const BUSY: [&str; 2] = ["busy_target_get", "busy_target_acc"];

/// The command with these arguments; if they say nothing of binding, without it: the tests run side by
/// side.
fn transom(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(args).stdin(Stdio::null());
    let reviews = ["--compare", "--from", "--tolerance"];
    let measures = !reviews.iter().any(|option| args.contains(option));
    if args[0] == "bench" && measures && !args.contains(&"--bind-to") {
        command.args(["--bind-to", "none"]);
    }
    command
}

fn output(args: &[&str]) -> Output {
    transom(args).output().unwrap()
}

#[track_caller]
fn succeed(args: &[&str]) -> String {
    let output = output(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    assert_eq!(error, "", "a pipe gets no progress bar");
    String::from_utf8(output.stdout).unwrap()
}

/// The values of lines of JSON, by name.
#[track_caller]
fn parse(text: &str) -> BTreeMap<String, Value> {
    let record = |line: &str| -> (String, Value) {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["name"].as_str().unwrap().to_owned(), value)
    };
    let records: BTreeMap<_, _> = text.lines().map(record).collect();
    assert_eq!(records.len(), text.lines().count(), "a name comes twice");
    records
}

#[track_caller]
fn check_standard(records: &BTreeMap<String, Value>, ranks: u32) {
    let busy = BUSY.map(|name| (name, "us"));
    for window in ["allocate", "create"] {
        let alone = BY_KERNEL.into_iter().filter(|_| window == "create");
        for (name, unit) in STANDARD.into_iter().chain(busy).chain(alone) {
            let name = format!("{window}.{name}");
            let record = records.get(&name).unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(record["unit"], unit, "{name}");
            assert_eq!(record["ranks"], ranks, "{name}");
            assert!(record["value"].as_f64().unwrap() > 0.0, "{record}");
            assert!(record["iterations"].as_u64().unwrap() > 0, "{record}");
            assert!(record["device"].as_str().unwrap().starts_with("soft"));
        }
    }
    let each = STANDARD.len() + BUSY.len();
    assert_eq!(records.len(), 2 * each + BY_KERNEL.len());
}

/// The fields by which programs find lines, and what the samples say.
#[track_caller]
fn check_fields(records: &BTreeMap<String, Value>) {
    for (line, fields) in [
        ("put8_flush", r#"["put", 8, "flush", 1, null, "latency"]"#),
        ("put8_rate", r#"["put", 8, "flush", 64, null, "rate"]"#),
        (
            "acc_f64_4K_bw",
            r#"["accumulate_f64", 4096, "flush", 1, null, "bandwidth"]"#,
        ),
        (
            "put_col1024",
            r#"["put_strided", 8192, "flush", 1, null, "latency"]"#,
        ),
        (
            "shared_lock_put8_unlock",
            r#"["put", 8, "lock_shared", 1, null, "latency"]"#,
        ),
        (
            "put8_notify",
            r#"["put_notify", 8, "notify", 1, null, "latency"]"#,
        ),
        (
            "busy_target_get",
            r#"["get", 8, "lock", 1, "busy_target", "latency"]"#,
        ),
        (
            "contended_fetch_add",
            r#"["fetch_and_op", 8, "flush", 1, "contended", "rate"]"#,
        ),
    ] {
        let record = &records[&format!("create.{line}")];
        let found =
            ["op", "size", "sync", "burst", "case", "metric"].map(|key| record[key].clone());
        assert_eq!(
            Value::from(found.to_vec()).to_string(),
            fields.replace(' ', ""),
            "{line}"
        );
    }
    let coarse = &records["allocate.acc_i64_4K_coarse_bw"]["hints"];
    assert_eq!(coarse["mpi_accumulate_granularity"], "4096");
    for (name, record) in records {
        assert_eq!(record["format"], 1);
        assert_eq!(record["transom"], env!("CARGO_PKG_VERSION"));
        assert_eq!(record["quick"], true);
        assert_eq!(record["window"], name.split('.').next().unwrap());
        let date = record["date"].as_str().unwrap();
        assert!(date.starts_with("20") && date.ends_with('Z'), "{date}");
        assert!(!record["host"].as_str().unwrap().is_empty());
        let of = &record["percentiles"];
        let figures = ["p50", "p90", "p99", "p999", "max"].map(|key| of[key].as_f64().unwrap());
        assert!(figures[0] > 0.0 && figures.is_sorted(), "{record}");
        assert!(
            of["samples"].as_u64() > Some(0) && of["operations"].as_u64() > Some(0),
            "{record}"
        );
    }
}

#[test]
fn the_standard_suite_has_every_line_for_both_kinds_of_window() {
    let records = parse(&succeed(&["bench", "--quick", "--json", "-"]));
    check_standard(&records, 2);
    check_fields(&records);
}

#[test]
fn more_ranks_than_processors_measure_the_same_lines() {
    let begun = Instant::now();
    let text = succeed(&["bench", "-n", "8", "--quick", "--json", "-"]);
    check_standard(&parse(&text), 8);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn without_cross_memory_attach_the_suite_runs_too() {
    let device = "soft:cma=off";
    let text = succeed(&["bench", "--quick", "--device", device, "--json", "-"]);
    let records = parse(&text);
    check_standard(&records, 2);
    assert_eq!(records["create.put8_flush"]["device"], device);
}

#[test]
fn a_launched_job_is_joined() {
    let bench = [
        env!("CARGO_BIN_EXE_transom"),
        "bench",
        "--quick",
        "--json",
        "-",
    ];
    let text = succeed(&[&["run", "-n", "3"], &bench[..]].concat());
    check_standard(&parse(&text), 3);
}

#[test]
fn the_table_and_the_file_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.json");
    fs::write(&file, "what was there before").unwrap();
    let path = file.to_str().unwrap();
    let table = succeed(&["bench", "--quick", "--window", "allocate", "--json", path]);
    let records = parse(&fs::read_to_string(&file).unwrap());
    assert_eq!(records.len(), STANDARD.len() + BUSY.len());
    for (name, record) in &records {
        assert!(name.starts_with("allocate."), "{name}");
        let row = |line: &&str| line.split_whitespace().next() == Some(name);
        let row = table
            .lines()
            .find(row)
            .unwrap_or_else(|| panic!("no row {name}"));
        let cells: Vec<_> = row.split_whitespace().collect();
        let [_, value, unit, ref beside @ ..] = cells[..] else {
            panic!("{row:?}");
        };
        let latency = record["metric"] == "latency";
        assert_eq!(beside.len(), if latency { 3 } else { 0 }, "{row:?}");
        assert_eq!(unit, record["unit"].as_str().unwrap());
        let (shown, exact) = (
            value.parse::<f64>().unwrap(),
            record["value"].as_f64().unwrap(),
        );
        assert!((shown - exact).abs() <= exact * 1e-3, "{row:?} and {exact}");
    }
    assert!(
        table.contains("\nallocate: one operation and flush\n"),
        "{table}"
    );
}

#[test]
fn operations_synchronisations_and_sizes_can_be_chosen() {
    let text = succeed(&[
        "bench",
        "--quick",
        "--window",
        "create",
        "--json",
        "-",
        "--op",
        "put,get,accumulate",
        "--sync",
        "flush,lock,lock_all,fence",
        "--sizes",
        "8,64,4K",
    ]);
    let records = parse(&text);
    assert_eq!(records.len(), 3 * 4 * 3 * 2);
    for operation in ["put", "get", "acc_i64_"] {
        for size in ["8", "64", "4K"] {
            for sync in ["flush", "lock", "lock_all", "fence"] {
                let latency = &records[&format!("create.{operation}{size}_{sync}")];
                let bandwidth = match sync {
                    "flush" => &records[&format!("create.{operation}{size}_bw")],
                    _ => &records[&format!("create.{operation}{size}_{sync}_bw")],
                };
                let bytes = size.replace("4K", "4096").parse::<f64>().unwrap();
                let seconds = latency["value"].as_f64().unwrap() / 1e9;
                let expected = bytes / seconds / 1e9;
                assert!((bandwidth["value"].as_f64().unwrap() / expected - 1.0).abs() < 1e-6);
            }
        }
    }
    let text = succeed(&[
        "bench",
        "--quick",
        "--window",
        "allocate",
        "--json",
        "-",
        "--sizes",
        "4,8",
        "--op",
        "fetch_and_op,compare_and_swap",
    ]);
    let records = parse(&text);
    for name in [
        "fetch_add4_flush",
        "fetch_add8_flush",
        "cas4_flush",
        "cas8_flush",
    ] {
        assert!(
            records[&format!("allocate.{name}")]["value"]
                .as_f64()
                .unwrap()
                > 0.0
        );
    }
}

#[test]
fn min_time_repeats_and_reports_the_median() {
    let begun = Instant::now();
    let text = succeed(&[
        "bench",
        "--quick",
        "--window",
        "allocate",
        "--op",
        "put",
        "--sizes",
        "8,64",
        "--min-time",
        "0.3",
        "--json",
        "-",
    ]);
    assert!(begun.elapsed() >= Duration::from_millis(600));
    let records = parse(&text);
    assert_eq!(records.len(), 4);
    for record in records.values() {
        assert!(record["repeats"].as_u64().unwrap() > 1, "{record}");
        let [min, value, max] = ["min", "value", "max"].map(|key| record[key].as_f64().unwrap());
        assert!(min <= value && value <= max, "{record}");
    }
}

#[test]
fn bad_arguments_get_one_line_that_says_what_is_legal() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/file");
    let missing = missing.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 19] = [
        (&["-n", "0"], &["'0'", "1..=65536"]),
        (&["-n", "1"], &["at least 2 ranks", "found 1"]),
        (&["-n", "-3"], &["-3"]),
        (
            &["--op", "poke"],
            &["'poke'", "put, get", "compare_and_swap"],
        ),
        (
            &["--sync", "hope"],
            &["'hope'", "flush, lock, lock_all, fence"],
        ),
        (&["--window", "door"], &["'door'", "allocate, create, both"]),
        (&["--sizes", "99999999999G"], &["'99999999999G'", "2^63"]),
        (&["--sizes", "8,,4K"], &["''", "whole number of bytes"]),
        (&["--sizes", "0"], &["start at 1"]),
        (&["--sizes", "8000000G"], &["are available", "--sizes"]),
        (
            &["--op", "accumulate", "--sizes", "12"],
            &["accumulate", "12", "multiples of 8"],
        ),
        (&["--hint", "no_locks"], &["'no_locks'", "KEY=VALUE"]),
        (
            &["--hint", "no_locks=maybe"],
            &["no_locks=\"maybe\"", "true, false"],
        ),
        (
            &["--hint", "mpi_minimum_memory_alignment=3"],
            &["=\"3\"", "a power of two"],
        ),
        (&["--min-time", "-1"], &["'-1'", "0 to 3600"]),
        (&["--min-time", "NaN"], &["'NaN'", "0 to 3600"]),
        (&["--min-time", "1e300"], &["'1e300'", "0 to 3600"]),
        (&["--device", "warp0"], &["\"warp0\"", "known: soft, tcp"]),
        (&["--json", missing], &[missing, "No such file"]),
    ];
    for (args, parts) in cases {
        refused(args, parts);
    }
}

/// One line on standard error that has all of `parts`, and exit code 2; nothing else is said.
#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    let output = output(&[&["bench"], args].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
    for part in parts {
        assert!(
            error.contains(part),
            "{args:?}: {part:?} is not in {error:?}"
        );
    }
}

#[test]
fn a_hint_that_nobody_knows_is_warned_of_and_changes_nothing() {
    let quick = [
        "--quick", "--op", "put", "--sizes", "8", "--window", "allocate",
    ];
    let warned = |args: &[&str]| {
        let output = output(args);
        assert!(output.status.success(), "{args:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("allocate.put8_flush"), "{text}");
        String::from_utf8(output.stderr).unwrap()
    };
    let typo = ["--hint", "mpi_accumulate_granulrity=4096"];
    let error = warned(&[&["bench"], &quick[..], &typo].concat());
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("transom: the hint \"mpi_accumulate_granulrity\" is not known"));
    assert!(error.contains("mpi_accumulate_granularity"), "{error}");
    let bench = [env!("CARGO_BIN_EXE_transom"), "bench"];
    let error = warned(&[&["run", "-n", "2"], &bench[..], &quick, &typo].concat());
    assert_eq!(error.lines().count(), 1, "{error}");
    let right = ["--hint", "mpi_accumulate_granularity=4096"];
    assert_eq!(warned(&[&["bench"], &quick[..], &right].concat()), "");
}

/// `bench` with these options, in a job of so many ranks that another launcher started: one rank says all
/// of `parts`.
fn refused_by_one_rank(ranks: &str, options: &[&str], parts: &[&str]) {
    let bench = [env!("CARGO_BIN_EXE_transom"), "bench", "--quick"];
    let output = output(&[&["run", "-n", ranks], &bench[..], options].concat());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    let ours = error.lines().filter(|line| line.starts_with("transom: "));
    assert_eq!(ours.count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn a_job_of_the_wrong_size_is_refused_by_one_rank() {
    refused_by_one_rank("3", &["-n", "2"], &["-n 2", "3 ranks"]);
}

#[test]
fn a_malformed_hint_is_refused_by_one_rank() {
    refused_by_one_rank("2", &["--hint", "no_locks=maybe"], &["no_locks", "false"]);
}

#[test]
fn a_watched_run_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trace = path("events");
    let measured = |variable: Option<(&str, &str)>, file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(["bench", "--quick", "--op", "put", "--sizes", "8"]);
        command.args(["--json", &path(file)]);
        command.envs(variable);
        let output = command.output().unwrap();
        assert!(output.status.success());
        let table = String::from_utf8(output.stdout).unwrap();
        let records = parse(&fs::read_to_string(path(file)).unwrap());
        let watched = records["allocate.put8_flush"]["watched"].clone();
        (table.lines().next().unwrap().to_owned(), watched)
    };
    let (head, watched) = measured(None, "plain");
    assert!(!head.contains("slowed down") && watched.is_null(), "{head}");
    for (variable, value, name) in [
        ("TRANSOM_REPORT", "1", "report"),
        ("TRANSOM_TRACE", &*trace, "trace"),
    ] {
        let (head, watched) = measured(Some((variable, value)), name);
        let said = format!(", slowed down by {variable}: not for comparison");
        assert!(head.ends_with(&said) && watched == name, "{head} {watched}");
        let compared = output(&["bench", "--compare", &path("plain"), &path(name)]);
        let compared = String::from_utf8(compared.stdout).unwrap();
        let note = format!("note: what was measured with {variable} is not for comparison");
        assert!(compared.contains(&note), "{compared}");
    }
}

#[test]
fn results_that_find_no_room_are_told_of_in_one_line() {
    let output = output(&[
        "bench",
        "--quick",
        "--op",
        "put",
        "--sizes",
        "8",
        "--json",
        "/dev/full",
    ]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("cannot write \"/dev/full\": No space"),
        "{error}"
    );
}

#[test]
fn ranks_of_another_launcher_are_not_bound_by_bench() {
    refused_by_one_rank("2", &["--bind-to", "core"], &["another launcher"]);
}

#[test]
fn ranks_that_bench_starts_have_a_core_each_if_there_are_as_many() {
    const WHERE: &str = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
    let everywhere = transom::launcher::processors().unwrap();
    let bound = output(&[
        "run",
        "-n",
        "2",
        "--label",
        "--bind-to",
        "core",
        "sh",
        "-c",
        WHERE,
    ]);
    let bound = String::from_utf8(bound.stdout).unwrap();
    let first_core = bound.lines().find_map(|line| line.strip_prefix("[0] "));
    // Where there is but one core, nobody is bound.
    let first_core = first_core.unwrap_or(&everywhere);
    let processors = std::thread::available_parallelism().unwrap().get();
    let many = (processors + 1).to_string();

    for (ranks, options, place) in [
        ("2", &["--bind-to", "auto"][..], first_core),
        ("2", &["--bind-to", "none"], &everywhere),
        (&many, &["--bind-to", "auto"], &everywhere),
    ] {
        let fast = [
            "bench", "--quick", "--op", "put", "--sizes", "8", "-n", ranks,
        ];
        let text = succeed(&[&fast[..], options].concat());
        let expected = format!("{ranks} ranks, device soft, rank 0 on processors {place},");
        assert!(text.starts_with(&expected), "{text}: {expected}");
    }
}

#[test]
fn without_a_word_bench_binds_as_auto_does() {
    let first_line = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        let fast = ["bench", "--quick", "--op", "put", "--sizes", "8"];
        let output = command.args(fast).args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(first_line(&[]), first_line(&["--bind-to", "auto"]));
}

#[test]
fn an_interrupt_ends_all_ranks() {
    let mut command = transom(&["bench", "--min-time", "30"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A shell's background starts with the signal ignored, and so would the launcher.
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    let pid = child.id().cast_signed();
    let ranks = children(pid);
    assert!(ranks.len() >= 2, "{ranks:?}");
    // SAFETY: kill takes two integers; the pid is our unreaped child's.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(status.code(), Some(130));
    let error = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(error.lines().count() <= 1, "{error}");
    for rank in ranks {
        assert!(!is_running(rank), "{rank} is left");
    }
}

#[test]
fn an_interrupt_takes_the_progress_bar_away() {
    let mut command = transom(&["bench", "--min-time", "30"]);
    let (mut screen, terminal) = terminal(100);
    command
        .stdout(Stdio::null())
        .stderr(terminal)
        .env("TERM", "xterm");
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    // Holds the other end of the terminal.
    drop(command);
    let mut seen = Vec::new();
    let mut interrupted = false;
    let mut buffer = [0; 4096];
    // At the end, Linux says EIO.
    while let Ok(read @ 1..) = screen.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..read]);
        if !interrupted && String::from_utf8_lossy(&seen).contains("allocate.") {
            let pid = child.id().cast_signed();
            // SAFETY: kill takes two integers; the pid is our unreaped child's.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
            interrupted = true;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let seen = String::from_utf8(seen).unwrap();
    assert!(
        seen.contains("\u{2588}") || seen.contains("\u{2591}"),
        "no bar in {seen:?}"
    );
    assert!(seen.ends_with("\r\x1b[2K\x1b[?25h"), "{seen:?}");
}

/// The processes that `pid` has started.
fn children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn verbose_tells_what_ranks_have_sent_and_by_which_addresses_of_tcp() {
    let args = "bench --verbose --quick -n 2 --window allocate --op put --sizes 8 --device";
    let said = |device| {
        let mut command = transom(&args.split(' ').chain([device]).collect::<Vec<_>>());
        let output = command.env("TRANSOM_NEIGHBOURS", "off").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = said("tcp:lo");
    for rank in 0..2 {
        let start = format!("rank {rank}: listens at port ");
        let line = text.lines().find(|line| line.starts_with(&start));
        let rest = line.unwrap_or_else(|| panic!("{text}"))[start.len()..].split_once(' ');
        let (port, rest) = rest.unwrap();
        assert_ne!(port.parse::<u16>().unwrap(), 0);
        assert_eq!(rest, "of lo: 127.0.0.1/8; has reached others at 127.0.0.1");
    }
    let on_one_host = said("soft");
    assert!(!on_one_host.contains("listens"));
    for (text, way) in [(text, "by the device"), (on_one_host, "in mapped memory")] {
        for rank in 0..2 {
            let start = format!("rank {rank}: sent ");
            let line = text.lines().find(|line| line.starts_with(&start));
            let sent = &line.unwrap_or_else(|| panic!("{text}"))[start.len()..];
            let (flags, rest) = sent.split_once(" flags and ").unwrap();
            let (messages, rest) = rest.split_once(" messages of ").unwrap();
            let numbers = [flags, messages].map(|number| number.parse::<u64>().unwrap());
            assert!(numbers.iter().all(|&number| number > 3), "{sent}");
            assert!(rest.ends_with(&format!(" bytes {way}")), "{sent}");
        }
    }
}

#[test]
fn devices_are_shown_as_a_table_and_as_json() {
    let table = succeed(&["devices"]);
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("DEVICE"), "{table}");
    let soft = lines.find(|line| line.starts_with("soft ")).unwrap();
    assert!(
        soft.contains("8/16/32/64 bit") && soft.ends_with("ready"),
        "{soft}"
    );
    assert_eq!(lines.next(), Some("  chosen for jobs on this host alone"));
    let json = succeed(&["devices", "--json"]);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["device"], "soft");
    assert_eq!(first["usable"], true);
    assert_eq!(first["chosen_for"], "one_host");
    assert_eq!(first["atomic_widths"], serde_json::json!([8, 16, 32, 64]));
    let listed = fs::read_dir("/sys/class/infiniband").map_or(0, Iterator::count);
    // Beside soft and tcp.
    assert_eq!(json.lines().count(), 2 + listed);
    let devices = table.lines().filter(|line| !line.starts_with(' '));
    assert_eq!(devices.count(), 3 + listed);
}
