//! Post, start, complete, wait and test.

use std::os::unix::process::parent_id;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use std::{env, fs};

use transom::raw::{Assert, Window};
use transom::{ErrorClass, Group, Info, Job, LockKind, Op};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{ALIGNED, Exposed, MEMORIES, Memory, patterned};
use crate::ops::{accumulate, get, put, put_from};

pub(crate) const CASES: &[Case] = cases!["pscw":
    put_is_visible @ [1, 2, 3, 5],
    gets_and_accumulates_are_complete @ [2, 3],
    long_puts_arrive_whole @ [2],
    many_origins_of_one_target @ [2, 5],
    many_targets_of_one_origin @ [3, 5],
    only_the_groups_take_part @ [3],
    groups_change_from_epoch_to_epoch @ [3],
    empty_groups_and_groups_of_oneself @ [1, 2],
    start_does_not_wait @ [2],
    complete_does_not_run_ahead_of_post @ [3],
    unchecked_epochs_are_counted @ [2, 3],
    an_unchecked_epoch_without_a_post_does_not_count @ [2],
    test_becomes_true @ [2],
    buffers_are_free_after_complete @ [2],
    the_origin_may_compute_after_complete @ [2],
    alternates_with_fence_and_locks @ [3],
    locks_of_others_while_exposed @ [2],
    windows_of_part_of_the_world @ [5],
    freed_blocks_are_used_again @ [2],
    one_thread_exposes_and_another_accesses @ [2, 4],
    threads_share_an_access_epoch @ [2],
];

/// The group of these ranks of the window.
pub(crate) fn of(window: &Window, ranks: &[u32]) -> Result<Group, Failure> {
    Ok(window.group().include(ranks)?)
}

/// The first word of every rank goes round the ring, in many epochs.
fn put_is_visible(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8, 1)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        let (target, origin) = (of(&window, &[ahead])?, of(&window, &[behind])?);
        for round in 0..200_u64 {
            window.post(&origin, Assert::NONE)?;
            window.start(&target, Assert::NONE)?;
            let value = (round << 8 | u64::from(me)).to_ne_bytes();
            put(&window, &value, ahead, 0)?;
            window.complete()?;
            window.wait()?;
            let wanted = round << 8 | u64::from(behind);
            check_eq!(window.read_u64(0), wanted, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

fn gets_and_accumulates_are_complete(job: &Job) -> Outcome {
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 800, 8)?;
        let all = window.group().clone();
        let me = window.rank();
        for round in 1..=30_u64 {
            window.write(400, &patterned(me, 400, round as usize));
            window.post(&all, Assert::NONE)?;
            window.start(&all, Assert::NONE)?;
            let mut got = vec![vec![0; 400]; window.ranks() as usize];
            for (target, got) in (0..).zip(&mut got) {
                accumulate(&window, &[1_u64; 20], target, 0, Op::Sum)?;
                accumulate(&window, &[0.5_f64], target, 25, Op::Sum)?;
                get(&window, got, target, 50)?;
            }
            window.complete()?;
            for (target, got) in (0..).zip(&got) {
                check!(*got == patterned(target, 400, round as usize), "{memory:?}");
            }
            window.wait()?;
            let count = round * u64::from(window.ranks());
            for at in 0..20 {
                check_eq!(window.read_u64(8 * at), count, "{memory:?}");
            }
            check_eq!(f64::from_bits(window.read_u64(200)), count as f64 / 2.0);
        }
        window.close()?;
    }
    Ok(())
}

/// The flag must come behind all of the data, however it travels.
fn long_puts_arrive_whole(job: &Job) -> Outcome {
    const LEN: usize = 300_000;
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, LEN, 1)?;
        let other = of(&window, &[1 - window.rank()])?;
        for round in 0..6 {
            if window.rank() == 0 {
                window.post(&other, Assert::NONE)?;
                window.wait()?;
                check!(window.bytes() == patterned(1, LEN, round), "{memory:?}");
            } else {
                window.start(&other, Assert::NONE)?;
                let bytes = patterned(1, LEN, round);
                for (part, bytes) in (0_u64..).zip(bytes.chunks(77_777)) {
                    put(&window, bytes, 0, part * 77_777)?;
                }
                window.complete()?;
            }
        }
        window.close()?;
    }
    Ok(())
}

