//! Receivers with room for more than is sent: the data fills their first elements, and the others
//! stay as they are.

use transom::raw::{Assert, Committed, Datatype};
use transom::{BasicType, ErrorClass, Job, Op};
use transom_testing::model::{self, Numbers};

use super::maps::{ELEMENTS, maps};
use super::transfer::{Near, get_layout, put_layout};
use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::exposed::{ALIGNED, Exposed, Memory, patterned};
use crate::ops::get;
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["datatypes":
    data_that_is_shorter_than_its_room @ [2],
    layouts_into_longer_rows @ [2],
    data_that_ends_inside_an_element @ [2],
    accumulates_of_fewer_operands @ [2],
    results_with_room_to_spare @ [2],
    requests_of_fewer_operands @ [2],
    room_that_is_no_continuation @ [2],
];

/// How many elements are sent, to places for [`ELEMENTS`].
const SENT: [usize; 4] = [0, 1, 23, ELEMENTS as usize - 1];

fn at(base: usize, place: i64) -> usize {
    (base as i64 + place) as usize
}

fn data_that_is_shorter_than_its_room(job: &Job) -> Outcome {
    for (memory, ty) in ALIGNED.into_iter().zip([BasicType::I64, BasicType::U16]) {
        let maps = maps(ty)?;
        let size = ty.size();
        let (before, len) = (140 * size, 640 * size);
        let window = Exposed::open(job, memory, len, 1)?;
        let mut held = patterned(1, len, 4);
        if window.rank() == 1 {
            window.write(0, &held);
        }
        job.world().barrier()?;
        if window.rank() == 0 {
            window.lock_all(Assert::NONE)?;
            for (index, map) in maps.iter().enumerate() {
                let sent = SENT[index % SENT.len()];
                let what = format!("{sent} × {ty:?}, {memory:?}, {}", map.name);
                let dense = Committed::of(ty).times(sent as u64);
                // There.
                let values = patterned(0, ELEMENTS as usize * size, index);
                put_layout(
                    &window,
                    values.as_ptr(),
                    dense,
                    1,
                    before as u64,
                    map.layout(),
                )?;
                for (value, &place) in values.chunks(size).zip(&map.places).take(sent) {
                    held[at(before, place)..][..size].copy_from_slice(value);
                }
                window.flush(1)?;
                let mut found = vec![0; len];
                get(&window, &mut found, 1, 0)?;
                window.flush(1)?;
                check!(found == held, "put: {what}");
                // And back.
                let mut near = Near::new(map, size, index);
                let mut wanted = near.bytes.clone();
                for (value, &place) in held.chunks(size).zip(&map.places).take(sent) {
                    wanted[at(near.at, place)..][..size].copy_from_slice(value);
                }
                get_layout(&window, near.place(), map.layout(), 1, 0, dense)?;
                window.flush(1)?;
                check!(near.bytes == wanted, "get: {what}");
            }
            window.unlock_all()?;
        }
        window.close()?;
    }
    Ok(())
}

fn layouts_into_longer_rows(job: &Job) -> Outcome {
    let ty = BasicType::I32;
    let window = Exposed::open(job, Memory::Heap, 4 * 100, 4)?;
    let target = (window.rank() + 1) % window.ranks();
    for (round, map) in maps(ty)?.into_iter().enumerate() {
        let before = patterned(window.rank(), 400, round);
        window.write(0, &before);
        let mut near = Near::new(&map, 4, round + 50);
        window.fence(Assert::NONE)?;
        let room = Committed::of(ty).times(100);
        put_layout(&window, near.place(), map.layout(), target, 0, room)?;
        window.fence(Assert::NONE)?;
        // Every rank has put the same.
        let mut wanted = before;
        for (to, &place) in wanted.chunks_mut(4).zip(&map.places) {
            to.copy_from_slice(&near.bytes[at(near.at, place)..][..4]);
        }
        check!(window.bytes() == wanted, "{}", map.name);
    }
    window.close()
}

