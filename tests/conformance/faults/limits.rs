//! Limits on the sizes of files and on descriptors, which the soft device's memory counts against.

use std::fs::File;
use std::io;

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};

use crate::ops::put;

const RANKS: u32 = 4;
/// Less than any rank needs, and enough for a rank but not for `LONG` bytes.
const TINY: u64 = 1000 << 10;
const SMALL: u64 = 40 << 20;
const LONG: usize = 64 << 20;
const FILES: u64 = 64;
/// Of windows that have a descriptor each: beyond what finds room with many others.
const APART: usize = 100_000;

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let cases: [(_, u32, &[&str]); 3] = [
        (
            "file_size_at_the_start",
            RANKS,
            &["refused: ", "limit of file sizes", "`ulimit -f`"],
        ),
        (
            "file_size_of_a_window",
            RANKS,
            &["refused: ", "limit of file sizes", "`ulimit -f`", "(NoMem)"],
        ),
        ("descriptors", 2 * RANKS, &["refused: ", "`ulimit -n`"]),
    ];
    let trial = |(case, lines, parts): (&'static str, u32, &'static [&str])| {
        Trial::test(format!("{device}/faults/limits/{case}"), move || {
            all_are_told(device, case, lines, parts)
        })
    };
    cases.map(trial).into()
}

/// So many lines contain all of `parts`, and no rank is killed.
fn all_are_told(
    device: &str,
    case: &str,
    lines: u32,
    parts: &[&str],
) -> std::result::Result<(), Failed> {
    let role = format!("faults/limits/{case}");
    let Launched { status, output, .. } = job::play(RANKS, device, Others::GoOn, &role);
    let told = |line: &&str| parts.iter().all(|part| line.contains(part));
    let found = output.lines().filter(told).count();
    let ended = output
        .lines()
        .filter(|line| line.ends_with("goes on"))
        .count();
    let well = status.is_some() && ended == RANKS as usize;
    match well && found == lines as usize {
        true => Ok(()),
        false => Err(format!("{found} of {lines} lines, {status:?}\n{output}").into()),
    }
}

pub(crate) fn play(case: &str) {
    let rank = environment::own_rank();
    match case {
        "file_size_at_the_start" => {
            set(libc::RLIMIT_FSIZE, TINY);
            println!(
                "refused: {:?}",
                Job::init().expect_err("no room for a rank")
            );
        }
        "file_size_of_a_window" => {
            if rank == 1 {
                set(libc::RLIMIT_FSIZE, SMALL);
            }
            let job = Job::init().expect("a job");
            let refused = Window::allocate(job.world(), LONG, 1, &Info::new());
            println!("refused: {:?}", refused.expect_err("no room for a window"));
            let window = Window::allocate(job.world(), 1 << 20, 1, &Info::new());
            window.expect("a small window").free().expect("freed");
        }
        "descriptors" => descriptors(),
        _ => panic!("no case {case:?}"),
    }
    println!("rank {rank} goes on");
}

fn descriptors() {
    let job = Job::init().expect("a job");
    set(libc::RLIMIT_NOFILE, FILES);
    let world = job.world();
    let me = world.rank();
    let allocate = |size| Window::allocate(world, size, 1, &Info::new());
    let small = (0..3 * FILES).map(|_| allocate(8).expect("a small window"));
    let mut windows: Vec<_> = small.collect();
    let mut large = 0;
    let refused = loop {
        match allocate(APART) {
            Ok(window) => windows.push(window),
            Err(error) => break error,
        }
        large += 1;
    };
    println!("refused: {refused:?}");
    assert!(large > FILES as usize / 2, "{large}");
    // What is left is the program's, and is enough to reach those that were not needed before.
    let few: Vec<File> = (0..8).map(|_| null().expect("a descriptor")).collect();
    let window = windows.last().expect("a window");
    window.lock_all(Assert::NONE).expect("a lock of all");
    put(window, &[1], (me + 1) % RANKS, 0).expect("a put");
    window.unlock_all().expect("the end of it");
    // Now the program takes them all.
    let all: Vec<File> = std::iter::from_fn(|| null().ok()).collect();
    let locked = (0..RANKS).map(|rank| window.lock(LockKind::Shared, rank, Assert::NONE));
    let locked: Vec<_> = locked.collect();
    drop((few, all));
    for (rank, locked) in (0..).zip(locked) {
        match locked {
            Ok(()) => {}
            Err(error) => {
                assert!(error.to_string().contains("`ulimit -n`"), "{error}");
                (window.lock(LockKind::Shared, rank, Assert::NONE)).expect("a lock after that");
            }
        }
        window.unlock(rank).expect("an unlock");
    }
    world.barrier().expect("a barrier");
    // A communicator of the ranks of this host needs to read which host it is.
    let all: Vec<File> = std::iter::from_fn(|| null().ok()).collect();
    let shared = world.split_shared(0);
    drop(all);
    println!("refused: {:?}", shared.expect_err("nothing can be read"));
    for window in windows {
        window.free().expect("freed");
    }
}

fn null() -> io::Result<File> {
    File::open("/dev/null")
}

fn set(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: takes a structure to read.
    let set = unsafe { libc::setrlimit(resource, &raw const limit) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}
