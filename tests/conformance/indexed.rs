//! Lists of elements in one call, against single calls and a serial model.

use std::collections::BTreeSet;

use transom::raw::{Assert, PROC_NULL, Window};
use transom::{BasicType, ErrorClass, Info, Job, LockKind, Op, Result};
use transom_testing::model::{self, Numbers};
use transom_testing::random::Random;

use crate::case::{Case, Outcome, cases, check, check_eq};
use crate::dynamic::{addresses, attach, memory, read};
use crate::exposed::{ALIGNED, Exposed, MEMORIES, Memory, patterned};
use crate::ops::{accumulate, put};
use crate::refused::refused;

pub(crate) const CASES: &[Case] = cases!["indexed":
    what_is_put_is_there_and_got @ [1, 2, 3],
    elements_are_combined_in_the_order_of_the_list @ [1, 3],
    updates_of_all_ranks_lose_nothing @ [2, 3],
    attached_memory_is_a_place @ [1, 2],
    a_wrong_place_is_named_and_nothing_is_transferred @ [1, 2],
    an_epoch_is_needed_at_each_target @ [2],
];

/// Rank and displacement of each element.
type Places = Vec<(u32, usize)>;

/// Of those displacements of every rank that are this one's, as many as there are elements in the list.
fn some_places(window: &Window, random: &mut Random, each: usize, count: usize) -> Places {
    let (me, ranks) = (window.rank() as usize, window.ranks());
    let mut place = || match random.below(10) {
        0 => (PROC_NULL, usize::MAX),
        _ => {
            let rank = random.below(ranks as usize) as u32;
            (rank, me * each + random.below(each))
        }
    };
    (0..count).map(|_| place()).collect()
}

/// Each rank's unit is another one, and the elements are longer than some and shorter than others.
fn what_is_put_is_there_and_got(job: &Job) -> Outcome {
    const EACH: usize = 64;
    let me = job.world().rank();
    let mut random = Random::new(11 + u64::from(me));
    for (turn, kind) in MEMORIES.into_iter().enumerate() {
        let len = [8, 4, 1, 13][turn];
        let unit = len as u64 * (1 + u64::from(me) % 2);
        let size = unit as usize * EACH * job.world().size() as usize;
        let window = Exposed::over(job, job.world(), kind, size, unit, &Info::new())?;
        for round in 0..3 {
            window.lock_all(Assert::NONE)?;
            let list = some_places(&window, &mut random, EACH, 3 * EACH);
            // Of puts to one place either may be the last.
            let mut seen = BTreeSet::new();
            let once: Places = list
                .iter()
                .copied()
                .filter(|&place| place.0 == PROC_NULL || seen.insert(place))
                .collect();
            let data = patterned(me, once.len() * len, round);
            // SAFETY: the flush completes the operations, before anything goes.
            unsafe { window.put_indexed(data.as_ptr(), len, &once)? };
            window.flush_all()?;
            let mut single = vec![0_u8; data.len()];
            for (&(rank, disp), to) in once.iter().zip(single.chunks_exact_mut(len)) {
                // SAFETY: as above.
                unsafe { window.get(to.as_mut_ptr(), len, rank, disp as u64)? };
            }
            window.flush_all()?;
            let mut wanted = data.clone();
            let elements = once.iter().zip(wanted.chunks_exact_mut(len));
            elements.for_each(|(&(rank, _), element)| {
                if rank == PROC_NULL {
                    element.fill(0);
                }
            });
            check!(single == wanted, "{kind:?}, put");
            // Those that were got before, and each of them again.
            let twice = [&once[..], &once[..]].concat();
            let mut found = vec![0_u8; 2 * data.len()];
            // SAFETY: as above.
            unsafe { window.get_indexed(found.as_mut_ptr(), len, &twice)? };
            window.flush_all()?;
            check!(
                found == [&wanted[..], &wanted[..]].concat(),
                "{kind:?}, got"
            );
            // An element that was just put is got behind that.
            let changed = patterned(me, data.len(), round + 3);
            // SAFETY: as above.
            unsafe { window.put_indexed(changed.as_ptr(), len, &once)? };
            window.flush_all()?;
            // SAFETY: as above.
            unsafe { window.get_indexed(found.as_mut_ptr(), len, &once)? };
            window.unlock_all()?;
            let elements = changed.chunks_exact(len).zip(found.chunks_exact(len));
            for ((new, found), &(rank, disp)) in elements.zip(&once) {
                let nowhere = rank == PROC_NULL;
                check!(nowhere || new == found, "{kind:?}, rank {rank} at {disp}");
            }
        }
        window.close()?;
    }
    Ok(())
}

