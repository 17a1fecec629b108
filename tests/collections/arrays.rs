//! Arrays against serial models: every operation, shared by ranks and threads, refused, and when a rank dies.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use transom::{ErrorClass, Job, Op};
use transom_collections::Distribution::{Block, BlockCyclic, Cyclic};
use transom_collections::{DistArray, Distribution, Error, Result};

use crate::{Scenario, scenarios};
use transom_testing::random::Random;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        random_operations_on_an_array: [1, 2, 3, 5, 8],
        elements_of_every_size: [3],
        threads_share_an_array: [2],
        own_elements: [3],
        indices_and_lengths_are_checked: [2],
        ranks_that_disagree_on_an_array: [1, 3],
        a_rank_fails_in_a_collective_call: [3],
    ];
    all.push(Scenario::new("a_rank_of_an_array_dies", &[3], a_rank_of_an_array_dies).exits(9));
    all
}

pub(crate) const DISTRIBUTIONS: [Distribution; 5] = [
    Block,
    Cyclic,
    BlockCyclic(2),
    BlockCyclic(13),
    BlockCyclic(1000),
];

/// All ranks draw the same numbers, so that each knows what all do.
fn random_operations_on_an_array(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, size) = (world.rank(), world.size());
    let mut random = Random::new(u64::from(size));
    for (distribution, len) in DISTRIBUTIONS.into_iter().zip([200, 1, 77, 300, 0]) {
        let start = |index: usize| index as u64 * 3;
        let mut array = DistArray::from_fn(world, len, distribution, start)?;
        let mut model: Vec<u64> = (0..len).map(start).collect();
        for _ in 0..6 {
            put_by_all(&array, &mut model, &mut random)?;
            world.barrier()?;
            read_in_every_way(&array, &model, &mut random)?;
            world.barrier()?;
            add_by_all(&array, &mut model, &mut random)?;
            world.barrier()?;
            array.redistribute(random.pick(&DISTRIBUTIONS))?;
            assert_eq!(array.to_vec()?, model);
            let indices = array.own_indices();
            array.with_own(|own| {
                for (element, index) in own.iter_mut().zip(indices) {
                    assert_eq!(*element, model[index]);
                    *element ^= index as u64;
                }
            })?;
            (0..)
                .zip(&mut model)
                .for_each(|(index, element)| *element ^= index);
        }
        let owned = (0..len).filter(|&index| array.owner(index).unwrap() == me);
        assert!(owned.eq(array.own_indices()));
        array.fill(u64::from(me))?;
        for index in 0..len {
            assert_eq!(array.get(index)?, u64::from(array.owner(index)?));
        }
        array.free()?;
    }
    Ok(())
}

/// Each rank sets the elements that fall to it, in one of the ways.
fn put_by_all(array: &DistArray<u64>, model: &mut [u64], random: &mut Random) -> Result<()> {
    let comm = array.comm();
    let mut rest = 0..model.len();
    for turn in 0.. {
        let part = rest.start..(rest.start + 1 + random.below(40)).min(rest.end);
        if part.is_empty() {
            break;
        }
        rest.start = part.end;
        let values: Vec<u64> = part.clone().map(|_| random.bits()).collect();
        let way = random.below(4);
        model[part.clone()].copy_from_slice(&values);
        if turn % comm.size() == comm.rank() {
            put(array, part, &values, way)?;
        }
    }
    Ok(())
}

fn put(array: &DistArray<u64>, part: Range<usize>, values: &[u64], way: usize) -> Result<()> {
    let each = || part.clone().zip(values);
    match way {
        0 => each().try_for_each(|(index, &value)| array.put(index, value)),
        1 => each().try_for_each(|(index, &value)| array.store(index, value)),
        2 => array.put_range(part.start, values),
        _ => {
            let backwards = part.clone().zip(values).rev();
            let (indices, values): (Vec<_>, Vec<_>) = backwards.unzip();
            array.put_indexed(&indices, &values)
        }
    }
}

