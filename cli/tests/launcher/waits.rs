//! What the log says of waits that last long. No job here ends by itself.

use std::io::{BufRead as _, BufReader, Read as _};
use std::thread;

use libtest_mimic::Trial;
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind};
use transom_collections::{Deque, DistMap};
use transom_testing::environment::slowness;
use transom_testing::job::{self, LIMIT};

use crate::{role, trials};

pub(crate) fn tests() -> Vec<Trial> {
    trials!["waits":
        crossed_fences_name_each_other,
        ranks_that_are_waited_for_are_named_with_the_call,
        devices_that_map_nothing_tell_of_waits_too,
        long_waits_are_told_without_a_log,
    ]
}

pub(crate) fn play(role: &str) {
    // Should nobody kill it.
    thread::spawn(|| {
        thread::sleep(2 * LIMIT * slowness());
        std::process::exit(9);
    });
    let job = Job::init().unwrap();
    let world = job.world();
    let rank = world.rank();
    let made = || Window::allocate(world, 64, 1, &Info::new()).unwrap();
    let windows = [made(), made()];
    let [first, second] = &windows;
    let other = first.group().include(&[1]).unwrap();
    match role {
        "waits-crossed" => {
            first.set_name("A");
            second.set_name("B");
            let order = if rank == 0 { [0, 1] } else { [1, 0] };
            for at in order {
                windows[at].fence(Assert::NONE).unwrap();
            }
        }
        "waits-lock" => {
            if rank == 1 {
                second.lock(LockKind::Exclusive, 1, Assert::NONE).unwrap();
            }
            first.fence(Assert::NO_SUCCEED).unwrap();
            match rank {
                0 => second.lock(LockKind::Exclusive, 1, Assert::NONE).unwrap(),
                _ => thread::park(),
            }
        }
        "waits-wait" if rank == 0 => {
            first.post(&other, Assert::NONE).unwrap();
            first.wait().unwrap();
        }
        "waits-complete" if rank == 0 => {
            first.start(&other, Assert::NONE).unwrap();
            first.complete().unwrap();
        }
        "waits-free" if rank == 0 => {
            let [first, _] = windows;
            first.free().unwrap();
        }
        "waits-barrier" if rank == 0 => world.barrier().unwrap(),
        "waits-allocate" if rank == 0 => drop(made()),
        "waits-map" => {
            let map = DistMap::<u64, u64>::new(world, 10).unwrap();
            let hold = |_| {
                world.barrier().unwrap();
                loop {
                    thread::park();
                }
            };
            if rank == 1 {
                map.update(&7, hold).unwrap();
            }
            world.barrier().unwrap();
            map.get(&7).unwrap();
        }
        "waits-deque" => {
            let tasks = Deque::<u64>::new(world, 10).unwrap();
            if rank == 1 {
                tasks.push(&7).unwrap();
                let _kept = tasks.next().unwrap();
                world.barrier().unwrap();
                loop {
                    thread::park();
                }
            }
            world.barrier().unwrap();
            tasks.next().unwrap();
        }
        "waits-notify" if rank == 0 => first.wait_notify(0, 1).unwrap(),
        _ => loop {
            thread::park();
        },
    }
}

/// Runs a role on two ranks until the log has had all of these lines; returns the log so far.
fn see(device: &str, role_name: &str, after: &str, lines: &[&str]) -> String {
    let mut command = role(2, &["--device", device], role_name);
    command
        .env("TRANSOM_LOG", "warn")
        .env("TRANSOM_WAIT_WARNING", after);
    let mut job = job::Job::start(&mut command);
    let stderr = BufReader::new(job.child.stderr.take().unwrap());
    let (mut log, mut missing) = (String::new(), lines.to_vec());
    for line in stderr.lines() {
        let line = line.unwrap();
        missing.retain(|part| !line.ends_with(part));
        log += &line;
        log.push('\n');
        if missing.is_empty() {
            break;
        }
    }
    assert!(missing.is_empty(), "{role_name}: {missing:?} not in {log}");
    job.signal(libc::SIGTERM);
    job.wait();
    log
}

const CROSSED: [&str; 2] = [
    " in fence of window \"A\" for rank 1, which waits in fence of window \"B\"",
    " in fence of window \"B\" for rank 0, which waits in fence of window \"A\"",
];

fn crossed_fences_name_each_other() {
    let log = see("soft", "waits-crossed", "0.6", &CROSSED);
    for rank in 0..2 {
        let begin = format!("  WARN rank {rank} transom::wait: rank {rank} has waited ");
        assert!(log.contains(&begin), "{log}");
    }
}

fn ranks_that_are_waited_for_are_named_with_the_call() {
    for (role, call) in [
        ("waits-lock", "lock of window 2"),
        ("waits-wait", "wait of window 1"),
        ("waits-complete", "complete of window 1"),
        ("waits-free", "free of window 1"),
        ("waits-barrier", "barrier on a communicator of 2 ranks"),
        ("waits-allocate", "allocate on a communicator of 2 ranks"),
        ("waits-map", "DistMap::get at a key that is being changed"),
    ] {
        let line = format!(" in {call} for rank 1, which tells of no long wait");
        see("soft", role, "0.2", &[&line]);
    }
    let line = " in wait_notify of window 1 for another rank";
    see("soft", "waits-notify", "0.2", &[line]);
    let line =
        " in Deque::next (ranks, this one perhaps, hold the tasks that are left) for another rank";
    let log = see("soft", "waits-deque", "0.2", &[line]);
    assert!(log.contains("rank 0 has waited 2"), "{log}");
}

/// Rank 0 says it, once. Rank 1 waits for a lower rank that waits, too.
fn long_waits_are_told_without_a_log() {
    let mut command = role(2, &["--device", "soft"], "waits-crossed");
    command.env("TRANSOM_WAIT_WARNING", "0.3");
    let mut job = job::Job::start(&mut command);
    let mut stderr = job.child.stderr.take().unwrap();
    // In this time, the log would have three warnings of each rank.
    thread::sleep(std::time::Duration::from_millis(2000));
    job.signal(libc::SIGTERM);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    job.wait();
    let waited: Vec<_> = said
        .lines()
        .filter(|line| line.contains("has waited"))
        .collect();
    let [line] = waited[..] else {
        panic!("{said}");
    };
    assert!(line.starts_with("transom: rank 0 has waited "), "{said}");
    assert!(
        line.contains(" in fence of window \"A\" for rank 1"),
        "{said}"
    );
}

fn devices_that_map_nothing_tell_of_waits_too() {
    see("soft:map=off", "waits-crossed", "0.6", &CROSSED);
}
