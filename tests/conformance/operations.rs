//! Every operation on every type, against a serial model: values, ends of range, padding and
//! neighbours, alignments, counts; and what is refused.

use std::collections::BTreeSet;

use transom::raw::{Assert, Window};
use transom::{BasicType, ErrorClass, Info, Job, LockKind, Op};
use transom_testing::model::{self, Numbers};

use crate::case::{Case, Failure, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, MEMORIES, Memory};

pub(crate) const CASES: &[Case] = cases!["operations":
    every_operation_on_every_type_is_as_the_model_says @ [2],
    long_operations_are_as_the_model_says @ [2],
    one_element_is_fetched_and_combined @ [2],
    types_that_swap_compare_bits @ [2],
    what_is_not_defined_is_refused @ [2],
    requests_complete_with_their_data @ [2],
    fetches_see_what_came_before_and_not_what_comes_after @ [2],
    concurrent_updates_lose_nothing @ [2, 3],
    a_coarse_granularity_changes_the_path_and_not_the_results @ [2],
];

/// Past what one chunk of any path holds, where the device is fast enough for it.
const COUNTS: [usize; 6] = [0, 1, 2, 5, 67, 300];

fn defined() -> impl Iterator<Item = (Op, BasicType)> {
    let all = |ty| Op::ALL.into_iter().map(move |op| (op, ty));
    let pairs = BasicType::ALL.into_iter().flat_map(all);
    pairs.filter(|&(op, ty)| model::is_defined(op, ty))
}

/// Bytes of `count` elements, the padding after the last left out.
fn span(ty: BasicType, count: usize) -> usize {
    let padding: usize = match ty {
        BasicType::DoubleInt | BasicType::LongInt => 4,
        BasicType::LongDoubleInt => 12,
        _ => 0,
    };
    (count * ty.extent()).saturating_sub(padding)
}

fn check_table(job: &Job, memory: Memory, counts: &[usize], info: &Info) -> Outcome {
    check_pairs(job, memory, 16 << 10, defined(), counts, info)
}

/// `half`: what each rank has of the other's memory.
fn check_pairs(
    job: &Job,
    memory: Memory,
    half: usize,
    pairs: impl Iterator<Item = (Op, BasicType)>,
    counts: &[usize],
    info: &Info,
) -> Outcome {
    let window = Exposed::over(job, job.world(), memory, 2 * half, 1, info)?;
    let (me, target) = (window.rank(), 1 - window.rank());
    let mut numbers = Numbers::new(17 + u64::from(me));
    window.lock_all(Assert::NONE)?;
    for (round, (op, ty)) in pairs.enumerate() {
        let count = counts[round % counts.len()];
        for shift in [0, 1 + round % 7] {
            let (guard, len) = (40, span(ty, count));
            let disp = me as usize * half + 64 + shift;
            let operands = numbers.elements(ty, count);
            // The guards and the padding are random too, and have to stay.
            let mut wanted = numbers.elements(ty, count + 160 / ty.extent());
            let (start, whole) = (guard, wanted.len());
            let base = disp - guard;
            // SAFETY: the flush completes the operations while their buffers live.
            unsafe { window.put(wanted.as_ptr(), whole, target, base as u64)? };
            window.flush(target)?;
            let mut fetched = numbers.elements(ty, count);
            let mut wanted_fetch = fetched.clone();
            let fetching = round % 3 != 0 || op == Op::NoOp;
            // SAFETY: as above; the vectors have `count` elements.
            unsafe {
                let (origin, disp) = (operands.as_ptr(), disp as u64);
                if fetching {
                    let result = fetched.as_mut_ptr();
                    window.get_accumulate(origin, result, count, ty, target, disp, op)?;
                } else {
                    window.accumulate(origin, count, ty, target, disp, op)?;
                }
            }
            let mut found = vec![0; whole];
            window.flush(target)?;
            // SAFETY: as above.
            unsafe { window.get(found.as_mut_ptr(), whole, target, base as u64)? };
            window.flush(target)?;
            let held = &mut wanted[start..start + len];
            if fetching {
                model::apply(Op::Replace, ty, &mut wanted_fetch[..len], held);
            }
            model::apply(op, ty, held, &operands[..len]);
            let what = format!("{count} × {op:?} on {ty:?} at {shift} of {memory:?}");
            check!(
                model::same(ty, start, &found, &wanted),
                "{what}:\n{found:x?}\n{wanted:x?}"
            );
            check!(
                model::same(ty, 0, &fetched, &wanted_fetch),
                "{what}, fetched:\n{fetched:x?}\n{wanted_fetch:x?}"
            );
        }
    }
    window.unlock_all()?;
    window.close()
}

