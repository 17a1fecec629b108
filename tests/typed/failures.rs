//! Epochs that end badly: the window is poisoned, and nobody waits for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transom::{AbortCause, ErrorKind, Job, LockKind, Misuse, PeerError, Result, Window};
use transom_testing::job::kill_oneself;

use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let killed = Scenario::new(
        "a_dead_rank_fails_the_epoch",
        3,
        a_dead_rank_fails_the_epoch,
    );
    let awaited = Scenario::new(
        "loads_of_what_a_dead_rank_was_to_store_end",
        3,
        loads_of_what_a_dead_rank_was_to_store_end,
    );
    let mut all = scenarios![
        a_panic_in_a_fence_is_heard_of: 4,
        a_panic_under_a_lock_keeps_it: 3,
        a_panic_alone_is_a_private_matter: 2,
        fence_and_passive_do_not_meet: 3,
        fence_and_free_do_not_meet: 2,
    ];
    all.push(killed.exits(128 + libc::SIGKILL));
    all.push(awaited.exits(128 + libc::SIGKILL));
    all
}

/// How long a rank may take to hear of another's failure.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// Every call fails now. Waits until the other ranks, too, have heard why: a rank that has left
/// already is a reason of its own.
fn assert_poisoned(window: &mut Window<'_, u64>) {
    let poisoned = |error: transom::Error| {
        assert!(
            matches!(error.kind(), ErrorKind::Misuse(Misuse::Poisoned)),
            "{error}"
        );
    };
    poisoned(window.local().unwrap_err());
    poisoned(window.local_mut().unwrap_err());
    poisoned(window.fence(|_| Ok(())).unwrap_err());
    poisoned(window.passive(|_| Ok(())).unwrap_err());
    thread::sleep(Duration::from_millis(300));
}

fn a_panic_in_a_fence_is_heard_of(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    let src = [1];
    let begun = Instant::now();
    let body_ran = AtomicBool::new(false);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        window.fence(|epoch| {
            body_ran.store(true, Ordering::Relaxed);
            epoch.target(0)?.put(0, &src)?;
            assert_ne!(job.world().rank(), 1, "the panic of this test");
            Ok(())
        })
    }));
    if job.world().rank() == 1 {
        assert!(ended.is_err() && body_ran.into_inner());
    } else {
        let error = ended.unwrap().unwrap_err();
        let ErrorKind::Peer(PeerError::Aborted { rank: 1, cause }) = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*cause, AbortCause::Panicked);
        assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    }
    assert_poisoned(&mut window);
    assert!(window.free().is_err());
    Ok(())
}

fn a_panic_under_a_lock_keeps_it(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    let begun = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        window.passive(|epoch| {
            if world.rank() == 2 {
                let lock = epoch.lock(0, LockKind::Exclusive)?;
                world.barrier()?;
                lock.put_blocking(0, &[1])?;
                panic!("the panic of this test");
            }
            world.barrier()?;
            // The lock must not be had: what its holder did is half done.
            let error = epoch.lock(0, LockKind::Shared).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("rank 2 panicked"), "{error}");
            Ok(())
        })
    }));
    if world.rank() == 2 {
        assert!(ended.is_err());
    } else {
        let error = ended.unwrap().unwrap_err();
        assert!(error.to_string().contains("rank 2 panicked"), "{error}");
        assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    }
    assert_poisoned(&mut window);
    Ok(())
}

fn a_panic_alone_is_a_private_matter(job: &Job) -> Result<()> {
    let alone = job.alone()?;
    let mut own = Window::<u64>::allocate(&alone, 1)?;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        own.fence(|_| -> Result<()> { panic!("the panic of this test") })
    }));
    assert!(ended.is_err());
    assert_poisoned(&mut own);
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    let src = [5];
    window.fence(|epoch| epoch.target(0)?.put(0, &src))?;
    window.free()
}

fn fence_and_passive_do_not_meet(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    let begun = Instant::now();
    let error = if job.world().rank() == 0 {
        window
            .fence(|_| -> Result<()> { unreachable!() })
            .unwrap_err()
    } else {
        window
            .passive(|_| -> Result<()> { unreachable!() })
            .unwrap_err()
    };
    let told = match error.kind() {
        ErrorKind::Misuse(Misuse::Mismatch { .. }) => true,
        ErrorKind::Peer(PeerError::Aborted { cause, .. }) => *cause == AbortCause::EpochFailed,
        _ => false,
    };
    assert!(told, "{error}");
    assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    assert_poisoned(&mut window);
    Ok(())
}

fn fence_and_free_do_not_meet(job: &Job) -> Result<()> {
    let mut window = Window::<u64>::allocate(job.world(), 1)?;
    window.fence(|_| Ok(()))?;
    if job.world().rank() == 0 {
        let error = window.free().unwrap_err();
        assert_eq!(
            error.to_string(),
            "free: rank 1 disagrees: free here, fence there"
        );
    } else {
        let error = window
            .fence(|_| -> Result<()> { unreachable!() })
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "fence: rank 0 disagrees: fence here, free there"
        );
        assert_poisoned(&mut window);
    }
    Ok(())
}

fn a_dead_rank_fails_the_epoch(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    let begun = Instant::now();
    let error = window
        .passive(|epoch| {
            let lock = epoch.lock(world.rank(), LockKind::Exclusive)?;
            world.barrier()?;
            if world.rank() == 2 {
                kill_oneself();
            }
            lock.unlock()?;
            let error = epoch.lock(2, LockKind::Shared).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("rank 2 died"), "{error}");
            Ok(())
        })
        .unwrap_err();
    assert!(error.to_string().contains("rank 2"), "{error}");
    assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    assert_poisoned(&mut window);
    Ok(())
}

/// Rank 0 polls its own part, and rank 1 that of the one that dies.
fn loads_of_what_a_dead_rank_was_to_store_end(job: &Job) -> Result<()> {
    let world = job.world();
    let mut window = Window::<u64>::allocate(world, 1)?;
    let begun = Instant::now();
    let error = window
        .passive(|epoch| {
            let everyone = epoch.lock_all()?;
            everyone.target(2)?.load(0)?;
            world.barrier()?;
            if world.rank() == 2 {
                kill_oneself();
            }
            let polled = everyone.target(2 * world.rank())?;
            let error = loop {
                match polled.load(0) {
                    Ok(value) => assert_eq!(value, 0),
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains("rank 2 died"), "{error}");
            Ok(())
        })
        .unwrap_err();
    assert!(error.to_string().contains("rank 2"), "{error}");
    assert!(begun.elapsed() < HEARD_WITHIN, "{:?}", begun.elapsed());
    assert_poisoned(&mut window);
    Ok(())
}
