//! What a job shows of itself: statistics, the report, the trace and the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use tracing::span;
use transom::raw::{Assert, Window};
use transom::{BasicType, Info, Job, LockKind, Op};
use transom_testing::job::{Done, run, until};

use crate::{role, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["seen":
        operations_are_counted_with_their_ways,
        what_is_not_asked_for_is_not_counted,
        the_ways_of_other_memory,
        the_ways_over_devices,
        the_report_is_a_table_of_each_rank,
        who_waits_serves_those_who_do_not,
        a_bad_report_is_told_of_once,
        the_trace_begins_and_ends_what_happened,
        waits_in_communicators_say_what_they_are,
        a_trace_goes_on_where_ranks_are_killed,
        a_trace_that_cannot_be_written_stops_nothing,
        the_log_has_time_and_rank,
        the_log_tells_of_a_variable_without_effect,
        the_log_tells_of_jobs_and_windows,
        the_log_names_hints_that_differ,
        the_programs_own_subscriber_stays,
        mistyped_hints_are_warned_of_once,
    ]
}

pub(crate) fn play(role: &str) {
    match role {
        "seen-count" => count(&Info::new().with("transom_statistics", "true")),
        "seen-uncounted" => count(&Info::new()),
        "seen-created" => created(),
        "seen-waiting" => waiting(Duration::from_millis(100)),
        "seen-waiting-long" => waiting(Duration::from_secs(4)),
        "seen-epochs" => epochs(),
        "seen-collectives" => collectives(),
        "seen-killed" => killed(),
        "seen-leak" => leak(),
        "seen-own-subscriber" => own_subscriber(),
        "seen-hints" => hints(),
        "seen-mistyped-hints" => mistyped_hints(),
        other => panic!("no role {other:?}"),
    }
}

/// Bytes of the windows.
const SIZE: usize = 256;

fn print(window: &Window) {
    let Some(statistics) = window.statistics() else {
        return println!("nothing");
    };
    for one in &statistics.accesses {
        let (operation, target, via) = (one.operation, one.target, one.via);
        println!("{operation} {target} {via} {} {}", one.count, one.bytes);
    }
    println!("epochs {}", statistics.epochs);
    println!("flushes {}", statistics.flushes);
}

/// Rank 0 does so much of everything, and says what its window has counted.
fn count(info: &Info) {
    let job = Job::init().unwrap();
    let window = Window::allocate(job.world(), SIZE, 1, info).unwrap();
    window.set_name("table");
    if job.world().rank() == 0 {
        let (ones, mut back) = ([1_u64; 4], [0_u64; 4]);
        let (from, to) = (ones.as_ptr().cast::<u8>(), back.as_mut_ptr().cast::<u8>());
        let floats = [1.0_f64; 3];
        window.lock(LockKind::Exclusive, 1, Assert::NONE).unwrap();
        // SAFETY: the buffers outlive the epoch, and have as many bytes.
        unsafe {
            for _ in 0..3 {
                window.put(from, 8, 1, 0).unwrap();
            }
            window.flush(1).unwrap();
            for _ in 0..2 {
                window.get(to, 32, 1, 0).unwrap();
                window.flush(1).unwrap();
            }
            for _ in 0..4 {
                let (ty, op) = (BasicType::U64, Op::Sum);
                window.fetch_and_op(from, to, ty, 1, 8, op).unwrap();
            }
            window.flush(1).unwrap();
            assert_eq!(back[0], 3);
            window
                .compare_and_swap(from, from, to, BasicType::U64, 1, 16)
                .unwrap();
            let floats = floats.as_ptr().cast();
            window
                .accumulate(floats, 3, BasicType::F64, 1, 64, Op::Sum)
                .unwrap();
            // What is refused is no operation.
            window.put(from, 8, 1, SIZE as u64).unwrap_err();
        }
        window.unlock(1).unwrap();
        window.lock_all(Assert::NONE).unwrap();
        // SAFETY: as above.
        unsafe { window.put(from, 16, 0, 0).unwrap() };
        window.unlock_all().unwrap();
        print(&window);
    }
    window.free().unwrap();
    job.finish().unwrap();
}

