//! Passive-target locks.

use std::time::{Duration, Instant};

use transom::raw::Assert;
use transom::{ErrorClass, Info, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::{fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["lock":
    exclusive_locks_exclude @ [1, 2, 3, 8],
    readers_and_writers_keep_an_invariant @ [3, 5, 8],
    readers_share @ [3],
    a_stream_of_readers_does_not_starve_a_writer @ [4],
    writers_take_turns @ [5],
    lock_all_shares_and_excludes @ [4],
    readers_and_writers_do_not_wait_in_a_cycle @ [4],
    lock_all_taken_eagerly @ [3],
    unchecked_locks @ [3],
    several_targets_locked_at_once @ [4],
    an_epoch_without_operations @ [2],
    eight_ranks_on_few_processors @ [8],
];

const WORDS: usize = 24;

fn read_words(window: &Exposed<'_>, target: u32) -> transom::Result<Vec<u64>> {
    let mut bytes = vec![0; WORDS * 8];
    get(window, &mut bytes, target, 0)?;
    window.flush(target)?;
    Ok(bytemuck::pod_collect_to_vec(&bytes))
}

fn exclusive_locks_exclude(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 8, 1)?;
        let ranks = window.ranks();
        for target in [0, ranks - 1] {
            for _ in 0..100 {
                window.lock(LockKind::Exclusive, target, Assert::NONE)?;
                let mut bytes = [0; 8];
                get(&window, &mut bytes, target, 0)?;
                window.flush(target)?;
                let next = (u64::from_ne_bytes(bytes) + 1).to_ne_bytes();
                put(&window, &next, target, 0)?;
                window.unlock(target)?;
            }
        }
        job.world().barrier()?;
        let rounds = 100 * u64::from(ranks) * if ranks == 1 { 2 } else { 1 };
        if [0, ranks - 1].contains(&window.rank()) {
            check_eq!(window.read_u64(0), rounds, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

/// All words of the target are equal whenever the lock is held, shared or exclusive.
fn readers_and_writers_keep_an_invariant(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, WORDS * 8, 1)?;
        let me = window.rank();
        let target = window.ranks() / 2;
        let mut last = 0;
        for round in 0..150 {
            let kind = if (round + me) % 3 == 0 {
                LockKind::Exclusive
            } else {
                LockKind::Shared
            };
            window.lock(kind, target, Assert::NONE)?;
            let words = read_words(&window, target)?;
            check!(
                words.iter().all(|&word| word == words[0]),
                "{memory:?}: {words:?}"
            );
            check!(words[0] >= last, "time runs backwards");
            last = words[0];
            if kind == LockKind::Exclusive {
                // Word by word, backwards, with a pause in the middle.
                let next = (words[0] + 1).to_ne_bytes();
                for word in (0..WORDS).rev() {
                    put(&window, &next, target, word as u64 * 8)?;
                    if word == WORDS / 2 && round % 8 == 0 {
                        window.flush(target)?;
                        std::thread::yield_now();
                    }
                }
                last += 1;
            }
            window.unlock(target)?;
        }
        job.world().barrier()?;
        window.lock(LockKind::Shared, target, Assert::NONE)?;
        let words = read_words(&window, target)?;
        window.unlock(target)?;
        let writes = (0..window.ranks())
            .flat_map(|rank| (0..150).map(move |round| (round + rank) % 3))
            .filter(|&third| third == 0)
            .count();
        check_eq!(words, vec![writes as u64; WORDS], "{memory:?}");
        job.world().barrier()?;
        window.close()?;
    }
    Ok(())
}

/// Each reader waits inside its epoch until all others are inside theirs.
fn readers_share(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    for _ in 0..20 {
        window.lock(LockKind::Shared, 1, Assert::NONE)?;
        job.world().barrier()?;
        window.unlock(1)?;
    }
    window.close()
}

/// Three readers whose epochs overlap, so that the lock is never free, until the writer has been
/// through.
fn a_stream_of_readers_does_not_starve_a_writer(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 16, 8)?;
    let flag = Exposed::open(job, Memory::Allocate, 8, 8)?;
    let begun = Instant::now();
    let done = || -> transom::Result<bool> {
        flag.lock(LockKind::Shared, 0, Assert::NO_CHECK)?;
        let seen = fetch_and_op(&flag, 0_u64, 0, 0, Op::NoOp)?;
        flag.unlock(0)?;
        Ok(seen == 5)
    };
    job.world().barrier()?;
    if window.rank() == 3 {
        for _ in 0..5 {
            window.lock(LockKind::Exclusive, 0, Assert::NONE)?;
            put(&window, &[1; 8], 0, 0)?;
            window.unlock(0)?;
            flag.lock(LockKind::Shared, 0, Assert::NO_CHECK)?;
            fetch_and_op(&flag, 1_u64, 0, 0, Op::Sum)?;
            flag.unlock(0)?;
        }
    } else {
        let mut rounds = 0;
        while !done()? {
            window.lock(LockKind::Shared, 0, Assert::NONE)?;
            std::thread::sleep(Duration::from_millis(2));
            window.unlock(0)?;
            rounds += 1;
            check!(
                begun.elapsed() < Duration::from_secs(20),
                "the writer has not been through after {rounds} readers' epochs"
            );
        }
    }
    job.world().barrier()?;
    flag.close()?;
    window.close()
}

/// Writers that wait for each other all get their turns.
fn writers_take_turns(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 16, 8)?;
    job.world().barrier()?;
    for round in 0..300_u64 {
        window.lock(LockKind::Exclusive, 2, Assert::NONE)?;
        // Nobody else is in the epoch: the word is 0, then ours, then 0 again.
        let mine = (u64::from(window.rank()) + 1) << 16 | round;
        check_eq!(fetch_and_op(&window, mine, 2, 0, Op::Replace)?, 0);
        check_eq!(fetch_and_op(&window, 0_u64, 2, 0, Op::Replace)?, mine);
        window.unlock(2)?;
    }
    window.close()
}

