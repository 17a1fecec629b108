//! Readers that a waiting writer keeps back, though what it waits for depends on them: nobody may wait for
//! ever, and writers must not starve for it.

use std::thread;
use std::time::Duration;

use transom::raw::{Assert, Window};
use transom::{Job, LockKind, Op};

use crate::case::{Case, Failure, Outcome, cases, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::{fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["circles":
    single_locks_of_two_windows @ [4],
    exclusive_locks_of_two_windows @ [4],
    lock_all_of_two_windows @ [4],
    threads_with_locks_of_two_windows @ [4],
    a_lock_and_a_barrier @ [4],
    a_lock_that_nobody_waits_for_is_no_reason_to_overtake @ [4],
];

/// Until those who are about to wait do so.
const SOON: Duration = Duration::from_millis(50);
const ROUNDS: u64 = 3;

/// Ranks 0 and 1 hold a lock of a window each and ask for the other's, in which rank 2 or 3 waits for them:
/// `hold` and `ask` take the window that is held and the one that is asked for.
fn crossing(
    job: &Job,
    kind: LockKind,
    cross: impl Fn(&Window, &Window, &dyn Fn() -> Outcome) -> Outcome,
) -> Outcome {
    let windows = [
        Exposed::open(job, Memory::Allocate, 16, 8)?,
        Exposed::open(job, Memory::Heap, 16, 8)?,
    ];
    let world = job.world();
    let me = world.rank() as usize;
    let held = &windows[me % 2];
    for _ in 0..ROUNDS {
        if me < 2 {
            cross(held, &windows[1 - me % 2], &|| {
                world.barrier()?;
                thread::sleep(SOON);
                Ok(())
            })?;
        } else {
            world.barrier()?;
            held.lock(kind, 3, Assert::NONE)?;
            fetch_and_op(held, 1_u64, 3, 0, Op::Sum)?;
            held.unlock(3)?;
        }
        world.barrier()?;
    }
    if me == 3 {
        for window in &windows {
            window.lock(LockKind::Shared, 3, Assert::NONE)?;
            check_eq!(fetch_and_op(window, 0_u64, 3, 0, Op::NoOp)?, ROUNDS);
            window.unlock(3)?;
        }
    }
    world.barrier()?;
    let [first, second] = windows;
    first.close()?;
    second.close()
}

/// Under whatever lock is held: the writer has been there as often as it has, and not now.
fn look(window: &Window) -> Outcome {
    let mut word = [0; 8];
    get(window, &mut word, 3, 0)?;
    window.flush(3)?;
    Ok(())
}

fn single_locks_of_two_windows(job: &Job) -> Outcome {
    crossing(job, LockKind::Exclusive, |held, asked, writers_wait| {
        held.lock(LockKind::Shared, 3, Assert::NONE)?;
        writers_wait()?;
        asked.lock(LockKind::Shared, 3, Assert::NONE)?;
        look(held)?;
        look(asked)?;
        asked.unlock(3)?;
        held.unlock(3)?;
        Ok(())
    })
}

/// What each of the two holds exclusively, a reader waits for, which nothing shows; each asks for what a
/// reader holds and a writer waits for.
fn exclusive_locks_of_two_windows(job: &Job) -> Outcome {
    let own = Exposed::open(job, Memory::Allocate, 16, 8)?;
    let shared = Exposed::open(job, Memory::Allocate, 16, 8)?;
    let world = job.world();
    for _ in 0..ROUNDS {
        match world.rank() {
            // Holds what 1 waits for; asks for what 1 holds, behind 2.
            0 => {
                own.lock(LockKind::Exclusive, 3, Assert::NONE)?;
                world.barrier()?;
                thread::sleep(SOON);
                shared.lock(LockKind::Shared, 3, Assert::NONE)?;
                look(&shared)?;
                shared.unlock(3)?;
                own.unlock(3)?;
            }
            1 => {
                shared.lock(LockKind::Shared, 3, Assert::NONE)?;
                world.barrier()?;
                own.lock(LockKind::Shared, 3, Assert::NONE)?;
                own.unlock(3)?;
                shared.unlock(3)?;
            }
            2 => {
                world.barrier()?;
                shared.lock(LockKind::Exclusive, 3, Assert::NONE)?;
                shared.unlock(3)?;
            }
            _ => world.barrier()?,
        }
        world.barrier()?;
    }
    own.close()?;
    shared.close()
}

/// Locks that lock_all takes when they are needed.
fn lock_all_of_two_windows(job: &Job) -> Outcome {
    crossing(job, LockKind::Exclusive, |held, asked, writers_wait| {
        held.lock_all(Assert::NONE)?;
        asked.lock_all(Assert::NONE)?;
        look(held)?;
        writers_wait()?;
        look(asked)?;
        asked.unlock_all()?;
        held.unlock_all()?;
        Ok(())
    })
}

/// One thread holds, and lets go when another has had what it asks for.
fn threads_with_locks_of_two_windows(job: &Job) -> Outcome {
    crossing(job, LockKind::Exclusive, |held, asked, writers_wait| {
        held.lock(LockKind::Shared, 3, Assert::NONE)?;
        writers_wait()?;
        let other = thread::scope(|scope| {
            let other = scope.spawn(|| {
                asked.lock(LockKind::Shared, 3, Assert::NONE)?;
                look(asked)?;
                asked.unlock(3)?;
                Ok(())
            });
            other
                .join()
                .unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        });
        held.unlock(3)?;
        other
    })
}

/// Rank 0 holds a lock until rank 1 has held it, too: no lock shows that it waits for that.
fn a_lock_and_a_barrier(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let world = job.world();
    let me = world.rank();
    let pair = world.split(Some(u32::from(me > 1)), 0)?;
    for _ in 0..2 {
        if me == 0 {
            window.lock(LockKind::Shared, 3, Assert::NONE)?;
        }
        world.barrier()?;
        match (me, &pair) {
            (0, Some(pair)) => {
                pair.barrier()?;
                window.unlock(3)?;
            }
            (1, Some(pair)) => {
                // Behind the writer, which waits by now.
                thread::sleep(SOON);
                window.lock(LockKind::Shared, 3, Assert::NONE)?;
                pair.barrier()?;
                window.unlock(3)?;
            }
            (2, _) => {
                window.lock(LockKind::Exclusive, 3, Assert::NONE)?;
                window.unlock(3)?;
            }
            _ => {}
        }
        world.barrier()?;
    }
    window.close()
}

/// Readers whose long epochs overlap hold locks of another window all the while. They let a writer in,
/// without which they never end.
fn a_lock_that_nobody_waits_for_is_no_reason_to_overtake(job: &Job) -> Outcome {
    let idle = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let busy = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let world = job.world();
    let me = world.rank();
    idle.lock_all(Assert::NONE)?;
    world.barrier()?;
    if me == 0 {
        thread::sleep(SOON);
        busy.lock(LockKind::Exclusive, 3, Assert::NONE)?;
        for reader in 1..world.size() {
            put(&idle, &1_u64.to_ne_bytes(), reader, 0)?;
        }
        idle.flush_all()?;
        busy.unlock(3)?;
    } else {
        thread::sleep(Duration::from_millis(u64::from(me) * 20));
        while fetch_and_op(&idle, 0_u64, me, 0, Op::NoOp)? == 0 {
            busy.lock(LockKind::Shared, 3, Assert::NONE)?;
            thread::sleep(Duration::from_millis(60));
            busy.unlock(3)?;
        }
    }
    idle.unlock_all()?;
    world.barrier()?;
    idle.close()?;
    busy.close()
}
