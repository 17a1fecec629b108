//! A hash map over all ranks.
//!
//! Each rank's part is a table of slots. A key's hash determines its rank and its first slot. A search for the key
//! visits the following slots up to the first empty one. A slot never becomes empty again, and never gets another key.
//! So all ranks find a key in the same slot, whatever happens meanwhile.
//!
//! A slot begins with its *state*. A rank that changes a slot swaps the state to [`Kind::Busy`], writes, and stores the
//! new state, with a version that no earlier state had. A rank that reads a value loads the state before and after it.
//! If both are the same and the slot is full, no rank wrote in between.

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

use transom::lower::wait_on;
use transom::{Communicator, Element, Op, Session, Window};

use crate::agreement;
use crate::error::{Error, Result};
use crate::words;

/// In each part: how many slots are taken, and how many of them have a value.
const TAKEN: usize = 0;
const LIVE: usize = 1;
const HEADER: usize = 2;

/// Slots for each key of the capacity, so that searches are short.
const SLOTS_PER_KEY: usize = 2;

/// Keys with values, distributed over all ranks by hash. Every rank looks up, inserts and removes without the other
/// ranks' help, and so does every thread in jobs with [`ThreadLevel::Multiple`](transom::ThreadLevel).
///
/// Keys and values are [`Element`]s: `Copy`, and without padding. Keys are equal if their bytes are.
///
/// Each operation on a key is atomic. A read returns a value as one operation wrote it. While a rank writes a value, or
/// runs the function of [`DistMap::update`], other ranks wait at that key. While it inserts a new key, they also wait
/// at keys whose search visits the same slot. If some ranks change one key all the time, others may have to retry for
/// long.
///
/// A part has room for a fixed number of keys. Removed keys take up room until the next [`DistMap::reserve`].
///
/// ```
/// use transom::Job;
/// use transom_collections::DistMap;
///
/// # fn main() -> transom_collections::Result<()> {
/// let job = Job::init()?;
/// let map = DistMap::<u64, f64>::new(job.world(), 1000)?;
/// map.insert(&7, &0.5)?;
/// map.update(&7, |value| value.unwrap_or(0.0) + 1.0)?;
/// assert_eq!(map.get(&7)?, Some(1.5));
/// assert_eq!(map.get(&8)?, None);
/// map.free()
/// # }
/// ```
///
/// # When a rank dies
/// Operations on keys of its part fail with an error that names it, and so does an operation on a key that it was
/// changing. A rank that detects the death tells the others, and after that operations fail everywhere.
/// [`DistMap::carry_over`] makes a map of what the survivors have.
pub struct DistMap<K: Element, V: Element> {
    pub(crate) session: Session<'static, u64>,
    /// The room for keys in each part.
    capacity: usize,
    marker: PhantomData<(K, V)>,
}

thread_local! {
    /// The maps for which this thread runs functions, and the calls that these were passed to.
    static RUNNING: RefCell<Vec<(usize, &'static str)>> = const { RefCell::new(Vec::new()) };
}

/// The kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Empty,
    /// A rank is changing it.
    Busy,
    Full,
    /// It has a key, but no value.
    Removed,
}

/// The first word of a slot: its kind, the rank that changes it, and a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

impl State {
    const RANK_AT: u32 = 2;
    const VERSION_AT: u32 = 26;

    fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Empty,
            1 => Kind::Busy,
            2 => Kind::Full,
            _ => Kind::Removed,
        }
    }

    /// Whether the slot has a key, which stays: it is not empty, and no rank is writing its first entry.
    fn has_key(self) -> bool {
        self.0 >> Self::VERSION_AT != 0
    }

    /// The rank that changes the slot.
    fn rank(self) -> u32 {
        (self.0 >> Self::RANK_AT) as u32 & ((1 << (Self::VERSION_AT - Self::RANK_AT)) - 1)
    }

    fn busy(self, rank: u32) -> Self {
        let version = self.0 >> Self::VERSION_AT << Self::VERSION_AT;
        Self(version | u64::from(rank) << Self::RANK_AT | 1)
    }

    /// The state after a change. The version is 1 again after 2^38 changes, and never 0, which a slot without a key has.
    /// A reader takes two states for one only if all these changes come between its two loads.
    fn next(self, kind: Kind) -> Self {
        const LAST: u64 = u64::MAX >> State::VERSION_AT;
        let version = match self.0 >> Self::VERSION_AT {
            LAST => 1,
            version => version + 1,
        };
        Self(version << Self::VERSION_AT | if kind == Kind::Full { 2 } else { 3 })
    }
}

/// Where a search for a key ended.
struct Found {
    /// The index of the slot's first word in the part.
    at: usize,
    state: State,
    /// The key and the value, if the slot has the key.
    words: Vec<u64>,
}

impl<K: Element, V: Element> DistMap<K, V> {
    pub(crate) const KEY: usize = words::count::<K>();
    pub(crate) const ENTRY: usize = Self::KEY + words::count::<V>();
    const SLOT: usize = 1 + Self::ENTRY;

    /// Collective. An empty map, with room for `capacity` keys on each rank. Keys are distributed at random: if each
    /// rank has `n` of them on average, `n + 4 * sqrt(n) + 16` is enough for a thousand ranks.
    ///
    /// # Errors
    /// On every rank if one rank fails: `capacity` is 0 or differs between ranks, sizes of keys or values differ, out
    /// of memory, a rank died or left.
    pub fn new(comm: &Communicator, capacity: usize) -> Result<Self> {
        const OPERATION: &str = "DistMap::new";
        const {
            assert!(
                size_of::<K>() > 0 && size_of::<V>() > 0,
                "keys and values of more than no bytes"
            )
        };
        let ours = format!(
            "room for {capacity} keys of {} ({} bytes) with values of {} ({} bytes)",
            type_name::<K>(),
            size_of::<K>(),
            type_name::<V>(),
            size_of::<V>()
        );
        agreement::alike(comm, OPERATION, &ours)?;
        if capacity == 0 {
            let what = "a capacity of 0 keys".to_owned();
            return Err(Error::BadArgument {
                operation: OPERATION,
                what,
            });
        }
        let slots = capacity.saturating_mul(SLOTS_PER_KEY);
        let len = slots.saturating_mul(Self::SLOT).saturating_add(HEADER);
        let window = Window::allocate(comm, len)?.into_owned();
        Ok(Self {
            session: window.into_session()?,
            capacity,
            marker: PhantomData,
        })
    }

    /// Local. The number of keys for which each rank's part has room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Local. The rank whose part has the key, or would have it.
    #[must_use]
    pub fn rank_of(&self, key: &K) -> u32 {
        self.place(key).0
    }

    /// The key's rank, and its first slot.
    fn place(&self, key: &K) -> (u32, usize) {
        let slots = (self.capacity * SLOTS_PER_KEY) as u64;
        let hash = hash_of(key);
        let rank = reduce(hash, self.session.ranks().into()) as u32;
        (rank, reduce(hash.rotate_left(32), slots) as usize)
    }

