//! Maps: against a serial model, by several ranks and threads at once, full, grown, and with ranks that die.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use bytemuck::{Pod, Zeroable};
use transom::{ErrorKind, Job};
use transom_collections::{DistMap, Error, Result};

use crate::random::Random;
use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        a_map_is_as_its_model: [1, 2, 3, 5, 8],
        ranks_change_the_same_keys: [2, 4],
        values_are_seen_whole: [3],
        threads_share_a_map: [2],
        a_full_part_and_more_room: [3],
        wrong_maps: [2],
        a_panic_or_error_in_update_leaves_the_key: [2],
        a_function_that_uses_its_map_gets_an_error: [2],
    ];
    all.push(Scenario::new("a_rank_dies_at_a_key", &[3], a_rank_dies).exits(9));
    all
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
struct Key {
    number: u16,
    letters: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Value {
    words: [u32; 5],
}

fn key(number: u64) -> Key {
    Key {
        number: number as u16,
        letters: [(number % 7) as u8, 1, 2, 3],
    }
}

/// Each rank has keys of its own, and the model tells what they have; all are looked at by all in the end.
fn a_map_is_as_its_model(job: &Job) -> Result<()> {
    const KEYS: u64 = 60;
    let world = job.world();
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let mut map = DistMap::<Key, Value>::new(world, 64)?;
    let mut model = HashMap::new();
    let mut random = Random::of(rank);
    for round in 0..800_u32 {
        let key = key(rank + size * random.below(KEYS / size));
        let value = Value {
            words: [round; 5].map(|word| word.wrapping_mul(3)),
        };
        match random.below(8) {
            0..3 => assert_eq!(map.insert(&key, &value)?, model.insert(key, value)),
            3 => assert_eq!(map.remove(&key)?, model.remove(&key)),
            4 => {
                let add = |old: Option<Value>| {
                    let mut new = old.unwrap_or(value);
                    new.words[4] ^= round;
                    new
                };
                let old = model.get(&key).copied();
                assert_eq!(map.update(&key, add)?, old);
                model.insert(key, add(old));
            }
            5 => assert_eq!(map.contains_key(&key)?, model.contains_key(&key)),
            _ => assert_eq!(map.get(&key)?, model.get(&key).copied()),
        }
        if round == 500 {
            map.reserve(100)?;
            assert_eq!(map.capacity(), 100);
        }
    }
    world.barrier()?;
    let whole = world.allreduce(&[model.len() as u64], transom::Op::Sum)?[0];
    assert_eq!(map.len()? as u64, whole);
    let mine: Vec<Key> = (0..KEYS / size)
        .map(|number| key(rank + size * number))
        .collect();
    let expected: Vec<_> = mine.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(map.get_many(&mine)?, expected);
    // What all parts have is what all models have.
    let own = map.own_entries()?;
    assert!(own.iter().all(|(key, _)| map.rank_of(key) == world.rank()));
    let (keys, values): (Vec<Key>, Vec<Value>) = own.into_iter().unzip();
    let found: HashMap<Key, Value> = (world.allgatherv(&keys)?.into_iter().flatten())
        .zip(world.allgatherv(&values)?.into_iter().flatten())
        .collect();
    assert_eq!(found.len() as u64, whole);
    assert!(model.iter().all(|(key, value)| found[key] == *value));
    map.free()
}

fn ranks_change_the_same_keys(job: &Job) -> Result<()> {
    const ROUNDS: u64 = 400;
    let world = job.world();
    let size = u64::from(world.size());
    let map = DistMap::<u32, u64>::new(world, 8)?;
    let mut random = Random::of(world.rank().into());
    let mut added = [0; 5];
    for _ in 0..ROUNDS {
        let number = random.below(5);
        added[number as usize] += 1;
        map.update(&(number as u32), |count| count.unwrap_or(0) + 1)?;
    }
    let all = world.allreduce(&added, transom::Op::Sum)?;
    for (number, &count) in (0..).zip(&all) {
        assert_eq!(map.get(&number)?, Some(count));
    }
    assert_eq!(all.iter().sum::<u64>(), size * ROUNDS);
    assert_eq!(map.len()?, 5);
    world.barrier()?;
    // All insert one key, and take it away: each value is returned to exactly one.
    let mine = 1000 + u64::from(world.rank());
    let mut returned: Vec<u64> = Vec::new();
    returned.extend(map.insert(&77, &mine)?);
    world.barrier()?;
    returned.extend(map.remove(&77)?);
    let mut everybody: Vec<u64> = world.allgatherv(&returned)?.concat();
    everybody.sort_unstable();
    let expected: Vec<u64> = (0..size).map(|rank| 1000 + rank).collect();
    assert_eq!(everybody, expected);
    assert_eq!(map.get(&77)?, None);
    map.free()
}

fn values_are_seen_whole(job: &Job) -> Result<()> {
    const ROUNDS: u64 = 300;
    let world = job.world();
    let map = DistMap::<u64, [u64; 9]>::new(world, 4)?;
    let keys = [3, 4];
    for round in 1..=ROUNDS {
        let value = [round * 10 + u64::from(world.rank()); 9];
        match world.rank() {
            0 => drop(map.insert(&3, &value)?),
            1 if round % 3 == 0 => drop(map.remove(&4)?),
            1 => drop(map.insert(&4, &value)?),
            _ => {}
        }
        let many = map.get_many(&keys)?;
        for value in [map.get(&3)?, map.get(&4)?]
            .into_iter()
            .chain(many)
            .flatten()
        {
            assert!(value.iter().all(|&word| word == value[0]), "{value:?}");
        }
    }
    map.free()
}

fn threads_share_a_map(job: &Job) -> Result<()> {
    let world = job.world();
    let map = DistMap::<u64, u64>::new(world, 600)?;
    let rank = u64::from(world.rank());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3_u64)
            .map(|number| {
                let map = &map;
                scope.spawn(move || -> Result<()> {
                    for round in 0..100 {
                        map.insert(&(1000 * (1 + 3 * rank + number) + round), &round)?;
                        map.update(&1, |count| count.unwrap_or(0) + 1)?;
                    }
                    Ok(())
                })
            })
            .collect();
        (threads.into_iter()).try_for_each(|thread| thread.join().unwrap())
    })?;
    world.barrier()?;
    assert_eq!(map.get(&1)?, Some(600));
    assert_eq!(map.len()?, 601);
    for thread in 1..7 {
        assert_eq!(map.get(&(1000 * thread + 99))?, Some(99));
    }
    map.free()
}

