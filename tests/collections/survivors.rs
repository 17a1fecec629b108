//! Arrays and maps that survivors carry over: what is there, what is lost, and that it says so.

use std::collections::HashMap;
use std::fmt::Debug;
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use transom::{Communicator, Element, ErrorClass, ErrorKind, Job};
use transom_collections::Distribution::{Block, BlockCyclic, Cyclic};
use transom_collections::{DistArray, DistMap, Distribution, Error, Result};
use transom_testing::job::kill_oneself;

use crate::arrays::DISTRIBUTIONS;
use crate::{Scenario, scenarios};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = scenarios![
        a_part_of_the_ranks_takes_a_collection_along: [4],
        ranks_carry_different_collections_over: [2, 4],
    ];
    let loses = |name, ranks, play| Scenario::new(name, ranks, play).exits(128 + libc::SIGKILL);
    all.extend([
        loses("the_first_rank_is_lost", &[4], |job| arrays(job, &[&[0]])),
        loses("a_middle_rank_is_lost", &[4], |job| arrays(job, &[&[2]])),
        loses("the_last_rank_is_lost", &[2, 4], |job| {
            arrays(job, &[&[job.world().size() - 1]])
        }),
        loses("two_ranks_are_lost_at_once", &[5], |job| {
            arrays(job, &[&[1, 2]])
        })
        .one_more(),
        loses("two_ranks_are_lost_in_turn", &[5], |job| {
            arrays(job, &[&[0], &[2]])
        })
        .one_more(),
        loses("a_rank_is_lost_inside_with_own", &[3], |job| {
            amid_with_own(job, true)
        }),
        loses("a_rank_is_lost_before_with_own", &[3], |job| {
            amid_with_own(job, false)
        }),
        loses("a_rank_is_lost_amid_the_call", &[4], lost_before_carried).one_more(),
        loses("a_map_loses_a_rank", &[2, 3, 5], |job| maps(job, &[&[1]])),
        loses("a_map_loses_two_ranks_in_turn", &[5], |job| {
            maps(job, &[&[4], &[0]])
        })
        .one_more(),
        loses("a_map_loses_a_rank_at_its_keys", &[3], amid_an_update),
    ]);
    all
}

/// Once all ranks have come here, ranks `dying` die, and the others get an error.
fn lose(comm: &Communicator, dying: &[u32]) {
    let mut ended = comm.barrier();
    if dying.contains(&comm.rank()) {
        kill_oneself();
    }
    while ended.is_ok() {
        ended = comm.barrier();
    }
    is_death(&ended.unwrap_err().into());
}

pub(crate) fn is_death(error: &Error) {
    let is_death =
        matches!(error, Error::Transom(error) if matches!(error.kind(), ErrorKind::Peer(_)));
    assert!(is_death, "{error}");
}

/// The rank that has an element.
pub(crate) fn owner(index: usize, len: usize, distribution: Distribution, ranks: u32) -> u32 {
    let block = match distribution {
        Block => len.div_ceil(ranks as usize),
        Cyclic => 1,
        BlockCyclic(block) => block,
    };
    (index / block % ranks as usize) as u32
}

/// An array that should have these elements.
struct Expected<T: Element> {
    array: DistArray<T>,
    elements: Vec<T>,
}

impl<T: Element + PartialEq + Debug> Expected<T> {
    fn new(
        comm: &Communicator,
        len: usize,
        distribution: Distribution,
        of: impl Fn(usize) -> T,
    ) -> Result<Self> {
        let array = DistArray::new(comm, len, distribution)?;
        let elements: Vec<T> = (0..len).map(of).collect();
        // Each rank puts some, to other ranks too.
        for index in (comm.rank() as usize..len).step_by(comm.size() as usize) {
            array.put(index, elements[index])?;
        }
        Ok(Self { array, elements })
    }

