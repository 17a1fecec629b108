//! Accumulate and get_accumulate between layouts, against the serial model.

use transom::raw::{Assert, Committed, Datatype};
use transom::{BasicType, Job, Op};
use transom_testing::model::{self, Numbers};

use super::maps::{ELEMENTS, maps};
use super::transfer::Near;
use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{Exposed, Memory};
use crate::ops::get;

pub(crate) const CASES: &[Case] = cases!["datatypes":
    every_operation_between_layouts @ [2],
    elements_that_are_not_aligned @ [2],
    long_runs_that_are_not_aligned @ [2],
    a_transposed_matrix_is_added @ [2, 3],
    sums_of_all_ranks_in_one_column @ [3],
    accumulates_follow_one_another @ [2],
    elements_that_come_several_times @ [2],
    requests_of_accumulates @ [2],
];

const OPS: [Op; 8] = [
    Op::Sum,
    Op::Max,
    Op::Bxor,
    Op::Land,
    Op::Prod,
    Op::Minloc,
    Op::Replace,
    Op::NoOp,
];

fn at(base: usize, place: i64) -> usize {
    (base as i64 + place) as usize
}

/// Rank 1 combines elements into both ranks' memory, one operation and set of layouts after the
/// other; `first` is where the first element of the window stands.
fn combines(job: &Job, memory: Memory, ty: BasicType, shift: usize) -> Outcome {
    let maps = maps(ty)?;
    let extent = ty.extent();
    let before = 140 * extent + shift;
    let len = 640 * extent + shift;
    let window = Exposed::open(job, memory, len, 1)?;
    let mut numbers = Numbers::new(ty as u64 + 11);
    let mut models = [(); 2].map(|()| {
        let mut bytes = vec![0x55; shift];
        bytes.extend(numbers.elements(ty, 640));
        bytes
    });
    window.write(0, &models[window.rank() as usize]);
    job.world().barrier()?;
    if window.rank() == 1 {
        window.lock_all(Assert::NONE)?;
        let pick = |number: usize| &maps[number % maps.len()];
        for (round, op) in OPS.into_iter().enumerate() {
            if !model::is_defined(op, ty) {
                continue;
            }
            for target in [0, 1_usize] {
                let seed = round * 5 + target;
                let (near, out, far) = (pick(seed), pick(seed * 3 + 1), pick(seed * 7 + 4));
                let mut held = models[target].clone();
                let what = format!(
                    "{op:?} on {ty:?} {memory:?}: {} {} {}",
                    near.name, out.name, far.name
                );
                // Operands, the same in both operations.
                let mut here = Near::new(near, extent, 0);
                let values = numbers.elements(ty, ELEMENTS as usize);
                for (value, &place) in values.chunks(extent).zip(&near.places) {
                    here.bytes[at(here.at, place)..][..extent].copy_from_slice(value);
                }
                let mut back = Near::new(out, extent, 1);
                let mut wanted = back.bytes.clone();
                for (number, &place) in far.places.iter().enumerate() {
                    let element = held[at(before, place)..][..extent].to_vec();
                    let result = &mut wanted[at(back.at, out.places[number])..][..extent];
                    model::apply(Op::Replace, ty, result, &element);
                }
                combine_model(op, ty, &mut held, before, &far.places, &values);
                let (from, to) = (here.place().cast_const(), back.place());
                let disp = before as u64;
                let rank = target as u32;
                // SAFETY: the flush completes the operation before the buffers go.
                unsafe {
                    window.get_accumulate_layout(
                        from,
                        near.layout(),
                        to,
                        out.layout(),
                        rank,
                        disp,
                        far.layout(),
                        op,
                    )?;
                    window.flush(rank)?;
                }
                let first = back.at % extent;
                check!(
                    model::same(ty, first, &back.bytes, &wanted),
                    "result of {what}"
                );
                // Once more, and nothing is fetched.
                if op != Op::NoOp {
                    combine_model(op, ty, &mut held, before, &far.places, &values);
                    // SAFETY: as above.
                    unsafe {
                        let far = far.layout();
                        window.accumulate_layout(from, near.layout(), rank, disp, far, op)?;
                    }
                }
                window.flush(rank)?;
                let mut found = vec![0; len];
                get(&window, &mut found, rank, 0)?;
                window.flush(rank)?;
                check!(model::same(ty, shift, &found, &held), "{what}");
                models[target] = found;
            }
        }
        window.unlock_all()?;
    }
    window.close()
}

fn combine_model(
    op: Op,
    ty: BasicType,
    held: &mut [u8],
    base: usize,
    places: &[i64],
    values: &[u8],
) {
    let extent = ty.extent();
    for (value, &place) in values.chunks(extent).zip(places) {
        model::apply(op, ty, &mut held[at(base, place)..][..extent], value);
    }
}