/// Each of them by another path: atomics of every width, whole words, sums and pairs under the lock.
const COMBINED: [(Op, BasicType); 12] = [
    (Op::Sum, BasicType::U64),
    (Op::NoOp, BasicType::U64),
    (Op::Replace, BasicType::I64),
    (Op::Max, BasicType::I64),
    (Op::Bxor, BasicType::U32),
    (Op::Sum, BasicType::I32),
    (Op::Replace, BasicType::U8),
    (Op::NoOp, BasicType::I16),
    (Op::Sum, BasicType::F64),
    (Op::Replace, BasicType::F32),
    (Op::Minloc, BasicType::DoubleInt),
    (Op::Prod, BasicType::ComplexF32),
];

fn elements_are_combined_in_the_order_of_the_list(job: &Job) -> Outcome {
    // So few elements that many come again and again.
    const EACH: usize = 12;
    const COUNT: usize = 70;
    let (me, ranks) = (job.world().rank(), job.world().size());
    let (mut random, mut numbers) = (
        Random::new(5 + u64::from(me)),
        Numbers::new(3 + u64::from(me)),
    );
    for kind in MEMORIES {
        for (round, (op, ty)) in COMBINED.into_iter().enumerate() {
            let extent = ty.extent();
            let size = extent * EACH * ranks as usize;
            let window = Exposed::open(job, kind, size, extent as u64)?;
            window.lock_all(Assert::NONE)?;
            let list = some_places(&window, &mut random, EACH, COUNT);
            // What the places of this rank hold at each rank.
            let mut held: Vec<Vec<u8>> = (0..ranks).map(|_| numbers.elements(ty, EACH)).collect();
            for (rank, elements) in held.iter().enumerate() {
                put(&window, elements, rank as u32, u64::from(me) * EACH as u64)?;
            }
            window.flush_all()?;
            let operands = numbers.elements(ty, COUNT);
            let mut fetched = numbers.elements(ty, COUNT);
            let mut wanted = fetched.clone();
            let fetches = round % 3 == 1 || op == Op::NoOp || ty == BasicType::DoubleInt;
            // SAFETY: the flush completes the operations, before anything goes.
            unsafe {
                let from = operands.as_ptr();
                match fetches {
                    true => {
                        let to = fetched.as_mut_ptr();
                        window.get_accumulate_indexed(from, to, ty, &list, op)?;
                    }
                    false => window.accumulate_indexed(from, ty, &list, op)?,
                }
            }
            window.flush_all()?;
            for (index, &(rank, disp)) in list.iter().enumerate() {
                let Some(elements) = held.get_mut(rank as usize) else {
                    continue;
                };
                let here = index * extent..(index + 1) * extent;
                let at = (disp - me as usize * EACH) * extent;
                let element = &mut elements[at..at + extent];
                if fetches {
                    model::apply(Op::Replace, ty, &mut wanted[here.clone()], element);
                }
                model::apply(op, ty, element, &operands[here]);
            }
            let what = format!("{op:?} on {ty:?} in {kind:?}");
            check!(
                model::same(ty, 0, &fetched, &wanted),
                "{what}, fetched:\n{fetched:x?}\n{wanted:x?}"
            );
            for (rank, wanted) in held.iter().enumerate() {
                let mut found = vec![0; wanted.len()];
                let disp = u64::from(me) * EACH as u64;
                // SAFETY: as above.
                unsafe { window.get(found.as_mut_ptr(), found.len(), rank as u32, disp)? };
                window.flush(rank as u32)?;
                check!(
                    model::same(ty, 0, &found, wanted),
                    "{what}, at {rank}:\n{found:x?}\n{wanted:x?}"
                );
            }
            window.unlock_all()?;
            window.close()?;
        }
    }
    Ok(())
}