/// The same into memory of the program's.
fn created() {
    let job = Job::init().unwrap();
    let info = Info::new().with("transom_statistics", "true");
    let mut memory = vec![0_u64; SIZE / 8];
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the memory outlives the window, and is not used meanwhile.
    let window = unsafe { Window::create(job.world(), base, SIZE, 1, &info) }.unwrap();
    window.fence(Assert::NONE).unwrap();
    if job.world().rank() == 0 {
        let from = [7_u8; 100];
        // SAFETY: the buffer outlives the epoch.
        unsafe { window.put(from.as_ptr(), 100, 1, 4).unwrap() };
    }
    window.fence(Assert::NO_SUCCEED).unwrap();
    if job.world().rank() == 0 {
        print(&window);
    }
    window.free().unwrap();
    job.finish().unwrap();
}

/// Rank 0 puts to memory of rank 1's for a while, which waits for it.
fn waiting(time: Duration) {
    let job = Job::init().unwrap();
    let mut memory = vec![0_u64; SIZE / 8];
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the memory outlives the window, and is not used meanwhile.
    let window = unsafe { Window::create(job.world(), base, SIZE, 1, &Info::new()) }.unwrap();
    window.lock_all(Assert::NONE).unwrap();
    if job.world().rank() == 0 {
        let from = [7_u8; 100];
        // Longer than anybody sleeps.
        let end = Instant::now() + time;
        while Instant::now() < end {
            // SAFETY: the buffer outlives the epoch.
            unsafe { window.put(from.as_ptr(), 100, 1, 4).unwrap() };
            window.flush(1).unwrap();
        }
    }
    window.unlock_all().unwrap();
    window.free().unwrap();
    assert_eq!(memory[1] & 0xff, 7 * job.world().rank() as u64);
    job.finish().unwrap();
}

/// Epochs of all kinds, in which ranks wait for each other.
fn epochs() {
    let job = Job::init().unwrap();
    let rank = job.world().rank();
    let window = Window::allocate(job.world(), SIZE, 1, &Info::new()).unwrap();
    window.set_name("a \"quoted\" name");
    let from = [7_u8; 100];
    let put = |target| {
        // SAFETY: the buffer outlives all epochs.
        unsafe { window.put(from.as_ptr(), 100, target, 0).unwrap() };
    };
    window.fence(Assert::NONE).unwrap();
    put(1 - rank);
    if rank == 1 {
        std::thread::sleep(Duration::from_millis(30));
    }
    window.fence(Assert::NO_SUCCEED).unwrap();
    for target in 0..2 {
        window.lock(LockKind::Shared, target, Assert::NONE).unwrap();
    }
    put(1);
    window.flush(1).unwrap();
    for target in 0..2 {
        window.unlock(target).unwrap();
    }
    window.lock_all(Assert::NONE).unwrap();
    put(0);
    window.flush_all().unwrap();
    window.unlock_all().unwrap();
    let other = job.world().group().include(&[1 - rank]).unwrap();
    window.post(&other, Assert::NONE).unwrap();
    window.start(&other, Assert::NONE).unwrap();
    put(1 - rank);
    window.complete().unwrap();
    window.wait().unwrap();
    window.free().unwrap();
    job.finish().unwrap();
}

