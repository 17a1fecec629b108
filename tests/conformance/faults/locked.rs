//! Too little memory may be locked: for the start, for a window, for an origin buffer.

use std::io;

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Communicator, Info, Job, LockKind, Result};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};

use crate::ops::{get, put_from};

const RANKS: u32 = 2;
/// Less than any rank needs.
const TINY: u64 = 64 << 10;
/// Enough for a rank, but not for `LONG` bytes beside it.
const SMALL: u64 = 8 << 20;
const LONG: usize = 12 << 20;

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let trial = |case: &str, check: fn(&str) -> std::result::Result<(), Failed>| {
        let name = format!("{device}/faults/locked_memory/{case}");
        Trial::test(name, move || check(device))
    };
    vec![
        trial("too_little_to_start", no_rank_starts),
        trial("too_little_for_a_window", all_ranks_hear_and_go_on),
    ]
}

fn no_rank_starts(device: &str) -> std::result::Result<(), Failed> {
    let role = "faults/locked/start";
    let Launched { status, output, .. } = job::play(RANKS, device, Others::GoOn, role);
    let refused = lines(
        &output,
        "refused",
        "the limit of locked memory is 64 KiB; raise it with",
    );
    if status.is_none_or(|status| status.success()) || refused != RANKS as usize {
        return Err(format!("{status:?}\n{output}").into());
    }
    Ok(())
}

fn all_ranks_hear_and_go_on(device: &str) -> std::result::Result<(), Failed> {
    let role = "faults/locked/window";
    let Launched { status, output, .. } = job::play(RANKS, device, Others::End, role);
    let clear = |line: &&str| line.contains("of locked memory is 8192 KiB; raise it with");
    let heard = output.lines().filter(clear);
    let heard = heard.filter(|line| line.ends_with("(NoMem)")).count();
    let fail = |what: &str| Err(format!("{what} ({status:?})\n{output}").into());
    if !status.is_some_and(|status| status.success()) {
        return fail("the job failed");
    }
    if heard != 2 * RANKS as usize + 1 {
        return fail("not every rank was told twice, and rank 1 of its registration");
    }
    if lines(&output, "intact", "") != RANKS as usize {
        return fail("long transfers did not work");
    }
    Ok(())
}

fn lines(output: &str, what: &str, also: &str) -> usize {
    let wanted = |line: &&str| line.contains(what) && line.contains(also);
    output.lines().filter(wanted).count()
}

pub(crate) fn play(case: &str) {
    match case {
        "start" => {
            lock_at_most(TINY);
            let error = Job::init().expect_err("more memory than this may be locked");
            println!("refused: {error:?}");
            std::process::exit(1);
        }
        "window" => {
            if environment::own_rank() == 1 {
                lock_at_most(SMALL);
            }
            let job = Job::init().expect("a job");
            refuse_windows(job.world());
            refuse_registration(&job);
            transfer(job.world()).expect("long transfers");
        }
        _ => panic!("no case {case:?}"),
    }
}

/// Limits this process as an ordinary user is limited, who cannot raise it.
fn lock_at_most(bytes: u64) {
    const IPC_LOCK: u32 = 1 << 14;
    // Version 3 of the call: this process, and its sets as effective, permitted, inheritable of 32
    // capabilities each.
    let mut header = [0x2008_0522_u32, 0];
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: places of the sizes that version 3 asks for.
    let read = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    assert_eq!(read, 0, "{}", io::Error::last_os_error());
    for set in &mut sets[0] {
        *set &= !IPC_LOCK;
    }
    // SAFETY: as above.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: takes a structure to read.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

fn refuse_windows(world: &Communicator) {
    let me = world.rank();
    let mut heap = vec![0_u8; if me == 1 { LONG } else { 64 }];
    let error = Window::allocate(world, heap.len(), 1, &Info::new()).expect_err("no window");
    println!("rank {me} allocate: {error:?}");
    // SAFETY: no window comes of it, so nothing refers to the memory afterwards.
    let window = unsafe { Window::create(world, heap.as_mut_ptr(), heap.len(), 1, &Info::new()) };
    println!("rank {me} create: {:?}", window.expect_err("no window"));
}

fn refuse_registration(job: &Job) {
    if job.world().rank() == 1 {
        let error = job.register(vec![0_u8; LONG]).expect_err("too long");
        println!("rank 1 register: {error:?}");
    }
}

/// Rank 1 transfers from and to buffers that it cannot register.
fn transfer(world: &Communicator) -> Result<()> {
    let me = world.rank();
    let size = if me == 1 { 64 } else { LONG };
    let window = Window::allocate(world, size, 1, &Info::new())?;
    let bytes: Vec<u8> = (0..LONG).map(|at| (at / 7 % 251) as u8).collect();
    if me == 1 {
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
        put_from(&window, &bytes, 0, 0)?;
        window.unlock(0)?;
    }
    world.barrier()?;
    let mut back = vec![0; LONG];
    window.lock(LockKind::Shared, 0, Assert::NONE)?;
    get(&window, &mut back, 0, 0)?;
    window.unlock(0)?;
    assert!(back == bytes, "rank {me} found other bytes");
    println!("rank {me} found {LONG} bytes intact");
    window.free()
}