fn a_full_part_and_more_room(job: &Job) -> Result<()> {
    let world = job.world();
    let mut map = DistMap::<u64, u64>::new(world, 5)?;
    // Keys of one part, by all ranks at once: five of them find room.
    let mine = 1000 * u64::from(world.rank() + 1)..;
    let mine: Vec<u64> = mine.filter(|key| map.rank_of(key) == 1).take(4).collect();
    let mut inserted = Vec::new();
    for &key in &mine {
        match map.insert(&key, &(key + 1)) {
            Ok(old) => {
                assert_eq!(old, None);
                inserted.push(key);
            }
            Err(error) => {
                assert_eq!(
                    error.to_string(),
                    "DistMap::insert: the part of rank 1 is full: it has room for 5"
                );
                assert!(matches!(
                    error,
                    Error::Full {
                        rank: 1,
                        capacity: 5,
                        ..
                    }
                ));
            }
        }
    }
    let all = world.allgatherv(&inserted)?.concat();
    assert_eq!(all.len(), 5, "{all:?}");
    assert_eq!(map.len()?, all.len());
    for &key in &all {
        assert_eq!(map.get(&key)?, Some(key + 1));
    }
    world.barrier()?;
    // Keys that are there can be changed, and others looked for and removed.
    if let Some(key) = inserted.first() {
        assert_eq!(map.insert(key, &7)?, Some(key + 1));
        assert_eq!(map.remove(key)?, Some(7));
        assert_eq!(map.remove(key)?, None);
    }
    assert_eq!(map.remove(&999_999)?, None);
    map.reserve(20)?;
    for key in mine {
        map.insert(&key, &key)?;
    }
    world.barrier()?;
    assert_eq!(map.len()?, 12);
    map.free()
}

fn wrong_maps(job: &Job) -> Result<()> {
    let world = job.world();
    let error = DistMap::<u64, u64>::new(world, 5 + world.rank() as usize)
        .err()
        .unwrap();
    let rank = 1 - world.rank();
    let keys = |rank| {
        format!(
            "rank {rank} has room for {} keys of u64 (8 bytes) with values of u64 (8 bytes)",
            5 + rank
        )
    };
    let expected = format!("DistMap::new: {}, and {}", keys(rank), keys(1 - rank));
    assert_eq!(error.to_string(), expected);
    let error = DistMap::<u64, u64>::new(world, 0).err().unwrap();
    assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    let error = DistMap::<u64, u64>::new(world, usize::MAX).err().unwrap();
    assert!(matches!(error, Error::Transom(_)), "{error}");
    DistMap::<u64, u64>::new(world, 1)?.free()
}

