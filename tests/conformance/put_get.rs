//! Put and get of every class of length, with everything round the target range untouched.

use transom::raw::{Assert, Window};
use transom::{Job, Op};
use transom_testing::environment;

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::{accumulate, get, put_from as put};

pub(crate) const CASES: &[Case] = cases!["put_get":
    short_lengths_at_every_offset @ [2],
    lengths_round_powers_of_two @ [2],
    twenty_mebibytes @ [2],
    long_transfers_one_after_the_other @ [2],
    long_transfers_both_ways_at_once @ [2],
    to_oneself @ [1, 2],
    to_every_rank_in_turn @ [5],
    an_origin_that_moves_on_after_flush_local @ [2],
    many_small_puts_before_one_flush @ [2, 3],
];

/// Puts into and gets from rank 0's memory, of which a model says what it must hold.
fn compare_with_model(
    job: &Job,
    memory: Memory,
    size: usize,
    ranges: impl Fn(&mut dyn FnMut(usize, usize) -> Outcome) -> Outcome,
) -> Outcome {
    let window = Exposed::open(job, memory, size, 1)?;
    let target = 0;
    let origin = job.world().size() - 1;
    let mut model = patterned(99, size, 0);
    if window.rank() == target {
        window.write(0, &model);
    }
    job.world().barrier()?;
    if window.rank() == origin {
        window.lock_all(Assert::NONE)?;
        let mut round = 0;
        ranges(&mut |at, len| {
            round += 1;
            let bytes = patterned(1, len, round);
            put(&window, &bytes, target, at as u64)?;
            window.flush(target)?;
            model[at..at + len].copy_from_slice(&bytes);
            // Some of the surroundings come back too, into a buffer with guards of its own.
            let from = at.saturating_sub(17);
            let to = (at + len + 17).min(size);
            let mut back = vec![0xee; to - from + 32];
            get(&window, &mut back[16..16 + to - from], target, from as u64)?;
            window.flush(target)?;
            check!(
                back[16..16 + to - from] == model[from..to],
                "{memory:?}: {len} bytes at {at}: got {:?}",
                back[16..16 + to - from]
                    .iter()
                    .zip(&model[from..to])
                    .position(|(found, wanted)| found != wanted)
            );
            let (head, tail) = (&back[..16], &back[16 + to - from..]);
            check!(
                head == [0xee; 16] && tail == [0xee; 16],
                "a get of {} bytes spilt",
                to - from
            );
            Ok(())
        })?;
        let mut all = vec![0; size];
        get(&window, &mut all, target, 0)?;
        window.flush(target)?;
        check!(all == model, "{memory:?}: something else changed");
        window.unlock_all()?;
    }
    job.world().barrier()?;
    // The target's own view is the model too: the origin tells it.
    job.world().bcast(&mut model, origin)?;
    if window.rank() == target {
        check!(
            window.bytes() == model,
            "{memory:?}: the target sees something else"
        );
    }
    window.close()
}

