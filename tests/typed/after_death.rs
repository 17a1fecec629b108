//! What survivors can still do: read their own part, give the window up, and leave.

use std::thread;
use std::time::{Duration, Instant};

use transom::{Error, ErrorClass, ErrorKind, Job, LockKind, Misuse, Result, Window};
use transom_testing::job::kill_oneself;

use crate::Scenario;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name, play| Scenario::leaving(name, 3, play).exits(128 + libc::SIGKILL);
    vec![
        scenario("a_death_amid_puts", |job| {
            leaves_in_time(job, |job| amid_puts(job, false))
        }),
        scenario("a_death_amid_puts_to_vectors", |job| {
            leaves_in_time(job, |job| amid_puts(job, true))
        }),
        scenario("a_death_amid_a_fence", |job| {
            leaves_in_time(job, amid_a_fence)
        }),
        scenario("a_death_of_a_holder", |job| {
            leaves_in_time(job, holding_a_lock)
        }),
        scenario("a_death_in_a_session", |job| {
            leaves_in_time(job, in_a_session)
        }),
    ]
}

const CULPRIT: u32 = 2;
/// In elements: the first half is put before the death, the second amid it.
const HALF: usize = 10_000;
/// What is there before any put, and what is put before the death and amid it. The bytes of each are equal, so that a
/// torn element has no others.
const FIRST: u64 = 0;
const BEFORE: u64 = u64::from_ne_bytes([3; 8]);
const AMID: u64 = u64::from_ne_bytes([5; 8]);
/// How long giving up may take, until the job is left: far less than any limit of the library.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(5);

/// Leaves the job after `live`, which says when this rank heard of the death.
fn leaves_in_time(job: Job, live: fn(&Job) -> Result<Instant>) -> Result<()> {
    let heard = live(&job)?;
    drop(job);
    assert!(heard.elapsed() < GIVEN_UP_WITHIN, "{:?}", heard.elapsed());
    Ok(())
}

fn die_soon() {
    thread::spawn(|| {
        thread::sleep(Duration::from_millis(100));
        kill_oneself();
    });
}

/// What was put and complete before the death is there, and amid it at most what was being put.
fn check_saved(saved: &[u64], put: u64) {
    let (before, amid) = saved.split_at(HALF);
    assert!(before.iter().all(|&element| element == put));
    let is_old_or_new = |byte| [FIRST, AMID].iter().any(|one| one.to_ne_bytes()[0] == byte);
    let mut bytes = amid.iter().flat_map(|element| element.to_ne_bytes());
    assert!(bytes.all(is_old_or_new));
}

/// The window has failed with this error. `put`: what this rank's first half has.
fn save_and_give_up(window: Window<'_, u64>, error: &Error, put: u64) -> Result<Instant> {
    let heard = Instant::now();
    assert!(matches!(error.kind(), ErrorKind::Peer(_)), "{error}");
    assert!(error.to_string().contains("rank 2"), "{error}");
    let refused = window.local().unwrap_err();
    assert!(matches!(
        refused.kind(),
        ErrorKind::Misuse(Misuse::Poisoned)
    ));
    check_saved(&window.read_own(0..window.len())?, put);
    let refused = window.read_own(0..2 * HALF + 1).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::RmaRange, "{refused}");
    match put {
        FIRST => drop(window),
        _ => assert!(window.free().is_err()),
    }
    Ok(heard)
}

fn amid_puts(job: &Job, is_created: bool) -> Result<Instant> {
    let world = job.world();
    let mut window = match is_created {
        true => Window::create(world, vec![FIRST; 2 * HALF])?,
        false => Window::allocate(world, 2 * HALF)?,
    };
    let (before, amid) = (vec![BEFORE; HALF], vec![AMID; HALF]);
    let failed = window.passive(|epoch| {
        let everyone = epoch.lock_all()?;
        let put_to_all = |at, elements: &[u64]| {
            for rank in 0..CULPRIT {
                everyone.target(rank)?.put_blocking(at, elements)?;
            }
            everyone.flush()
        };
        if world.rank() == CULPRIT {
            put_to_all(0, &before)?;
        }
        world.barrier()?;
        if world.rank() == CULPRIT {
            die_soon();
            loop {
                put_to_all(HALF, &amid)?;
            }
        }
        world.barrier()
    });
    save_and_give_up(window, &failed.unwrap_err(), BEFORE)
}

fn amid_a_fence(job: &Job) -> Result<Instant> {
    let world = job.world();
    let next = (world.rank() + 1) % world.size();
    let mut window = Window::allocate(world, 2 * HALF)?;
    let (before, amid) = (vec![BEFORE; HALF], vec![AMID; HALF]);
    window.fence(|epoch| epoch.target(next)?.put(0, &before))?;
    let failed = window.fence(|epoch| {
        epoch.target(next)?.put(HALF, &amid)?;
        if world.rank() == CULPRIT {
            kill_oneself();
        }
        Ok(())
    });
    save_and_give_up(window, &failed.unwrap_err(), BEFORE)
}

fn holding_a_lock(job: &Job) -> Result<Instant> {
    let world = job.world();
    let mut window = Window::allocate(world, 2 * HALF)?;
    let (before, amid) = (vec![BEFORE; HALF], vec![AMID; HALF]);
    let failed = window.passive(|epoch| {
        if world.rank() == CULPRIT {
            let lock = epoch.lock(0, LockKind::Exclusive)?;
            lock.put_blocking(0, &before)?;
            lock.flush()?;
            world.barrier()?;
            lock.put_blocking(HALF, &amid)?;
            kill_oneself();
        }
        world.barrier()?;
        epoch.lock(0, LockKind::Shared).map(|_| ())
    });
    let put = if world.rank() == 0 { BEFORE } else { FIRST };
    save_and_give_up(window, &failed.unwrap_err(), put)
}

fn in_a_session(job: &Job) -> Result<Instant> {
    let world = job.world();
    let session = Window::allocate(world, 2 * HALF)?.into_session()?;
    let (before, amid) = (vec![BEFORE; HALF], vec![AMID; HALF]);
    if world.rank() == CULPRIT {
        session.put_blocking(0, 0, &before)?;
    }
    world.barrier()?;
    if world.rank() == CULPRIT {
        die_soon();
        loop {
            session.put_blocking(0, HALF, &amid)?;
        }
    }
    let error = world.barrier().unwrap_err();
    let heard = Instant::now();
    assert!(error.to_string().contains("rank 2"), "{error}");
    let put = if world.rank() == 0 { BEFORE } else { FIRST };
    check_saved(&session.read_own(0..2 * HALF)?, put);
    drop(session);
    Ok(heard)
}