fn many_origins_of_one_target(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8 * job.world().size() as usize, 8)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let target = of(&window, &[0])?;
    let origins = window.group().exclude(&[0])?;
    for round in 1..=100_u64 {
        if me == 0 {
            window.post(&origins, Assert::NO_STORE | Assert::NO_PUT)?;
            window.wait()?;
            for origin in 1..ranks as usize {
                check_eq!(window.read_u64(8 * origin), round, "from rank {origin}");
            }
        } else {
            window.start(&target, Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), 0, me.into())?;
            window.complete()?;
        }
    }
    window.close()
}

fn many_targets_of_one_origin(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 8, 8)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let origin = of(&window, &[0])?;
    let targets = window.group().exclude(&[0])?;
    for round in 1..=100_u64 {
        if me == 0 {
            window.start(&targets, Assert::NONE)?;
            // Not all are used in every round.
            for target in
                (1..ranks).filter(|&target| !(round + u64::from(target)).is_multiple_of(3))
            {
                put(&window, &round.to_ne_bytes(), target, 0)?;
            }
            window.complete()?;
        } else {
            let before = window.read_u64(0);
            window.post(&origin, Assert::NONE)?;
            window.wait()?;
            let used = !(round + u64::from(me)).is_multiple_of(3);
            check_eq!(window.read_u64(0), if used { round } else { before });
        }
    }
    window.close()
}

/// Two ranks exchange while the third sleeps.
fn only_the_groups_take_part(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let me = window.rank();
    if me < 2 {
        let other = of(&window, &[1 - me])?;
        for round in 1..=50_u64 {
            window.post(&other, Assert::NONE)?;
            window.start(&other, Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), 1 - me, 0)?;
            window.complete()?;
            window.wait()?;
            check_eq!(window.read_u64(0), round);
        }
    }
    job.world().barrier()?;
    check_eq!(window.read_u64(0), if me < 2 { 50 } else { 0 });
    window.close()
}

fn groups_change_from_epoch_to_epoch(job: &Job) -> Outcome {
    let groups: [&[u32]; 6] = [&[1], &[2], &[2, 1], &[], &[1], &[1, 2]];
    let window = Exposed::open(job, Memory::Allocate, 24, 8)?;
    let me = window.rank();
    let target = of(&window, &[0])?;
    for round in 1..=40_u64 {
        for (number, group) in (0..).zip(groups) {
            let value = round * 100 + number;
            if me == 0 {
                let before = window.bytes();
                window.post(&of(&window, group)?, Assert::NONE)?;
                window.wait()?;
                for origin in 1..3 {
                    let at = 8 * origin as usize;
                    let wanted = match group.contains(&origin) {
                        true => value.to_ne_bytes().to_vec(),
                        false => before[at..at + 8].to_vec(),
                    };
                    check_eq!(window.read(at, 8), wanted, "{group:?}, rank {origin}");
                }
            } else if group.contains(&me) {
                window.start(&target, Assert::NONE)?;
                put(&window, &value.to_ne_bytes(), 0, me.into())?;
                window.complete()?;
            }
        }
    }
    window.close()
}

fn empty_groups_and_groups_of_oneself(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let me = window.rank();
    for round in 1..=20_u64 {
        window.post(&Group::empty(), Assert::NONE)?;
        window.start(&Group::empty(), Assert::NONE)?;
        let refused = put(&window, &[0; 8], me, 0).unwrap_err();
        check_eq!(refused.class(), ErrorClass::RmaSync, "{refused}");
        window.complete()?;
        check!(window.test()?, "nobody has to complete");
        let myself = of(&window, &[me])?;
        window.post(&myself, Assert::NONE)?;
        check!(!window.test()?, "this rank has not completed");
        window.start(&myself, Assert::NONE)?;
        put(&window, &round.to_ne_bytes(), me, 0)?;
        window.complete()?;
        window.wait()?;
        check_eq!(window.read_u64(0), round);
    }
    window.close()
}