fn read_in_every_way(array: &DistArray<u64>, model: &[u64], random: &mut Random) -> Result<()> {
    let len = model.len();
    let start = random.below(len + 1);
    let end = start + random.below(len + 1 - start);
    assert_eq!(array.get_range(start..end)?, model[start..end]);
    let mut some = vec![0; end - start];
    array.get_range_into(start, &mut some)?;
    assert_eq!(some, model[start..end]);
    let indices: Vec<usize> = (0..len).map(|_| random.below(len)).collect();
    let expected: Vec<u64> = indices.iter().map(|&index| model[index]).collect();
    assert_eq!(array.get_indexed(&indices)?, expected);
    let mut all = vec![0; len];
    array.get_indexed_into(&indices, &mut all)?;
    assert_eq!(all, expected);
    for &index in indices.iter().take(10) {
        assert_eq!(array.get(index)?, model[index]);
        assert_eq!(array.load(index)?, model[index]);
        assert_eq!(array.compare_swap(index, !model[index], 0)?, model[index]);
    }
    Ok(())
}

/// All ranks add to elements that they have in common.
fn add_by_all(array: &DistArray<u64>, model: &mut [u64], random: &mut Random) -> Result<()> {
    let comm = array.comm();
    for rank in 0..comm.size() {
        let count = random.below(50).min(model.len());
        let indices: Vec<usize> = (0..count).map(|_| random.below(model.len())).collect();
        let values: Vec<u64> = indices.iter().map(|_| random.bits()).collect();
        let way = random.below(4);
        for (&index, value) in indices.iter().zip(&values) {
            model[index] = model[index].wrapping_add(*value);
        }
        if rank != comm.rank() {
            continue;
        }
        let mut each = indices.iter().zip(&values);
        match way {
            0 => each.try_for_each(|(&index, &value)| array.accumulate(Op::Sum, index, value))?,
            1 => each.try_for_each(|(&index, &value)| array.fetch_add(index, value).map(drop))?,
            2 => array.accumulate_indexed(Op::Sum, &indices, &values)?,
            _ => {
                let before = array.get_accumulate_indexed(Op::Sum, &indices, &values)?;
                assert_eq!(before.len(), indices.len());
            }
        }
    }
    Ok(())
}

fn elements_of_every_size(job: &Job) -> Result<()> {
    fn check<T: transom::Element + PartialEq + std::fmt::Debug>(
        job: &Job,
        len: usize,
        of: impl Fn(usize) -> T,
    ) -> Result<()> {
        let all: Vec<T> = (0..len).map(&of).collect();
        for distribution in [Block, Cyclic, BlockCyclic(5)] {
            let array = DistArray::from_fn(job.world(), len, distribution, &of)?;
            assert_eq!(array.to_vec()?, all);
            let indices: Vec<usize> = (0..len).map(|index| index * 7 % len).collect();
            let read = array.get_indexed(&indices)?;
            assert!(
                read.iter()
                    .zip(&indices)
                    .all(|(value, &index)| *value == all[index])
            );
            job.world().barrier()?;
            if job.world().rank() == 1 {
                array.put_range(3, &all[..len - 3])?;
            }
            job.world().barrier()?;
            assert_eq!(array.get_range(3..len)?, all[..len - 3]);
            array.free()?;
        }
        Ok(())
    }
    // The first takes more than one list.
    check(job, 17_000, |index| index as u8)?;
    check(job, 500, |index| [index as u16, 1, 2])?;
    check(job, 500, |index| index as f32)?;
    check(job, 500, |index| [index as u64; 9])
}