fn every_operation_on_every_type_is_as_the_model_says(job: &Job) -> Outcome {
    for (turn, memory) in MEMORIES.into_iter().enumerate() {
        // Each memory has other counts for each pair of operation and type.
        let mut counts = COUNTS;
        counts.rotate_left(turn);
        check_table(job, memory, &counts, &Info::new())?;
    }
    Ok(())
}

/// Longer than what one thread, or one step of any path, does at a time, and no multiple of it.
fn long_operations_are_as_the_model_says(job: &Job) -> Outcome {
    // Some fetch, and some do not.
    let pairs = [
        (Op::Sum, BasicType::F64),
        (Op::Minloc, BasicType::LongDoubleInt),
        (Op::Bxor, BasicType::I32),
        (Op::Maxloc, BasicType::DoubleInt),
    ];
    let counts = pairs.map(|(_, ty)| (512 << 10) / ty.extent() + 321);
    for memory in [Memory::Heap, Memory::Odd] {
        check_pairs(
            job,
            memory,
            1 << 20,
            pairs.into_iter(),
            &counts,
            &Info::new(),
        )?;
    }
    Ok(())
}

fn a_coarse_granularity_changes_the_path_and_not_the_results(job: &Job) -> Outcome {
    for granularity in ["2", "4", "8", "16", "4096"] {
        let info = Info::new().with("mpi_accumulate_granularity", granularity);
        check_table(job, Memory::Allocate, &COUNTS, &info)?;
    }
    Ok(())
}