/// Each starts before the other posts.
fn start_does_not_wait(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let other = 1 - window.rank();
    let group = of(&window, &[other])?;
    for round in 1..=30_u64 {
        window.start(&group, Assert::NONE)?;
        job.world().barrier()?;
        window.post(&group, Assert::NONE)?;
        put(&window, &round.to_ne_bytes(), other, 0)?;
        window.complete()?;
        window.wait()?;
        check_eq!(window.read_u64(0), round);
    }
    window.close()
}

/// Rank 1 begins its second epoch at once, in which it accesses nothing, while rank 0 is exposed
/// to rank 2 only: it must not count for that.
fn complete_does_not_run_ahead_of_post(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let target = of(&window, &[0])?;
    let origins = [of(&window, &[1])?, of(&window, &[2])?];
    for round in 1..=5_u64 {
        match window.rank() {
            0 => {
                for (number, origins) in [&origins[0], &origins[1], &origins[0]].iter().enumerate()
                {
                    window.post(origins, Assert::NONE)?;
                    window.wait()?;
                    check!(number != 1 || window.read_u64(0) == round);
                }
            }
            1 => {
                for _ in 0..2 {
                    window.start(&target, Assert::NONE)?;
                    window.complete()?;
                }
            }
            _ => {
                sleep(Duration::from_millis(20));
                window.start(&target, Assert::NONE)?;
                put(&window, &round.to_ne_bytes(), 0, 0)?;
                window.complete()?;
            }
        }
    }
    window.close()
}

fn unchecked_epochs_are_counted(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let (me, ranks) = (window.rank(), window.ranks());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (target, origin) = (of(&window, &[ahead])?, of(&window, &[behind])?);
    for round in 1..=60_u64 {
        let unchecked = !round.is_multiple_of(3);
        let assert = if unchecked {
            Assert::NO_CHECK
        } else {
            Assert::NONE
        };
        window.post(&origin, assert)?;
        if unchecked {
            job.world().barrier()?;
        }
        window.start(&target, assert)?;
        put(&window, &round.to_ne_bytes(), ahead, 0)?;
        window.complete()?;
        window.wait()?;
        check_eq!(window.read_u64(0), round);
    }
    window.close()
}

/// A start without a check on a target that has never posted is an error of `complete`, and the next epoch goes on.
fn an_unchecked_epoch_without_a_post_does_not_count(job: &Job) -> Outcome {
    let world = job.world();
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8, 1)?;
        let other = of(&window, &[1 - window.rank()])?;
        if window.rank() == 0 {
            window.start(&other, Assert::NO_CHECK)?;
            let error = window.complete().err().map(|error| error.class());
            check_eq!(error, Some(ErrorClass::RmaSync), "{memory:?}");
        }
        world.barrier()?;
        if window.rank() == 0 {
            window.start(&other, Assert::NONE)?;
            put(&window, &7_u64.to_ne_bytes(), 1, 0)?;
            window.complete()?;
        } else {
            window.post(&other, Assert::NONE)?;
            window.wait()?;
            check_eq!(window.read_u64(0), 7, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

fn test_becomes_true(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 8, 8)?;
    let other = of(&window, &[1 - window.rank()])?;
    for round in 1..=30_u64 {
        if window.rank() == 0 {
            window.post(&other, Assert::NONE)?;
            check!(!window.test()?, "the origin waits at the barrier");
            job.world().barrier()?;
            while !window.test()? {
                thread::yield_now();
            }
            check_eq!(window.read_u64(0), round);
            let again = window.test().unwrap_err();
            check_eq!(again.class(), ErrorClass::RmaSync, "{again}");
        } else {
            job.world().barrier()?;
            window.start(&other, Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), 0, 0)?;
            window.complete()?;
        }
    }
    window.close()
}