fn threads_share_an_array(job: &Job) -> Result<()> {
    const ROUNDS: u64 = 200;
    let world = job.world();
    let array = DistArray::<u64>::new(world, 400, BlockCyclic(3))?;
    thread::scope(|scope| {
        let play = |number: usize| {
            let array = &array;
            move || -> Result<()> {
                let start = 16 * (3 * world.rank() as usize + number);
                let indices: Vec<usize> = (0..16).map(|index| start + index).collect();
                for round in 0..ROUNDS {
                    let values: Vec<u64> = (0..16).map(|index| round * index).collect();
                    array.put_indexed(&indices, &values)?;
                    assert_eq!(array.get_range(start..start + 16)?, values);
                    array.accumulate_indexed(Op::Sum, &[390, 391, 390], &[1, 2, 3])?;
                    array.fetch_add(392, 1)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(play(number))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap())
    })?;
    world.barrier()?;
    let times = ROUNDS * 3 * u64::from(world.size());
    assert_eq!(array.get_range(390..393)?, [4 * times, 2 * times, times]);
    world.barrier()?;
    array.free()
}

fn own_elements(job: &Job) -> Result<()> {
    let world = job.world();
    let me = world.rank();
    let mut array = DistArray::<u64>::new(world, 10, BlockCyclic(2))?;
    let expected: [&[usize]; 3] = [&[0, 1, 6, 7], &[2, 3, 8, 9], &[4, 5]];
    let expected = expected[me as usize];
    assert!(array.own_indices().eq(expected.iter().copied()));
    assert_eq!((array.own_len(), array.len()), (expected.len(), 10));
    // What others put before is there, and what is set within is seen behind.
    array.fetch_add(4, 1)?;
    array.with_own(|own| {
        assert_eq!(own.iter().sum::<u64>(), if me == 2 { 3 } else { 0 });
        own.fill(7);
    })?;
    assert_eq!(array.to_vec()?, [7; 10]);
    // One rank's error, and one rank's panic, are its own business.
    let refused = array.with_own(|_| if me == 1 { Err("no") } else { Ok(()) })?;
    assert_eq!(refused.is_err(), me == 1);
    let done = catch_unwind(AssertUnwindSafe(|| {
        array.with_own(|own| assert!(me != 0, "the panic of this test, of {}", own.len()))
    }));
    assert_eq!(done.is_err(), me == 0);
    assert_eq!(array.to_vec()?, [7; 10]);
    array.free()
}

fn indices_and_lengths_are_checked(job: &Job) -> Result<()> {
    let world = job.world();
    let array = DistArray::<u64>::new(world, 100, Cyclic)?;
    let out = |done: Result<()>, name: &str, wrong: usize| match done.unwrap_err() {
        error @ Error::IndexOutOfRange {
            index,
            len: 100,
            operation,
        } if (index, operation) == (wrong, name) => {
            assert_eq!(error.class(), ErrorClass::RmaRange);
        }
        error => panic!("{name}: {error}"),
    };
    out(array.get(100).map(drop), "get", 100);
    out(array.put(usize::MAX, 1), "put", usize::MAX);
    out(array.load(200).map(drop), "load", 200);
    out(array.store(100, 1), "store", 100);
    out(array.fetch_add(100, 1).map(drop), "fetch_add", 100);
    out(array.compare_swap(101, 0, 1).map(drop), "compare_swap", 101);
    out(array.accumulate(Op::Sum, 100, 1), "accumulate", 100);
    out(array.owner(100).map(drop), "owner", 100);
    out(array.get_range(90..101).map(drop), "get_range", 100);
    out(array.get_range(300..301).map(drop), "get_range", 300);
    out(array.get_range_into(99, &mut [0; 2]), "get_range_into", 100);
    out(array.put_range(99, &[1; 2]), "put_range", 100);
    out(
        array.put_range(usize::MAX, &[1; 2]),
        "put_range",
        usize::MAX,
    );
    out(
        array.get_indexed(&[0, 150, 160]).map(drop),
        "get_indexed",
        150,
    );
    out(array.put_indexed(&[0, 100], &[1, 1]), "put_indexed", 100);
    out(
        array.accumulate_indexed(Op::Sum, &[0, 100], &[1, 1]),
        "accumulate_indexed",
        100,
    );
    out(
        array
            .get_accumulate_indexed(Op::Sum, &[1, 0, 100], &[1; 3])
            .map(drop),
        "get_accumulate_indexed",
        100,
    );
    let (start, end) = (7, 3);
    let error = array.get_range(start..end).unwrap_err();
    assert_eq!(error.to_string(), "get_range: a range from 7 to 3");
    let lengths = [
        array.put_indexed(&[0, 1], &[1; 3]).unwrap_err(),
        array.get_indexed_into(&[0, 1], &mut [0; 3]).unwrap_err(),
        array
            .accumulate_indexed(Op::Sum, &[0, 1], &[1; 3])
            .unwrap_err(),
        array
            .get_accumulate_indexed(Op::Sum, &[0, 1], &[1; 3])
            .unwrap_err(),
    ];
    for error in lengths {
        assert!(
            error.to_string().ends_with(": 3 elements, and 2 indices"),
            "{error}"
        );
    }
    // Of all these, nothing was transferred.
    assert_eq!(array.to_vec()?, [0; 100]);
    array.free()?;
    let error = DistArray::<u8>::new(world, 3, BlockCyclic(0))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.to_string(), "DistArray::new: blocks of 0 elements");
    let error = DistArray::<u64>::new(world, usize::MAX, Block)
        .map(drop)
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Size, "{error}");
    Ok(())
}

