//! A rank that is stopped for a while is slow, not dead. It does not keep the others from learning of a death.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Op, Result};
use transom_testing::environment;
use transom_testing::job::{self, Launched, Others};

use super::death::{self, kill_oneself};
use crate::ops::{fetch_and_op, get, put, put_from};

const STOPPED: Duration = Duration::from_secs(2);
/// The rank that is stopped while another dies, and the one that dies.
const STILL: u32 = 0;
const DEAD: u32 = 2;
/// If no rank hears of the death, the stopped rank goes on after this time, and the test fails.
const STOPPED_AT_MOST: Duration = Duration::from_secs(20);
/// Survivors hear of the death by then.
const HEARD: Duration = Duration::from_secs(10);

/// Where windows have a count, which no other operation of the case touches.
const COUNT: u64 = 2048;

/// Origin buffers that live for ever.
static BYTES: [u8; 1000] = [1; 1000];

/// What rank 1 does with the stopped rank meanwhile.
const USES: [&str; 5] = ["flush", "short_puts", "atomics", "lock", "first_contact"];

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
    let alone = Trial::test(format!("{device}/faults/a_stopped_rank_is_not_dead"), check);
    let beside_a_death = USES.map(|used| {
        let name = format!("{device}/faults/a_death_beside_a_stopped_rank/{used}");
        Trial::test(name, move || survivors_hear_of_the_death(device, used))
    });
    std::iter::once(alone).chain(beside_a_death).collect()
}

fn survivors_hear_of_the_death(device: &str, used: &str) -> std::result::Result<(), Failed> {
    let role = format!("faults/stop/{used}");
    let Launched { status, output, .. } = job::play(4, device, Others::GoOn, &role);
    let fail = |what: &str| Err(format!("{what} ({status:?})\n{output}").into());
    for survivor in [1, 3] {
        let line = (output.lines())
            .find_map(|line| line.strip_prefix(&format!("survivor {survivor} after ")));
        let Some((millis, error)) = line.and_then(|line| line.split_once(" ms: ")) else {
            return fail("a survivor did not hear of the death");
        };
        if !error.contains("ProcAborted") || !error.contains(&format!("rank {DEAD} ")) {
            return fail("a survivor's error is not about the dead rank");
        }
        let limit = HEARD * environment::slowness();
        if (millis.parse::<u64>()).map_or(true, |millis| u128::from(millis) >= limit.as_millis()) {
            return fail("a survivor waited too long");
        }
    }
    Ok(())
}

pub(crate) fn play(used: &str) {
    let played = match used {
        "" => wait_for_the_stopped(),
        _ => die_beside_the_stopped(used),
    };
    if let Err(error) = played {
        println!("failed: {error:?}");
        std::process::exit(1);
    }
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: kill takes two integers.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// Rank 0 is stopped. Rank 1 uses only rank 0, and rank 3 only rank 2, which dies.
fn die_beside_the_stopped(used: &str) -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let window = Window::allocate(world, 4096, 1, &Info::new())?;
    let pids = world.allgather(&[std::process::id()])?;
    let still = pids[STILL as usize];
    let target = match world.rank() {
        1 => STILL,
        _ => DEAD,
    };
    let is_first = used == "first_contact";
    if world.rank() == 1 && !is_first {
        window.lock(LockKind::Exclusive, STILL, Assert::NONE)?;
        put_from(&window, &BYTES[..1], STILL, 8)?;
        window.unlock(STILL)?;
    }
    // All connect to both, but for rank 1 before its first contact. The dead rank's count is of these steps: each rank
    // has left the one before when the next begins, so that no rank waits for one that is stopped or dead already.
    count_up(&window, DEAD, 1)?;
    world.barrier()?;
    let connected = 4 + 3 - u64::from(is_first);
    let stopped = connected + 1;
    let seen = stopped + 1;
    if world.rank() > u32::from(is_first) {
        count_up(&window, STILL, 1)?;
        count_up(&window, DEAD, 1)?;
    }
    match world.rank() {
        STILL => {
            await_count(&window, connected)?;
            count_up(&window, DEAD, 1)?;
            send(still, libc::SIGSTOP);
            return world.barrier();
        }
        DEAD => {
            await_count(&window, seen)?;
            std::thread::sleep(STOPPED / 2);
            kill_oneself();
        }
        1 => {
            await_count(&window, stopped)?;
            count_up(&window, DEAD, 1)?;
            std::thread::sleep(STOPPED / 4);
            std::thread::spawn(move || {
                std::thread::sleep(STOPPED_AT_MOST);
                send(still, libc::SIGCONT);
            });
        }
        _ => {}
    }
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = use_one(&window, used, target) {
            break error;
        }
    };
    death::report(world.rank(), begun, Some(error));
    if world.rank() == 3 {
        std::thread::sleep(STOPPED);
        send(still, libc::SIGCONT);
    }
    // Windows and connections to the stopped rank stay as they are.
    std::process::exit(0);
}

/// Adds to the count of a rank; the value before.
fn count_up(window: &Window, target: u32, by: u64) -> Result<u64> {
    window.lock_all(Assert::NONE)?;
    let before = fetch_and_op(window, by, target, COUNT, Op::Sum)?;
    window.unlock_all()?;
    Ok(before)
}

/// Waits until the count of the rank that will die is at least this.
fn await_count(window: &Window, count: u64) -> Result<()> {
    while count_up(window, DEAD, 0)? < count {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Does it for some milliseconds, or fails.
fn use_one(window: &Window, used: &str, target: u32) -> Result<()> {
    let begun = Instant::now();
    if used == "lock" {
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        return window.unlock(target);
    }
    window.lock_all(Assert::NONE)?;
    while begun.elapsed() < Duration::from_millis(20) {
        match used {
            "flush" | "first_contact" => {
                put_from(window, &BYTES[..100], target, 16)?;
                window.flush(target)?;
            }
            "short_puts" => put_from(window, &BYTES, target, 16)?,
            _ => drop(fetch_and_op(window, 1_u64, target, 0, Op::Sum)?),
        }
    }
    window.unlock_all()
}

/// Rank 1 holds a lock of rank 0 and is stopped; the others wait for the lock, in a fence and in
/// a barrier until it goes on.
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
            let pid = pids[1];
            send(pid, libc::SIGSTOP);
            std::thread::spawn(move || {
                std::thread::sleep(STOPPED);
                send(pid, libc::SIGCONT);
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
