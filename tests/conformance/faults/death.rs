//! One rank of three dies, or leaves, while the others wait for it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Error, Info, Job, LockKind, Result};
use transom_testing::devices::is_soft;
use transom_testing::environment;
pub(super) use transom_testing::job::kill_oneself;
use transom_testing::job::{self, Launched, Others};

use crate::ops::{get, put};

pub(super) const RANKS: u32 = 3;
pub(super) const CULPRIT: u32 = 1;
/// From when the others begin to wait.
pub(super) const DYING_AFTER: Duration = Duration::from_millis(100);

/// How the culprit ends.
const ENDS: [&str; 4] = ["killed", "panics", "exits", "leaves"];

/// Those in which a process that starts another program is missed in its own way: by whoever waits, by whoever comes for a lock,
/// by whoever accesses memory, and by whoever has yet to connect.
const WAITS_FOR_THE_REPLACED: [&str; 6] = [
    "barrier",
    "barrier_before_any_contact",
    "fence",
    "exclusive_lock",
    "get_and_flush",
    "create",
];

/// What the survivors wait in.
const WAITS: [&str; 18] = [
    "barrier",
    "barrier_before_any_contact",
    "fence",
    "put_after_start",
    "complete",
    "wait",
    "test",
    "wait_notify",
    "exclusive_lock",
    "shared_lock",
    "lock_all",
    "get_and_flush",
    "allocate",
    "create",
    "create_before_any_contact",
    "bcast",
    "allgather",
    "free",
];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let mut trials = Vec::new();
    for wait in WAITS {
        for end in ENDS {
            let name = format!("{device}/faults/{end}/{wait}");
            trials.push(Trial::test(name, move || {
                survivors_find_out(device, &format!("faults/death/{end}/{wait}"))
            }));
        }
    }
    // Elsewhere a device cannot tell it from a death, and another launcher may end the job.
    let is_told = is_soft(device) && environment::is_our_launcher();
    for wait in WAITS_FOR_THE_REPLACED.into_iter().filter(|_| is_told) {
        let name = format!("{device}/faults/execs/{wait}");
        trials.push(Trial::test(name, move || {
            survivors_find_out(device, &format!("faults/death/execs/{wait}"))
        }));
    }
    // What another launcher does is none of our business.
    for end in
        (ENDS.into_iter().chain(["execs_for_long"])).filter(|_| environment::is_our_launcher())
    {
        let name = format!("{device}/faults/{end}/ended_by_the_launcher");
        trials.push(Trial::test(name, move || {
            the_launcher_ends_all(device, end)
        }));
    }
    trials
}

/// Each survivor prints one line: how long it waited, and the class and words of its error.
pub(super) fn survivors_find_out(device: &str, role: &str) -> std::result::Result<(), Failed> {
    let Launched { status, output, .. } = job::play(RANKS, device, Others::GoOn, role);
    let fail = |what: &str| Err(format!("{what}\n{output}").into());
    if status.is_none() {
        return fail("killed at its time limit");
    }
    let survivors: Vec<&str> = output
        .lines()
        .filter(|line| line.contains(" after "))
        .collect();
    if survivors.len() != 2 {
        return fail("not two survivors");
    }
    for line in survivors {
        if !line.contains("ProcAborted") || !line.contains(&format!("rank {CULPRIT} ")) {
            return fail("a survivor's error is not about the culprit");
        }
        if role.contains("/execs/") && !line.contains("exec") {
            return fail("who has started another program is said to have ended otherwise");
        }
        if role.contains("/leaves/") && line.contains(&format!("rank {CULPRIT} died")) {
            return fail("who has left is said to have died");
        }
        let millis = line
            .split_once(" after ")
            .and_then(|(_, rest)| rest.split_once(" ms")?.0.parse::<u64>().ok());
        if millis.is_none_or(|millis| millis >= 5000 * u64::from(environment::slowness())) {
            return fail("a survivor waited too long");
        }
    }
    Ok(())
}

fn the_launcher_ends_all(device: &str, end: &str) -> std::result::Result<(), Failed> {
    let role = format!("faults/death/{end}/for_ever");
    let Launched {
        status,
        output,
        took,
    } = job::play(RANKS, device, Others::End, &role);
    let fail = |what: &str| Err(format!("{what} ({took:?})\n{output}").into());
    match status {
        None => fail("killed at its time limit"),
        // Who leaves properly has done nothing wrong, and the others end by themselves.
        Some(status) if status.success() && end != "leaves" => fail("a success"),
        Some(_) if took >= Duration::from_secs(6) * environment::slowness() => fail("too long"),
        Some(_) if !output.contains("rank 1") => fail("the culprit is not named"),
        Some(_) => Ok(()),
    }
}

pub(crate) fn play(role: &str) {
    let (end, wait) = role.split_once('/').expect("how and where");
    let job = Job::init().expect("a job");
    let rank = job.world().rank();
    if rank == CULPRIT {
        let _window = prepare(&job, wait);
        return die(end, job);
    }
    let window = prepare(&job, wait);
    let begun = Instant::now();
    let error = match stand(&job, wait, window) {
        Ok(()) => job.world().barrier().err(),
        Err(error) => Some(error),
    };
    report(rank, begun, error);
}