fn ranks_that_disagree_on_an_array(job: &Job) -> Result<()> {
    let world = job.world();
    let (me, alone) = (world.rank(), world.size() == 1);
    let differs = |made: Result<()>, operation: &str| match made {
        Ok(()) => assert!(alone),
        Err(Error::RanksDiffer {
            operation: found,
            ours_rank,
            ours,
            rank,
            theirs,
        }) => {
            assert_eq!((found, ours_rank), (operation, me));
            assert_eq!(rank, if me == 0 { 1 } else { 0 });
            assert_ne!(ours, theirs);
        }
        Err(error) => panic!("{error}"),
    };
    let other = me != 0;
    let freed = |array: DistArray<u64>| array.free();
    let len = 10 + usize::from(other);
    differs(
        DistArray::new(world, len, Block).and_then(freed),
        "DistArray::new",
    );
    let distribution = if other {
        BlockCyclic(3)
    } else {
        BlockCyclic(4)
    };
    differs(
        DistArray::new(world, 10, distribution).and_then(freed),
        "DistArray::new",
    );
    let bad = if other { BlockCyclic(0) } else { Block };
    differs(
        DistArray::new(world, 10, bad).and_then(freed),
        "DistArray::new",
    );
    let made = match other {
        false => DistArray::<u64>::new(world, 10, Block).and_then(freed),
        true => DistArray::<i64>::new(world, 10, Block).and_then(DistArray::free),
    };
    differs(made, "DistArray::new");
    // An array that is to be dealt in two ways stays as it is.
    let mut array = DistArray::from_fn(world, 10, Block, |index| index)?;
    differs(array.redistribute(distribution), "redistribute");
    assert_eq!(array.to_vec()?, (0..10).collect::<Vec<_>>());
    array.free()
}

fn a_rank_fails_in_a_collective_call(job: &Job) -> Result<()> {
    let world = job.world();
    let made = catch_unwind(AssertUnwindSafe(|| {
        DistArray::from_fn(world, 9, Block, |index| {
            assert_ne!(index, 4, "the panic of this test");
            index
        })
    }));
    match world.rank() {
        1 => assert!(made.is_err()),
        _ => {
            let error = made.unwrap().map(drop).unwrap_err();
            assert_eq!(
                error.to_string(),
                "DistArray::from_fn: rank 1 failed: it panicked"
            );
        }
    }
    // All go on.
    let array = DistArray::<u64>::new(world, 9, Block)?;
    array.fetch_add(0, 1)?;
    assert_eq!(array.to_vec()?.iter().sum::<u64>(), 3);
    array.free()
}

fn a_rank_of_an_array_dies(job: &Job) -> Result<()> {
    let world = job.world();
    let mut array = DistArray::<u64>::new(world, 300, Block)?;
    array.fetch_add(250, 1)?;
    world.barrier()?;
    if world.rank() == 2 {
        std::process::exit(9);
    }
    let peer = |error: Error| {
        let class = error.class();
        assert!(matches!(error, Error::Transom(_)), "{error}");
        assert!(error.to_string().contains("rank 2"), "{class:?} {error}");
    };
    // Found out by whoever goes on.
    peer(loop {
        if let Err(error) = array.load(250) {
            break error;
        }
    });
    peer(array.with_own(|_| ()).unwrap_err());
    let error = array.get(0).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    peer(array.comm().barrier().unwrap_err().into());
    peer(
        DistArray::<u64>::new(world, 3, Block)
            .map(drop)
            .unwrap_err(),
    );
    Ok(())
}
