//! Origin buffers of every kind, and how soon they may be used again.

use transom::raw::{Assert, Window};
use transom::{Info, Job, LockKind, Op};

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory, patterned};
use crate::ops::{fetch_and_op, get, put_from as put};

pub(crate) const CASES: &[Case] = cases!["origins":
    of_every_kind_of_memory @ [1, 2],
    freed_after_flush_local @ [2],
    freed_after_unlock @ [2, 3],
    ten_thousand_small_puts @ [2],
    results_that_the_device_stores_itself @ [2],
    lengths_that_are_no_multiple_of_anything @ [2],
    beyond_the_longest_message @ [2],
    a_get_then_a_put_to_the_same_place @ [2, 3],
    gets_with_atomics_behind_them @ [2, 3],
];

fn other(window: &Window) -> u32 {
    (window.rank() + 1) % window.ranks()
}

static CONSTANT: [u8; 5000] = [0x5a; 5000];

fn of_every_kind_of_memory(job: &Job) -> Outcome {
    let allocated = job.alloc_mem(70_000, &Info::new())?;
    let heap = patterned(job.world().rank(), 70_000, 1);
    let stack: [u8; 5000] = std::array::from_fn(|at| (at % 251) as u8);
    // SAFETY: 70,000 bytes of our own, which no window is over.
    let registered = unsafe { std::slice::from_raw_parts_mut(allocated.as_ptr(), 70_000) };
    registered.copy_from_slice(&heap);
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 70_000, 1)?;
        let target = other(&window);
        window.lock_all(Assert::NONE)?;
        for (name, origin) in [
            ("read-only", &CONSTANT[..]),
            ("a literal", b"const data".as_slice()),
            ("the stack", &stack),
            ("the heap", &heap),
            ("the heap, at an odd address", &heap[1..]),
            ("alloc_mem", registered),
            ("alloc_mem, at an odd address", &registered[3..69_990]),
        ] {
            put(&window, origin, target, 0)?;
            window.flush(target)?;
            let mut back = vec![0; origin.len()];
            get(&window, &mut back, target, 0)?;
            window.flush(target)?;
            check!(back == origin, "{memory:?}: from {name}");
            job.world().barrier()?;
        }
        // Into registered memory and the stack.
        let mut short = [0; 100];
        get(&window, &mut short, target, 3)?;
        get(&window, &mut registered[5..105], target, 3)?;
        window.flush_local(target)?;
        check!(short == registered[5..105], "{memory:?}");
        registered.copy_from_slice(&heap);
        window.unlock_all()?;
        window.close()?;
    }
    // SAFETY: no window is over it, and the slice is not used any more.
    unsafe { job.free_mem(allocated)? };
    Ok(())
}

/// A new buffer for each put, freed and overwritten as soon as flush_local allows it.
fn freed_after_flush_local(job: &Job) -> Outcome {
    for len in [8, 100, 5000, 100_000] {
        let slots = 20;
        let window = Exposed::open(job, Memory::Allocate, len * slots, len as u64)?;
        let (me, target) = (window.rank(), other(&window));
        window.lock_all(Assert::NONE)?;
        for slot in 0..slots {
            let mut buffer = patterned(me, len, slot);
            put(&window, &buffer, target, slot as u64)?;
            window.flush_local(target)?;
            buffer.fill(0xff);
            drop(buffer);
            drop(vec![0xee_u8; len]);
        }
        window.unlock_all()?;
        job.world().barrier()?;
        for slot in 0..slots {
            let wanted = patterned(target, len, slot);
            check!(window.read(slot * len, len) == wanted, "{len} bytes");
        }
        window.close()?;
    }
    Ok(())
}

fn freed_after_unlock(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 3 * 3000, 3000)?;
        let (me, target) = (window.rank(), other(&window));
        for round in 0..50 {
            window.lock(LockKind::Exclusive, target, Assert::NONE)?;
            let mut buffer = patterned(me, 3000, round);
            put(&window, &buffer, target, me.into())?;
            window.unlock(target)?;
            buffer.fill(0xff);
        }
        job.world().barrier()?;
        let origin = (me + window.ranks() - 1) % window.ranks();
        let found = window.read(origin as usize * 3000, 3000);
        check!(found == patterned(origin, 3000, 49), "{memory:?}");
        window.close()?;
    }
    Ok(())
}

/// More than any send queue holds, and nothing that waits between them.
fn ten_thousand_small_puts(job: &Job) -> Outcome {
    const PUTS: u64 = 10_000;
    for memory in [Memory::Allocate, Memory::Heap] {
        let window = Exposed::open(job, memory, PUTS as usize * 8, 8)?;
        let (me, target) = (u64::from(window.rank()), other(&window));
        let values: Vec<[u8; 8]> = (0..PUTS).map(|n| (n << 8 | me).to_ne_bytes()).collect();
        window.lock_all(Assert::NONE)?;
        for (disp, value) in (0..).zip(&values) {
            put(&window, value, target, disp)?;
        }
        window.unlock_all()?;
        job.world().barrier()?;
        for n in 0..PUTS {
            let wanted = n << 8 | u64::from(target);
            check_eq!(window.read_u64(n as usize * 8), wanted, "{memory:?}");
        }
        window.close()?;
    }
    Ok(())
}