/// Rank 1 is killed while it waits.
fn killed() {
    let job = Job::init().unwrap();
    let (rank, size) = (job.world().rank(), SIZE);
    let window = Window::allocate(job.world(), size, 1, &Info::new()).unwrap();
    window.fence(Assert::NONE).unwrap();
    if rank == 1 {
        let pid = std::process::id();
        // SAFETY: the local outlives the epoch.
        unsafe { window.put((&raw const pid).cast(), 4, 0, 0).unwrap() };
    }
    window.fence(Assert::NO_SUCCEED).unwrap();
    if rank == 1 {
        window.lock(LockKind::Shared, 0, Assert::NONE).unwrap();
        let error = window.wait_notify(0, 1);
        panic!("it waits for ever: {error:?}");
    }
    // What it waits for is in the file while it waits.
    let path = std::env::var_os("TRANSOM_TRACE").unwrap();
    until("the wait in the trace", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("wait in wait_notify"))
    });
    // SAFETY: this rank's own memory, which nobody writes to any more.
    let pid = unsafe { window.base().cast::<u32>().read() };
    // SAFETY: takes integers.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    let error = window.fence(Assert::NONE).unwrap_err();
    eprintln!("{error}");
    std::process::exit(3);
}

/// Rank 0 waits for the other in three calls.
fn collectives() {
    let job = Job::init().unwrap();
    let late = || {
        if job.world().rank() == 1 {
            std::thread::sleep(Duration::from_millis(30));
        }
    };
    late();
    job.world().barrier().unwrap();
    late();
    job.world().allreduce_value(1, Op::Sum).unwrap();
    late();
    let dup = job.world().dup().unwrap();
    late();
    dup.barrier().unwrap();
    job.finish().unwrap();
}

/// Drops a window without freeing it, which the log tells of.
fn leak() {
    let job = Job::init().unwrap();
    drop(Window::allocate(job.world(), SIZE, 1, &Info::new()).unwrap());
    println!("leaked");
    job.finish().unwrap();
}

fn hints() {
    let job = Job::init().unwrap();
    let mine = match job.world().rank() {
        0 => Info::new().with("accumulate_ordering", "none"),
        _ => (Info::new().with("mpi_accumulate_granularity", "64"))
            .with("accumulate_ordering", "none")
            .with("alloc_shared_noncontig", "true"),
    };
    for _ in 0..3 {
        let window = Window::allocate(job.world(), SIZE, 1, &mine).unwrap();
        window.free().unwrap();
    }
    let mine = Info::new().with("no_locks", "true");
    let mut window = Window::allocate(job.world(), SIZE, 1, &mine).unwrap();
    transom::lower::tolerate_locks(&mut window);
    for _ in 0..3 {
        window.lock(LockKind::Shared, 0, Assert::NONE).unwrap();
        window.unlock(0).unwrap();
        window.lock_all(Assert::NONE).unwrap();
        window.unlock_all().unwrap();
    }
    window.free().unwrap();
    job.finish().unwrap();
}

/// One that says so.
struct Own;