/// Members of a struct, the value of a pair.
fn data_that_ends_inside_an_element(job: &Job) -> Outcome {
    let members = [BasicType::F64.into(), BasicType::I32.into()];
    let record = Datatype::structure(&[2, 3], &[0, 16], &members)?;
    let list = Datatype::hindexed(&[1, 2], &[0, 64], &record)?.commit();
    let record = record.commit();
    let pair = Committed::of(BasicType::DoubleInt);
    let value = Committed::of(BasicType::F64);
    let half = Datatype::structure(&[2, 2], &[0, 16], &members)?.commit();
    let window = Exposed::open(job, Memory::Allocate, 400, 1)?;
    let target = (window.rank() + 1) % window.ranks();
    let data = patterned(9, 200, 0);
    let buffer = data.as_ptr();
    window.fence(Assert::NONE)?;
    put_layout(&window, buffer, value.times(1), target, 0, pair.times(2))?;
    put_layout(&window, buffer, half.times(1), target, 40, record.times(2))?;
    put_layout(&window, buffer, record.times(1), target, 100, list.times(2))?;
    window.fence(Assert::NONE)?;
    let mut wanted = vec![0; 400];
    wanted[..8].copy_from_slice(&data[..8]);
    wanted[40..64].copy_from_slice(&data[..24]);
    wanted[100..128].copy_from_slice(&data[..28]);
    check!(window.bytes() == wanted);
    // The next member is of another type.
    let two = value.times(2);
    let cut = put_layout(&window, buffer, two, target, 0, pair.times(2));
    refused(
        cut,
        ErrorClass::Type,
        &["put", "2 × [f64]", "2 × [double and int]"],
    )?;
    let cut = put_layout(&window, buffer, half.times(2), target, 0, record.times(2));
    refused(cut, ErrorClass::Type, &["put", "does not fit"])?;
    window.fence(Assert::NONE)?;
    check!(window.bytes() == wanted);
    window.close()
}

/// The model's accumulate of operands, one after the other.
fn combine(op: Op, ty: BasicType, held: &mut [u8], places: &[usize], operands: &[u8]) {
    for (operand, &place) in operands.chunks(ty.extent()).zip(places) {
        model::apply(op, ty, &mut held[place..][..ty.extent()], operand);
    }
}

/// The result has all of the target's elements, of which some are changed.
fn accumulates_of_fewer_operands(job: &Job) -> Outcome {
    for ty in [
        BasicType::I64,
        BasicType::F64,
        BasicType::I16,
        BasicType::ShortInt,
    ] {
        let op = match ty {
            BasicType::ShortInt => Op::Maxloc,
            _ => Op::Sum,
        };
        let maps = maps(ty)?;
        let extent = ty.extent();
        let (before, len) = (140 * extent, 640 * extent);
        let window = Exposed::open(job, Memory::Allocate, len, 1)?;
        let mut numbers = Numbers::new(31);
        let mut held = numbers.elements(ty, 640);
        if window.rank() == 1 {
            window.write(0, &held);
        }
        job.world().barrier()?;
        if window.rank() == 0 {
            window.lock_all(Assert::NONE)?;
            for (index, far) in maps.iter().enumerate() {
                let sent = SENT[index % SENT.len()];
                let out = &maps[(index * 3 + 2) % maps.len()];
                let what = format!("{sent} × {ty:?} into {}, result in {}", far.name, out.name);
                let operands = numbers.elements(ty, sent);
                let places: Vec<_> = far.places.iter().map(|&place| at(before, place)).collect();
                let mut back = Near::new(out, extent, index);
                let mut wanted = back.bytes.clone();
                for (&from, &to) in places.iter().zip(&out.places) {
                    let result = &mut wanted[at(back.at, to)..][..extent];
                    model::apply(Op::Replace, ty, result, &held[from..][..extent]);
                }
                combine(op, ty, &mut held, &places, &operands);
                combine(op, ty, &mut held, &places, &operands);
                let (from, near) = (operands.as_ptr(), Committed::of(ty).times(sent as u64));
                let (to, disp) = (back.place(), before as u64);
                let (out_layout, layout) = (out.layout(), far.layout());
                // SAFETY: the flush completes the operations before the buffers go.
                unsafe {
                    window
                        .get_accumulate_layout(from, near, to, out_layout, 1, disp, layout, op)?;
                    window.accumulate_layout(from, near, 1, disp, layout, op)?;
                    window.flush(1)?;
                }
                let first = back.at % extent;
                check!(
                    model::same(ty, first, &back.bytes, &wanted),
                    "result: {what}"
                );
                let mut found = vec![0; len];
                get(&window, &mut found, 1, 0)?;
                window.flush(1)?;
                check!(model::same(ty, 0, &found, &held), "target: {what}");
                held = found;
            }
            window.unlock_all()?;
        }
        window.close()?;
    }
    Ok(())
}