fn one_element_is_fetched_and_combined(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 128, 1)?;
        let (me, target) = (window.rank(), 1 - window.rank());
        let mut numbers = Numbers::new(3 + u64::from(me));
        window.lock_all(Assert::NONE)?;
        for (op, ty) in defined() {
            for shift in [0, 3] {
                let at = u64::from(me) * 64 + shift;
                let len = span(ty, 1);
                let (mut held, operand) = (numbers.elements(ty, 1), numbers.elements(ty, 1));
                let mut old = held.clone();
                let mut found = held.clone();
                // SAFETY: the flushes complete the operations while their buffers live.
                unsafe {
                    let nowhere = std::ptr::null();
                    let origin = if op == Op::NoOp {
                        nowhere
                    } else {
                        operand.as_ptr()
                    };
                    window.put(held.as_ptr(), len, target, at)?;
                    window.flush(target)?;
                    window.fetch_and_op(origin, old.as_mut_ptr(), ty, target, at, op)?;
                    window.flush(target)?;
                    window.get(found.as_mut_ptr(), len, target, at)?;
                    window.flush(target)?;
                }
                check!(
                    model::same(ty, 0, &old, &held),
                    "{op:?} {ty:?}: {old:x?} {held:x?}"
                );
                model::apply(op, ty, &mut held[..len], &operand[..len]);
                check!(
                    model::same(ty, 0, &found, &held),
                    "{op:?} {ty:?} {shift} {memory:?}: {found:x?}, wanted {held:x?}"
                );
            }
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn swap(
    window: &Window,
    ty: BasicType,
    expect: &[u8],
    new: &[u8],
    target: u32,
    at: u64,
) -> transom::Result<Vec<u8>> {
    let mut old = vec![0xee; expect.len()];
    // SAFETY: one element each; the flush completes the operation.
    unsafe {
        let (new, expect, old) = (new.as_ptr(), expect.as_ptr(), old.as_mut_ptr());
        window.compare_and_swap(new, expect, old, ty, target, at)?;
    }
    window.flush(target)?;
    Ok(old)
}

fn types_that_swap_compare_bits(job: &Job) -> Outcome {
    for memory in MEMORIES {
        let window = Exposed::open(job, memory, 128, 1)?;
        let (me, target) = (window.rank(), 1 - window.rank());
        let mut numbers = Numbers::new(5 + u64::from(me));
        window.lock_all(Assert::NONE)?;
        for ty in BasicType::ALL {
            let at = u64::from(me) * 64 + 16;
            let [first, second, third] = [(); 3].map(|()| numbers.distinct(ty));
            // SAFETY: the flush completes the operation.
            unsafe { window.put(first.as_ptr(), first.len(), target, at)? };
            window.flush(target)?;
            let swapped = swap(&window, ty, &second, &third, target, at);
            if !model::swaps(ty) {
                let error = swapped.expect_err("floats and pairs are not compared");
                check_eq!(error.class(), ErrorClass::Type, "{error}");
                check!(
                    error
                        .to_string()
                        .contains("legal: integers, logicals, byte"),
                    "{error}"
                );
                continue;
            }
            check_eq!(swapped?, first, "{ty:?} {memory:?}");
            check_eq!(
                swap(&window, ty, &first, &second, target, at)?,
                first,
                "{ty:?}"
            );
            check_eq!(
                swap(&window, ty, &second, &third, target, at)?,
                second,
                "{ty:?}"
            );
            check_eq!(
                swap(&window, ty, &third, &third, target, at)?,
                third,
                "{ty:?}"
            );
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn what_is_not_defined_is_refused(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 256, 1)?;
    let (buffer, mut result) = ([0x55_u8; 96], [0_u8; 96]);
    let target = 1 - window.rank();
    window.lock(LockKind::Shared, target, Assert::NONE)?;
    let legal: BTreeSet<_> = defined()
        .map(|(op, ty)| (format!("{op:?}"), format!("{ty:?}")))
        .collect();
    for ty in BasicType::ALL {
        for op in Op::ALL {
            let allowed = legal.contains(&(format!("{op:?}"), format!("{ty:?}")));
            check_eq!(op.is_defined_for(ty), allowed, "{op:?} for {ty:?}");
            if allowed {
                continue;
            }
            let (from, to) = (buffer.as_ptr(), result.as_mut_ptr());
            // SAFETY: refused, so that the buffers are not touched; they are long enough too.
            let refused = unsafe {
                [
                    window.accumulate(from, 1, ty, target, 0, op),
                    window.accumulate(from, 3, ty, target, 0, op),
                    window.accumulate(from, 0, ty, target, 0, op),
                    window.get_accumulate(from, to, 2, ty, target, 8, op),
                    window.fetch_and_op(from, to, ty, target, 0, op),
                    window.raccumulate(from, 1, ty, target, 0, op).map(drop),
                    window
                        .rget_accumulate(from, to, 1, ty, target, 0, op)
                        .map(drop),
                ]
            };
            for (call, refused) in refused.into_iter().enumerate() {
                let error = refused.err().ok_or_else(|| {
                    Failure::new(format_args!("call {call}: {op:?} on {ty:?} was accepted"))
                })?;
                check_eq!(error.class(), ErrorClass::Op, "{error}");
                let message = error.to_string();
                check!(
                    message.contains(&format!("{op:?} is not defined for")),
                    "{message}"
                );
            }
        }
    }
    // The other ways to be wrong, which leave the epoch as it was.
    let (from, to, null) = (buffer.as_ptr(), result.as_mut_ptr(), std::ptr::null_mut());
    // SAFETY: refused, so that no buffer is touched.
    let refused = unsafe {
        let f64 = BasicType::F64;
        let call =
            |from, to, count, at| window.get_accumulate(from, to, count, f64, target, at, Op::Sum);
        [
            (call(from, null, 1, 0), ErrorClass::Buffer),
            (call(std::ptr::null(), to, 1, 0), ErrorClass::Buffer),
            (call(from, to, 2, 248), ErrorClass::RmaRange),
            (call(from, to, usize::MAX / 4, 0), ErrorClass::Count),
            (
                window.get_accumulate(from, to, 1, f64, 9, 0, Op::Sum),
                ErrorClass::Rank,
            ),
        ]
    };
    for (index, (refused, class)) in refused.into_iter().enumerate() {
        let error = refused.expect_err("wrong");
        check_eq!(error.class(), class, "{index}: {error}");
    }
    // The last element's padding need not be there.
    // SAFETY: one element, complete at the unlock.
    unsafe { window.accumulate(from, 1, BasicType::DoubleInt, target, 244, Op::Minloc)? };
    window.unlock(target)?;
    job.world().barrier()?;
    check!(
        window.read(0, 244).iter().all(|&byte| byte == 0),
        "{:x?}",
        window.bytes()
    );
    window.close()
}

fn requests_complete_with_their_data(job: &Job) -> Outcome {
    for memory in MEMORIES {
        for ty in [
            BasicType::I64,
            BasicType::U16,
            BasicType::F32,
            BasicType::DoubleInt,
        ] {
            let window = Exposed::open(job, memory, 16 << 10, 1)?;
            let (me, target) = (window.rank(), 1 - window.rank());
            let mut numbers = Numbers::new(7 + u64::from(me));
            let (at, count) = (u64::from(me) * (8 << 10), 200);
            window.lock(LockKind::Shared, target, Assert::NONE)?;
            let mut held = numbers.elements(ty, count);
            let op = if ty == BasicType::DoubleInt {
                Op::Maxloc
            } else {
                Op::Sum
            };
            // SAFETY: the requests are waited for before their buffers are looked at or go, and all
            // is complete at the unlock.
            unsafe {
                let origin = held.as_ptr();
                window
                    .raccumulate(origin, count, ty, target, at, Op::Replace)?
                    .wait()?;
                for _ in 0..3 {
                    let operands = numbers.elements(ty, count);
                    let mut old = held.clone();
                    old.fill(0x3c);
                    let (from, to) = (operands.as_ptr(), old.as_mut_ptr());
                    let mut request =
                        window.rget_accumulate(from, to, count, ty, target, at, op)?;
                    while !request.test()? {
                        std::thread::yield_now();
                    }
                    let mut wanted = vec![0x3c; old.len()];
                    let len = span(ty, count);
                    model::apply(Op::Replace, ty, &mut wanted[..len], &held[..len]);
                    check!(model::same(ty, 0, &old, &wanted), "{ty:?} {memory:?}");
                    model::apply(op, ty, &mut held[..len], &operands[..len]);
                }
                let mut last = vec![0; span(ty, count)];
                window
                    .rget(last.as_mut_ptr(), last.len(), target, at)?
                    .wait()?;
                let (elements, size) = (ty.extent(), ty.size());
                check!(
                    ty == BasicType::DoubleInt
                        && last
                            .chunks(elements)
                            .zip(held.chunks(elements))
                            .all(|(a, b)| a[..size] == b[..size])
                        || model::same(ty, 0, &last, &held[..last.len()]),
                    "{ty:?} {memory:?}"
                );
            }
            window.unlock(target)?;
            window.close()?;
        }
    }
    Ok(())
}

/// The four orders that hold by default: reads and writes of one origin on one place.
fn fetches_see_what_came_before_and_not_what_comes_after(job: &Job) -> Outcome {
    const ROUNDS: usize = 60;
    const COUNT: usize = 12;
    for memory in MEMORIES {
        for ty in [
            BasicType::U64,
            BasicType::U32,
            BasicType::F64,
            BasicType::ComplexF64,
            BasicType::LongInt,
            BasicType::TwoDouble,
        ] {
            let window = Exposed::open(job, memory, 1 << 10, 1)?;
            let (me, target) = (window.rank(), 1 - window.rank());
            let mut numbers = Numbers::new(11 + u64::from(me));
            let (at, len) = (u64::from(me) * 512, span(ty, COUNT));
            let mut held = vec![0; COUNT * ty.extent()];
            let sources: Vec<_> = (0..ROUNDS).map(|_| numbers.elements(ty, COUNT)).collect();
            let mut results = vec![vec![0; held.len()]; ROUNDS];
            let mut wanted = results.clone();
            window.lock(LockKind::Shared, target, Assert::NONE)?;
            for (round, source) in sources.iter().enumerate() {
                let op = match round % 5 {
                    0 | 3 => Op::Replace,
                    1 => Op::NoOp,
                    2 if !model::is_defined(Op::Sum, ty) => Op::Minloc,
                    2 => Op::Sum,
                    _ => Op::NoOp,
                };
                let (from, to) = (source.as_ptr(), results[round].as_mut_ptr());
                // SAFETY: nothing is waited for before the unlock; the buffers outlive it.
                unsafe {
                    if round % 5 == 3 {
                        window.accumulate(from, COUNT, ty, target, at, op)?;
                    } else {
                        window.get_accumulate(from, to, COUNT, ty, target, at, op)?;
                    }
                }
                if round % 5 != 3 {
                    model::apply(Op::Replace, ty, &mut wanted[round][..len], &held[..len]);
                }
                model::apply(op, ty, &mut held[..len], &source[..len]);
            }
            window.unlock(target)?;
            for (round, (result, wanted)) in results.iter().zip(&wanted).enumerate() {
                check!(
                    model::same(ty, 0, result, wanted),
                    "{ty:?} {memory:?}, round {round}: {result:x?}, wanted {wanted:x?}"
                );
            }
            window.close()?;
        }
    }
    Ok(())
}

/// Sums, products by one, and bits that each rank flips as often as it sets them back.
fn concurrent_updates_lose_nothing(job: &Job) -> Outcome {
    const ROUNDS: usize = 40;
    // Where ranks give different granularities, all of them take the same path nevertheless.
    for (memory, granularities) in [
        (Memory::Allocate, ["0", "0"]),
        (Memory::Heap, ["0", "0"]),
        (Memory::Odd, ["0", "0"]),
        (Memory::Allocate, ["64", "64"]),
        (Memory::Allocate, ["64", "0"]),
        (Memory::Heap, ["1", "1048576"]),
    ] {
        let granularity = granularities[job.world().rank() as usize % 2];
        let info = Info::new().with("mpi_accumulate_granularity", granularity);
        let window = Exposed::over(job, job.world(), memory, 4096, 1, &info)?;
        let ranks = window.ranks() as usize;
        let types = [
            BasicType::U8,
            BasicType::I16,
            BasicType::U32,
            BasicType::I64,
            BasicType::F32,
            BasicType::F64,
            BasicType::ComplexF32,
            // Moved only on some machines.
            match model::is_defined(Op::Sum, BasicType::LongDouble) {
                true => BasicType::LongDouble,
                false => BasicType::ComplexF64,
            },
        ];
        window.lock_all(Assert::NONE)?;
        for round in 0..ROUNDS {
            for (slot, ty) in types.into_iter().enumerate() {
                let one = model::one(ty);
                let ones = one.repeat(5);
                let mut old = ones.clone();
                let (from, to, at) = (ones.as_ptr(), old.as_mut_ptr(), slot as u64 * 256);
                let flips = if slot < 4 { Op::Bxor } else { Op::Prod };
                // SAFETY: five elements each; the flush completes the operations.
                unsafe {
                    match round % 4 {
                        0 => window.accumulate(from, 5, ty, 0, at, Op::Sum)?,
                        1 => window.get_accumulate(from, to, 5, ty, 0, at, Op::Sum)?,
                        2 => window.fetch_and_op(from, to, ty, 0, at, Op::Sum)?,
                        _ => window.accumulate(from, 1, ty, 0, at, Op::Sum)?,
                    }
                    window.accumulate(from, 1, ty, 0, at + 128, flips)?;
                }
                window.flush(0)?;
            }
        }
        window.unlock_all()?;
        job.world().barrier()?;
        if window.rank() == 0 {
            for (slot, ty) in types.into_iter().enumerate() {
                let bytes = window.read(slot * 256, 5 * ty.size());
                let wanted = [ROUNDS * ranks, ROUNDS / 2 * ranks];
                for (index, element) in bytes.chunks(ty.size()).enumerate() {
                    let wanted = model::number(ty, wanted[usize::from(index > 0)]);
                    check_eq!(
                        element,
                        wanted,
                        "{ty:?} {index} {memory:?} {granularities:?}"
                    );
                }
                let rest = window.read(slot * 256 + 128, 2 * ty.size());
                check!(rest.iter().all(|&byte| byte == 0), "{ty:?} {rest:x?}");
            }
        }
        window.close()?;
    }
    Ok(())
}