fn short_lengths_at_every_offset(job: &Job) -> Outcome {
    for memory in MEMORIES {
        compare_with_model(job, memory, 256, |try_one| {
            for len in 0..=64 {
                for at in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 31, 33, 63] {
                    try_one(at, len)?;
                }
                try_one(256 - len, len)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn lengths_round_powers_of_two(job: &Job) -> Outcome {
    for memory in MEMORIES {
        compare_with_model(job, memory, (1 << 20) + 100, |try_one| {
            for power in 6..=20 {
                for len in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
                    try_one(power, len)?;
                    try_one(0, len)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn twenty_mebibytes(job: &Job) -> Outcome {
    for memory in MEMORIES {
        compare_with_model(job, memory, (20 << 20) + 4097, |try_one| {
            try_one(4097, 20 << 20)?;
            try_one(1, 20 << 20)
        })?;
    }
    Ok(())
}

/// So many of about one length that all ways to carry them out are met, whatever is found to be the best of them; and
/// accumulates as long.
fn long_transfers_one_after_the_other(job: &Job) -> Outcome {
    const ROUNDS: usize = 8;
    // What is found out holds for a power of two.
    for (memory, least) in [
        (Memory::Heap, 2 << 20),
        (Memory::Odd, 4 << 20),
        (Memory::Allocate, 8 << 20),
    ] {
        let numbers = least / 8 + 12_345;
        let (size, end) = (8 * numbers + 7, 8 * numbers);
        let window = Exposed::open(job, memory, size, 1)?;
        let mut back = vec![0; size];
        if window.rank() == 1 {
            window.lock_all(Assert::NONE)?;
            for round in 0..ROUNDS {
                let bytes = patterned(1, size, round);
                put(&window, &bytes, 0, 0)?;
                window.flush(0)?;
                get(&window, &mut back, 0, 0)?;
                window.flush(0)?;
                check!(back == bytes, "{memory:?}: round {round}");
            }
            let zeros = vec![0; size];
            put(&window, &zeros, 0, 0)?;
            window.flush(0)?;
            let numbers: Vec<f64> = (0..numbers).map(|number| number as f64).collect();
            for _ in 0..ROUNDS {
                accumulate(&window, &numbers, 0, 0, Op::Sum)?;
            }
            window.unlock_all()?;
        }
        window.fence(Assert::NO_SUCCEED)?;
        if window.rank() == 0 {
            let bytes = window.read(0, end);
            let wrong = bytes.chunks(8).enumerate().find(|(number, bytes)| {
                let wanted = (number * ROUNDS) as f64;
                **bytes != wanted.to_ne_bytes()
            });
            check_eq!(wrong, None, "{memory:?}: a sum");
            check_eq!(window.read(end, 7), [0; 7], "{memory:?}: behind the sums");
        }
        window.close()?;
    }
    Ok(())
}

/// More than is on its way between two ranks at any time, so that either sends while the other does.
fn long_transfers_both_ways_at_once(job: &Job) -> Outcome {
    let size = (64 << 20) / environment::slowness() as usize;
    for memory in [Memory::Allocate, Memory::Odd] {
        let window = Exposed::open(job, memory, size, 1)?;
        let (me, other) = (window.rank(), other(&window));
        let bytes = patterned(me, size, 0);
        let mut back = vec![0; size];
        window.lock_all(Assert::NONE)?;
        job.world().barrier()?;
        put(&window, &bytes, other, 0)?;
        window.flush(other)?;
        job.world().barrier()?;
        get(&window, &mut back, other, 0)?;
        window.unlock_all()?;
        check!(window.bytes() == patterned(other, size, 0), "{memory:?}");
        check!(back == bytes, "{memory:?}: got from rank {other}");
        window.close()?;
    }
    Ok(())
}

fn to_oneself(job: &Job) -> Outcome {
    let me = job.world().rank();
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 100_000, 1)?;
        window.fence(Assert::NONE)?;
        for len in [0, 1, 7, 8, 64, 5000, 99_000] {
            let bytes = patterned(me, len, len);
            put(&window, &bytes, me, 777)?;
            window.fence(Assert::NONE)?;
            check_eq!(window.read(777, len), bytes);
            let mut back = vec![0; len];
            get(&window, &mut back, me, 777)?;
            window.fence(Assert::NONE)?;
            check_eq!(back, bytes);
        }
        // What this rank stores itself, it gets.
        window.write(0, &[42; 16]);
        let mut back = [0; 16];
        get(&window, &mut back, me, 0)?;
        window.fence(Assert::NONE)?;
        check_eq!(back, [42; 16]);
        window.close()?;
    }
    Ok(())
}

fn to_every_rank_in_turn(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    for memory in MEMORIES {
        let part = 333;
        let window = Exposed::open(job, memory, part * ranks as usize, part as u64)?;
        window.fence(Assert::NONE)?;
        let bytes: Vec<_> = (0..ranks)
            .map(|target| patterned(me, part, target as usize))
            .collect();
        for target in (0..ranks).map(|i| (me + i) % ranks) {
            put(&window, &bytes[target as usize], target, me.into())?;
        }
        window.fence(Assert::NONE)?;
        let wanted: Vec<u8> = (0..ranks)
            .flat_map(|origin| patterned(origin, part, me as usize))
            .collect();
        check!(window.bytes() == wanted, "{memory:?}");
        let mut all = vec![vec![0; part * ranks as usize]; ranks as usize];
        for (target, all) in (0..).zip(&mut all) {
            get(&window, all, target, 0)?;
        }
        window.fence(Assert::NONE)?;
        for (target, all) in all.iter().enumerate() {
            let wanted: Vec<u8> = (0..ranks)
                .flat_map(|origin| patterned(origin, part, target))
                .collect();
            check!(*all == wanted, "{memory:?}: got from rank {target}");
        }
        window.close()?;
    }
    Ok(())
}

fn other(window: &Window) -> u32 {
    (window.rank() + 1) % window.ranks()
}

fn an_origin_that_moves_on_after_flush_local(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 64 * 1000, 64)?;
        let target = other(&window);
        window.lock_all(Assert::NONE)?;
        let mut buffer = vec![0; 64];
        for round in 0..1000 {
            buffer.copy_from_slice(&patterned(window.rank(), 64, round));
            put(&window, &buffer, target, round as u64)?;
            window.flush_local(target)?;
            buffer.fill(0xff);
        }
        window.unlock_all()?;
        job.world().barrier()?;
        let wanted: Vec<u8> = (0..1000)
            .flat_map(|round| patterned(target, 64, round))
            .collect();
        check!(window.bytes() == wanted, "{memory:?}");
        window.close()?;
    }
    Ok(())
}

fn many_small_puts_before_one_flush(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 8 * 3000, 8)?;
        let target = other(&window);
        let values: Vec<[u8; 8]> = (0..3000_u64)
            .map(|i| (i * 3 + u64::from(window.rank())).to_ne_bytes())
            .collect();
        window.lock_all(Assert::NONE)?;
        for (disp, value) in (0..).zip(&values) {
            put(&window, value, target, disp)?;
        }
        window.flush(target)?;
        let mut back = vec![[0; 8]; 3000];
        for (disp, value) in (0..).zip(&mut back) {
            get(&window, value, target, disp)?;
        }
        window.flush(target)?;
        check!(back == values, "{memory:?}");
        window.unlock_all()?;
        job.world().barrier()?;
        window.close()?;
    }
    Ok(())
}