    /// All slots of a part, beginning with `first`.
    fn slots_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let slots = self.capacity * SLOTS_PER_KEY;
        (first..slots)
            .chain(0..first)
            .map(|slot| HEADER + slot * Self::SLOT)
    }

    /// The slot that has the key, or the empty one that it would get. A value belongs to the returned state.
    fn find(
        &self,
        operation: &'static str,
        rank: u32,
        first: usize,
        key: &[u64],
    ) -> Result<Option<Found>> {
        self.may_use(operation)?;
        let mut words = vec![0; Self::ENTRY];
        for at in self.slots_from(first) {
            let mut state = State(self.session.load(rank, at)?);
            if !state.has_key() {
                state = self.wait_at(operation, rank, at)?;
            }
            if state.kind() == Kind::Empty {
                return Ok(Some(Found { at, state, words }));
            }
            self.session.get_blocking(rank, at + 1, &mut words)?;
            if words[..Self::KEY] != *key {
                continue;
            }
            if state.kind() == Kind::Busy {
                state = self.wait_at(operation, rank, at)?;
                self.session.get_blocking(rank, at + 1, &mut words)?;
            }
            return Ok(Some(Found { at, state, words }));
        }
        Ok(None)
    }

    /// Waits until no rank is changing a slot, and returns its state.
    fn wait_at(&self, operation: &'static str, rank: u32, at: usize) -> Result<State> {
        let state = Cell::new(State(0));
        let holder = || (state.get().kind() == Kind::Busy).then(|| state.get().rank());
        let done = || {
            state.set(State(self.session.load(rank, at)?));
            Ok(state.get().kind() != Kind::Busy)
        };
        let place = "at a key that is being changed";
        wait_on(self.session.comm(), operation, place, holder, done)?;
        Ok(state.get())
    }

    /// Fails within a function that this thread runs for a call of the map.
    fn may_use(&self, operation: &'static str) -> Result<()> {
        let within = RUNNING.with_borrow(|running| {
            let same = running.iter().find(|(map, _)| *map == self.identity());
            same.map(|&(_, within)| within)
        });
        match within {
            None => Ok(()),
            Some(within) => Err(Error::Reentered { operation, within }),
        }
    }

    /// Runs the function that a call was given.
    fn running<R>(&self, operation: &'static str, with: impl FnOnce() -> R) -> R {
        /// Ends what `running` has begun, also if the function panics.
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                RUNNING.with_borrow_mut(Vec::pop);
            }
        }
        RUNNING.with_borrow_mut(|running| running.push((self.identity(), operation)));
        let _end = End;
        with()
    }

    fn identity(&self) -> usize {
        (&raw const *self).addr()
    }

    /// One-sided. The key's value, if it has one.
    ///
    /// # Errors
    /// The rank that has the key's part, or one that is changing the key, died; a device failed.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.get_for("DistMap::get", key)
    }

    fn get_for(&self, operation: &'static str, key: &K) -> Result<Option<V>> {
        let (rank, first) = self.place(key);
        let mut wanted = vec![0; Self::KEY];
        words::write(key, &mut wanted);
        loop {
            let Some(found) = self.find(operation, rank, first, &wanted)? else {
                return Ok(None);
            };
            if found.state.kind() != Kind::Full {
                return Ok(None);
            }
            if self.session.load(rank, found.at)? == found.state.0 {
                return Ok(Some(words::read(&found.words[Self::KEY..])));
            }
        }
    }

    /// One-sided. Whether the key has a value.
    ///
    /// # Errors
    /// As for [`DistMap::get`].
    pub fn contains_key(&self, key: &K) -> Result<bool> {
        Ok(self.get_for("DistMap::contains_key", key)?.is_some())
    }

    /// One-sided. Sets the key's value, and returns the previous one.
    ///
    /// # Errors
    /// As for [`DistMap::get`]; [`Error::Full`] if the key is new and its rank's part has no room.
    pub fn insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        self.change("DistMap::insert", true, key, |_| Ok(Some(*value)))
    }

    /// One-sided. Replaces the key's value by the result of `with`, and returns the previous value. `with` is called
    /// once, while this rank holds the key. It must not use the map, not even at other keys, which other ranks may hold
    /// while they wait for this one: calls in it fail with [`Error::Reentered`].
    ///
    /// # Errors
    /// As for [`DistMap::insert`].
    pub fn update(&self, key: &K, with: impl FnOnce(Option<V>) -> V) -> Result<Option<V>> {
        self.change("DistMap::update", true, key, |value| Ok(Some(with(value))))
    }

    /// One-sided. As [`DistMap::update`], but `with` may fail: then the key is unchanged.
    ///
    /// # Errors
    /// As for [`DistMap::insert`], and the error of `with`.
    pub fn try_update<E: From<Error>>(
        &self,
        key: &K,
        with: impl FnOnce(Option<V>) -> std::result::Result<V, E>,
    ) -> std::result::Result<Option<V>, E> {
        let with = |value| with(value).map(Some);
        self.change("DistMap::try_update", true, key, with)
    }

    /// One-sided. Removes the key's value, and returns it. The key takes up room until the next [`DistMap::reserve`].
    ///
    /// # Errors
    /// As for [`DistMap::get`].
    pub fn remove(&self, key: &K) -> Result<Option<V>> {
        self.change("DistMap::remove", false, key, |_| Ok(None))
    }

    /// Replaces the key's value by the result of `with`. If `inserts` is false, does nothing to a key without a value.
    fn change<E: From<Error>>(
        &self,
        operation: &'static str,
        inserts: bool,
        key: &K,
        with: impl FnOnce(Option<V>) -> std::result::Result<Option<V>, E>,
    ) -> std::result::Result<Option<V>, E> {
        let (rank, first) = self.place(key);
        let mut wanted = vec![0; Self::KEY];
        words::write(key, &mut wanted);
        let full = || Error::Full {
            operation,
            rank,
            capacity: self.capacity,
        };
        let (found, slot) = loop {
            let found = match self.find(operation, rank, first, &wanted)? {
                Some(found) if inserts || found.state.kind() == Kind::Full => found,
                None if inserts => return Err(full().into()),
                _ => return Ok(None),
            };
            let busy = found.state.busy(self.session.rank());
            let swapped = (self.session).compare_swap(rank, found.at, found.state.0, busy.0);
            let old = swapped.map_err(Error::from)?;
            if old == found.state.0 {
                let slot = Busy {
                    session: &self.session,
                    rank,
                    at: found.at,
                    left_as: found.state,
                };
                break (found, slot);
            }
        };
        // No reader may see what is written next without seeing the swapped state.
        fence(Ordering::SeqCst);
        let count = |what, add| (self.session.fetch_add(rank, what, add)).map_err(Error::from);
        let is_new = found.state.kind() == Kind::Empty;
        if is_new && count(TAKEN, 1)? >= self.capacity as u64 {
            return Err(full().into());
        }
        let value = match found.state.kind() {
            Kind::Full => Some(words::read(&found.words[Self::KEY..])),
            _ => None,
        };
        let new = self.running(operation, || with(value))?;
        // Count it before another rank can remove it, and until it is removed.
        if value.is_none() && new.is_some() {
            count(LIVE, 1)?;
        }
        slot.leave(&wanted, new)?;
        if value.is_some() && new.is_none() {
            count(LIVE, u64::MAX)?;
        }
        Ok(value)
    }

    /// One-sided. The values of many keys, in their order. Requests are made together where possible, so over a network
    /// many keys take little longer than one.
    ///
    /// # Errors
    /// As for [`DistMap::get`].
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        const OPERATION: &str = "DistMap::get_many";
        self.may_use(OPERATION)?;
        let mut values = vec![None; keys.len()];
        // The remaining searches.
        let mut searches: Vec<Search> = (keys.iter().enumerate())
            .map(|(index, key)| {
                let (rank, first) = self.place(key);
                Search {
                    index,
                    rank,
                    first,
                    behind: 0,
                }
            })
            .collect();
        let slots = self.capacity * SLOTS_PER_KEY;
        let mut wanted = vec![0; Self::KEY];
        while !searches.is_empty() {
            let at = |search: &Search| HEADER + (search.first + search.behind) % slots * Self::SLOT;
            let places: Vec<(u32, usize)> = (searches.iter())
                .map(|search| (search.rank, at(search)))
                .collect();
            let before = words::load(&self.session, &places)?;
            let mut entries = vec![0; places.len() * Self::ENTRY];
            self.session.batch(|batch| {
                for (&(rank, at), entry) in places.iter().zip(entries.chunks_mut(Self::ENTRY)) {
                    batch.target(rank)?.get(at + 1, entry)?;
                }
                Ok(())
            })?;
            let behind = words::load(&self.session, &places)?;
            let mut looked = before
                .into_iter()
                .zip(behind)
                .zip(entries.chunks(Self::ENTRY));
            let mut failed = None;
            searches.retain_mut(|search| {
                let Some(((before, behind), entry)) = looked.next() else {
                    return false;
                };
                let state = State(before);
                if state.kind() == Kind::Empty {
                    return false;
                }
                words::write(&keys[search.index], &mut wanted);
                if state.has_key() && entry[..Self::KEY] != wanted[..] {
                    search.behind += 1;
                    return search.behind < slots;
                }
                if state.kind() == Kind::Busy {
                    let waited = self.wait_at(OPERATION, search.rank, at(search));
                    failed = failed.take().or(waited.err());
                    return failed.is_none();
                }
                if state.kind() == Kind::Removed {
                    return false;
                }
                let is_whole = before == behind;
                if is_whole {
                    values[search.index] = Some(words::read(&entry[Self::KEY..]));
                }
                !is_whole
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(values)
    }

    /// One-sided. How many keys have a value. While others insert and remove, the number is only approximate.
    ///
    /// # Errors
    /// A rank died; a device failed.
    pub fn len(&self) -> Result<usize> {
        Ok(words::sum(&self.session, LIVE)? as usize)
    }

    /// One-sided. Whether [`DistMap::len`] is 0.
    ///
    /// # Errors
    /// As for [`DistMap::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// One-sided. The keys and values of this rank's part. It contains all keys that had a value throughout the call,
    /// each with a value that it had at some time.
    ///
    /// # Errors
    /// A rank that is changing a key died.
    pub fn own_entries(&self) -> Result<Vec<(K, V)>> {
        const OPERATION: &str = "DistMap::own_entries";
        self.may_use(OPERATION)?;
        let rank = self.session.rank();
        let mut entries = Vec::new();
        let mut words = vec![0; Self::ENTRY];
        for at in self.slots_from(0) {
            loop {
                let state = self.wait_at(OPERATION, rank, at)?;
                if state.kind() != Kind::Full {
                    break;
                }
                self.session.get_blocking(rank, at + 1, &mut words)?;
                if self.session.load(rank, at)? == state.0 {
                    let key = words::read(&words[..Self::KEY]);
                    entries.push((key, words::read(&words[Self::KEY..])));
                    break;
                }
            }
        }
        Ok(entries)
    }

    /// Local. Calls `entry` for the words of each entry of this rank's part, and `interrupted` for those of a key that
    /// a rank was changing. For use after a death: waits for no rank.
    pub(crate) fn read_part(
        &self,
        mut entry: impl FnMut(&[u64]),
        mut interrupted: impl FnMut(&[u64]),
    ) -> Result<()> {
        for at in self.slots_from(0) {
            // What a rank wrote before its death may arrive late.
            let slot = loop {
                let slot = self.session.read_own(at..at + Self::SLOT)?;
                fence(Ordering::SeqCst);
                if self.session.read_own(at..at + 1)? == slot[..1] {
                    break slot;
                }
            };
            let state = State(slot[0]);
            match state.kind() {
                Kind::Full => entry(&slot[1..]),
                Kind::Busy if state.has_key() => interrupted(&slot[1..]),
                _ => {}
            }
        }
        Ok(())
    }

    /// Collective. Makes room for `capacity` keys on each rank, or for the present keys if they are more, and frees the
    /// room of removed keys. During the call there is memory for both tables.
    ///
    /// # Errors
    /// As for [`DistMap::new`]. The map is unchanged if memory could not be allocated. If a rank died, it can only be
    /// [carried over](DistMap::carry_over).
    pub fn reserve(&mut self, capacity: usize) -> Result<()> {
        let comm = self.session.comm().clone();
        // All ranks have finished their earlier operations.
        comm.barrier()?;
        let entries = self.own_entries()?;
        let most = comm.allreduce_value(entries.len().max(capacity).max(1) as u64, Op::Max)?;
        let larger = Self::new(&comm, most as usize)?;
        for (key, value) in entries {
            // A key's rank does not depend on the capacity: all of these keys are this rank's.
            larger.insert(&key, &value)?;
        }
        let old = std::mem::replace(self, larger);
        old.free()
    }

    /// Collective. Frees the map and its windows.
    ///
    /// # Errors
    /// A rank died or left. Then the memory is leaked.
    pub fn free(self) -> Result<()> {
        Ok(self.session.free()?)
    }
}

/// The rank that has the key's part in a map of this many ranks.
pub(crate) fn rank_among<K: Element>(key: &K, ranks: u32) -> u32 {
    reduce(hash_of(key), ranks.into()) as u32
}

fn hash_of<K: Element>(key: &K) -> u64 {
    // Without a random seed, so that it is the same on all ranks.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytemuck::bytes_of(key));
    hasher.finish()
}

/// A number below `to`, which grows with the hash.
fn reduce(hash: u64, to: u64) -> u64 {
    ((u128::from(hash) * u128::from(to)) >> 64) as u64
}

/// A key that [`DistMap::get_many`] looks for.
struct Search {
    index: usize,
    rank: u32,
    /// Its first slot, and how many slots the search has moved on from there.
    first: usize,
    behind: usize,
}

/// A slot that this rank is changing. If it is dropped before anything was written, the slot gets its old state.
struct Busy<'m> {
    session: &'m Session<'static, u64>,
    rank: u32,
    at: usize,
    left_as: State,
}

