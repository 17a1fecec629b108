//! Counts of words, which all ranks share.
//!
//! A word of up to 23 bytes is a key of the map by itself. A longer one has its hash and its length for a key, and a value that
//! points to its bytes. A rank that finds such a key compares the bytes before it counts there; if they are another word's,
//! it goes on to the key with the next number. So two different words are never counted as one.

use std::hash::{DefaultHasher, Hasher as _};

use bytemuck::{Pod, Zeroable};
use transom::{Communicator, Op};
use transom_collections::{Arena, DistMap, GlobalPtr};

use crate::Tally;
use crate::error::Error;
use crate::report::Entry;

/// The longest word that is a key by itself.
const SHORT: usize = 23;

/// A short word, zeros, and the word's length; or a [`LongKey`].
type Key = [u8; SHORT + 1];

/// The key of a long word.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct LongKey {
    hash: u64,
    len: u64,
    /// Tells words of one hash and length apart.
    number: u32,
    zeros: [u8; 3],
    /// [`LONG`], where a short word has its length.
    kind: u8,
}

const LONG: u8 = u8::MAX;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Count {
    times: u64,
    /// A long word's bytes.
    bytes: GlobalPtr,
}

pub(crate) struct Counts {
    map: DistMap<Key, Count>,
    /// The bytes of long words, each in the part of the rank that was the first to count it.
    long: Arena<u8>,
    rank: u32,
}

impl Counts {
    /// Collective. With room on each rank for `capacity` words, or for those of all ranks' tallies if they spread as hashes
    /// do.
    pub(crate) fn new(
        comm: &Communicator,
        tally: &Tally,
        capacity: Option<usize>,
    ) -> Result<Self, Error> {
        let words = comm.allreduce_value(tally.len() as u64, Op::Sum)?;
        let even = words.div_ceil(comm.size().into()) as usize;
        // By more than 20 times the square root of `even`, which is how far parts differ from it.
        let capacity = capacity.unwrap_or(even + even / 8 + 1024);
        let long = tally.keys().filter(|word| word.len() > SHORT);
        let long: usize = long.map(|word| word.len()).sum();
        let long = comm.allreduce_value(long as u64, Op::Max)?;
        Ok(Self {
            map: DistMap::new(comm, capacity)
                .map_err(|cause| Error::Capacity { capacity, cause })?,
            long: Arena::new(comm, long as usize)?,
            rank: comm.rank(),
        })
    }

    /// One-sided. Counts `word` another `times` times.
    pub(crate) fn add(&self, word: &[u8], times: u64) -> Result<(), Error> {
        if word.len() > SHORT {
            // Of all ranks alike: without a random seed.
            let mut hasher = DefaultHasher::new();
            hasher.write(word);
            return self.add_long(hasher.finish(), word, times);
        }
        let mut key = Key::zeroed();
        key[..word.len()].copy_from_slice(word);
        key[SHORT] = word.len() as u8;
        self.map.update(&key, |count| {
            let mut count = count.unwrap_or(Count::zeroed());
            count.times += times;
            count
        })?;
        Ok(())
    }

    fn add_long(&self, hash: u64, word: &[u8], times: u64) -> Result<(), Error> {
        let mut key = LongKey {
            hash,
            len: word.len() as u64,
            number: 0,
            zeros: [0; 3],
            kind: LONG,
        };
        loop {
            let mut is_other = false;
            let add = |count: Option<Count>| -> Result<Count, Error> {
                let Some(mut count) = count else {
                    let bytes = self.long.alloc(self.rank, word.len())?;
                    self.long.write(bytes, word)?;
                    return Ok(Count { times, bytes });
                };
                is_other = self.long.read_vec(count.bytes, word.len())? != word;
                if !is_other {
                    count.times += times;
                }
                Ok(count)
            };
            self.map.try_update(&bytemuck::cast(key), add)?;
            if !is_other {
                return Ok(());
            }
            key.number += 1;
        }
    }

    /// One-sided. The words and counts of this rank's part, when nobody adds to them.
    pub(crate) fn own(&self) -> Result<Vec<Entry>, Error> {
        let entry = |(key, count): (Key, Count)| {
            let word = match key[SHORT] {
                LONG => {
                    let LongKey { len, .. } = bytemuck::cast(key);
                    self.long.read_vec(count.bytes, len as usize)?
                }
                len => key[..usize::from(len)].to_vec(),
            };
            Ok((word, count.times))
        };
        self.map.own_entries()?.into_iter().map(entry).collect()
    }

    /// Collective.
    pub(crate) fn free(self) -> Result<(), Error> {
        self.map.free()?;
        Ok(self.long.free()?)
    }
}

#[cfg(test)]
mod tests {
    use transom::Job;

    use super::*;

    #[test]
    fn words_of_one_hash_and_length_are_counted_apart() {
        let job = Job::init().unwrap();
        let words = ["one", "two", "six"].map(|word| word.repeat(SHORT).into_bytes());
        let tally: Tally = words
            .iter()
            .map(|word| (word.as_slice().into(), 1))
            .collect();
        let counts = Counts::new(job.world(), &tally, None).unwrap();
        for (word, times) in words.iter().zip(1..).chain(words.iter().zip(10..)) {
            counts.add_long(7, word, times).unwrap();
        }
        let mut own = counts.own().unwrap();
        own.sort_by_key(|(_, times)| *times);
        let expected: Vec<Entry> = words.into_iter().zip([11, 13, 15]).collect();
        assert_eq!(own, expected);
        counts.free().unwrap();
    }
}