fn lock_all_shares_and_excludes(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, WORDS * 8, 1)?;
    let me = window.rank();
    for round in 0..60 {
        if (round + me) % 4 == 0 {
            for target in 0..4 {
                window.lock(LockKind::Exclusive, target, Assert::NONE)?;
                let next = (read_words(&window, target)?[0] + 1).to_ne_bytes();
                for word in 0..WORDS {
                    put(&window, &next, target, word as u64 * 8)?;
                }
                window.unlock(target)?;
            }
        } else {
            window.lock_all(Assert::NONE)?;
            for target in 0..4 {
                let words = read_words(&window, (target + me) % 4)?;
                check!(words.iter().all(|&word| word == words[0]), "{words:?}");
            }
            // This rank's own memory is protected without any operation on it.
            let own: Vec<u64> = bytemuck::pod_collect_to_vec(&window.bytes());
            check!(own.iter().all(|&word| word == own[0]), "my own: {own:?}");
            window.unlock_all()?;
        }
    }
    job.world().barrier()?;
    check_eq!(window.read_u64(8 * (WORDS - 1)), 60);
    window.close()
}

/// Two readers of everything, each of which needs what a writer waits for until the other reader is
/// through.
fn readers_and_writers_do_not_wait_in_a_cycle(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 1)?;
    let me = window.rank();
    for round in 0..5_u64 {
        if me < 2 {
            window.lock_all(Assert::NONE)?;
            job.world().barrier()?;
            // Both writers wait by now.
            std::thread::sleep(Duration::from_millis(50));
            let mut word = [0; 8];
            get(&window, &mut word, 1 - me, 0)?;
            window.unlock_all()?;
            // The writer may have been first, if the other reader was through by then.
            let seen = u64::from_ne_bytes(word);
            check!(
                seen == round || seen == round + 1,
                "{seen} in round {round}"
            );
        } else {
            job.world().barrier()?;
            window.lock(LockKind::Exclusive, me - 2, Assert::NONE)?;
            put(&window, &(round + 1).to_ne_bytes(), me - 2, 0)?;
            window.unlock(me - 2)?;
        }
        job.world().barrier()?;
    }
    window.close()
}