/// One buffer for all rounds, which changes as soon as complete has returned.
fn buffers_are_free_after_complete(job: &Job) -> Outcome {
    const LEN: usize = 5000;
    let window = Exposed::open(job, Memory::Heap, LEN, 1)?;
    let other = of(&window, &[1 - window.rank()])?;
    let mut buffer = vec![0; LEN];
    for round in 0..40 {
        if window.rank() == 0 {
            window.post(&other, Assert::NONE)?;
            window.wait()?;
            check!(window.bytes() == patterned(1, LEN, round), "round {round}");
        } else {
            buffer.copy_from_slice(&patterned(1, LEN, round));
            window.start(&other, Assert::NONE)?;
            put_from(&window, &buffer, 0, 0)?;
            window.complete()?;
            buffer.fill(0xee);
        }
    }
    window.close()
}

/// The target learns of the end of the epoch though the origin, which has put much, calls nothing
/// afterwards until it sees a file that the target makes.
fn the_origin_may_compute_after_complete(job: &Job) -> Outcome {
    let mark = env::temp_dir().join(format!("transom-pscw-{}", parent_id()));
    let window = Exposed::open(job, Memory::Allocate, 400, 1)?;
    let other = of(&window, &[1 - window.rank()])?;
    for len in [8, 400] {
        if window.rank() == 0 {
            window.post(&other, Assert::NONE)?;
            window.wait()?;
            check!(window.read(0, len) == patterned(1, len, len), "{len} bytes");
            check!(fs::write(&mark, "").is_ok());
        } else {
            let data = patterned(1, len, len);
            window.start(&other, Assert::NONE)?;
            for _ in 0..23 {
                put(&window, &data, 0, 0)?;
            }
            window.complete()?;
            let begun = Instant::now();
            while !mark.exists() {
                check!(begun.elapsed() < Duration::from_secs(30), "{len} bytes");
                sleep(Duration::from_millis(1));
            }
            check!(fs::remove_file(&mark).is_ok());
        }
    }
    window.close()
}

fn alternates_with_fence_and_locks(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 32, 8)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let ahead = (me + 1) % ranks;
        let all = window.group().clone();
        for round in 1..40_u64 {
            let value = |kind: u64| (round * 10 + kind).to_ne_bytes();
            window.fence(Assert::NONE)?;
            put(&window, &value(0), ahead, 0)?;
            // A fence without NO_SUCCEED opens no epoch unless it is used.
            window.fence(Assert::NONE)?;
            window.post(&all, Assert::NONE)?;
            window.start(&all, Assert::NONE)?;
            put(&window, &value(1), ahead, 1)?;
            window.complete()?;
            window.wait()?;
            window.lock(LockKind::Exclusive, ahead, Assert::NONE)?;
            put(&window, &value(2), ahead, 2)?;
            window.unlock(ahead)?;
            window.lock_all(Assert::NONE)?;
            put(&window, &value(3), ahead, 3)?;
            window.unlock_all()?;
            window.fence(Assert::NONE)?;
            for kind in 0..4 {
                check_eq!(
                    window.read_u64(8 * kind),
                    round * 10 + kind as u64,
                    "{memory:?}"
                );
            }
        }
        window.close()?;
    }
    Ok(())
}

/// A rank that is exposed may lock others, but they not it.
fn locks_of_others_while_exposed(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let other = of(&window, &[1 - window.rank()])?;
    for round in 1..=20_u64 {
        if window.rank() == 0 {
            window.post(&other, Assert::NONE)?;
            window.lock(LockKind::Exclusive, 1, Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), 1, 0)?;
            window.unlock(1)?;
            window.wait()?;
            check_eq!(window.read_u64(0), round);
        } else {
            window.start(&other, Assert::NONE)?;
            put(&window, &round.to_ne_bytes(), 0, 0)?;
            window.complete()?;
        }
        job.world().barrier()?;
        check_eq!(window.read_u64(0), round);
        job.world().barrier()?;
    }
    window.close()
}

