//! Ranks that die at any moment while all carry arrays and maps over.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::Instant;

use transom::{Communicator, Job, Op};
use transom_collections::{DistArray, DistMap, Distribution, Result};
use transom_testing::job::kill_oneself;
use transom_testing::random::Random;

use crate::Scenario;
use crate::survivors::{is_death, owner};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all_but_one = Scenario::new("all_but_one_die_in_turn", &[5], all_but_one_die_in_turn);
    let ending = all_but_one.exits(128 + libc::SIGKILL);
    vec![ending.one_more().one_more().one_more()]
}

/// A collection, and what should be in it. `ranks`: what those of a communicator were in the first job.
trait Kept: Sized {
    fn carry_over(&self, comm: &Communicator, ranks: &[u32]) -> Result<Self>;

    fn check(&self) -> Result<()>;

    /// The new one, if this rank has it. Its content is right as far as nobody dies meanwhile.
    fn attempt(&self, comm: &Communicator, ranks: &[u32]) -> Option<Self> {
        let new = self.carry_over(comm, ranks);
        match &new {
            Ok(new) => new.check().unwrap_or_else(|error| is_death(&error)),
            Err(error) => is_death(error),
        }
        new.ok()
    }

    /// After the death: the new one, if all who live have it.
    fn choose(self, new: Option<Self>, comm: &Communicator) -> Result<Self> {
        let all_have_it = comm.allreduce_value(u8::from(new.is_some()), Op::Min)? == 1;
        Ok(new.filter(|_| all_have_it).unwrap_or(self))
    }
}

const LEN: usize = 300;
const DISTRIBUTION: Distribution = Distribution::BlockCyclic(7);

struct Array {
    array: DistArray<u64>,
    elements: Vec<u64>,
    ranks: Vec<u32>,
}

impl Array {
    fn new(comm: &Communicator) -> Result<Self> {
        let array = DistArray::from_fn(comm, LEN, DISTRIBUTION, |index| index as u64 + 1)?;
        Ok(Self {
            array,
            elements: (1..=LEN as u64).collect(),
            ranks: (0..comm.size()).collect(),
        })
    }
}

impl Kept for Array {
    fn carry_over(&self, comm: &Communicator, ranks: &[u32]) -> Result<Self> {
        let (array, lost) = self.array.carry_over(comm)?;
        let size = self.ranks.len() as u32;
        let is_lost = |&index: &usize| {
            let owner = owner(index, LEN, DISTRIBUTION, size);
            !ranks.contains(&self.ranks[owner as usize])
        };
        assert!(lost.flatten().eq((0..LEN).filter(is_lost)));
        let element = |index| match is_lost(&index) {
            true => 0,
            false => self.elements[index],
        };
        Ok(Self {
            array,
            elements: (0..LEN).map(element).collect(),
            ranks: ranks.to_vec(),
        })
    }

    fn check(&self) -> Result<()> {
        assert_eq!(self.array.get_range(0..LEN)?, self.elements);
        Ok(())
    }
}

const KEYS: u32 = 400;

struct Map {
    map: DistMap<u32, u64>,
    keys: BTreeSet<u32>,
    ranks: Vec<u32>,
}

fn value(key: u32) -> u64 {
    !u64::from(key)
}

impl Map {
    fn new(comm: &Communicator) -> Result<Self> {
        let map = DistMap::new(comm, KEYS as usize)?;
        for key in (comm.rank()..KEYS).step_by(comm.size() as usize) {
            map.insert(&key, &value(key))?;
        }
        comm.barrier()?;
        Ok(Self {
            map,
            keys: (0..KEYS).collect(),
            ranks: (0..comm.size()).collect(),
        })
    }
}

impl Kept for Map {
    fn carry_over(&self, comm: &Communicator, ranks: &[u32]) -> Result<Self> {
        let (map, lost) = self.map.carry_over(comm)?;
        let is_missing = |&rank: &u32| !ranks.contains(&self.ranks[rank as usize]);
        let missing = (0..self.ranks.len() as u32).filter(is_missing);
        assert!(lost.ranks().iter().copied().eq(missing));
        assert_eq!(lost.interrupted(), []);
        let is_lost = |key: &u32| is_missing(&self.map.rank_of(key));
        assert!((0..KEYS).all(|key| is_lost(&key) == lost.contains(&key)));
        let left = self.keys.iter().copied().filter(|key| !is_lost(key));
        Ok(Self {
            map,
            keys: left.collect(),
            ranks: ranks.to_vec(),
        })
    }

    fn check(&self) -> Result<()> {
        let all: Vec<u32> = (0..KEYS).collect();
        let expected = |key: &u32| self.keys.contains(key).then(|| value(*key));
        let found = self.map.get_many(&all)?;
        assert!(found.into_iter().eq(all.iter().map(expected)));
        Ok(())
    }
}

fn all_but_one_die_in_turn(job: &Job) -> Result<()> {
    let world = job.world();
    let seed = RandomState::new().hash_one(0);
    let mut random = Random::new(world.bcast_value(seed, 0)?);
    let (mut comm, mut ranks) = (world.clone(), Vec::from_iter(0..world.size()));
    let (mut array, mut map) = (Array::new(&comm)?, Map::new(&comm)?);
    let begun = Instant::now();
    array.carry_over(&comm, &ranks)?.check()?;
    map.carry_over(&comm, &ranks)?.check()?;
    let usual = begun.elapsed();
    while comm.size() > 1 {
        let (victim, part) = (random.below(ranks.len()) as u32, random.unit());
        if comm.rank() == victim {
            thread::spawn(move || {
                thread::sleep(usual.mul_f64(part));
                kill_oneself()
            });
        }
        let new_array = array.attempt(&comm, &ranks);
        let new_map = map.attempt(&comm, &ranks);
        // Until the death.
        while comm.barrier().is_ok() {}
        let survivors = comm.survivors()?;
        let in_first_job = |&former: &u32| ranks[former as usize];
        ranks = survivors.former_ranks.iter().map(in_first_job).collect();
        comm = survivors.communicator;
        array = array.choose(new_array, &comm)?;
        map = map.choose(new_map, &comm)?;
    }
    array.carry_over(&comm, &ranks)?.check()?;
    map.carry_over(&comm, &ranks)?.check()
}