    /// After the deaths of `dead` among the ranks of the array. The new array has all elements again.
    fn carry_over(self, comm: &Communicator, dead: &[u32]) -> Result<Self> {
        let Self { array, elements } = self;
        let (len, distribution, ranks) = (array.len(), array.distribution(), array.comm().size());
        let (carried, lost) = array.carry_over(comm)?;
        let mut expected: Vec<Range<usize>> = Vec::new();
        let mut left = elements.clone();
        for (index, element) in left.iter_mut().enumerate() {
            if !dead.contains(&owner(index, len, distribution, ranks)) {
                continue;
            }
            *element = T::zeroed();
            match expected.last_mut() {
                Some(range) if range.end == index => range.end += 1,
                _ => expected.push(index..index + 1),
            }
        }
        let found: Vec<_> = lost.clone().collect();
        assert_eq!(found, expected, "{len} elements, {distribution:?}");
        assert_eq!((carried.len(), carried.distribution()), (len, distribution));
        assert_eq!(carried.comm().size(), comm.size());
        assert_eq!(carried.to_vec()?, left, "{distribution:?}");
        if comm.rank() == 0 {
            for range in lost {
                carried.put_range(range.start, &elements[range])?;
            }
        }
        comm.barrier()?;
        assert_eq!(carried.to_vec()?, elements, "{distribution:?}");
        let array = carried;
        Ok(Self { array, elements })
    }
}

fn carry_all<T: Element + PartialEq + Debug>(
    all: Vec<Expected<T>>,
    comm: &Communicator,
    dead: &[u32],
) -> Result<Vec<Expected<T>>> {
    let carried = all.into_iter().map(|one| one.carry_over(comm, dead));
    carried.collect()
}

