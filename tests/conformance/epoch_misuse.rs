//! Rules of fence, lock, lock_all and flush broken: the class of the error, and a window that works
//! on as if nothing had been tried.

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Info, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, get, put};
use crate::refused::{each_operation, refused, works};

pub(crate) const CASES: &[Case] = cases!["epoch_misuse":
    operations_outside_an_epoch @ [1, 2],
    operations_on_a_target_that_is_not_locked @ [2],
    unlock_without_lock @ [2],
    nested_locks_of_one_target @ [2],
    locks_inside_a_fence_epoch @ [2],
    fence_with_locks @ [2],
    no_precede_after_an_operation @ [1, 2],
    lock_all_that_is_nested @ [2],
    flush_without_a_lock @ [2],
    free_with_a_lock @ [1],
];

const NO_EPOCH: &[&str] = &["epoch", "fence, start, lock or lock_all"];

fn operations_outside_an_epoch(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        for target in 0..window.ranks() {
            for (name, result) in each_operation(&window, target, 0) {
                refused(result, ErrorClass::RmaSync, &[name, "epoch"])?;
            }
        }
        window.fence(Assert::NONE)?;
        window.fence(Assert::NO_SUCCEED)?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        window.lock(LockKind::Shared, 0, Assert::NONE)?;
        window.unlock(0)?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        window.lock_all(Assert::NONE)?;
        put(&window, &[], 0, 0)?;
        window.unlock_all()?;
        refused(put(&window, &[1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        refused(get(&window, &mut [1], 0, 0), ErrorClass::RmaSync, NO_EPOCH)?;
        check_eq!(window.bytes(), vec![0; 64]);
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn operations_on_a_target_that_is_not_locked(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    for locked in 0..2 {
        let open = 1 - locked;
        window.lock(LockKind::Shared, locked, Assert::NONE)?;
        put(&window, &[0; 8], locked, 0)?;
        let rank = format!("rank {open} is not locked");
        for (_, result) in each_operation(&window, open, 0) {
            refused(result, ErrorClass::RmaSync, &[&rank])?;
        }
        refused(window.flush(open), ErrorClass::RmaSync, &["flush", &rank])?;
        refused(window.unlock(open), ErrorClass::RmaSync, &["unlock", &rank])?;
        put(&window, &[0; 8], locked, 0)?;
        window.unlock(locked)?;
    }
    works(job, &window)?;
    window.close()
}

fn unlock_without_lock(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for target in 0..2 {
        let rank = format!("rank {target} is not locked");
        refused(window.unlock(target), class, &["unlock", &rank])?;
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        window.unlock(target)?;
        refused(window.unlock(target), class, &["unlock", &rank])?;
    }
    refused(window.unlock_all(), class, &["unlock_all", "no epoch"])?;
    window.lock(LockKind::Shared, 1, Assert::NONE)?;
    refused(
        window.unlock_all(),
        class,
        &["unlock_all", "locks of single targets"],
    )?;
    window.unlock(1)?;
    window.lock_all(Assert::NONE)?;
    refused(window.unlock(1), class, &["unlock", "lock_all is in force"])?;
    put(&window, &[0; 8], 1, 0)?;
    refused(window.unlock(1), class, &["unlock", "lock_all is in force"])?;
    window.unlock_all()?;
    window.fence(Assert::NONE)?;
    put(&window, &[0; 8], 1, 0)?;
    refused(window.unlock(1), class, &["unlock", "fence"])?;
    refused(window.unlock_all(), class, &["unlock_all", "fence"])?;
    window.fence(Assert::NONE)?;
    works(job, &window)?;
    window.close()
}

fn nested_locks_of_one_target(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    use LockKind::{Exclusive, Shared};
    // By one rank at a time: what is refused must not wait.
    for turn in 0..2 {
        job.world().barrier()?;
        if window.rank() != turn {
            continue;
        }
        for (first, second) in [(Shared, Shared), (Shared, Exclusive), (Exclusive, Shared)] {
            for assert in [Assert::NONE, Assert::NO_CHECK] {
                window.lock(first, 1, assert)?;
                let nested = window.lock(second, 1, Assert::NONE);
                refused(
                    nested,
                    ErrorClass::RmaSync,
                    &["lock", "rank 1 is locked already"],
                )?;
                refused(
                    window.lock_all(assert),
                    ErrorClass::RmaSync,
                    &["lock_all", "locks"],
                )?;
                put(&window, &[0; 8], 1, 0)?;
                window.unlock(1)?;
            }
        }
    }
    works(job, &window)?;
    window.close()
}

fn locks_inside_a_fence_epoch(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    window.fence(Assert::NONE)?;
    put(&window, &[0; 8], 0, 0)?;
    let class = ErrorClass::RmaSync;
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        refused(
            window.lock(kind, 1, Assert::NONE),
            class,
            &["lock", "fence epoch is open"],
        )?;
    }
    refused(
        window.lock_all(Assert::NONE),
        class,
        &["lock_all", "fence epoch is open"],
    )?;
    refused(window.flush(0), class, &["flush", "fence epoch is open"])?;
    refused(
        window.flush_all(),
        class,
        &["flush_all", "fence epoch is open"],
    )?;
    put(&window, &[0; 8], 1, 0)?;
    window.fence(Assert::NONE)?;
    works(job, &window)?;
    window.close()
}

fn fence_with_locks(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    window.lock(LockKind::Shared, 0, Assert::NONE)?;
    for assert in [
        Assert::NONE,
        Assert::NO_PRECEDE,
        Assert::NO_PRECEDE | Assert::NO_SUCCEED,
    ] {
        refused(
            window.fence(assert),
            class,
            &["fence", "locks of single targets"],
        )?;
    }
    put(&window, &[0; 8], 0, 0)?;
    window.unlock(0)?;
    window.lock_all(Assert::NONE)?;
    refused(
        window.fence(Assert::NONE),
        class,
        &["fence", "lock_all is in force"],
    )?;
    put(&window, &[0; 8], 1, 0)?;
    window.unlock_all()?;
    works(job, &window)?;
    window.close()
}

fn no_precede_after_an_operation(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 1)?;
        let other = window.ranks() - 1;
        // What was called in it, and whether anything went to the device.
        let mut calls: Vec<Box<dyn Fn() -> transom::Result<()>>> = Vec::new();
        calls.push(Box::new(|| put(&window, &[1], other, 0)));
        // A device may write there until the fence.
        let kept = || vec![0; 8].leak();
        calls.push(Box::new(|| get(&window, kept(), other, 8)));
        calls.push(Box::new(|| get(&window, kept(), 0, 8)));
        calls.push(Box::new(|| {
            accumulate(&window, &[1.5_f64; 4], other, 16, Op::Sum)
        }));
        for call in calls {
            window.fence(Assert::NO_PRECEDE)?;
            call()?;
            for assert in [Assert::NO_PRECEDE, Assert::NO_PRECEDE | Assert::NO_SUCCEED] {
                refused(
                    window.fence(assert),
                    ErrorClass::RmaSync,
                    &["fence", "NO_PRECEDE", "no operation since the last fence"],
                )?;
            }
            // The epoch goes on.
            put(&window, &[2], other, 60)?;
            window.fence(Assert::NONE)?;
            window.fence(Assert::NO_PRECEDE)?;
            window.fence(Assert::NO_PRECEDE | Assert::NO_SUCCEED)?;
        }
        window.lock_all(Assert::NONE)?;
        put(&window, &[3], other, 0)?;
        window.unlock_all()?;
        // That was no fence's epoch.
        window.fence(Assert::NO_PRECEDE)?;
        window.fence(Assert::NO_PRECEDE | Assert::NO_SUCCEED)?;
        works(job, &window)?;
        window.close()?;
    }
    Ok(())
}

fn lock_all_that_is_nested(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for assert in [Assert::NONE, Assert::NO_CHECK] {
        window.lock_all(assert)?;
        refused(
            window.lock_all(Assert::NONE),
            class,
            &["lock_all", "lock_all is in force"],
        )?;
        refused(
            window.lock_all(Assert::NO_CHECK),
            class,
            &["lock_all is in force"],
        )?;
        for target in 0..2 {
            let nested = window.lock(LockKind::Shared, target, Assert::NONE);
            refused(nested, class, &["lock_all is in force"])?;
            put(&window, &[0; 8], target, 0)?;
        }
        window.unlock_all()?;
        refused(window.unlock_all(), class, &["unlock_all"])?;
    }
    works(job, &window)?;
    window.close()
}

fn flush_without_a_lock(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let class = ErrorClass::RmaSync;
    for target in 0..2 {
        refused(window.flush(target), class, &["flush", "no epoch"])?;
        refused(
            window.flush_local(target),
            class,
            &["flush_local", "no epoch"],
        )?;
    }
    refused(window.flush_all(), class, &["flush_all", "no epoch"])?;
    refused(
        window.flush_local_all(),
        class,
        &["flush_local_all", "no epoch"],
    )?;
    refused(window.sync(), class, &["sync", "no epoch"])?;
    works(job, &window)?;
    window.close()
}

/// The error leaks the window, so the next one must be all right.
fn free_with_a_lock(job: &Job) -> Outcome {
    let class = ErrorClass::RmaSync;
    let new = || Window::allocate(job.world(), 64, 1, &Info::new());
    let window = new()?;
    window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
    refused(window.free(), class, &["free", "locks of single targets"])?;
    let window = new()?;
    window.lock_all(Assert::NONE)?;
    refused(window.free(), class, &["free", "lock_all is in force"])?;
    let window = new()?;
    window.fence(Assert::NONE)?;
    put(&window, &[1], 0, 0)?;
    refused(window.free(), class, &["free", "fence epoch is open"])?;
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    works(job, &window)?;
    window.close()
}