fn every_operation_between_layouts(job: &Job) -> Outcome {
    for ty in [
        BasicType::I64,
        BasicType::F64,
        BasicType::U32,
        BasicType::I16,
        BasicType::Bool,
        BasicType::ComplexF32,
        BasicType::TwoInt,
        BasicType::ShortInt,
        BasicType::DoubleInt,
        BasicType::LongDoubleInt,
        BasicType::ComplexLongDouble,
        BasicType::LongDouble,
        BasicType::TwoFloat,
        BasicType::Logical8,
    ] {
        combines(job, Memory::Allocate, ty, 0)?;
    }
    combines(job, Memory::Heap, BasicType::I64, 0)?;
    combines(job, Memory::Heap, BasicType::F32, 0)
}

fn elements_that_are_not_aligned(job: &Job) -> Outcome {
    for ty in [
        BasicType::I64,
        BasicType::U16,
        BasicType::F64,
        BasicType::DoubleInt,
    ] {
        combines(job, Memory::Allocate, ty, 3)?;
    }
    combines(job, Memory::Odd, BasicType::I32, 0)?;
    // Aligned and not, in one operation: words at every offset of eight.
    let window = Exposed::open(job, Memory::Allocate, 1000, 1)?;
    let target = (window.rank() + 1) % window.ranks();
    let places: Vec<i64> = (0..100).map(|i| i * 9).collect();
    let words = Datatype::hindexed_block(1, &places, &BasicType::I64.into())?.commit();
    let values: Vec<i64> = (1..=100).collect();
    window.fence(Assert::NONE)?;
    for _ in 0..3 {
        let (from, near) = (
            values.as_ptr().cast(),
            Committed::of(BasicType::I64).times(100),
        );
        // SAFETY: the fence completes the operation.
        unsafe { window.accumulate_layout(from, near, target, 0, words.times(1), Op::Sum)? };
    }
    window.fence(Assert::NONE)?;
    for (place, value) in places.iter().zip(&values) {
        check_eq!(window.read_u64(*place as usize), 3 * *value as u64);
    }
    window.close()
}

/// Every other element of a buffer, to and from one run at the target that lies askew: whole elements, all of them.
fn long_runs_that_are_not_aligned(job: &Job) -> Outcome {
    const COUNT: usize = 1_100;
    for ty in [BasicType::I16, BasicType::I32] {
        let size = ty.size();
        let window = Exposed::open(job, Memory::Allocate, COUNT * size + 8, 1)?;
        let column = Datatype::vector(COUNT as i64, 1, 2, &Datatype::from(ty))?.commit();
        let dense = Datatype::from(ty).commit();
        for skew in [1, 2, 3, 5, 7] {
            window.lock_all(Assert::NONE)?;
            if window.rank() == 1 {
                let sent: Vec<u8> = (0..2 * COUNT * size)
                    .map(|at| (at % 251) as u8 + 1)
                    .collect();
                let mut seen = vec![0; sent.len()];
                let run = dense.times(COUNT as u64);
                // SAFETY: the buffers outlive the flushes.
                unsafe {
                    let (from, one) = (sent.as_ptr(), column.times(1));
                    window.accumulate_layout(from, one, 0, skew, run, Op::Replace)?;
                    window.flush(0)?;
                    let (to, nothing) = (seen.as_mut_ptr(), dense.times(0));
                    let noop = Op::NoOp;
                    window.get_accumulate_layout(from, nothing, to, one, 0, skew, run, noop)?;
                    window.flush(0)?;
                }
                let mut there = vec![0; COUNT * size];
                get(&window, &mut there, 0, skew)?;
                window.flush(0)?;
                for (number, element) in there.chunks(size).enumerate() {
                    let at = 2 * number * size..(2 * number + 1) * size;
                    check_eq!(element, &sent[at.clone()], "{ty:?} {skew} {number}");
                    check_eq!(&seen[at], element, "{ty:?} {skew} {number}");
                }
            }
            window.unlock_all()?;
        }
        window.close()?;
    }
    Ok(())
}