/// Lists beside single atomics and long accumulates, on the same elements.
fn updates_of_all_ranks_lose_nothing(job: &Job) -> Outcome {
    const WORDS: usize = 32;
    const LISTS: usize = 10;
    const COUNT: usize = 300;
    let (me, ranks) = (job.world().rank(), job.world().size());
    for kind in ALIGNED {
        let window = Exposed::open(job, kind, 2 * WORDS * 8, 8)?;
        let mut random = Random::new(23 + u64::from(me));
        let mut tickets = Vec::new();
        let mut added = 0;
        window.lock_all(Assert::NONE)?;
        for round in 0..LISTS {
            let ones = [1_u64; COUNT];
            let of = |random: &mut Random, first: usize| {
                let rank = random.below(ranks as usize) as u32;
                (rank, first + random.below(WORDS))
            };
            let list: Places = (0..COUNT).map(|_| of(&mut random, 0)).collect();
            let floats: Places = (0..COUNT).map(|_| of(&mut random, WORDS)).collect();
            let counter = vec![(0, 0); 20];
            let mut old = [0_u64; 20];
            // SAFETY: the flush completes the operations, before anything goes.
            unsafe {
                let from = ones.as_ptr().cast();
                window.accumulate_indexed(from, BasicType::U64, &list, Op::Sum)?;
                let to = old.as_mut_ptr().cast();
                window.get_accumulate_indexed(from, to, BasicType::U64, &counter, Op::Sum)?;
                let halves = [0.5_f64; COUNT];
                let from = halves.as_ptr().cast();
                window.accumulate_indexed(from, BasicType::F64, &floats, Op::Sum)?;
                window.flush_all()?;
            }
            tickets.extend(old);
            // At one rank, so often that it enters bulk mode.
            let many = [1_u64; WORDS];
            for _ in 0..30 {
                accumulate(&window, &many, 0, 0, Op::Sum)?;
            }
            accumulate(&window, &[1_u64], ranks - 1, round as u64, Op::Sum)?;
            added += (COUNT + 20 + 30 * WORDS + 1) as u64;
        }
        window.unlock_all()?;
        check!(tickets.is_sorted(), "{kind:?}: {tickets:?}");
        check_eq!(tickets.iter().collect::<BTreeSet<_>>().len(), 20 * LISTS);
        let all = job.world().allreduce(&[added], Op::Sum)?[0];
        window.lock(LockKind::Exclusive, me, Assert::NONE)?;
        let found: u64 = (0..WORDS).map(|word| window.read_u64(word * 8)).sum();
        let float = |word: usize| f64::from_bits(window.read_u64((WORDS + word) * 8));
        let halves: f64 = (0..WORDS).map(float).sum();
        window.unlock(me)?;
        check_eq!(
            job.world().allreduce(&[found], Op::Sum)?[0],
            all,
            "{kind:?}"
        );
        let halves = job.world().allreduce(&[halves], Op::Sum)?[0];
        let wanted = f64::from(ranks) * (LISTS * COUNT) as f64 / 2.0;
        check_eq!(halves, wanted, "{kind:?}");
        window.close()?;
    }
    Ok(())
}

/// In a dynamic window, where displacements are addresses.
fn attached_memory_is_a_place(job: &Job) -> Outcome {
    let world = job.world();
    let (me, ranks) = (world.rank(), world.size());
    let window = Window::create_dynamic(world, &Info::new())?;
    let parts = [memory(4096), memory(4096)];
    attach(&window, parts[0], 4096)?;
    attach(&window, parts[1], 4096)?;
    let all = [addresses(job, parts[0])?, addresses(job, parts[1])?];
    let place = |number: usize| {
        let rank = number % ranks as usize;
        let at = 8 * (me as usize * 16 + number / ranks as usize);
        (
            rank as u32,
            all[number / ranks as usize % 2][rank] as usize + at,
        )
    };
    let list: Places = (0..16 * ranks as usize).map(place).collect();
    let data: Vec<u64> = (0..list.len() as u64).map(|number| number + 7).collect();
    let mut old = vec![0_u64; list.len()];
    let mut found = old.clone();
    window.lock_all(Assert::NONE)?;
    // SAFETY: the flushes complete the operations, before anything goes.
    unsafe {
        let (from, to) = (data.as_ptr().cast::<u8>(), old.as_mut_ptr().cast());
        window.put_indexed(from, 8, &list)?;
        window.flush_all()?;
        window.get_accumulate_indexed(from, to, BasicType::U64, &list, Op::Sum)?;
        window.flush_all()?;
        window.get_indexed(found.as_mut_ptr().cast(), 8, &list)?;
        window.flush_all()?;
        let detached = [list[0], (0, 8)];
        let wrong = window.put_indexed(from, 8, &detached);
        let words = [
            "put_indexed",
            "place 1",
            "rank 0",
            "displacement 8",
            "attached",
        ];
        refused(wrong, ErrorClass::RmaRange, &words)?;
    }
    window.unlock_all()?;
    check_eq!(old, data);
    check!(
        found
            .iter()
            .zip(&data)
            .all(|(found, data)| *found == 2 * data)
    );
    world.barrier()?;
    check!(read(parts[0], 4096).iter().any(|&byte| byte != 0));
    window.free()?;
    Ok(())
}