/// One time after the other, some ranks die at once.
fn arrays(job: &Job, deaths: &[&[u32]]) -> Result<()> {
    let mut comm = job.world().clone();
    let (mut words, mut bytes, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for distribution in DISTRIBUTIONS {
        // Some ranks have none of a few elements.
        for len in [0, 1, 2, 5, 77, 300] {
            let word = |index| index as u64 + 1;
            words.push(Expected::new(&comm, len, distribution, word)?);
        }
        let byte = |index| (index % 250) as u8 + 1;
        bytes.push(Expected::new(&comm, 3000, distribution, byte)?);
        let nine = |index| [index as u64 + 1; 9];
        long.push(Expected::new(&comm, 50, distribution, nine)?);
    }
    for &dying in deaths {
        lose(&comm, dying);
        comm = comm.survivors()?.communicator;
        words = carry_all(words, &comm, dying)?;
        bytes = carry_all(bytes, &comm, dying)?;
        long = carry_all(long, &comm, dying)?;
    }
    (words.into_iter()).try_for_each(|expected| expected.array.free())
}

/// Rank 2 dies while it has its own elements, or before it asks for them again.
fn amid_with_own(job: &Job, dies_inside: bool) -> Result<()> {
    const ROUNDS: u64 = 3;
    let world = job.world();
    let mut array = DistArray::from_fn(world, 30, Block, |index| index as u64)?;
    // How often this rank has had its elements.
    let mut times = 0;
    let ended = loop {
        let dies = world.rank() == 2 && times == ROUNDS;
        if dies && !dies_inside {
            kill_oneself();
        }
        let done = array.with_own(|own| {
            if dies {
                thread::sleep(Duration::from_millis(50));
                kill_oneself();
            }
            own.iter_mut().for_each(|element| *element += 100);
            times += 1;
        });
        if let Err(error) = done {
            break error;
        }
    };
    is_death(&ended);
    let error = array.get(0).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    let comm = world.survivors()?.communicator;
    let (carried, lost) = array.carry_over(&comm)?;
    assert!(lost.eq(iter::once(20..30)));
    let times = comm.allgather_value(times)?;
    assert!(times.iter().all(|&times| times >= ROUNDS), "{times:?}");
    for index in 0..20 {
        let expected = index as u64 + 100 * times[index / 10];
        assert_eq!(carried.get(index)?, expected, "{index}");
    }
    assert_eq!(carried.get_range(20..30)?, [0; 10]);
    carried.free()
}

/// Rank 2 dies instead of carrying over what rank 1 has left.
fn lost_before_carried(job: &Job) -> Result<()> {
    let world = job.world();
    let array = Expected::new(world, 100, BlockCyclic(3), |index| index as u64 + 1)?;
    let map = Known::new(world)?;
    lose(world, &[1]);
    let between = world.survivors()?.communicator;
    if world.rank() == 2 {
        kill_oneself();
    }
    is_death(&array.array.carry_over(&between).map(drop).unwrap_err());
    is_death(&map.map.carry_over(&between).map(drop).unwrap_err());
    let comm = between.survivors()?.communicator;
    array.carry_over(&comm, &[1, 2])?.array.free()?;
    map.carry_over(&comm, &[1, 2])?.map.free()
}

const KEYS: u32 = 600;

/// A map in which all these keys but every seventh have values, and the rank of each.
struct Known {
    map: DistMap<u32, [u64; 2]>,
    ranks: HashMap<u32, u32>,
}

fn value(key: u32) -> [u64; 2] {
    [u64::from(key), !u64::from(key)]
}

impl Known {
    fn new(comm: &Communicator) -> Result<Self> {
        // No more than [`DistMap::new`] says: the room of fewer such parts would not do.
        let average = f64::from(KEYS) / f64::from(comm.size());
        let map = DistMap::new(comm, (average + 4.0 * average.sqrt()) as usize + 16)?;
        for key in (comm.rank()..KEYS).step_by(comm.size() as usize) {
            map.insert(&key, &[7; 2])?;
            map.insert(&key, &value(key))?;
            if key % 7 == 0 {
                map.remove(&key)?;
            }
        }
        Self::look(comm, map)
    }

    /// What each part has says which rank has a key.
    fn look(comm: &Communicator, map: DistMap<u32, [u64; 2]>) -> Result<Self> {
        comm.barrier()?;
        let own = map.own_entries()?.into_iter().map(|(key, _)| key);
        let all = comm.allgatherv(&own.collect::<Vec<_>>())?;
        let of_rank = |(rank, keys): (u32, Vec<u32>)| keys.into_iter().map(move |key| (key, rank));
        let ranks: HashMap<_, _> = (0..).zip(all).flat_map(of_rank).collect();
        assert_eq!(ranks.len(), (0..KEYS).filter(|key| key % 7 != 0).count());
        Ok(Self { map, ranks })
    }

    /// After the deaths of `dead` among the ranks of the map. The new map has all entries again.
    fn carry_over(self, comm: &Communicator, dead: &[u32]) -> Result<Self> {
        let (map, lost) = self.map.carry_over(comm)?;
        assert_eq!(lost.ranks(), dead);
        assert_eq!(lost.interrupted(), []);
        let is_dead = |key: &u32| dead.contains(&self.ranks[key]);
        for key in 0..KEYS {
            let found = map.get(&key)?;
            match self.ranks.contains_key(&key) {
                true if is_dead(&key) => assert!(lost.contains(&key) && found.is_none(), "{key}"),
                true => assert!(!lost.contains(&key) && found == Some(value(key)), "{key}"),
                false => assert_eq!(found, None, "{key}"),
            }
        }
        let left = self.ranks.keys().filter(|key| !is_dead(key));
        assert_eq!(map.len()?, left.count());
        comm.barrier()?;
        for key in (self.ranks.keys()).filter(|&key| key % comm.size() == comm.rank()) {
            map.insert(key, &value(*key))?;
        }
        Self::look(comm, map)
    }
}

fn maps(job: &Job, deaths: &[&[u32]]) -> Result<()> {
    let mut comm = job.world().clone();
    let mut map = Known::new(&comm)?;
    for &dying in deaths {
        lose(&comm, dying);
        comm = comm.survivors()?.communicator;
        map = map.carry_over(&comm, dying)?;
    }
    map.map.free()
}

/// Rank 2 dies while it holds a key that has a value, and another one that is new.
fn amid_an_update(job: &Job) -> Result<()> {
    let world = job.world();
    let map = DistMap::<u64, u64>::new(world, 50)?;
    let of_rank = |rank, at| {
        let mut keys = (0..).filter(|key| map.rank_of(key) == rank);
        keys.nth(at).expect("any number of keys")
    };
    let (held, kept, new, lost_with) = (of_rank(0, 0), of_rank(1, 0), of_rank(1, 1), of_rank(2, 0));
    for key in [held, kept, lost_with] {
        map.insert(&key, &(key + 5))?;
    }
    world.barrier()?;
    if world.rank() == 2 {
        let has_new = AtomicBool::new(false);
        let hold = |_| loop {
            has_new.store(true, Ordering::Release);
            thread::park();
        };
        thread::scope(|scope| {
            scope.spawn(|| map.update(&new, hold));
            while !has_new.load(Ordering::Acquire) {
                thread::yield_now();
            }
            map.update(&held, |_| kill_oneself())
        })?;
    }
    let ended = loop {
        if let Err(error) = map.get(&held) {
            break error;
        }
    };
    is_death(&ended);
    let comm = world.survivors()?.communicator;
    let (carried, lost) = map.carry_over(&comm)?;
    assert_eq!(lost.ranks(), [2]);
    assert_eq!(lost.interrupted(), [(held, held + 5)]);
    assert!(lost.contains(&held) && lost.contains(&lost_with));
    assert!(!lost.contains(&kept) && !lost.contains(&new));
    let found = carried.get_many(&[held, kept, new, lost_with])?;
    assert_eq!(found, [None, Some(kept + 5), None, None]);
    comm.barrier()?;
    // The keys can be used again.
    for key in [held, new, lost_with] {
        carried.update(&key, |value| value.unwrap_or(0) + 1)?;
    }
    comm.barrier()?;
    let found = carried.get_many(&[held, new, lost_with])?;
    assert_eq!(found, [Some(2); 3]);
    carried.free()
}

/// Without a death: what is on other ranks is lost to them.
fn a_part_of_the_ranks_takes_a_collection_along(job: &Job) -> Result<()> {
    let world = job.world();
    let half = world.split(Some(world.rank() / 2), 0)?;
    let half = half.expect("each has a colour");
    let others = if world.rank() < 2 { [2, 3] } else { [0, 1] };
    let whole = |distribution| Expected::new(world, 90, distribution, |index| index as u64 + 1);
    for distribution in DISTRIBUTIONS {
        let again = whole(distribution)?.carry_over(world, &[])?;
        again.carry_over(&half, &others)?.array.free()?;
    }
    let map = Known::new(world)?.carry_over(world, &[])?;
    map.carry_over(&half, &others)?.map.free()
}

fn ranks_carry_different_collections_over(job: &Job) -> Result<()> {
    let (world, alone) = (job.world(), job.alone()?);
    let fails = |made: Result<()>, said: &str| {
        let error = made.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Arg);
        assert!(error.to_string().contains(said), "{error}");
    };
    let same = DistArray::<u64>::new(&alone, 10, Block)?;
    let carried = same.carry_over(world).map(drop);
    fails(
        carried,
        "DistArray::carry_over: ranks 0 and 1 both have part 0, of two collections",
    );
    let other = DistArray::<u64>::new(&alone, 10 + world.rank() as usize, Block)?;
    let carried = other.carry_over(world).map(drop);
    fails(
        carried,
        "10 elements of u64, distributed as Block over 1 ranks",
    );
    let map = DistMap::<u64, u64>::new(&alone, 10)?;
    let carried = map.carry_over(world).map(drop);
    fails(
        carried,
        "DistMap::carry_over: ranks 0 and 1 both have part 0, of two collections",
    );
    let carried = match world.rank() {
        0 => map.carry_over(world).map(drop),
        _ => DistMap::<u64, u32>::new(&alone, 10)?
            .carry_over(world)
            .map(drop),
    };
    fails(
        carried,
        "keys of u64 (8 bytes) with values of u32 (4 bytes) on 1 ranks",
    );
    // All of them are as before.
    same.put(3, 7)?;
    assert_eq!(same.carry_over(&alone)?.0.get_range(2..5)?, [0, 7, 0]);
    map.insert(&3, &7)?;
    assert_eq!(map.carry_over(&alone)?.0.get(&3)?, Some(7));
    world.barrier().map_err(Error::from)
}
