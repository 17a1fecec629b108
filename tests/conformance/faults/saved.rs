//! One rank of three is killed. The others save their own part, give the window up, and leave the job.

use std::thread;
use std::time::Instant;

use libtest_mimic::Trial;
use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job, LockKind, Result};

use super::death::{CULPRIT, DYING_AFTER, RANKS, kill_oneself, report, survivors_find_out};
use crate::ops::put_from;

/// Of memory that the library allocated, and of memory of the program.
const MEMORIES: [&str; 2] = ["allocated", "created"];
/// When the culprit dies.
const PHASES: [&str; 3] = ["puts", "fence", "lock"];

/// The first half is put before the death, the second amid it.
const HALF: usize = 50_000;
static BEFORE: [u8; HALF] = [3; HALF];
static AMID: [u8; HALF] = [5; HALF];

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let cases = MEMORIES
        .iter()
        .flat_map(|memory| PHASES.map(|phase| format!("{memory}/{phase}")));
    let trial = |case: String| {
        let role = format!("faults/saved/{case}");
        Trial::test(
            format!("{device}/faults/killed_and_saved/{case}"),
            move || survivors_find_out(device, &role),
        )
    };
    cases.map(trial).collect()
}

pub(crate) fn play(case: &str) {
    let (memory, phase) = case.split_once('/').expect("which memory and when");
    let job = Job::init().expect("a job");
    let world = job.world();
    let rank = world.rank();
    let window = match memory {
        "created" => {
            let own = Vec::leak(vec![0_u8; 2 * HALF]);
            // SAFETY: leaked, and used by nobody else.
            unsafe { Window::create(world, own.as_mut_ptr(), own.len(), 1, &Info::new()) }
        }
        _ => Window::allocate(world, 2 * HALF, 1, &Info::new()),
    };
    let window = window.expect("a window");
    world.barrier().expect("a barrier");
    let begun = Instant::now();
    let error = until_the_death(&job, &window, phase).expect_err("an error");
    if phase == "lock" && rank == 0 {
        let own = window.lock(LockKind::Exclusive, rank, Assert::NONE);
        let refused = own.expect_err("the dead have the lock");
        assert_eq!(refused.class(), ErrorClass::ProcAborted, "{refused}");
    }
    let mut saved = vec![0; 2 * HALF];
    window.read_own(0, &mut saved).expect("the own part");
    let put = if phase == "lock" && rank != 0 { 0 } else { 3 };
    let (before, amid) = saved.split_at(HALF);
    assert!(before.iter().all(|&byte| byte == put));
    assert!(amid.iter().all(|&byte| matches!(byte, 0 | 5)));
    let (window, _) = window.try_free().expect_err("it waits for nobody");
    window.read_own(0, &mut saved[..1]).expect("the own part");
    drop(window);
    drop(job);
    report(rank, begun, Some(error));
}

/// Ends with the error that tells of the death.
fn until_the_death(job: &Job, window: &Window, phase: &str) -> Result<()> {
    let world = job.world();
    let is_culprit = world.rank() == CULPRIT;
    let next = (world.rank() + 1) % RANKS;
    match phase {
        "puts" => {
            window.lock_all(Assert::NONE)?;
            if is_culprit {
                put_to_others(window, &BEFORE, 0)?;
            }
            world.barrier()?;
            if is_culprit {
                thread::spawn(|| {
                    thread::sleep(DYING_AFTER);
                    kill_oneself();
                });
                loop {
                    put_to_others(window, &AMID, HALF as u64)?;
                }
            }
            world.barrier()
        }
        "fence" => {
            window.fence(Assert::NONE)?;
            put_from(window, &BEFORE, next, 0)?;
            window.fence(Assert::NONE)?;
            put_from(window, &AMID, next, HALF as u64)?;
            if is_culprit {
                kill_oneself();
            }
            window.fence(Assert::NONE)
        }
        _ => {
            if is_culprit {
                window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
                put_from(window, &BEFORE, 0, 0)?;
                window.flush(0)?;
                world.barrier()?;
                put_from(window, &AMID, 0, HALF as u64)?;
                kill_oneself();
            }
            world.barrier()?;
            window.lock(LockKind::Shared, 0, Assert::NONE)
        }
    }
}

fn put_to_others(window: &Window, bytes: &'static [u8], disp: u64) -> Result<()> {
    for rank in (0..RANKS).filter(|&rank| rank != CULPRIT) {
        put_from(window, bytes, rank, disp)?;
    }
    window.flush_all()
}
