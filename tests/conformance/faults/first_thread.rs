//! A process lives as long as any of its threads.

use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Op, Result, ThreadLevel};
use transom_testing::job::{self, Launched, Others};

use crate::ops::{fetch_and_op, get, put};

const RANKS: u32 = 3;
const LEN: usize = 100_000;
const COUNTER: u64 = LEN as u64 - 32;

pub(crate) fn trials(device: &'static str) -> Vec<Trial> {
    let check = move || {
        let Launched { status, output, .. } =
            job::play(RANKS, device, Others::End, "faults/first_thread");
        let right = output.lines().filter(|line| line.contains("right"));
        if !status.is_some_and(|status| status.success()) || right.count() != RANKS as usize {
            return Err(Failed::from(format!("{status:?}\n{output}")));
        }
        Ok(())
    };
    vec![Trial::test(
        format!("{device}/faults/a_rank_outlives_its_first_thread"),
        check,
    )]
}

/// The first thread of rank 1 ends, in one window before anybody has met, and another thread takes part in the job.
pub(crate) fn play() {
    let job = Job::init_thread(ThreadLevel::Multiple).expect("a job");
    let is_first_to_end = job.world().rank() == 1;
    let go_on = move || match take_part(&job) {
        Ok(()) => {
            println!("right");
            drop(job);
            std::process::exit(0);
        }
        Err(error) => {
            println!("failed: {error:?}");
            std::process::exit(1);
        }
    };
    if !is_first_to_end {
        return go_on();
    }
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        go_on();
    });
    // SAFETY: the call ends this thread, whose stack stays; it takes an integer.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

fn take_part(job: &Job) -> Result<()> {
    let world = job.world();
    let (rank, next) = (world.rank(), (world.rank() + 1) % world.size());
    if rank != 1 {
        // That thread has ended before anybody has met.
        thread::sleep(Duration::from_millis(300));
    }
    let allocated = Window::allocate(world, LEN, 1, &Info::new())?;
    let mut memory = vec![0_u8; LEN];
    // SAFETY: the window is freed below, before the memory goes, and an error ends the process.
    let created = unsafe { Window::create(world, memory.as_mut_ptr(), LEN, 1, &Info::new())? };
    for window in [&allocated, &created] {
        for round in 1..=10_u8 {
            let sent = vec![round + rank as u8; LEN / 2];
            window.fence(Assert::NONE)?;
            put(window, &sent, next, 0)?;
            if rank != 1 {
                // Whoever waits long enough looks whether the others live.
                thread::sleep(Duration::from_millis(10));
            }
            window.fence(Assert::NONE)?;
            let mut seen = vec![0; LEN / 2];
            get(window, &mut seen, next, 0)?;
            window.fence(Assert::NO_SUCCEED)?;
            assert_eq!(seen, sent);
        }
        window.lock(LockKind::Exclusive, 1, Assert::NONE)?;
        fetch_and_op(window, 1_u64, 1, COUNTER, Op::Sum)?;
        thread::sleep(Duration::from_millis(60));
        window.unlock(1)?;
        world.barrier()?;
        let mut sum = [0; 8];
        window.lock_all(Assert::NONE)?;
        get(window, &mut sum, 1, COUNTER)?;
        window.unlock_all()?;
        assert_eq!(u64::from_ne_bytes(sum), u64::from(RANKS));
    }
    created.free()?;
    allocated.free()
}
