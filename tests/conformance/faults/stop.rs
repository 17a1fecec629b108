//! A rank that is stopped for a while is slow, not dead.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Op, Result};
use transom_testing::job::{self, Launched, Others};

use crate::ops::{fetch_and_op, get, put};

const STOPPED: Duration = Duration::from_secs(2);

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let check = move || {
        let Launched { status, output, .. } = job::play(3, device, Others::End, "faults/stop");
        let ended = output
            .lines()
            .filter(|line| line.contains("waited"))
            .count();
        if !status.is_some_and(|status| status.success()) || ended != 2 {
            return Err(Failed::from(format!("{status:?}\n{output}")));
        }
        Ok(())
    };
    vec![Trial::test(
        format!("{device}/faults/a_stopped_rank_is_not_dead"),
        check,
    )]
}

/// Rank 1 holds a lock of rank 0 and is stopped; the others wait for the lock, in a fence and in
/// a barrier until it goes on.
pub(crate) fn play() {
    if let Err(error) = wait_for_the_stopped() {
        println!("failed: {error:?}");
        std::process::exit(1);
    }
}

fn wait_for_the_stopped() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let window = Window::allocate(world, 4096, 1, &Info::new())?;
    let pids = world.allgather(&[std::process::id()])?;
    if world.rank() == 1 {
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    }
    let mut last = Instant::now();
    world.barrier()?;
    if world.rank() == 1 {
        // Until it has been stopped: then time leaps.
        loop {
            let now = Instant::now();
            if now - last >= STOPPED / 2 {
                break;
            }
            last = now;
            std::thread::sleep(Duration::from_millis(1));
        }
        put(&window, &[1], 0, 8)?;
        window.unlock(0)?;
    } else {
        let begun = Instant::now();
        if world.rank() == 0 {
            let pid = pids[1].cast_signed();
            // SAFETY: kill takes two integers.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
            std::thread::spawn(move || {
                std::thread::sleep(STOPPED);
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGCONT) };
            });
        }
        window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
        let mut seen = [0];
        get(&window, &mut seen, 0, 8)?;
        window.unlock(0)?;
        assert_eq!(seen, [1], "the lock came before rank 1 went on");
        println!("rank {} waited {:?}", world.rank(), begun.elapsed());
    }
    window.fence(Assert::NONE)?;
    window.fence(Assert::NO_SUCCEED)?;
    window.lock_all(Assert::NONE)?;
    fetch_and_op(&window, 1_u64, 1, 16, Op::Sum)?;
    window.unlock_all()?;
    world.barrier()?;
    window.free()
}
