//! All kinds of operations at once, from every rank, the target included.

use std::time::{Duration, Instant};

use transom::raw::{Assert, AtomicDomain};
use transom::{Accumulate, Job, LockKind, Op};
use transom_testing::environment;

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{ALIGNED, Exposed, Memory, patterned};
use crate::ops::{accumulate, add_one, fetch_and_op, get, put};

pub(crate) const CASES: &[Case] = cases!["hammer":
    one_word_and_an_invariant_under_locks @ [2, 3, 4, 5, 6],
    own_memory_by_every_way @ [1, 2, 3],
    many_elements_at_once_beside_one @ [2, 3, 5],
];

/// On an ordinary machine.
const ROUNDS: u64 = 90;
/// Where the words stand that the locks guard: they all hold the same value, under any lock.
const GUARDED: u64 = 64;
const WORDS: usize = 6;

fn words(bytes: &[u8]) -> Vec<u64> {
    bytemuck::pod_collect_to_vec(bytes)
}

/// Every rank adds to one word of every rank by fetch_and_op, accumulate and compare_and_swap, and
/// changes several words under an exclusive lock; whoever looks, under either lock, sees them agree.
fn one_word_and_an_invariant_under_locks(job: &Job) -> Outcome {
    let rounds = ROUNDS.div_ceil(environment::slowness().into());
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 64 + WORDS * 8, 1)?;
        let ranks = window.ranks();
        let mut written = 0;
        for round in 0..rounds {
            let target = (window.rank() + round as u32) % ranks;
            let kind = match round % 4 {
                0 => LockKind::Exclusive,
                _ => LockKind::Shared,
            };
            window.lock(kind, target, Assert::NONE)?;
            add_one(&window, round, target, 0, 1_u64, |seen| seen + 1)?;
            let mut guarded = [0; WORDS * 8];
            get(&window, &mut guarded, target, GUARDED)?;
            window.flush(target)?;
            let seen = words(&guarded);
            check!(
                seen.iter().all(|&word| word == seen[0]),
                "{memory:?}, round {round}, under a lock of {target} ({kind:?}): {seen:?}"
            );
            if kind == LockKind::Exclusive {
                // Word by word, so that half of them can be seen by whoever ignores the lock.
                for at in 0..WORDS as u64 {
                    put(
                        &window,
                        &(seen[0] + 1).to_ne_bytes(),
                        target,
                        GUARDED + at * 8,
                    )?;
                }
                written += 1;
            }
            window.unlock(target)?;
        }
        let all = job.world().allreduce(&[rounds, written], Op::Sum)?;
        let mut found = [0_u64; 2];
        if window.size() > 0 {
            window.lock(LockKind::Exclusive, window.rank(), Assert::NONE)?;
            found = [window.read_u64(0), window.read_u64(GUARDED as usize)];
            window.unlock(window.rank())?;
        }
        let sums = job.world().allreduce(&found, Op::Sum)?;
        check_eq!(sums, all, "{memory:?}: additions, and writes under locks");
        window.close()?;
    }
    Ok(())
}

/// Puts to and gets from this rank's own memory, between atomics on it that others share.
fn own_memory_by_every_way(job: &Job) -> Outcome {
    for memory in ALIGNED {
        let window = Exposed::open(job, memory, 16 + 300, 1)?;
        let (me, ranks) = (window.rank(), u64::from(window.ranks()));
        window.lock_all(Assert::NONE)?;
        for round in 0..60 {
            for target in 0..window.ranks() {
                fetch_and_op(&window, 1_u64, target, 0, Op::Sum)?;
                accumulate(&window, &[1_u64, 2], target, 0, Op::Sum)?;
            }
            let bytes = patterned(me, 300, round);
            put(&window, &bytes, me, 16)?;
            let before = fetch_and_op(&window, 0_u64, me, 8, Op::NoOp)?;
            let mut back = vec![0; 300];
            get(&window, &mut back, me, 16)?;
            window.flush(me)?;
            check!(back == bytes, "{memory:?}, round {round}");
            // The same place again, after it was read.
            put(&window, &[0; 300], me, 16)?;
            window.flush(me)?;
            let after = fetch_and_op(&window, 0_u64, me, 8, Op::NoOp)?;
            check!(before <= after && after <= 120 * ranks, "{before}, {after}");
        }
        window.unlock_all()?;
        job.world().barrier()?;
        check_eq!(window.read_u64(0), 120 * ranks, "{memory:?}");
        check_eq!(window.read_u64(8), 120 * ranks, "{memory:?}");
        check!(window.read(16, 300).iter().all(|&byte| byte == 0));
        window.close()?;
    }
    Ok(())
}

/// For a while, ranks add to all elements of a target at once, while others add to one after the other by each kind
/// of single atomic; in turns, so that work on many comes after none, few and many single ones.
fn many_elements_at_once_beside_one(job: &Job) -> Outcome {
    const ELEMENTS: usize = 2048;
    const WHILE: Duration = Duration::from_millis(120);
    fn of<T: Accumulate + PartialEq>(
        job: &Job,
        memory: Memory,
        number: fn(u64) -> T,
        value: fn(T) -> u64,
    ) -> Outcome {
        let len = ELEMENTS * size_of::<T>();
        let window = Exposed::open(job, memory, len, size_of::<T>() as u64)?;
        let (me, ranks) = (window.rank(), window.ranks());
        let one = number(1);
        // By a device each goes for itself, or all under its lock.
        let fewer = match window.atomic_domain() {
            AtomicDomain::Cpu => 1,
            _ => 8,
        };
        let many = ELEMENTS / fewer;
        let ones = vec![one; many];
        let mut added = 0;
        window.lock_all(Assert::NONE)?;
        job.world().barrier()?;
        let begun = Instant::now();
        for round in (0..).take_while(|round| *round < 8 || begun.elapsed() < WHILE) {
            let target = round / 64 % ranks;
            let (at_once, singles) = match (round + me) % 4 {
                0 => (8, 3),
                1 => (1, 40),
                _ => (0, 300),
            };
            for _ in 0..at_once {
                accumulate(&window, &ones, target, 0, Op::Sum)?;
                added += many as u64;
            }
            for single in 0..singles / fewer as u32 {
                let at = u64::from(7 * single + me + round) % ELEMENTS as u64;
                let next = |seen| number(value(seen) + 1);
                add_one(&window, single.into(), target, at, one, next)?;
                added += 1;
            }
            window.flush(target)?;
        }
        window.unlock_all()?;
        let added = job.world().allreduce(&[added], Op::Sum)?;
        let held: Vec<T> = bytemuck::pod_collect_to_vec(&window.read(0, len));
        let found = held.into_iter().map(value).sum::<u64>();
        let found = job.world().allreduce(&[found], Op::Sum)?;
        check_eq!(found, added, "{memory:?}, {} bytes", size_of::<T>());
        window.close()
    }
    for memory in ALIGNED {
        of::<u64>(job, memory, |number| number, |value| value)?;
        of::<u32>(job, memory, |number| number as u32, u64::from)?;
    }
    Ok(())
}
