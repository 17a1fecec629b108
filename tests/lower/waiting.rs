//! Waits in which a host makes progress, and waits for anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, LockKind};
use transom_testing::environment::slowness;

use crate::cases;
use crate::files::{read, write};
use crate::started::{Case, Outcome, Rank, check, error_of};

pub(crate) const CASES: &[Case] = cases!["waiting":
    2: a_host_makes_progress_in_every_wait,
    2: any_condition_is_waited_for,
    2: waits_for_a_dead_rank_end,
    2: waits_for_any_rank_end_when_one_is_dead,
];

/// Rank 0 comes to nothing before rank 1's host has sent a message, which that one does only when it is
/// called. Without a hook both would wait for ever.
fn a_host_makes_progress_in_every_wait(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let window = Window::allocate(job.world(), 8, 8, &Info::new())?;
    let calls = Arc::new(AtomicU32::new(0));
    let message = |number: u32| rank.folder.join(format!("message-{number}"));
    if rank.rank == 1 {
        let (folder, calls) = (rank.folder.clone(), calls.clone());
        job.on_wait(move || {
            // A message for each wait that rank 0 announces.
            let number = calls.load(Ordering::Relaxed);
            if folder.join(format!("awaited-{number}")).exists() {
                calls.fetch_add(1, Ordering::Relaxed);
                let _ = write(&folder.join(format!("message-{number}")), b"");
            }
        });
    }
    // A fence, a lock, a collective, and a barrier of the library's.
    for number in 0..4 {
        if rank.rank == 0 {
            if number == 1 {
                window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
                write(&rank.folder.join("locked"), b"")?;
            }
            write(&rank.folder.join(format!("awaited-{number}")), b"")?;
            read(&message(number))?;
        } else if number == 1 {
            read(&rank.folder.join("locked"))?;
        }
        match number {
            0 => window.fence(Assert::NO_SUCCEED)?,
            1 if rank.rank == 0 => window.unlock(0)?,
            1 => {
                window.lock(LockKind::Shared, 0, Assert::NONE)?;
                window.unlock(0)?;
            }
            2 => drop(job.world().allgather(&[rank.rank])?),
            _ => job.world().barrier()?,
        }
    }
    let wanted = if rank.rank == 1 { 4 } else { 0 };
    check(
        calls.load(Ordering::Relaxed) == wanted,
        "one message for each wait",
    )?;
    window.free()?;
    job.finish()?;
    check(Arc::strong_count(&calls) == 1, "the hook goes with the job")
}

fn any_condition_is_waited_for(rank: &Rank) -> Outcome {
    let job = rank.job()?;
    let here = rank.folder.join(format!("here-{}", rank.rank));
    let there = rank.folder.join(format!("here-{}", 1 - rank.rank));
    if rank.rank == 1 {
        std::thread::sleep(Duration::from_millis(300));
    }
    write(&here, b"")?;
    job.wait_until(Some(1 - rank.rank), || there.exists())?;
    job.wait_until(None, || there.exists())?;
    let error = error_of(job.wait_until(Some(2), || true), "a wait for rank 2 of 2")?;
    check(error.class() == ErrorClass::Rank, &error)?;
    job.world().barrier()?;
    Ok(job.finish()?)
}

fn waits_for_a_dead_rank_end(rank: &Rank) -> Outcome {
    dies(rank, Some(1))
}

fn waits_for_any_rank_end_when_one_is_dead(rank: &Rank) -> Outcome {
    dies(rank, None)
}

/// Rank 1 goes without a word.
fn dies(rank: &Rank, awaited: Option<u32>) -> Outcome {
    let job = rank.job()?;
    job.world().barrier()?;
    rank.meet()?;
    if rank.rank == 1 {
        std::process::exit(0);
    }
    let begun = Instant::now();
    let error = error_of(job.wait_until(awaited, || false), "a wait for the dead")?;
    check(error.class() == ErrorClass::ProcAborted, &error)?;
    check(error.to_string().contains("rank 1"), &error)?;
    let limit = Duration::from_secs(30) * slowness();
    check(begun.elapsed() < limit, "within seconds")
}