/// Ranks of the window are not those of the world, and groups may come from anywhere.
fn windows_of_part_of_the_world(job: &Job) -> Outcome {
    let world = job.world();
    let color = world.rank() % 2;
    // The last of the world is the first here.
    let comm = world.split(Some(color), -(world.rank() as i32))?;
    let comm = comm.expect("every rank has a color");
    let window = Exposed::over(job, &comm, Memory::Allocate, 8, 8, &Info::new())?;
    let (me, ranks) = (window.rank(), window.ranks());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let world_rank = |rank| window.group().world_rank(rank).expect("a rank");
    let target = world.group().include(&[world_rank(ahead)])?;
    let origin = of(&window, &[behind])?;
    for round in 1..=50_u64 {
        window.post(&origin, Assert::NONE)?;
        window.start(&target, Assert::NONE)?;
        let value = round << 8 | u64::from(world.rank());
        put(&window, &value.to_ne_bytes(), ahead, 0)?;
        window.complete()?;
        window.wait()?;
        check_eq!(
            window.read_u64(0),
            round << 8 | u64::from(world_rank(behind))
        );
    }
    let stranger = world.group().include(&[1 - color])?;
    for refused in [
        window.post(&stranger, Assert::NONE),
        window.start(&stranger, Assert::NONE),
    ] {
        let refused = refused.unwrap_err();
        check_eq!(refused.class(), ErrorClass::Group, "{refused}");
        let name = format!("rank {} of the world", 1 - color);
        check!(refused.to_string().contains(&name), "{refused}");
    }
    window.close()
}

/// Flags that come late must not land in the next window's words.
fn freed_blocks_are_used_again(job: &Job) -> Outcome {
    for round in 1..=30_u64 {
        let info = Info::new().with("no_locks", (round % 2 == 0).to_string());
        let window = Exposed::over(job, job.world(), Memory::Allocate, 8, 8, &info)?;
        let other = of(&window, &[1 - window.rank()])?;
        for number in 0..round % 4 {
            let assert = [Assert::NONE, Assert::NO_CHECK][(number % 2) as usize];
            window.post(&other, assert)?;
            job.world().barrier()?;
            window.start(&other, assert)?;
            put(&window, &round.to_ne_bytes(), 1 - window.rank(), 0)?;
            window.complete()?;
            window.wait()?;
            check_eq!(window.read_u64(0), round);
        }
        window.close()?;
    }
    Ok(())
}

fn one_thread_exposes_and_another_accesses(job: &Job) -> Outcome {
    let exposed = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let window: &Window = &exposed;
    let (me, ranks) = (window.rank(), window.ranks());
    let (ahead, behind) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let (target, origin) = (of(window, &[ahead])?, of(window, &[behind])?);
    let count = thread::scope(|scope| {
        let exposing = scope.spawn(|| -> transom::Result<u64> {
            for _ in 0..300 {
                window.post(&origin, Assert::NONE)?;
                window.wait()?;
            }
            Ok(300)
        });
        let accessing = scope.spawn(|| -> transom::Result<u64> {
            for round in 1..=300_u64 {
                window.start(&target, Assert::NONE)?;
                put(window, &round.to_ne_bytes(), ahead, 0)?;
                window.complete()?;
            }
            Ok(300)
        });
        let join = |thread: thread::ScopedJoinHandle<'_, transom::Result<u64>>| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        join(exposing).and_then(|one| Ok(one + join(accessing)?))
    })?;
    check_eq!(count, 600);
    check_eq!(exposed.read_u64(0), 300);
    exposed.close()
}

fn threads_share_an_access_epoch(job: &Job) -> Outcome {
    const PART: usize = 100;
    for memory in [Memory::Allocate, Memory::Heap] {
        let exposed = Exposed::open(job, memory, 4 * PART, 1)?;
        let window: &Window = &exposed;
        let other = 1 - window.rank();
        let group = of(window, &[other])?;
        for round in 0..60 {
            window.post(&group, Assert::NONE)?;
            window.start(&group, Assert::NONE)?;
            // The target is entered by all threads at once.
            thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|number| {
                        let bytes = patterned(other, PART, round * 7 + number);
                        scope.spawn(move || put(window, &bytes, other, (number * PART) as u64))
                    })
                    .collect();
                threads.into_iter().try_for_each(|thread| {
                    let joined = thread.join();
                    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
            })?;
            window.complete()?;
            window.wait()?;
            let wanted: Vec<u8> = (0..4)
                .flat_map(|number| patterned(window.rank(), PART, round * 7 + number))
                .collect();
            check!(exposed.bytes() == wanted, "{memory:?}, round {round}");
        }
        exposed.close()?;
    }
    Ok(())
}
