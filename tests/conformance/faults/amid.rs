//! One rank of three is killed while all of them make requests of one kind, which go to it and come from it.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use transom::raw::{Assert, Window};
use transom::{Accumulate, Info, Job, LockKind, Op, Result};

use super::death::{CULPRIT, DYING_AFTER, RANKS, kill_oneself, report, survivors_find_out};
use crate::ops::{compare_and_swap, fetch_and_op, get, put_from};

const REQUESTS: [&str; 12] = [
    "put",
    "get",
    "long_put",
    "long_get",
    "fetch_and_op",
    "compare_and_swap",
    "accumulate",
    "get_accumulate",
    "lock",
    "fence",
    "pscw",
    "notify",
];

const LEN: usize = 65_536;
/// Devices register such an origin buffer in parts.
const LONG: usize = 9 << 20;
/// What is put and accumulated: it outlives all operations.
static VALUES: [u64; LEN / 8] = [1; LEN / 8];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let trial = |request| {
        Trial::test(
            format!("{device}/faults/killed_amid/{request}"),
            move || survivors_find_out(device, &format!("faults/amid/{request}")),
        )
    };
    REQUESTS.into_iter().map(trial).collect()
}

pub(crate) fn play(request: &str) {
    let job = Job::init().expect("a job");
    let rank = job.world().rank();
    let window = Window::allocate(job.world(), LONG, 1, &Info::new()).expect("a window");
    job.world().barrier().expect("a barrier");
    let begun = Instant::now();
    if rank == CULPRIT {
        std::thread::spawn(|| {
            std::thread::sleep(DYING_AFTER);
            kill_oneself();
        });
    }
    let ended = requests(&job, &window, request);
    let error = ended.and_then(|()| job.world().barrier()).err();
    report(rank, begun, error);
}

/// Until a request fails, which those to memory that is mapped do not: survivors make them for a while, and then find out in a
/// barrier.
fn requests(job: &Job, window: &Window, request: &str) -> Result<()> {
    let rank = job.world().rank();
    let next = (rank + 1) % RANKS;
    let target = if rank == CULPRIT { next } else { CULPRIT };
    let bytes: &[u8] = bytemuck::cast_slice(&VALUES);
    let mut fetched = vec![0; LEN];
    let mut long = vec![1; LONG];
    if !matches!(request, "lock" | "fence" | "pscw") {
        window.lock_all(Assert::NONE)?;
    }
    let is_collective = matches!(request, "fence" | "pscw" | "notify");
    let begun = Instant::now();
    let mut round = 0;
    while is_collective || rank == CULPRIT || begun.elapsed() < Duration::from_millis(500) {
        round += 1;
        match request {
            "put" => put_from(window, bytes, target, 0)?,
            "get" => get(window, &mut fetched, target, 0)?,
            "long_put" => put_from(window, &long, target, 0)?,
            "long_get" => get(window, &mut long, target, 0)?,
            "fetch_and_op" => drop(fetch_and_op(window, 1_u64, target, 0, Op::Sum)?),
            "compare_and_swap" => drop(compare_and_swap(window, 0_u64, 1, target, 0)?),
            "accumulate" => accumulate(window, target)?,
            "get_accumulate" => get_accumulate(window, &mut fetched, target)?,
            "lock" => {
                window.lock(LockKind::Exclusive, target, Assert::NONE)?;
                put_from(window, bytes, target, 0)?;
                window.unlock(target)?;
                continue;
            }
            "fence" => {
                window.fence(Assert::NONE)?;
                put_from(window, bytes, next, 0)?;
                continue;
            }
            "pscw" => {
                let all = window.group();
                window.post(all, Assert::NONE)?;
                window.start(all, Assert::NONE)?;
                put_from(window, bytes, next, 0)?;
                window.complete()?;
                window.wait()?;
                continue;
            }
            "notify" => {
                put_notify(window, next)?;
                window.wait_notify(0, round)?;
            }
            _ => panic!("no request {request:?}"),
        }
        window.flush(target)?;
    }
    Ok(())
}

fn accumulate(window: &Window, target: u32) -> Result<()> {
    let from = VALUES.as_ptr().cast();
    // SAFETY: these values live for ever.
    unsafe { window.accumulate(from, VALUES.len(), u64::TYPE, target, 0, Op::Sum) }
}

fn get_accumulate(window: &Window, fetched: &mut [u8], target: u32) -> Result<()> {
    let (from, to) = (VALUES.as_ptr().cast(), fetched.as_mut_ptr());
    // SAFETY: the values live for ever. What is fetched outlives the flush that follows, after which, failed or not, nobody
    // writes to it.
    unsafe { window.get_accumulate(from, to, VALUES.len(), u64::TYPE, target, 0, Op::Sum) }
}

fn put_notify(window: &Window, target: u32) -> Result<()> {
    // SAFETY: these values live for ever.
    unsafe { window.put_notify(VALUES.as_ptr().cast(), LEN, target, 0, 0) }
}