impl Busy<'_> {
    /// Writes the entry, and stores the new state, with or without a value.
    fn leave<V: Element>(mut self, key: &[u64], value: Option<V>) -> Result<()> {
        let old = self.left_as;
        // A partly written value does not count.
        self.left_as = old.next(Kind::Removed);
        if let Some(value) = value {
            let mut entry = vec![0; key.len() + words::count::<V>()];
            entry[..key.len()].copy_from_slice(key);
            words::write(&value, &mut entry[key.len()..]);
            self.session.put_blocking(self.rank, self.at + 1, &entry)?;
            self.left_as = old.next(Kind::Full);
        }
        self.session.store(self.rank, self.at, self.left_as.0)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        // These fail only if the part's rank died, and then nothing waits for the slot.
        if self.left_as.kind() == Kind::Empty {
            let _ = give_room_back(self.session, self.rank);
        }
        let _ = self.session.store(self.rank, self.at, self.left_as.0);
    }
}

/// For a slot that was not taken after all.
fn give_room_back(session: &Session<'static, u64>, rank: u32) -> Result<()> {
    session.fetch_add(rank, TAKEN, u64::MAX)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_wraps_is_not_that_of_a_slot_without_a_key() {
        let mut state = State(u64::MAX - (2 << State::VERSION_AT)).next(Kind::Full);
        let mut seen = vec![];
        for kind in [Kind::Removed, Kind::Full, Kind::Removed, Kind::Full] {
            let busy = state.busy(0xff_ffff);
            assert!(busy.has_key() && busy.rank() == 0xff_ffff && busy.kind() == Kind::Busy);
            state = busy.next(kind);
            assert!(state.has_key() && state.kind() == kind);
            assert!(!seen.contains(&state), "each state is a new one");
            seen.push(state);
        }
        assert_eq!(state.0 >> State::VERSION_AT, 3);
    }
}