/// Each call fails that could wait for the key which the function holds, whatever key it is for.
fn a_function_that_uses_its_map_gets_an_error(job: &Job) -> Result<()> {
    let world = job.world();
    let map = DistMap::<u64, u64>::new(world, 64)?;
    let other = DistMap::<u64, u64>::new(world, 64)?;
    let mine = 1 + u64::from(world.rank());
    let fails = |call: &str, result: Result<()>| {
        let error = result.expect_err(call);
        assert!(matches!(error, Error::Reentered { .. }), "{error}");
        let said =
            format!("{call}: the function of DistMap::update uses the map that it was called for");
        assert_eq!(error.to_string(), said);
    };
    let old = map.update(&mine, |value| {
        for key in [mine, 100 + mine] {
            fails("DistMap::get", map.get(&key).map(drop));
            fails("DistMap::contains_key", map.contains_key(&key).map(drop));
            fails("DistMap::insert", map.insert(&key, &7).map(drop));
            fails("DistMap::update", map.update(&key, |_| 7).map(drop));
            fails("DistMap::remove", map.remove(&key).map(drop));
            fails("DistMap::get_many", map.get_many(&[key]).map(drop));
        }
        fails("DistMap::own_entries", map.own_entries().map(drop));
        // Another map is another matter.
        assert_eq!(other.insert(&mine, &3).unwrap(), None);
        other.update(&mine, |value| value.unwrap_or(0) + 1).unwrap();
        value.unwrap_or(0) + other.get(&mine).unwrap().unwrap_or(0)
    })?;
    assert_eq!((old, map.get(&mine)?), (None, Some(4)));
    // A function that panics or fails ends, too.
    let panics = AssertUnwindSafe(|| map.update(&mine, |_| panic!("in the function")));
    assert!(catch_unwind(panics).is_err());
    let failed = map.try_update(&mine, |value| Err::<u64, _>(Refusal::Found(value)));
    assert!(matches!(failed, Err(Refusal::Found(Some(4)))), "{failed:?}");
    assert_eq!(map.remove(&mine)?, Some(4));
    map.free()?;
    other.free()
}

/// Why an update was given up.
#[derive(Debug)]
enum Refusal {
    /// By its function, which found this value.
    Found(Option<u64>),
    ByMap(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::ByMap(error)
    }
}

fn a_panic_or_error_in_update_leaves_the_key(job: &Job) -> Result<()> {
    let world = job.world();
    let map = DistMap::<u64, u64>::new(world, 2)?;
    if world.rank() == 0 {
        map.insert(&1, &5)?;
        for key in [1, 2, 3, 4, 5, 6, 7, 8] {
            let update = AssertUnwindSafe(|| map.update(&key, |_| panic!("in the function")));
            assert!(catch_unwind(update).is_err());
            let refused = map.try_update(&key, |value| Err(Refusal::Found(value)));
            let expected = (key == 1).then_some(5);
            let is_ours = matches!(&refused, Err(Refusal::Found(value)) if *value == expected);
            assert!(is_ours, "{key}: {refused:?}");
        }
        let raise = |value: Option<u64>| Ok(value.unwrap_or(0) + 1);
        assert_eq!(map.try_update::<Error>(&1, raise)?, Some(5));
    }
    world.barrier()?;
    assert_eq!(map.get_many(&[1, 2])?, [Some(6), None]);
    world.barrier()?;
    // No room was lost.
    let mut own = (10..).filter(|key| map.rank_of(key) == world.rank());
    let room = if map.rank_of(&1) == world.rank() {
        1
    } else {
        2
    };
    for _ in 0..room {
        map.insert(&own.next().unwrap(), &1)?;
    }
    let one_more = own.next().unwrap();
    let full = map.try_update(&one_more, |_| Ok::<_, Refusal>(1));
    let is_full = matches!(full, Err(Refusal::ByMap(Error::Full { .. })));
    assert!(is_full, "{full:?}");
    map.free()
}

fn a_rank_dies(job: &Job) -> Result<()> {
    let world = job.world();
    let map = DistMap::<u64, u64>::new(world, 50)?;
    let of_rank = |rank| (0..).find(|key| map.rank_of(key) == rank).unwrap();
    let (of_first, of_second) = (of_rank(0), of_rank(1));
    map.insert(&of_second, &1)?;
    world.barrier()?;
    if world.rank() == 2 {
        // It has a key of rank 0 for itself.
        map.update(&of_first, |_| std::process::exit(9))?;
    }
    let died = loop {
        match map.get(&of_first) {
            Ok(_) => thread::yield_now(),
            Err(error) => break error,
        }
    };
    let is_told =
        matches!(&died, Error::Transom(error) if matches!(error.kind(), ErrorKind::Peer(_)));
    assert!(is_told, "{died}");
    assert!(map.free().is_err());
    Ok(())
}