impl tracing::Subscriber for Own {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        eprintln!("mine: {}", event.metadata().target());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn own_subscriber() {
    tracing::subscriber::set_global_default(Own).unwrap();
    leak();
}

/// Two ranks over a device, without what the environment of the tests may ask for.
fn two(device: &str, role_name: &str) -> Command {
    let mut command = role(2, &["--device", device], role_name);
    for name in ["TRANSOM_LOG", "TRANSOM_REPORT", "TRANSOM_TRACE"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
fn has(done: &Done, lines: &[&str]) {
    let found: Vec<_> = done.text().lines().collect();
    for line in lines {
        assert!(found.contains(line), "{line:?} is not in {found:#?}");
    }
}

fn operations_are_counted_with_their_ways() {
    let done = run(&mut two("soft", "seen-count")).expect(0);
    let expected = [
        "put own mapped 1 16",
        "put other mapped 3 24",
        "get other mapped 2 64",
        "accumulate other mapped 1 24",
        "fetch other mapped 4 32",
        "compare_and_swap other mapped 1 8",
        "epochs 2",
        "flushes 4",
    ];
    has(&done, &expected);
    assert_eq!(
        done.text().lines().count(),
        expected.len(),
        "{}",
        done.text()
    );
}

fn what_is_not_asked_for_is_not_counted() {
    let done = run(&mut two("soft", "seen-uncounted")).expect(0);
    assert_eq!((done.text(), &*done.stderr), ("nothing\n", ""));
}

fn the_ways_of_other_memory() {
    let attached = run(&mut two("soft", "seen-created")).expect(0);
    let asked = run(&mut two("soft:cma=off", "seen-created")).expect(0);
    has(&asked, &["put other agent 1 100", "epochs 1"]);
    // Where the system forbids it, the agent does that, too.
    if !attached.text().contains("agent") {
        has(&attached, &["put other attached 1 100"]);
    }
}

fn the_ways_over_devices() {
    let over = |neighbours: &str| {
        let mut command = two("soft:adversarial", "seen-count");
        run(command.env("TRANSOM_NEIGHBOURS", neighbours)).expect(0)
    };
    // The ranks share a host, and so do without the device.
    let near = [
        "put other mapped 3 24",
        "get other mapped 2 64",
        "accumulate other mapped 1 24",
        "fetch other mapped 4 32",
        "compare_and_swap other mapped 1 8",
    ];
    has(&over("on"), &near);
    has(
        &over("off"),
        &near.map(|line| &*line.replace("mapped", "device").leak()),
    );
}

fn the_report_is_a_table_of_each_rank() {
    let mut command = two("soft", "seen-uncounted");
    let done = run(command.env("TRANSOM_REPORT", "1")).expect(0);
    let lines: Vec<_> = done.stderr.lines().collect();
    for rank in ["[0] ", "[1] "] {
        let of_rank = lines.iter().filter(|line| line.starts_with(rank));
        let head = of_rank.clone().next().unwrap();
        let words: Vec<_> = head.split_whitespace().skip(1).collect();
        assert_eq!(
            words,
            ["window", "operation", "target", "way", "count", "bytes"]
        );
    }
    assert!(
        lines.iter().all(|line| line.starts_with('[')),
        "{}",
        done.stderr
    );
    let puts: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("  put "))
        .collect();
    assert_eq!(puts.len(), 2, "{}", done.stderr);
    let words: Vec<_> = puts[1].split_whitespace().collect();
    assert_eq!(
        words,
        [
            "[0]",
            "1",
            "allocate",
            "\"table\"",
            "put",
            "other",
            "mapped",
            "3",
            "24"
        ]
    );
}

/// Whether the other rank served one of a job of two.
fn served(device: &str, role_name: &str) -> bool {
    let mut command = two(device, role_name);
    let done = run(command.env("TRANSOM_REPORT", "1")).expect(0);
    let mut lines = done.stderr.lines();
    lines.any(|line| line.contains("served for others"))
}

fn who_waits_serves_those_who_do_not() {
    assert!(!served("soft:assist=off", "seen-waiting"));
    // Ranks that take turns on the processors sleep instead. Where other programs have most of the processors' time, the ranks
    // seldom run at the same time.
    if thread::available_parallelism().unwrap().get() >= 2 {
        let mut roles = ["seen-waiting"; 3]
            .into_iter()
            .chain(["seen-waiting-long"; 4]);
        let is_served = roles.any(|role_name| served("soft", role_name));
        assert!(is_served, "rank 1 served nothing");
    }
}

fn a_bad_report_is_told_of_once() {
    let mut command = two("soft", "seen-uncounted");
    let done = run(command.env("TRANSOM_REPORT", "perhaps")).expect(0);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.says("transom: TRANSOM_REPORT=perhaps: it is 1 or 0");
}

/// The events of a trace, each of which has what Chrome's format asks for.
#[track_caller]
fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    for event in &events {
        assert!(
            event["name"].is_string() && event["pid"].is_u64(),
            "{event}"
        );
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            continue;
        }
        assert!(event["ts"].as_f64().is_some_and(|at| at >= 0.0), "{event}");
        assert!(event["tid"].is_u64() && event["cat"].is_string(), "{event}");
        match phase {
            "X" => assert!(
                event["dur"].as_f64().is_some_and(|long| long >= 0.0),
                "{event}"
            ),
            "b" | "e" => assert!(event["id2"]["local"].is_string(), "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "B" | "E" => {}
            other => panic!("phase {other}"),
        }
    }
    events
}

/// What was begun and not ended, by rank, thread or epoch, and name. What ends has begun.
#[track_caller]
fn open(events: &[Value]) -> Vec<(u64, String)> {
    let mut open: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for event in events {
        let (pid, name) = (
            event["pid"].as_u64().unwrap(),
            event["name"].as_str().unwrap(),
        );
        let track = match event["ph"].as_str().unwrap() {
            "B" | "E" => event["tid"].to_string(),
            "b" | "e" => event["id2"]["local"].to_string(),
            _ => continue,
        };
        let on_track = open.entry((pid, track)).or_default();
        match event["ph"].as_str().unwrap() {
            "B" | "b" => on_track.push(name.to_owned()),
            _ => assert_eq!(on_track.pop().as_deref(), Some(name), "{event}"),
        }
    }
    let open = open.into_iter();
    open.flat_map(|((pid, _), names)| names.into_iter().map(move |name| (pid, name)))
        .collect()
}

/// On each thread, slices stand within each other or beside each other.
#[track_caller]
fn check_slices(events: &[Value]) {
    let mut threads: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let thread = ["pid", "tid"].map(|key| event[key].as_u64().unwrap());
        let [at, long] = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
        let slices = threads.entry(thread.into()).or_default();
        slices.push((at, at + long));
    }
    for slices in threads.values() {
        for (a, b) in slices
            .iter()
            .flat_map(|a| slices.iter().map(move |b| (a, b)))
        {
            // Ends are sums of rounded numbers.
            let overlap = a.0 < b.0 && b.0 + 0.002 < a.1 && a.1 + 0.002 < b.1;
            assert!(!overlap, "{a:?} {b:?}");
        }
    }
}