/// Each list call on these places; `get_indexed` and the others fetch to where nothing has to be.
fn each_list(window: &Window, list: &[(u32, usize)]) -> [(&'static str, Result<()>); 4] {
    let (mut data, mut old) = (vec![9_u64; list.len()], vec![0_u64; list.len()]);
    let (from, to) = (data.as_mut_ptr().cast::<u8>(), old.as_mut_ptr().cast());
    let ty = BasicType::U64;
    // SAFETY: what is let through is complete at the flush, or was refused.
    let results = unsafe {
        [
            ("put_indexed", window.put_indexed(from, 8, list)),
            ("get_indexed", window.get_indexed(to, 8, list)),
            (
                "accumulate_indexed",
                window.accumulate_indexed(from, ty, list, Op::Sum),
            ),
            (
                "get_accumulate_indexed",
                window.get_accumulate_indexed(from, to, ty, list, Op::Sum),
            ),
        ]
    };
    // Outside of an epoch, all were refused.
    let _ = window.flush_all();
    results
}

fn each_list_refused(
    window: &Window,
    list: &[(u32, usize)],
    class: ErrorClass,
    words: &[&str],
) -> Outcome {
    for (name, result) in each_list(window, list) {
        refused(result, class, &[&[name], words].concat())?;
    }
    Ok(())
}

fn a_wrong_place_is_named_and_nothing_is_transferred(job: &Job) -> Outcome {
    for kind in MEMORIES {
        let window = Exposed::open(job, kind, 64, 8)?;
        let (ranks, last) = (window.ranks(), window.ranks() - 1);
        window.write(0, &[7; 64]);
        job.world().barrier()?;
        window.lock_all(Assert::NONE)?;
        let (rank, size) = (format!("rank {ranks}"), format!("{ranks} ranks"));
        for (place, class, words) in [
            (
                (last, 8),
                ErrorClass::RmaRange,
                ["displacement 8", "64 bytes"],
            ),
            (
                (last, usize::MAX),
                ErrorClass::RmaRange,
                ["displacement 18446744073709551615", "64 bytes"],
            ),
            ((0, 1 << 61), ErrorClass::RmaRange, ["rank 0", "64 bytes"]),
            ((ranks, 0), ErrorClass::Rank, [&rank, &size]),
            (
                (PROC_NULL + 1, 0),
                ErrorClass::Rank,
                ["rank 2147483649", &size],
            ),
        ] {
            let words = ["place 3 of the list", words[0], words[1]];
            let list = [(0, 0), (PROC_NULL, 99), (last, 1), place, (0, 2)];
            each_list_refused(&window, &list, class, &words)?;
        }
        // SAFETY: nothing is transferred.
        unsafe {
            let (null, some) = (std::ptr::null_mut(), [(0, 0), (0, 1)]);
            let word = [0_u64; 2];
            let word = word.as_ptr().cast();
            let put = window.put_indexed(null, 8, &some);
            refused(put, ErrorClass::Buffer, &["put_indexed", "16 bytes"])?;
            let fetch = window.get_accumulate_indexed(word, null, BasicType::U64, &some, Op::Sum);
            refused(fetch, ErrorClass::Buffer, &["get_accumulate_indexed"])?;
            let undefined = window.accumulate_indexed(word, BasicType::F64, &some, Op::Band);
            refused(undefined, ErrorClass::Op, &["accumulate_indexed", "Band"])?;
            let nothing = window.accumulate_indexed(word, BasicType::F64, &some, Op::NoOp);
            refused(nothing, ErrorClass::Op, &["accumulate_indexed", "NoOp"])?;
            window.put_indexed(null, 8, &[(PROC_NULL, 0)])?;
            window.put_indexed(null, 8, &[])?;
            window.put_indexed(null, 0, &some)?;
        }
        window.unlock_all()?;
        job.world().barrier()?;
        check!(window.bytes() == [7; 64], "{kind:?}");
        job.world().barrier()?;
        // It goes on.
        window.lock_all(Assert::NONE)?;
        if window.rank() == 0 {
            for (_, result) in each_list(&window, &[(last, 0)]) {
                result?;
            }
        }
        window.unlock_all()?;
        window.close()?;
    }
    Ok(())
}

fn an_epoch_is_needed_at_each_target(job: &Job) -> Outcome {
    let window = Exposed::open(job, Memory::Allocate, 64, 8)?;
    let (me, other) = (window.rank(), 1 - window.rank());
    let both = [(me, 0), (other, 1)];
    for (_, result) in each_list(&window, &[]) {
        result?;
    }
    for (_, result) in each_list(&window, &[(PROC_NULL, 3)]) {
        result?;
    }
    each_list_refused(&window, &both, ErrorClass::RmaSync, &["place 0"])?;
    window.lock(LockKind::Shared, me, Assert::NONE)?;
    let named = format!("rank {other}");
    each_list_refused(&window, &both, ErrorClass::RmaSync, &["place 1", &named])?;
    for (_, result) in each_list(&window, &[(me, 0)]) {
        result?;
    }
    window.unlock(me)?;
    each_list_refused(&window, &[(me, 0)], ErrorClass::RmaSync, &["place 0"])?;
    check_eq!(window.read_u64(8), 0);
    window.close()
}