fn lock_all_taken_eagerly(job: &Job) -> Outcome {
    let info = Info::new().with("transom_eager_lock_all", "true");
    let window = Exposed::over(job, job.world(), Memory::Allocate, 8, 8, &info)?;
    for round in 0..20_u64 {
        if window.rank() == 0 {
            window.lock_all(Assert::NONE)?;
            job.world().barrier()?;
            // Rank 1 now tries an exclusive lock of rank 2, which this rank has not touched.
            std::thread::sleep(Duration::from_millis(5));
            put(&window, &(round + 1).to_ne_bytes(), 2, 0)?;
            window.unlock_all()?;
        } else {
            job.world().barrier()?;
            if window.rank() == 1 {
                window.lock(LockKind::Exclusive, 2, Assert::NONE)?;
                let mut bytes = [0; 8];
                get(&window, &mut bytes, 2, 0)?;
                window.unlock(2)?;
                check_eq!(
                    u64::from_ne_bytes(bytes),
                    round + 1,
                    "the lock came too early"
                );
            }
        }
        job.world().barrier()?;
    }
    window.close()
}

/// With NO_CHECK no lock word is touched: a real exclusive lock elsewhere does not matter.
fn unchecked_locks(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 24, 8)?;
    if window.rank() == 0 {
        window.lock(LockKind::Exclusive, 1, Assert::NONE)?;
    }
    job.world().barrier()?;
    if window.rank() == 1 {
        for kind in [LockKind::Shared, LockKind::Exclusive] {
            window.lock(kind, 1, Assert::NO_CHECK)?;
            put(&window, &[7; 8], 1, 1)?;
            window.flush(1)?;
            window.unlock(1)?;
        }
        let closed = put(&window, &[8; 8], 1, 1).unwrap_err();
        check_eq!(closed.class(), ErrorClass::RmaSync);
    } else if window.rank() == 2 {
        window.lock_all(Assert::NO_CHECK)?;
        put(&window, &[9; 8], 1, 2)?;
        window.unlock_all()?;
        let closed = put(&window, &[8; 8], 1, 1).unwrap_err();
        check_eq!(closed.class(), ErrorClass::RmaSync);
    }
    job.world().barrier()?;
    if window.rank() == 0 {
        let mut words = [0; 24];
        get(&window, &mut words, 1, 0)?;
        window.unlock(1)?;
        check_eq!(words[8..], [[7; 8], [9; 8]].concat());
    }
    // The lock is free again, for everybody.
    window.lock(LockKind::Exclusive, 1, Assert::NONE)?;
    window.unlock(1)?;
    window.close()
}

fn several_targets_locked_at_once(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Heap, 8, 8)?;
    let me = window.rank();
    for round in 0..40 {
        // In the order of ranks, so that nobody waits in a circle; released in any.
        for target in 0..4 {
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        }
        for target in 0..4 {
            let mut bytes = [0; 8];
            get(&window, &mut bytes, target, 0)?;
            window.flush(target)?;
            let next = (u64::from_ne_bytes(bytes) + 1).to_ne_bytes();
            put(&window, &next, target, 0)?;
            window.flush_all()?;
        }
        for i in 0..4 {
            window.unlock((i + me + round) % 4)?;
        }
    }
    job.world().barrier()?;
    check_eq!(window.read_u64(0), 160);
    window.close()
}

fn an_epoch_without_operations(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8, 8)?;
    for kind in [LockKind::Shared, LockKind::Exclusive] {
        for target in 0..2 {
            window.lock(kind, target, Assert::NONE)?;
            window.flush(target)?;
            window.flush_local(target)?;
            window.unlock(target)?;
        }
    }
    window.lock_all(Assert::NONE)?;
    window.flush_all()?;
    window.flush_local_all()?;
    window.sync()?;
    window.unlock_all()?;
    window.close()
}

fn eight_ranks_on_few_processors(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 8 * 8, 8)?;
    let me = window.rank();
    let begun = Instant::now();
    for round in 0..200_u64 {
        let target = ((u64::from(me) + round) % 8) as u32;
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        fetch_and_op(&window, 1_u64, target, 0, Op::Sum)?;
        window.unlock(target)?;
        if round % 20 == 0 {
            job.world().barrier()?;
        }
    }
    job.world().barrier()?;
    check_eq!(window.read_u64(0), 200);
    check!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    window.close()
}