pub(super) fn report(rank: u32, begun: Instant, error: Option<Error>) {
    let waited = begun.elapsed().as_millis();
    match error {
        // One write, so that lines do not mix.
        Some(error) => println!("survivor {rank} after {waited} ms: {error:?}"),
        None => println!("survivor {rank} noticed nothing"),
    }
}

pub(super) fn die(end: &str, job: Job) {
    std::thread::sleep(DYING_AFTER);
    match end {
        "killed" => kill_oneself(),
        "panics" => panic!("as the test wants"),
        "exits" => exit(0),
        "leaves" => drop(job),
        "execs" | "execs_for_long" => {
            // Its end would be told in other words than its beginning.
            let seconds = if end == "execs" { "2" } else { "1000" };
            let error = Command::new("sleep").arg(seconds).exec();
            panic!("exec: {error}");
        }
        _ => panic!("no end {end:?}"),
    }
}

/// What comes before the death. Windows are leaked by their drop.
fn prepare(job: &Job, wait: &str) -> Option<Window> {
    if wait.ends_with("before_any_contact") {
        return None;
    }
    let window = Window::allocate(job.world(), 4096, 1, &Info::new()).expect("a window");
    let is_culprit = job.world().rank() == CULPRIT;
    match wait {
        "fence" => window.fence(Assert::NONE).expect("a fence"),
        "exclusive_lock" if is_culprit => {
            window
                .lock(LockKind::Exclusive, 0, Assert::NONE)
                .expect("a lock");
        }
        "shared_lock" if is_culprit => {
            window
                .lock(LockKind::Shared, 0, Assert::NONE)
                .expect("a lock");
        }
        "lock_all" if is_culprit => {
            window
                .lock(LockKind::Exclusive, 2, Assert::NONE)
                .expect("a lock");
        }
        _ => {}
    }
    job.world().barrier().expect("a barrier");
    Some(window)
}

/// What a survivor does; the culprit dies in the first moments of it.
fn stand(job: &Job, wait: &str, window: Option<Window>) -> Result<()> {
    let world = job.world();
    let mut heap = vec![0_u8; 100_000];
    let (base, len) = (heap.as_mut_ptr(), heap.len());
    match (wait, &window) {
        ("barrier_before_any_contact", _) => {
            std::thread::sleep(Duration::from_millis(300));
            world.barrier()
        }
        ("create_before_any_contact", _) => {
            std::thread::sleep(Duration::from_millis(300));
            // SAFETY: leaked below.
            let window = unsafe { Window::create(world, base, len, 1, &Info::new()) };
            std::mem::forget(heap);
            window.map(drop)
        }
        ("create", _) => {
            // SAFETY: leaked below.
            let window = unsafe { Window::create(world, base, len, 1, &Info::new()) };
            std::mem::forget(heap);
            window.map(drop)
        }
        ("allocate", _) => Window::allocate(world, len, 1, &Info::new()).map(drop),
        ("bcast", _) => world.bcast(&mut heap, CULPRIT),
        ("allgather", _) => world.allgather(&heap).map(drop),
        ("barrier", _) => world.barrier(),
        ("for_ever", _) => {
            std::thread::sleep(Duration::from_millis(300));
            world.barrier()
        }
        ("free", Some(_)) => window.map_or(Ok(()), Window::free),
        ("fence", Some(window)) => {
            put(window, &heap[..100], CULPRIT, 0)?;
            window.fence(Assert::NONE)
        }
        ("put_after_start" | "complete" | "wait" | "test", Some(window)) => {
            let culprit = window.group().include(&[CULPRIT])?;
            if let "wait" | "test" = wait {
                window.post(&culprit, Assert::NONE)?;
                while wait == "test" && !window.test()? {
                    std::thread::yield_now();
                }
                return window.wait();
            }
            window.start(&culprit, Assert::NONE)?;
            if wait == "put_after_start" {
                put(window, &heap[..100], CULPRIT, 0)?;
            }
            window.complete()
        }
        ("wait_notify", Some(window)) => window.wait_notify(0, 1),
        ("exclusive_lock" | "shared_lock", Some(window)) => {
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            window.unlock(0)?;
            // The other survivor may have had the lock after a holder that left.
            Ok(())
        }
        ("lock_all", Some(window)) => {
            window.lock_all(Assert::NONE)?;
            get(window, &mut heap[..8], 2, 0)?;
            window.unlock_all()
        }
        ("get_and_flush", Some(window)) => {
            // Memory of the dead that is mapped stays; that it is dead shows at the latest in the
            // barrier after this.
            window.lock_all(Assert::NONE)?;
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(500) {
                get(window, &mut heap[..4096], CULPRIT, 0)?;
                put(window, &[1; 100], CULPRIT, 10)?;
                window.flush(CULPRIT)?;
            }
            window.unlock_all()
        }
        _ => panic!("no wait {wait:?}"),
    }
}
