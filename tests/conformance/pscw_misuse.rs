//! Rules of post, start, complete, wait and test broken: RMA_SYNC or GROUP, with the operands, and
//! an epoch that goes on as if nothing had been tried.

use transom::raw::Assert;
use transom::{ErrorClass, Group, Job, LockKind};

use crate::case::{Case, Outcome, cases, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::{get, put};
use crate::pscw::of;
use crate::refused::{each_operation, refused, works};

pub(crate) const CASES: &[Case] = cases!["pscw_misuse":
    ends_without_beginnings @ [1, 2],
    epochs_that_are_nested @ [2],
    other_epochs_inside_start @ [2],
    other_epochs_while_exposed @ [2],
    start_and_post_inside_other_epochs @ [2],
    targets_that_are_not_in_the_group @ [3],
    groups_that_are_not_of_the_window @ [1, 3],
    free_inside_an_epoch @ [1],
    assertions_of_other_calls @ [2],
    waits_for_oneself @ [1, 3],
];

const SYNC: ErrorClass = ErrorClass::RmaSync;

fn ends_without_beginnings(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    for _ in 0..2 {
        let none = "no epoch is open";
        refused(window.complete(), SYNC, &["complete", "start", none])?;
        refused(window.wait(), SYNC, &["wait", "post", "no exposure epoch"])?;
        refused(window.test(), SYNC, &["test", "post", "no exposure epoch"])?;
        let all = window.group().clone();
        window.post(&all, Assert::NONE)?;
        refused(
            window.complete(),
            SYNC,
            &["complete", "start", "exposure epoch of post"],
        )?;
        window.start(&all, Assert::NONE)?;
        window.complete()?;
        refused(window.complete(), SYNC, &["complete", "start"])?;
        window.wait()?;
        refused(window.wait(), SYNC, &["wait", "post"])?;
    }
    works(job, &window)?;
    window.close()
}

fn epochs_that_are_nested(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let other = 1 - window.rank();
    let group = of(&window, &[other])?;
    for round in 1..=3_u64 {
        window.post(&group, Assert::NONE)?;
        let open = "exposure epoch of post is open";
        refused(window.post(&group, Assert::NONE), SYNC, &["post", open])?;
        refused(
            window.post(&Group::empty(), Assert::NONE),
            SYNC,
            &["post", open],
        )?;
        window.start(&group, Assert::NONE)?;
        let open = "access epoch of start is open";
        refused(window.start(&group, Assert::NONE), SYNC, &["start", open])?;
        refused(
            window.start(&Group::empty(), Assert::NO_CHECK),
            SYNC,
            &["start", open],
        )?;
        put(&window, &round.to_ne_bytes(), other, 0)?;
        window.complete()?;
        window.wait()?;
        check_eq!(window.read_u64(0), round);
    }
    window.write(0, &[0; 8]);
    works(job, &window)?;
    window.close()
}

fn other_epochs_inside_start(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let (me, other) = (window.rank(), 1 - window.rank());
    let group = of(&window, &[other])?;
    let started = "access epoch of start is open";
    window.post(&group, Assert::NONE)?;
    window.start(&group, Assert::NONE)?;
    put(&window, &[7; 8], other, 0)?;
    refused(window.fence(Assert::NONE), SYNC, &["fence", started])?;
    refused(window.lock_all(Assert::NONE), SYNC, &["lock_all", started])?;
    refused(
        window.lock(LockKind::Shared, other, Assert::NONE),
        SYNC,
        &["lock", started],
    )?;
    refused(
        window.lock(LockKind::Shared, me, Assert::NONE),
        SYNC,
        &["lock"],
    )?;
    refused(window.unlock(other), SYNC, &["unlock", started])?;
    refused(window.unlock_all(), SYNC, &["unlock_all", started])?;
    refused(window.flush(other), SYNC, &["flush", started])?;
    refused(window.flush_all(), SYNC, &["flush_all", started])?;
    refused(window.sync(), SYNC, &["sync", started])?;
    let mut word = [0; 8];
    // SAFETY: refused, so that nothing uses the word.
    let requests = unsafe {
        [
            window.rput(word.as_ptr(), 8, other, 0).map(drop),
            window.rget(word.as_mut_ptr(), 8, other, 0).map(drop),
        ]
    };
    for request in requests {
        refused(request, SYNC, &["request", started])?;
    }
    put(&window, &[8; 8], other, 8)?;
    window.complete()?;
    window.wait()?;
    check_eq!(window.read(0, 16), [[7; 8], [8; 8]].concat());
    works(job, &window)?;
    window.close()
}

fn other_epochs_while_exposed(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let (me, other) = (window.rank(), 1 - window.rank());
    let group = of(&window, &[other])?;
    let exposed = "exposure epoch of post is open";
    window.post(&group, Assert::NONE)?;
    refused(window.fence(Assert::NONE), SYNC, &["fence", exposed])?;
    refused(window.lock_all(Assert::NONE), SYNC, &["lock_all", exposed])?;
    refused(
        window.lock(LockKind::Shared, me, Assert::NONE),
        SYNC,
        &["lock", exposed],
    )?;
    refused(put(&window, &[1], other, 0), SYNC, &["put", exposed])?;
    window.start(&group, Assert::NONE)?;
    put(&window, &[9; 8], other, 0)?;
    window.complete()?;
    window.wait()?;
    check_eq!(window.read(0, 8), [9; 8]);
    works(job, &window)?;
    window.close()
}

fn start_and_post_inside_other_epochs(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let (me, other) = (window.rank(), 1 - window.rank());
    let group = of(&window, &[other])?;
    let both_refused = |start: &str, post: &str| {
        refused(window.start(&group, Assert::NONE), SYNC, &["start", start])?;
        refused(window.post(&group, Assert::NONE), SYNC, &["post", post])
    };
    window.fence(Assert::NONE)?;
    put(&window, &[1; 8], other, 0)?;
    both_refused("fence epoch is open", "fence epoch is open")?;
    put(&window, &[2; 8], other, 8)?;
    window.fence(Assert::NO_SUCCEED)?;
    check_eq!(window.read(0, 16), [[1; 8], [2; 8]].concat());
    window.lock_all(Assert::NONE)?;
    both_refused("lock_all is in force", "lock_all is in force")?;
    window.unlock_all()?;
    job.world().barrier()?;
    let mine = format!("rank {me} is locked already");
    window.lock(LockKind::Shared, me, Assert::NONE)?;
    both_refused("locks of single targets", &mine)?;
    window.unlock(me)?;
    // Only after a refused call was the epoch one of nobody: its counts are as before.
    window.post(&group, Assert::NONE)?;
    window.start(&group, Assert::NONE)?;
    put(&window, &[3; 8], other, 0)?;
    window.complete()?;
    window.wait()?;
    check_eq!(window.read(0, 8), [3; 8]);
    works(job, &window)?;
    window.close()
}

fn targets_that_are_not_in_the_group(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    // That a target was used before must not help.
    window.fence(Assert::NONE)?;
    for target in 0..ranks {
        get(&window, &mut [0], target, 0)?;
    }
    window.fence(Assert::NO_SUCCEED)?;
    window.post(&of(&window, &[behind])?, Assert::NONE)?;
    window.start(&of(&window, &[ahead])?, Assert::NONE)?;
    for target in [me, behind] {
        for (name, result) in each_operation(&window, target, 0) {
            let rank = format!("rank {target} is not in the group of start");
            refused(result, SYNC, &[name, &rank])?;
        }
    }
    refused(put(&window, &[0], ranks, 0), ErrorClass::Rank, &["put"])?;
    let byte = 0;
    // SAFETY: refused.
    let request = unsafe { window.rput(&raw const byte, 1, ranks, 0) };
    refused(request, SYNC, &["rput", "lock"])?;
    refused(
        put(&window, &[0], ahead, 64),
        ErrorClass::RmaRange,
        &["put"],
    )?;
    put(&window, &[5], ahead, 0)?;
    window.complete()?;
    window.wait()?;
    check_eq!(window.read(0, 1), [5]);
    works(job, &window)?;
    window.close()
}

fn groups_that_are_not_of_the_window(job: &Job) -> Outcome {
    let world = job.world();
    let me = world.rank();
    let twice = world.group().include(&[me, me]);
    refused(twice, ErrorClass::Rank, &["include", "twice"])?;
    let alone = job.alone()?;
    let window = Exposed::over(job, &alone, Memory::Allocate, 64, 1, &transom::Info::new())?;
    for other in (0..world.size()).filter(|&rank| rank != me) {
        let group = world.group().include(&[me, other])?;
        let name = format!("rank {other} of the world");
        for (operation, result) in [
            ("post", window.post(&group, Assert::NONE)),
            ("start", window.start(&group, Assert::NONE)),
        ] {
            refused(result, ErrorClass::Group, &[operation, &name])?;
        }
    }
    // Nothing was counted of the members before the one that is wrong.
    let myself = of(&window, &[0])?;
    window.post(&myself, Assert::NONE)?;
    window.start(&myself, Assert::NONE)?;
    put(&window, &[1], 0, 0)?;
    window.complete()?;
    // Its flag may still be under way.
    window.wait()?;
    window.close()
}

fn free_inside_an_epoch(job: &Job) -> Outcome {
    for exposed in [true, false] {
        let window = transom::raw::Window::allocate(job.world(), 8, 1, &transom::Info::new())?;
        let myself = window.group().clone();
        let state = match exposed {
            true => {
                window.post(&myself, Assert::NONE)?;
                "exposure epoch of post"
            }
            false => {
                window.start(&myself, Assert::NONE)?;
                "access epoch of start"
            }
        };
        refused(window.free(), SYNC, &["free", state])?;
    }
    Ok(())
}

fn assertions_of_other_calls(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let all = window.group().clone();
    let class = ErrorClass::Assert;
    let both = Assert::NO_PRECEDE | Assert::NO_STORE;
    let legal = "legal: NO_CHECK|NO_STORE|NO_PUT";
    refused(
        window.post(&all, both),
        class,
        &["NO_STORE|NO_PRECEDE", legal],
    )?;
    refused(
        window.start(&all, Assert::NO_PUT),
        class,
        &["start", "legal: NO_CHECK)"],
    )?;
    refused(
        window.fence(Assert::NO_CHECK),
        class,
        &["fence", "NO_CHECK"],
    )?;
    let lock = window.lock(LockKind::Shared, 0, Assert::NO_SUCCEED);
    refused(lock, class, &["lock", "NO_SUCCEED"])?;
    refused(window.lock_all(Assert::NO_STORE), class, &["lock_all"])?;
    works(job, &window)?;
    window.close()
}

/// With these numbers of ranks, calls do not overlap: nobody else could end the waits.
fn waits_for_oneself(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 1)?;
    let me = window.rank();
    let own = of(&window, &[me])?;
    for _ in 0..2 {
        window.start(&own, Assert::NONE)?;
        let itself = "would wait for itself";
        refused(put(&window, &[1], me, 0), SYNC, &["put", itself, "posted"])?;
        refused(window.complete(), SYNC, &["complete", itself, "posted"])?;
        window.post(&own, Assert::NONE)?;
        put(&window, &[1], me, 0)?;
        refused(window.wait(), SYNC, &["wait", itself, "completed"])?;
        window.complete()?;
        window.wait()?;
    }
    works(job, &window)?;
    window.close()
}