/// The classic: a matrix is added to its transpose on another rank.
fn a_transposed_matrix_is_added(job: &Job) -> Outcome {
    const N: usize = 100;
    let column = Datatype::vector(N as i64, 1, N as i64, &BasicType::I32.into())?;
    let transposed = Datatype::hvector(N as i64, 1, 4, &column)?.commit();
    let window = Exposed::open(job, Memory::Allocate, 4 * N * N, 4)?;
    let matrix: Vec<i32> = (0..(N * N) as i32).collect();
    window.write(0, bytemuck::cast_slice(&matrix));
    window.fence(Assert::NONE)?;
    if window.rank() == 0 {
        let (from, near) = (
            matrix.as_ptr().cast(),
            Committed::of(BasicType::I32).times((N * N) as u64),
        );
        // SAFETY: the fence completes the operation.
        unsafe { window.accumulate_layout(from, near, 1, 0, transposed.times(1), Op::Sum)? };
    }
    window.fence(Assert::NONE)?;
    if window.rank() == 1 {
        let wanted: Vec<i32> = (0..N * N)
            .map(|i| matrix[i] + matrix[i % N * N + i / N])
            .collect();
        check!(window.bytes() == bytemuck::cast_slice::<_, u8>(&wanted));
    }
    window.close()
}

fn sums_of_all_ranks_in_one_column(job: &Job) -> Outcome {
    const ROWS: usize = 40;
    const TIMES: u64 = 25;
    for ty in [BasicType::I64, BasicType::F64] {
        let window = Exposed::open(job, Memory::Allocate, 8 * ROWS * 5, 8)?;
        let column = Datatype::vector(ROWS as i64, 1, 5, &ty.into())?.commit();
        let ones = match ty {
            BasicType::I64 => [1_i64.to_ne_bytes(); ROWS],
            _ => [1_f64.to_ne_bytes(); ROWS],
        };
        window.lock_all(Assert::NONE)?;
        for _ in 0..TIMES {
            let (from, near) = (ones.as_ptr().cast(), Committed::of(ty).times(ROWS as u64));
            // SAFETY: unlock_all completes the operation.
            unsafe { window.accumulate_layout(from, near, 0, 3, column.times(1), Op::Sum)? };
        }
        window.unlock_all()?;
        job.world().barrier()?;
        if window.rank() == 0 {
            let sum = TIMES * u64::from(window.ranks());
            let wanted = match ty {
                BasicType::I64 => sum,
                _ => (sum as f64).to_bits(),
            };
            for row in 0..ROWS {
                let found: Vec<_> = (0..5).map(|i| window.read_u64(8 * (row * 5 + i))).collect();
                check_eq!(found, [0, 0, 0, wanted, 0], "{ty:?}, row {row}");
            }
        }
        window.close()?;
    }
    Ok(())
}

/// The order of accumulates of one origin holds between layouts too.
fn accumulates_follow_one_another(job: &Job) -> Outcome {
    for ty in [BasicType::I64, BasicType::F64] {
        let window = Exposed::open(job, Memory::Allocate, 8 * 200, 8)?;
        let target = (window.rank() + 1) % window.ranks();
        let column = Datatype::vector(50, 1, 4, &ty.into())?.commit();
        let dense = Committed::of(ty).times(50);
        let buffers: Vec<Vec<u64>> = (0..20).map(|round| vec![round + 1; 50]).collect();
        let mut found = vec![vec![0_u64; 50]; 20];
        window.lock_all(Assert::NONE)?;
        for (buffer, found) in buffers.iter().zip(&mut found) {
            let (from, to) = (buffer.as_ptr().cast(), found.as_mut_ptr().cast());
            let far = column.times(1);
            // SAFETY: unlock_all completes the operations before the buffers go.
            unsafe {
                window.accumulate_layout(from, dense, target, 1, far, Op::Replace)?;
                window.get_accumulate_layout(from, dense, to, dense, target, 1, far, Op::NoOp)?;
            }
        }
        window.unlock_all()?;
        job.world().barrier()?;
        for (buffer, found) in buffers.iter().zip(&found) {
            check_eq!(found, buffer, "{ty:?}");
        }
        for row in 0..50 {
            check_eq!(window.read_u64(8 * (row * 4 + 1)), 20);
        }
        window.close()?;
    }
    Ok(())
}

