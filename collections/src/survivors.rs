//! What is left of a collection after a death.

use std::any::type_name;
use std::ops::Range;

use transom::{Communicator, Element, Op};

use crate::map::rank_among;
use crate::{DistArray, DistMap, Error, Result, agreement, words};

impl<T: Element> DistArray<T> {
    /// Collective over the survivors. After a death, makes an array with the elements that they have, of the same
    /// length and distribution. Returns it with the ranges that are lost, in ascending order: these elements were on
    /// ranks that do not take part, and have all bytes zero in the new array. This array stays as it is; drop it.
    ///
    /// `comm` is the communicator that [`Communicator::survivors`] returned. An array of some ranks only is carried over
    /// to a [split](Communicator::split) of the survivors among them.
    ///
    /// If another rank dies during the call, some ranks may have the new array, and others an error. So keep this array
    /// until all have the new one, as they do after a barrier. Those who survive this death too tell each other what
    /// they have, and carry over the new array if all have it, or else this one.
    ///
    /// An element that a rank was writing when a rank died has the old value, the new value or a mixture. All others
    /// have the value that was written last. The call needs memory for the new array and for a copy of this rank's
    /// elements; the memory of this array stays until the process ends.
    ///
    /// ```no_run
    /// # use transom_collections::{DistArray, Distribution, Result};
    /// # fn work(_: &DistArray<f64>) -> Result<()> { Ok(()) }
    /// # fn recompute(_: &DistArray<f64>, _: std::ops::Range<usize>) {}
    /// # fn main() -> Result<()> {
    /// let job = transom::Job::init()?;
    /// let mut array = DistArray::<f64>::new(job.world(), 1000, Distribution::Block)?;
    /// while let Err(error) = work(&array) {
    ///     eprintln!("{error}");
    ///     let survivors = array.comm().survivors()?;
    ///     let (carried, lost) = array.carry_over(&survivors.communicator)?;
    ///     for range in lost {
    ///         recompute(&carried, range);
    ///     }
    ///     array = carried;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank: the arrays of the ranks differ, as they may after a death during
    /// [`redistribute`](Self::redistribute); two ranks have the same elements, of different arrays; no memory on a
    /// rank. On some or all: a rank died or left.
    pub fn carry_over(
        &self,
        comm: &Communicator,
    ) -> Result<(Self, impl Iterator<Item = Range<usize>> + Clone + use<T>)> {
        const OPERATION: &str = "DistArray::carry_over";
        let (old, len, distribution) = (self.comm(), self.len(), self.distribution());
        let ours = format!(
            "{len} elements of {}, distributed as {distribution:?} over {} ranks",
            type_name::<T>(),
            old.size()
        );
        agreement::alike(comm, OPERATION, &ours)?;
        let own = self.own_copy();
        let own_or_error = own.as_ref().map(|_| Vec::new());
        let (lost, _) = missing_ranks(OPERATION, old, comm, own_or_error)?;
        let array = Self::make(OPERATION, comm, len, distribution, |_, _| Ok(()))?;
        let own_ranges = self.layout().own_ranges(old.rank());
        let put = own.and_then(|own| array.put_ranges(OPERATION, own_ranges, &own));
        match agreed(OPERATION, comm, put) {
            Ok(()) => Ok((array, self.layout().ranges_of(lost))),
            Err(error) => {
                array.free()?;
                Err(error)
            }
        }
    }
}

/// What [`DistMap::carry_over`] could not keep.
///
/// How many entries are lost is not known, since each part counts its own. [`contains`](Self::contains) says of any key
/// whether it may be lost.
#[derive(Clone, Debug)]
pub struct LostKeys<K, V> {
    missing: Vec<u32>,
    of: u32,
    interrupted: Vec<(K, V)>,
}

impl<K: Element, V: Element> LostKeys<K, V> {
    /// Local. Whether the key's value is lost, if it had one: its part was on a missing rank, or it is among the
    /// [interrupted](Self::interrupted) ones.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        let bytes = bytemuck::bytes_of(key);
        let is_key = |(other, _): &(K, V)| bytemuck::bytes_of(other) == bytes;
        let rank = rank_among(key, self.of);
        self.missing.binary_search(&rank).is_ok() || self.interrupted.iter().any(is_key)
    }

    /// Local. The ranks whose parts are lost, as the old map numbered them, in ascending order. Keys are distributed by
    /// hash, so each of `n` ranks had about `1 / n` of them.
    #[must_use]
    pub fn ranks(&self) -> &[u32] {
        &self.missing
    }

    /// Local. Keys in the survivors' parts that a rank was changing when it died, or when it noticed the death. The new
    /// map does not have them, because the value is the old one (even if that was removed), the new one or a mixture.
    #[must_use]
    pub fn interrupted(&self) -> &[(K, V)] {
        &self.interrupted
    }
}