fn traced(role_name: &str, code: i32) -> (Done, Vec<Value>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace.json");
    // What another job has left goes.
    run(two("soft", "seen-uncounted").env("TRANSOM_TRACE", &path)).expect(0);
    let done = run(two("soft", role_name).env("TRANSOM_TRACE", &path)).expect(code);
    (done, events(&path))
}

fn the_trace_begins_and_ends_what_happened() {
    let (done, events) = traced("seen-epochs", 0);
    assert_eq!(done.stderr, "");
    assert_eq!(open(&events), []);
    check_slices(&events);
    for rank in 0..2_u64 {
        let named = |phase: &str, name: &str| {
            let of_rank = events.iter().filter(|event| event["pid"] == rank);
            let named = of_rank.filter(|event| event["ph"] == phase && event["name"] == name);
            named.collect::<Vec<_>>()
        };
        for (epoch, count) in [
            ("fence epoch", 1),
            ("lock epoch", 2),
            ("lock_all epoch", 1),
            ("start epoch", 1),
            ("post epoch", 1),
        ] {
            assert_eq!(named("b", epoch).len(), count, "{epoch}");
        }
        for call in [
            "allocate",
            "fence",
            "lock",
            "lock_all",
            "flush_all",
            "complete",
            "free",
        ] {
            assert!(!named("X", call).is_empty(), "{call}");
        }
        assert_eq!(named("i", "flush").len(), 1);
        assert_eq!(named("i", "flush")[0]["args"]["target"], 1);
        let title = "1 allocate \"a \\\"quoted\\\" name\"";
        assert_eq!(named("b", "lock epoch")[0]["args"]["window"], title);
        let name = &named("M", "process_name")[0]["args"]["name"];
        assert!(name.as_str().unwrap().starts_with(&format!("rank {rank} ")));
    }
    // For the other, which slept.
    let waits = events
        .iter()
        .filter(|event| event["name"] == "wait in fence");
    let mut of_first = waits.filter(|event| event["pid"] == 0);
    assert!(of_first.next().is_some());
}