/// Results of many fetches at once, aligned and not, there after one flush.
fn results_that_the_device_stores_itself(job: &Job) -> Outcome {
    const FETCHES: usize = 200;
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    let target = other(&window);
    for shift in [0, 1] {
        let mut results = vec![0_u64; FETCHES + 1];
        let first = results.as_mut_ptr().cast::<u8>().wrapping_add(shift);
        let one = 1_u64;
        let disp = shift as u64;
        window.lock(LockKind::Shared, target, Assert::NONE)?;
        for n in 0..FETCHES {
            let result = first.wrapping_add(n * 8);
            // SAFETY: the results and the operand outlive the unlock.
            unsafe {
                let (one, ty) = ((&raw const one).cast(), transom::BasicType::U64);
                window.fetch_and_op(one, result, ty, target, disp, Op::Sum)?;
            }
        }
        window.unlock(target)?;
        for n in 0..FETCHES {
            // SAFETY: inside `results`.
            let found = unsafe { first.wrapping_add(n * 8).cast::<u64>().read_unaligned() };
            check_eq!(found, n as u64, "shifted by {shift}");
        }
        job.world().barrier()?;
    }
    window.close()
}

fn lengths_that_are_no_multiple_of_anything(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 1 << 20, 1)?;
        let target = other(&window);
        window.lock(LockKind::Exclusive, target, Assert::NONE)?;
        for (round, len) in [1, 3, 13, 127, 1021, 4099, 8191, 65_537, 300_007, 1_048_573]
            .into_iter()
            .enumerate()
        {
            // From and to addresses that share no alignment.
            let origin = patterned(window.rank(), len + round, round);
            put(&window, &origin[round..], target, 3)?;
            let mut back = vec![0; len + 1];
            window.flush(target)?;
            get(&window, &mut back[1..], target, 3)?;
            window.flush(target)?;
            check!(back[1..] == origin[round..], "{memory:?}: {len} bytes");
        }
        window.unlock(target)?;
        window.close()?;
    }
    Ok(())
}

/// Soft-RoCE takes 8 MiB at a time on older kernels.
fn beyond_the_longest_message(job: &Job) -> Outcome {
    const LEN: usize = (17 << 20) + 5;
    for memory in [Memory::Allocate, Memory::Odd] {
        let window = Exposed::open(job, memory, LEN + 11, 1)?;
        let target = other(&window);
        let origin = patterned(window.rank(), LEN, 0);
        window.fence(Assert::NONE)?;
        put(&window, &origin, target, 11)?;
        window.fence(Assert::NONE)?;
        check!(
            window.read(11, LEN) == patterned(other(&window), LEN, 0),
            "{memory:?}"
        );
        let mut back = vec![0; LEN];
        get(&window, &mut back, target, 11)?;
        window.fence(Assert::NO_SUCCEED)?;
        check!(back == origin, "{memory:?}: got back");
        window.close()?;
    }
    Ok(())
}

/// What a get fetched is what was there before the put behind it, once a flush stands between.
fn a_get_then_a_put_to_the_same_place(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 3 * 4096, 4096)?;
    let (me, target) = (window.rank(), other(&window));
    window.lock_all(Assert::NONE)?;
    let mut last = vec![0; 4096];
    for round in 0..100 {
        let mut seen = vec![0xee; 4096];
        let next = patterned(me, 4096, round);
        get(&window, &mut seen, target, me.into())?;
        match round % 2 {
            0 => window.flush(target)?,
            _ => window.flush_all()?,
        }
        put(&window, &next, target, me.into())?;
        window.flush(target)?;
        check!(seen == last, "round {round}");
        last = next;
    }
    window.unlock_all()?;
    window.close()
}

/// Devices must put the atomic behind the get, whose memory it may release, also if packets of either are lost.
fn gets_with_atomics_behind_them(job: &Job) -> Outcome {
    const READ: usize = 3000;
    let window = Exposed::open(job, Memory::Allocate, 8 * 8 + READ, 8)?;
    let (me, target) = (window.rank(), other(&window));
    let pattern = |rank| patterned(rank, READ, 7);
    window.lock_all(Assert::NONE)?;
    let own = pattern(me);
    put(&window, &own, me, 8)?;
    window.flush(me)?;
    job.world().barrier()?;
    for round in 0..200 {
        let mut seen = vec![0; if round % 2 == 0 { 8 } else { READ }];
        get(&window, &mut seen, target, 8)?;
        let before = fetch_and_op(&window, 1_u64, target, me.into(), Op::Sum)?;
        check_eq!(before, round, "the counter of rank {me}");
        check!(seen == pattern(target)[..seen.len()], "round {round}");
    }
    window.unlock_all()?;
    window.close()
}
