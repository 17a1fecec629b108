//! All ranks on one word, the target included: sums are exact.

use std::time::{Duration, Instant};

use transom::raw::Assert;
use transom::{Accumulate, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};
use crate::ops::{accumulate, compare_and_swap, fetch_and_op, get, put, replace_by_swaps};

pub(crate) const CASES: &[Case] = cases!["contention":
    single_and_bulk_and_swap_loops_on_one_word @ [2, 3, 8],
    narrow_neighbours_do_not_clobber_each_other @ [3],
    misaligned_integers_add_up @ [3],
    floats_add_up @ [2, 3, 8],
    a_ticket_is_given_once @ [3],
    swaps_lose_nothing @ [3],
    the_targets_own_stores_survive_beside_narrow_atomics @ [2],
    no_origin_starves_another @ [3, 5],
];

const ROUNDS: usize = 120;

fn sum_exactly<T: Accumulate + PartialEq + std::fmt::Debug>(
    window: &Exposed<'_>,
    at: u64,
    number: impl Fn(u64) -> T,
    plus: impl Fn(T, T) -> T,
) -> Outcome {
    let ranks = u64::from(window.ranks());
    window.lock_all(Assert::NONE)?;
    for round in 0..ROUNDS {
        match round % 3 {
            0 => drop(fetch_and_op(window, number(1), 0, at, Op::Sum)?),
            1 => accumulate(window, &[number(1); 4], 0, at, Op::Sum)?,
            _ => replace_by_swaps(window, 0, at, |seen| plus(seen, number(1)))?,
        }
    }
    window.unlock_all()?;
    // Everybody's unlock_all has completed everybody's operations.
    window.fence(Assert::NO_SUCCEED)?;
    if window.rank() == 0 {
        let size = size_of::<T>();
        let found: Vec<T> = bytemuck::pod_collect_to_vec(&window.read(at as usize, 4 * size));
        let rounds = ROUNDS as u64 * ranks;
        check_eq!(found[0], number(rounds), "the word that all kinds met on");
        check_eq!(
            found[1..],
            vec![number(rounds / 3); 3],
            "the words of the bulk alone"
        );
    }
    Ok(())
}

fn single_and_bulk_and_swap_loops_on_one_word(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 512, 1)?;
        sum_exactly::<u64>(&window, 0, |n| n, |a, b| a.wrapping_add(b))?;
        sum_exactly::<i64>(&window, 64, |n| n as i64, |a, b| a.wrapping_add(b))?;
        sum_exactly::<u32>(&window, 128, |n| n as u32, |a, b| a.wrapping_add(b))?;
        sum_exactly::<i32>(&window, 192, |n| n as i32, |a, b| a.wrapping_add(b))?;
        window.close()?;
    }
    Ok(())
}

fn misaligned_integers_add_up(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Odd] {
        let window = Exposed::open(job, memory, 512, 1)?;
        let shift = u64::from(memory == Memory::Allocate);
        sum_exactly::<u64>(&window, 60 + shift, |n| n, |a, b| a.wrapping_add(b))?;
        sum_exactly::<i32>(&window, 250 + shift, |n| n as i32, |a, b| a.wrapping_add(b))?;
        window.close()?;
    }
    Ok(())
}

/// Every rank counts in a four-byte word of its own, all in one line.
fn narrow_neighbours_do_not_clobber_each_other(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64, 4)?;
        let me = u64::from(window.rank());
        window.lock_all(Assert::NONE)?;
        for round in 0..300_u32 {
            check_eq!(
                fetch_and_op(&window, 1_u32, 0, me, Op::Sum)?,
                round,
                "{memory:?}"
            );
            accumulate(&window, &[1_u32], 0, me + 8, Op::Sum)?;
        }
        window.unlock_all()?;
        job.world().barrier()?;
        if me == 0 {
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(&window.bytes());
            check_eq!(words[..4], [300, 300, 300, 0]);
            check_eq!(words[8..12], [300, 300, 300, 0]);
        }
        window.close()?;
    }
    Ok(())
}

fn floats_add_up(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8 * 200, 8)?;
        let ranks = f64::from(window.ranks());
        let bulk = [0.5; 200];
        window.lock_all(Assert::NONE)?;
        for round in 0..60 {
            for target in 0..window.ranks() {
                match round % 2 {
                    0 => drop(fetch_and_op(&window, 0.25, target, 0, Op::Sum)?),
                    _ => accumulate(&window, &bulk, target, 0, Op::Sum)?,
                }
            }
        }
        window.unlock_all()?;
        job.world().barrier()?;
        let found: Vec<f64> = bytemuck::pod_collect_to_vec(&window.bytes());
        check_eq!(found[0], ranks * 30.0 * 0.75, "{memory:?}");
        check!(
            found[1..].iter().all(|&sum| sum == ranks * 30.0 * 0.5),
            "{memory:?}"
        );
        window.close()?;
    }
    Ok(())
}