fn waits_in_communicators_say_what_they_are() {
    let (_, events) = traced("seen-collectives", 0);
    check_slices(&events);
    let of_first = events.iter().filter(|event| event["pid"] == 0);
    let names: Vec<_> = of_first
        .filter_map(|event| event["name"].as_str())
        .collect();
    for name in ["barrier", "allreduce", "dup"] {
        assert!(names.contains(&name), "{name}: {names:?}");
        let wait = format!("wait in {name}");
        assert!(names.contains(&&*wait), "{wait}: {names:?}");
    }
    assert!(!names.contains(&"wait"), "{names:?}");
}

fn a_trace_goes_on_where_ranks_are_killed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("trace.json");
    let done = run(two("soft", "seen-killed").env("TRANSOM_TRACE", &path));
    assert!(!done.status.success());
    let events = events(&path);
    let open = open(&events);
    for name in ["wait in wait_notify", "lock epoch"] {
        assert!(
            open.contains(&(1, name.to_owned())),
            "{name} is not in {open:?}"
        );
    }
}

fn a_trace_that_cannot_be_written_stops_nothing() {
    let folder = TempDir::new().unwrap();
    let results = folder.path().join("results.json");
    std::fs::write(&results, "{\"format\":1}\n").unwrap();
    let results = results.to_str().unwrap();
    for path in ["/no/such/folder/trace.json", "/dev/null", results] {
        let mut command = two("soft", "seen-uncounted");
        let done = run(command.env("TRANSOM_TRACE", path)).expect(0);
        assert_eq!(done.text(), "nothing\n");
        // Once, for all ranks of the host; the log has the others'.
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        let begin = format!("transom: rank 0: TRANSOM_TRACE: {path}: ");
        assert!(done.stderr.starts_with(&begin), "{}", done.stderr);
        let logged = run(command.env("TRANSOM_LOG", "warn")).expect(0).stderr;
        let said = format!("  WARN rank 1 transom::diagnostics: TRANSOM_TRACE: {path}: ");
        assert!(logged.contains(&said), "{logged}");
    }
    assert_eq!(std::fs::read(results).unwrap(), b"{\"format\":1}\n");
}

fn the_log_has_time_and_rank() {
    let leaks = |level: Option<&str>| {
        let mut command = two("soft", "seen-leak");
        if let Some(level) = level {
            command.env("TRANSOM_LOG", level);
        }
        run(&mut command).expect(0).stderr
    };
    assert_eq!(leaks(None), "");
    assert_eq!(leaks(Some("error")), "");
    let warned = leaks(Some("warn"));
    assert_eq!(warned.lines().count(), 2, "{warned}");
    for rank in 0..2 {
        let what = format!("  WARN rank {rank} transom::window::free: a window was dropped");
        let mut lines = warned.lines().filter(|line| line.contains(&what));
        let (time, _) = lines.next().expect(&warned).split_once(' ').unwrap();
        assert!(time.contains('T') && time.ends_with('Z'), "{warned}");
    }
    // Said by rank 0 for all, and not by the command that started them; warnings are shown.
    let bad = leaks(Some("wran"));
    let complaints = bad
        .lines()
        .filter(|line| line.starts_with("transom: TRANSOM_LOG=wran: "));
    assert_eq!((complaints.count(), bad.lines().count()), (1, 3), "{bad}");
}

fn the_log_tells_of_a_variable_without_effect() {
    let mut command = two("soft", "seen-uncounted");
    command.env("TRANSOM_SECOND_THREAD", "off");
    assert_eq!(run(&mut command).expect(0).stderr, "");
    let warned = run(command.env("TRANSOM_LOG", "warn")).expect(0).stderr;
    assert_eq!(warned.lines().count(), 1, "{warned}");
    assert!(
        warned.contains("TRANSOM_SECOND_THREAD has no effect"),
        "{warned}"
    );
}