/// Every operand counts, in order, where the target's layout has an element several times. A round trip or more for each
/// element: so each operation takes one of the layouts, and another with the next type.
fn elements_that_come_several_times(job: &Job) -> Outcome {
    const ELEMENTS: usize = 40;
    let memories = [Memory::Allocate, Memory::Heap, Memory::Odd];
    let types = [
        BasicType::I64,
        BasicType::F64,
        BasicType::I32,
        BasicType::F32,
        BasicType::U16,
        BasicType::U8,
        BasicType::DoubleInt,
        BasicType::LongDouble,
    ];
    let all = (memories.into_iter()).flat_map(|memory| types.map(|ty| (memory, ty)));
    for (shift, (memory, ty)) in all.enumerate() {
        let extent = ty.extent();
        let window = Exposed::open(job, memory, ELEMENTS * extent, 1)?;
        let mut numbers = Numbers::new(ty as u64 + 5);
        let mut held = numbers.elements(ty, ELEMENTS);
        if window.rank() == 0 {
            window.write(0, &held);
        }
        job.world().barrier()?;
        if window.rank() == 1 {
            window.lock_all(Assert::NONE)?;
            let old = Datatype::from(ty);
            let layouts = [
                (
                    "a pair",
                    Datatype::indexed_block(1, &[2, 0, 2], &old)?,
                    vec![2, 0, 2],
                ),
                (
                    "runs",
                    Datatype::indexed_block(3, &[7, 5, 6, 7, 0], &old)?,
                    [7, 5, 6, 7, 0].iter().flat_map(|&at| at..at + 3).collect(),
                ),
                (
                    "a vector",
                    Datatype::vector(6, 4, 1, &old)?,
                    (0..6).flat_map(|at| at..at + 4).collect(),
                ),
                ("one place", Datatype::vector(20, 1, 0, &old)?, vec![0; 20]),
            ];
            for (number, op) in OPS.into_iter().enumerate() {
                let turn = number + shift + shift / types.len();
                let (name, far, places) = &layouts[turn % layouts.len()];
                if !model::is_defined(op, ty) {
                    continue;
                }
                let far = far.clone().commit();
                let near = Committed::of(ty).times(places.len() as u64);
                let places: Vec<i64> = (places.iter()).map(|at| at * extent as i64).collect();
                let what = format!("{name}: {op:?} on {ty:?} {memory:?}");
                let values = numbers.elements(ty, places.len());
                let mut back = vec![0; values.len()];
                let mut wanted = back.clone();
                let results = wanted.chunks_mut(extent);
                for ((value, &place), result) in values.chunks(extent).zip(&places).zip(results) {
                    let element = &mut held[place as usize..][..extent];
                    model::apply(Op::Replace, ty, result, element);
                    model::apply(op, ty, element, value);
                }
                let (from, to, far) = (values.as_ptr(), back.as_mut_ptr(), far.times(1));
                // SAFETY: the flush completes the operation before the buffers go.
                unsafe { window.get_accumulate_layout(from, near, to, near, 0, 0, far, op)? };
                window.flush(0)?;
                check!(model::same(ty, 0, &back, &wanted), "result of {what}");
                if op != Op::NoOp {
                    combine_model(op, ty, &mut held, 0, &places, &values);
                    // SAFETY: as above.
                    unsafe { window.accumulate_layout(from, near, 0, 0, far, op)? };
                    window.flush(0)?;
                }
                let mut found = vec![0; held.len()];
                get(&window, &mut found, 0, 0)?;
                window.flush(0)?;
                check!(model::same(ty, 0, &found, &held), "{what}");
                held = found;
            }
            window.unlock_all()?;
        }
        window.close()?;
    }
    Ok(())
}

fn requests_of_accumulates(job: &Job) -> Outcome {
    for ty in [BasicType::U64, BasicType::F64] {
        let window = Exposed::open(job, Memory::Allocate, 8 * 90, 8)?;
        let target = (window.rank() + 1) % window.ranks();
        let spread = Datatype::resized(&ty.into(), 0, 24)?.commit();
        let mut values = [0_u64; 30];
        let dense = Committed::of(ty).times(30);
        window.lock_all(Assert::NONE)?;
        for round in 1..=5_u64 {
            let value = match ty {
                BasicType::U64 => round,
                _ => (round as f64).to_bits(),
            };
            values.fill(value);
            let (from, far) = (values.as_ptr().cast(), spread.times(30));
            // SAFETY: the buffer is untouched until the request is complete.
            unsafe {
                window
                    .raccumulate_layout(from, dense, target, 0, far, Op::Sum)?
                    .wait()?;
            }
            values.fill(0);
        }
        let mut old = [7_u64; 61];
        let (from, to) = (values.as_ptr().cast(), old.as_mut_ptr().cast());
        let two = Datatype::resized(&ty.into(), 0, 16)?.commit();
        // SAFETY: as above.
        unsafe {
            window
                .rget_accumulate_layout(
                    from,
                    dense,
                    to,
                    two.times(30),
                    target,
                    0,
                    spread.times(30),
                    Op::Sum,
                )?
                .wait()?;
        }
        let wanted = match ty {
            BasicType::U64 => 15,
            _ => 15_f64.to_bits(),
        };
        for (index, &found) in old.iter().enumerate() {
            let wanted = if index % 2 == 0 && index < 60 {
                wanted
            } else {
                7
            };
            check_eq!(found, wanted, "{ty:?}, element {index}");
        }
        window.unlock_all()?;
        job.world().barrier()?;
        window.close()?;
    }
    Ok(())
}