/// Fetched values are all different.
fn a_ticket_is_given_once(job: &Job) -> Outcome {
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 8, 8)?;
        window.lock(LockKind::Shared, 0, Assert::NONE)?;
        let mine: Vec<u64> = (0..300)
            .map(|_| fetch_and_op(&window, 1_u64, 0, 0, Op::Sum))
            .collect::<Result<_, _>>()?;
        window.unlock(0)?;
        check!(mine.is_sorted(), "tickets of one rank rise");
        let mut all = job.world().allgather(&mine)?;
        all.sort_unstable();
        check!(
            all.into_iter().eq(0..300 * u64::from(window.ranks())),
            "{memory:?}"
        );
        window.close()?;
    }
    Ok(())
}

/// Values that are swapped in come out again, each once.
fn swaps_lose_nothing(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 16, 1)?;
        let me = u64::from(window.rank());
        window.lock_all(Assert::NONE)?;
        let mut seen = Vec::new();
        for round in 0..200_u64 {
            let value = (me + 1) << 32 | round;
            seen.push(fetch_and_op(&window, value, 0, 0, Op::Replace)?);
        }
        window.unlock_all()?;
        job.world().barrier()?;
        let mut all = job.world().allgather(&seen)?;
        if me == 0 {
            all.push(window.read_u64(0));
            all.sort_unstable();
            let mut wanted = vec![0];
            for rank in 0..u64::from(window.ranks()) {
                wanted.extend((0..200).map(|round| (rank + 1) << 32 | round));
            }
            check!(all == wanted, "{memory:?}: {} values", all.len());
        }
        window.close()?;
    }
    Ok(())
}

/// A four-byte atomic may not write back the other half of its eight bytes.
fn the_targets_own_stores_survive_beside_narrow_atomics(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 16, 4)?;
        window.lock_all(Assert::NONE)?;
        if window.rank() == 0 {
            for round in 1..=500_u32 {
                put(&window, &round.to_ne_bytes(), 0, 1)?;
                window.flush(0)?;
                let mut bytes = [0; 4];
                get(&window, &mut bytes, 0, 1)?;
                window.flush(0)?;
                check_eq!(u32::from_ne_bytes(bytes), round, "{memory:?}");
            }
        } else {
            for round in 0..500_u32 {
                check_eq!(fetch_and_op(&window, 1_u32, 0, 0, Op::Sum)?, round);
                compare_and_swap(&window, round + 7, 0, 0, 2)?;
            }
        }
        window.unlock_all()?;
        job.world().barrier()?;
        window.close()?;
    }
    Ok(())
}

/// All but rank 0 accumulate for a while on its memory, each operation under the lock for a good part
/// of a millisecond: all of them come to something.
fn no_origin_starves_another(job: &Job) -> Outcome {
    const DOUBLES: usize = 64 << 10;
    let enough = Duration::from_millis(300);
    let ones: &'static [f64] = vec![1.0; DOUBLES].leak();
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, 8 * DOUBLES, 8)?;
        let mut rounds = 0_u32;
        window.lock_all(Assert::NONE)?;
        let begun = Instant::now();
        while window.rank() > 0 && (rounds == 0 || begun.elapsed() < enough) {
            // SAFETY: the operands are kept for ever.
            unsafe {
                let from = ones.as_ptr().cast();
                window.accumulate(from, DOUBLES, f64::TYPE, 0, 0, Op::Sum)?;
            }
            rounds += 1;
        }
        window.unlock_all()?;
        let all = job.world().allgather(&[rounds])?;
        let (least, most) = (all[1..].iter().min(), all[1..].iter().max());
        check!(
            100 * least.unwrap_or(&0) >= *most.unwrap_or(&0),
            "{memory:?}: {all:?}"
        );
        if window.rank() == 0 {
            let found: Vec<f64> = bytemuck::pod_collect_to_vec(&window.read(0, 8 * DOUBLES));
            let sum = f64::from(all.iter().sum::<u32>());
            check!(
                found.iter().all(|&element| element == sum),
                "{memory:?}: {sum}"
            );
        }
        window.close()?;
    }
    Ok(())
}