fn the_log_tells_of_jobs_and_windows() {
    let log = |device: &str, role_name: &str| {
        let mut command = two(device, role_name);
        run(command.env("TRANSOM_LOG", "info")).expect(0).stderr
    };
    // What stands behind the rank, in order.
    let of_rank = |log: &str, rank: u32| -> Vec<String> {
        let begin = format!("  INFO rank {rank} ");
        let lines = log.lines();
        let own = lines.filter_map(|line| Some(line.split_once(&begin)?.1.to_owned()));
        own.filter(|line| !line.contains("more ranks than processors"))
            .collect()
    };
    for (device, role, by, memory) in [
        ("soft", "seen-uncounted", "allocate", "mapped"),
        ("soft:map=off", "seen-uncounted", "allocate", "not mapped"),
        ("soft", "seen-created", "create", "not mapped"),
    ] {
        let log = log(device, role);
        for rank in 0..2 {
            let lines = of_rank(&log, rank);
            let [joined, made, freed] = &lines[..] else {
                panic!("{log}");
            };
            let job = "transom::job: joined the job ranks=2 device=\"soft\" by=\"PMI\"";
            assert_eq!(joined, job);
            let begin = format!("transom::window: made a window by {by} bytes={SIZE} disp_unit=1 ");
            assert!(made.starts_with(&begin), "{made}");
            assert!(made.contains(&format!("memory=\"{memory}\"")), "{made}");
            let begin = format!("transom::window: freed a window of {by} bytes={SIZE} ");
            assert!(freed.starts_with(&begin), "{freed}");
        }
    }
}

fn the_log_names_hints_that_differ() {
    let mut command = two("soft", "seen-hints");
    let log = run(command.env("TRANSOM_LOG", "warn")).expect(0).stderr;
    let (locked, differing): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.contains("no_locks"));
    // Of each rank's window, one.
    assert_eq!((locked.len(), differing.len()), (2, 1), "{log}");
    for word in [
        "  WARN rank 0 transom::window: ",
        "mpi_accumulate_granularity",
        "rank 0 gave 0",
        "rank 1 gave 64",
        "0 is in force",
    ] {
        assert!(differing[0].contains(word), "{word}: {log}");
    }
}

fn the_programs_own_subscriber_stays() {
    let mut command = two("soft", "seen-own-subscriber");
    let done = run(command.env("TRANSOM_LOG", "trace")).expect(0);
    assert_eq!(done.stderr, "mine: transom::window::free\n".repeat(2));
}

/// Gives hints in each way that there is.
fn mistyped_hints() {
    let job = Job::init().unwrap();
    let world = job.world();
    let mistyped = |key: &str| Info::new().with(key, "true").with("striping_unit", "64");
    for _ in 0..2 {
        let raw = Window::allocate(world, SIZE, 1, &mistyped("nolocks")).unwrap();
        raw.set_info(&mistyped("transom_eager_lockall")).unwrap();
        raw.free().unwrap();
        let shared = Window::allocate_shared(world, SIZE, 1, &mistyped("same_unit")).unwrap();
        shared.free().unwrap();
        let dynamic = Window::create_dynamic(world, &mistyped("acumulate_ops")).unwrap();
        dynamic.free().unwrap();
        let info = mistyped("same_sise");
        let typed = transom::Window::<u64>::allocate_with(world, 1, &info).unwrap();
        typed.free().unwrap();
    }
}

fn mistyped_hints_are_warned_of_once() {
    let mut command = two("soft", "seen-mistyped-hints");
    assert_eq!(run(&mut command).expect(0).stderr, "");
    let log = run(command.env("TRANSOM_LOG", "warn")).expect(0).stderr;
    for rank in 0..2 {
        for (key, known) in [
            ("nolocks", "no_locks"),
            ("transom_eager_lockall", "transom_eager_lock_all"),
            ("acumulate_ops", "accumulate_ops"),
            ("same_sise", "same_size"),
        ] {
            let end = format!(
                "the hint {key:?} is not known and changes nothing; did you mean {known:?}?"
            );
            let begin = format!("  WARN rank {rank} ");
            let lines = log.lines();
            let warned = lines.filter(|line| line.contains(&begin) && line.ends_with(&end));
            assert_eq!(warned.count(), 1, "{key}: {log}");
        }
    }
    assert_eq!(log.lines().count(), 8, "{log}");
}