impl<K: Element, V: Element> DistMap<K, V> {
    /// Collective over the survivors. After a death, makes a map with the entries of their parts. Returns it with what
    /// is known of the lost ones. Each part gets larger, so that all have room for as many keys as before. This map
    /// stays as it is; drop it.
    ///
    /// `comm`, and another death during the call: as for [`DistArray::carry_over`].
    ///
    /// Every operation that had returned is in the new map, unless [`LostKeys::contains`] its key. One that failed, or
    /// whose rank died, has taken effect as a whole, or not at all, or its key is
    /// [interrupted](LostKeys::interrupted). The call needs memory for the new map and for copies of the entries that
    /// this rank has and gets; the memory of this map stays until the process ends.
    ///
    /// ```no_run
    /// # use transom_collections::{DistMap, Result};
    /// # fn main() -> Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let map = DistMap::<u64, f64>::new(job.world(), 1000)?;
    /// if let Err(error) = map.insert(&7, &0.5) {
    ///     eprintln!("{error}");
    ///     let survivors = job.world().survivors()?;
    ///     let (map, lost) = map.carry_over(&survivors.communicator)?;
    ///     if lost.contains(&8) {
    ///         map.insert(&8, &0.25)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank: the maps of the ranks differ in the types or in the number of ranks; two ranks have the same
    /// part, of different maps; no memory on a rank. On some or all: a rank died or left.
    pub fn carry_over(&self, comm: &Communicator) -> Result<(Self, LostKeys<K, V>)> {
        const OPERATION: &str = "DistMap::carry_over";
        let (old, size) = (self.session.comm(), comm.size());
        let ours = format!(
            "keys of {} ({} bytes) with values of {} ({} bytes) on {} ranks",
            type_name::<K>(),
            size_of::<K>(),
            type_name::<V>(),
            size_of::<V>(),
            old.size()
        );
        agreement::alike(comm, OPERATION, &ours)?;

        // The entries, by the ranks that get them.
        let mut parts = vec![Vec::new(); size as usize];
        let mut interrupted: Vec<u64> = Vec::new();
        let read = self.read_part(
            |entry| parts[rank_among(&Self::entry(entry).0, size) as usize].extend(entry),
            |entry| interrupted.extend(entry),
        );
        let ours = read.as_ref().map(|()| interrupted);
        let (missing, interrupted) = missing_ranks(OPERATION, old, comm, ours)?;
        let lost = LostKeys {
            missing,
            of: old.size(),
            interrupted: interrupted
                .chunks_exact(Self::ENTRY)
                .map(Self::entry)
                .collect(),
        };

        let entries = comm.alltoallv(&parts)?.concat();
        let room = (self.capacity() as u64).saturating_mul(old.size().into());
        let room = room.div_ceil(size.into());
        let most = room.max((entries.len() / Self::ENTRY) as u64);
        let map = Self::new(comm, comm.allreduce_value(most, Op::Max)? as usize)?;
        let mut each = entries.chunks_exact(Self::ENTRY).map(Self::entry);
        let inserted = each.try_for_each(|(key, value)| map.insert(&key, &value).map(drop));
        match agreed(OPERATION, comm, inserted) {
            Ok(()) => Ok((map, lost)),
            Err(error) => {
                map.free()?;
                Err(error)
            }
        }
    }

    fn entry(entry: &[u64]) -> (K, V) {
        let (key, value) = entry.split_at(Self::KEY);
        (words::read(key), words::read(value))
    }
}

/// Collective over the survivors. The ranks of `old` that are not among them, in ascending order, and what all of them
/// say, one after the other. Fails on all if one rank has an error.
fn missing_ranks(
    operation: &'static str,
    old: &Communicator,
    comm: &Communicator,
    ours: std::result::Result<Vec<u64>, &Error>,
) -> Result<(Vec<u32>, Vec<u64>)> {
    let ours = ours.map(|words| [&[u64::from(old.rank())], &words[..]].concat());
    let ours = ours.map_err(Error::to_string);
    let bytes = ours.as_deref().map(bytemuck::cast_slice);
    let all = agreement::gather(comm, bytes.map_err(Clone::clone))?;
    let mut has = vec![None; old.size() as usize];
    let mut said = Vec::new();
    for (rank, bytes) in (0..).zip(all.map_err(|failed| failed.during(operation))?) {
        let words: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
        let former = words.first().copied().unwrap_or(u64::MAX);
        let what = match has.get_mut(former as usize) {
            Some(Some(other)) => {
                format!("ranks {other} and {rank} both have part {former}, of two collections")
            }
            Some(free) => {
                *free = Some(rank);
                said.extend_from_slice(&words[1..]);
                continue;
            }
            None => format!("rank {rank} has part {former} of {}", old.size()),
        };
        return Err(Error::BadArgument { operation, what });
    }
    let missing = (0..).zip(has).filter(|(_, now)| now.is_none());
    Ok((missing.map(|(rank, _)| rank).collect(), said))
}

/// Collective. Waits for all ranks. Fails on all if one rank has an error.
fn agreed(operation: &'static str, comm: &Communicator, ours: Result<()>) -> Result<()> {
    let said = ours.as_ref().map(|()| &[][..]).map_err(Error::to_string);
    let all = agreement::gather(comm, said)?;
    ours?;
    all.map(drop).map_err(|failed| failed.during(operation))
}
