//! One rank of three dies while nobody waits for it: what the others call all the while says so.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Result};

use super::death::{CULPRIT, RANKS, die, report, survivors_find_out};
use crate::ops::{get, put_from};

/// Far beyond the time that the test gives them.
const LONG: Duration = Duration::from_secs(20);

/// What the survivors do over and over, on the memory of the dead.
const ON_THE_DEAD: [&str; 8] = [
    "put_and_flush",
    "get_and_flush",
    "flush",
    "flush_local",
    "lock",
    "lock_all",
    "put_and_flush_all",
    "request_of_the_dead",
];

/// The same among the living, or with nobody.
const AMONG_THE_LIVING: [&str; 9] = [
    "flush_all",
    "flush_local_all",
    "flush_another",
    "lock_another",
    "lock_all_another",
    "fence",
    "start",
    "request",
    "sync",
];

static DATA: [u8; 100] = [1; 100];

/// Rank 0 does it with rank 2, which waits for the dead and so finds out.
const TOLD: [&str; 2] = ["told_flush", "told_lock"];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let calls = [&ON_THE_DEAD[..], &TOLD[..], &AMONG_THE_LIVING[..]].concat();
    let mut trials = Vec::new();
    for call in calls {
        for end in ["killed", "exits"] {
            let name = format!("{device}/faults/{end}/unawaited/{call}");
            let role = format!("faults/unawaited/{end}/{call}");
            trials.push(Trial::test(name, move || survivors_find_out(device, &role)));
        }
    }
    trials
}

pub(crate) fn play(role: &str) {
    let (end, call) = role.split_once('/').expect("how and what");
    let job = Job::init().expect("a job");
    let world = job.world();
    let rank = world.rank();
    let window = Window::allocate(world, 4096, 1, &Info::new()).expect("a window");
    let color = (rank != CULPRIT).then_some(0);
    let living = world.split(color, 0).expect("a split");
    let among = living.map(|living| {
        Window::allocate(&living, 4096, 1, &Info::new()).expect("a window of the living")
    });
    world.barrier().expect("a barrier");
    let Some(among) = among else {
        return die(end, job);
    };
    let begun = Instant::now();
    let mut result = Ok(());
    if call.starts_with("told") && rank == 2 {
        result = world.barrier();
    }
    if result.is_ok()
        && let "flush"
        | "flush_local"
        | "put_and_flush"
        | "get_and_flush"
        | "put_and_flush_all"
        | "flush_all"
        | "flush_local_all"
        | "flush_another"
        | "told_flush"
        | "request_of_the_dead"
        | "sync" = call
    {
        result = window.lock_all(Assert::NONE);
    }
    // Transfers may be under way when a round fails.
    let room = Vec::leak(vec![0; 100]);
    if call == "fence" {
        result = among.fence(Assert::NONE);
    }
    while result.is_ok() && begun.elapsed() < LONG {
        result = one_round(call, rank, &window, &among, room);
    }
    report(rank, begun, result.err());
}

fn request(window: &Window, target: u32) -> Result<()> {
    // SAFETY: the buffer is there for ever.
    unsafe { window.rput(DATA.as_ptr(), DATA.len(), target, 0)? }.wait()
}

/// The other survivor's rank among all ranks, and among the living.
fn other(rank: u32) -> (u32, u32) {
    (RANKS - 1 - rank, u32::from(rank == 0))
}

fn one_round(
    call: &str,
    rank: u32,
    window: &Window,
    among: &Window,
    room: &mut [u8],
) -> Result<()> {
    let (other, partner) = other(rank);
    match call {
        "put_and_flush" => {
            put_from(window, &DATA, CULPRIT, 0)?;
            window.flush(CULPRIT)
        }
        "get_and_flush" => {
            get(window, room, CULPRIT, 0)?;
            window.flush(CULPRIT)
        }
        "put_and_flush_all" => {
            put_from(window, &DATA, CULPRIT, 0)?;
            window.flush_all()
        }
        "request_of_the_dead" => request(window, CULPRIT),
        "sync" => window.sync(),
        "flush" => window.flush(CULPRIT),
        "flush_local" => window.flush_local(CULPRIT),
        "flush_another" | "told_flush" => {
            put_from(window, &DATA, other, 0)?;
            window.flush(other)
        }
        "flush_all" => {
            put_from(window, &DATA, other, 0)?;
            window.flush_all()
        }
        "flush_local_all" => {
            put_from(window, &DATA, other, 0)?;
            window.flush_local_all()
        }
        "lock" | "lock_another" | "told_lock" => {
            let target = if call == "lock" { CULPRIT } else { other };
            window.lock(LockKind::Shared, target, Assert::NONE)?;
            put_from(window, &DATA, target, 0)?;
            window.unlock(target)
        }
        "lock_all" | "lock_all_another" => {
            let target = if call == "lock_all" { CULPRIT } else { other };
            window.lock_all(Assert::NONE)?;
            put_from(window, &DATA, target, 0)?;
            window.unlock_all()
        }
        "fence" => {
            put_from(among, &DATA, partner, 0)?;
            among.fence(Assert::NONE)
        }
        "start" => {
            let group = among.group().include(&[partner])?;
            among.post(&group, Assert::NONE)?;
            among.start(&group, Assert::NONE)?;
            put_from(among, &DATA, partner, 0)?;
            among.complete()?;
            among.wait()
        }
        "request" => {
            among.lock(LockKind::Shared, partner, Assert::NONE)?;
            let begun = Instant::now();
            let mut result = Ok(());
            while result.is_ok() && begun.elapsed() < LONG {
                result = request(among, partner);
            }
            result
        }
        _ => panic!("no call {call:?}"),
    }
}