fn results_with_room_to_spare(job: &Job) -> Outcome {
    let i64s = Committed::of(BasicType::I64);
    let column = Datatype::vector(20, 1, 3, &BasicType::I64.into())?.commit();
    let window = Exposed::open(job, Memory::Heap, 8 * 10, 8)?;
    let target = (window.rank() + 1) % window.ranks();
    let held: Vec<u64> = (100..110).collect();
    window.write(0, bytemuck::cast_slice(&held));
    job.world().barrier()?;
    window.lock_all(Assert::NONE)?;
    for op in [Op::NoOp, Op::Sum, Op::Replace] {
        // Four operands, ten elements, a result with room for twenty.
        let operands = [1_u64; 4];
        let mut result = [7_u64; 60];
        let (from, to) = (operands.as_ptr().cast(), result.as_mut_ptr().cast());
        let (near, out, far) = (i64s.times(4), column.times(1), i64s.times(10));
        // SAFETY: the flush completes the operation.
        unsafe { window.get_accumulate_layout(from, near, to, out, target, 0, far, op)? };
        window.flush(target)?;
        for (index, &found) in result.iter().enumerate() {
            let old = (index % 3 == 0).then(|| held.get(index / 3)).flatten();
            let wanted = match old {
                Some(&old) if op == Op::Replace && old < 104 => old + 1,
                Some(&old) => old,
                None => 7,
            };
            check_eq!(found, wanted, "{op:?}, element {index}");
        }
    }
    window.unlock_all()?;
    job.world().barrier()?;
    let found: Vec<_> = (0..10).map(|index| window.read_u64(8 * index)).collect();
    check_eq!(found, [1, 1, 1, 1, 104, 105, 106, 107, 108, 109]);
    window.close()
}

fn requests_of_fewer_operands(job: &Job) -> Outcome {
    let u64s = Committed::of(BasicType::U64);
    let window = Exposed::open(job, Memory::Allocate, 8 * 200, 8)?;
    let target = (window.rank() + 1) % window.ranks();
    window.lock_all(Assert::NONE)?;
    let (operands, mut result) = ([3_u64; 100], [9_u64; 201]);
    let (from, to) = (operands.as_ptr().cast(), result.as_mut_ptr().cast::<u8>());
    let (near, far) = (u64s.times(100), u64s.times(200));
    // SAFETY: the buffers are untouched until the requests are complete.
    unsafe {
        window.rput_layout(from, near, target, 0, far)?.wait()?;
        window.flush(target)?;
        window
            .raccumulate_layout(from, near, target, 0, far, Op::Sum)?
            .wait()?;
        let room = u64s.times(201);
        window
            .rget_accumulate_layout(from, near, to, room, target, 0, far, Op::Sum)?
            .wait()?;
    }
    for (index, &found) in result.iter().enumerate() {
        let wanted = [6, 0, 9][index / 100];
        check_eq!(found, wanted, "element {index}");
    }
    // SAFETY: as above.
    unsafe { window.rget_layout(to, far, target, 0, near)?.wait()? };
    check_eq!((result[99], result[100]), (9, 0));
    window.unlock_all()?;
    job.world().barrier()?;
    window.close()
}

fn room_that_is_no_continuation(job: &Job) -> Outcome {
    let (i32s, i64s) = (Committed::of(BasicType::I32), Committed::of(BasicType::I64));
    let pairs = Committed::of(BasicType::TwoInt);
    let window = Exposed::open(job, Memory::Allocate, 100, 1)?;
    let target = (window.rank() + 1) % window.ranks();
    let mut buffer = [5_u64; 20];
    let place = buffer.as_mut_ptr().cast::<u8>();
    window.fence(Assert::NONE)?;
    // All of the target's room has to be in the window, filled or not.
    let past = put_layout(&window, place, i64s.times(1), target, 8, i64s.times(12));
    refused(past, ErrorClass::RmaRange, &["put", "96", "100"])?;
    let other = get_layout(&window, place, i64s.times(4), target, 0, i32s.times(1));
    refused(other, ErrorClass::Type, &["get", "1 × [i32]", "4 × [i64]"])?;
    let small = get_layout(&window, place, i64s.times(4), target, 0, i64s.times(5));
    refused(small, ErrorClass::Type, &["5 × [i64]", "4 × [i64]"])?;
    // SAFETY: refused.
    unsafe {
        let (one, two, three) = (i64s.times(1), i64s.times(2), i64s.times(3));
        let many = window.accumulate_layout(place, three, target, 0, two, Op::Sum);
        refused(many, ErrorClass::Type, &["accumulate", "3 × [i64]"])?;
        // What is fetched is the target's elements, not those that have operands.
        let to = place.wrapping_add(80);
        let small = window.get_accumulate_layout(place, one, to, two, target, 0, three, Op::Sum);
        refused(small, ErrorClass::Type, &["get_accumulate", "3 × [i64]"])?;
        let (ints, pairs) = (i32s.times(3), pairs.times(2));
        let cut = window.accumulate_layout(place, ints, target, 0, pairs, Op::Minloc);
        refused(cut, ErrorClass::Type, &["one predefined type", "3 × [i32]"])?;
    }
    window.fence(Assert::NONE)?;
    check!(window.bytes() == [0; 100]);
    window.close()
}
