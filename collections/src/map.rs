//! A hash map over all ranks.
//!
//! Each rank's part is a table of slots. A key's hash says its rank, and the slot from which on it is looked for, one slot
//! after the other up to the first that is empty. A slot never becomes empty again, nor belongs to another key, so all ranks
//! find a key in the same slot, whatever happens meanwhile.
//!
//! A slot begins with its *state*. Who changes a slot swaps its state to [`Kind::Busy`], writes, and stores the new state,
//! with a version that no earlier one had. Who reads a value loads the state before it and behind it: if both are the same
//! and say that the slot is full, nobody wrote in between.

use std::any::type_name;
use std::hash::{DefaultHasher, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
use std::thread;

use transom::{Communicator, Element, Op, Session, Window};

use crate::agreement;
use crate::error::{Error, Result};
use crate::waiting::Waiting;
use crate::words;

/// In each part: how many slots are taken, and how many hold a value.
const TAKEN: usize = 0;
const LIVE: usize = 1;
const HEADER: usize = 2;

/// Slots for each key that there is room for, so that searches are short.
const SLOTS_PER_KEY: usize = 2;

/// So often a slot is found busy before a look at who is at it.
const LOOKS: u32 = 64;

/// Keys with values, spread over all ranks by their hash. Every rank, and every thread of jobs with
/// [`ThreadLevel::Multiple`](transom::ThreadLevel), looks up, inserts and removes without the other ranks' help.
///
/// Keys and values are [`Element`]s: `Copy`, and without padding. Keys are equal if their bytes are.
///
/// Each operation on a key is atomic: it takes effect at once, and as a whole. A value is seen as one operation
/// wrote it. A rank that changes a key keeps others waiting at that key for as long as it takes to write the value,
/// or for the function of [`DistMap::update`]; while it inserts a new one, at keys that are looked for along the same
/// slots, too. Where some ranks change one key all the time, others may have to try for long.
///
/// A part has room for a fixed number of keys, and those that were removed take theirs until the next
/// [`DistMap::reserve`].
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
/// changing. Once a rank has found that out, it tells the others, and operations fail everywhere.
pub struct DistMap<K: Element, V: Element> {
    session: Session<'static, u64>,
    /// Keys that each part has room for.
    capacity: usize,
    marker: PhantomData<(K, V)>,
}

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Empty,
    /// A rank is writing there.
    Busy,
    Full,
    /// It has a key, and no value.
    Removed,
}

/// The first word of a slot: its kind, the rank that is at it, and a version.
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

    /// Whether its slot has a key, which stays: so it is not empty, and nobody is writing the first entry.
    fn has_key(self) -> bool {
        self.0 >> Self::VERSION_AT != 0
    }

    /// Who is at it.
    fn rank(self) -> u32 {
        (self.0 >> Self::RANK_AT) as u32 & ((1 << (Self::VERSION_AT - Self::RANK_AT)) - 1)
    }

    fn busy(self, rank: u32) -> Self {
        let version = self.0 >> Self::VERSION_AT << Self::VERSION_AT;
        Self(version | u64::from(rank) << Self::RANK_AT | 1)
    }

    /// As it is left by who changed it.
    fn next(self, kind: Kind) -> Self {
        let version = (self.0 >> Self::VERSION_AT).wrapping_add(1) << Self::VERSION_AT;
        Self(version | if kind == Kind::Full { 2 } else { 3 })
    }
}

/// Where a search for a key ended.
struct Found {
    /// The slot's first word, in its rank's part.
    at: usize,
    state: State,
    /// The key and the value, where the slot has that key.
    words: Vec<u64>,
}

impl<K: Element, V: Element> DistMap<K, V> {
    const KEY: usize = words::count::<K>();
    const ENTRY: usize = Self::KEY + words::count::<V>();
    const SLOT: usize = 1 + Self::ENTRY;

    /// Collective. An empty map, with room for `capacity` keys on each rank. Keys spread by chance: where each rank has `n` of
    /// them on average, `n + 4 * sqrt(n) + 16` is enough for a thousand ranks.
    ///
    /// # Errors
    /// On every rank if one rank fails: `capacity` is 0 or another one elsewhere, sizes of keys or values differ, out of
    /// memory, a rank that died or left.
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

    /// Local. For how many keys each rank's part has room.
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
        // Of all ranks alike: without a random seed.
        let mut hasher = DefaultHasher::new();
        hasher.write(bytemuck::bytes_of(key));
        let hash = hasher.finish();
        let reduce = |hash: u64, to: u64| ((u128::from(hash) * u128::from(to)) >> 64) as u64;
        let slots = (self.capacity * SLOTS_PER_KEY) as u64;
        let rank = reduce(hash, self.session.ranks().into()) as u32;
        (rank, reduce(hash.rotate_left(32), slots) as usize)
    }

    /// The slots of a part, from `first` on, each once.
    fn slots_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let slots = self.capacity * SLOTS_PER_KEY;
        (first..slots)
            .chain(0..first)
            .map(|slot| HEADER + slot * Self::SLOT)
    }

    /// The slot that has the key, or the empty one that it would have. A value there is as it was under that state.
    fn find(&self, rank: u32, first: usize, key: &[u64]) -> Result<Option<Found>> {
        let mut words = vec![0; Self::ENTRY];
        for at in self.slots_from(first) {
            let mut state = State(self.session.load(rank, at)?);
            if !state.has_key() {
                state = self.wait_at(rank, at)?;
            }
            if state.kind() == Kind::Empty {
                return Ok(Some(Found { at, state, words }));
            }
            self.session.get_blocking(rank, at + 1, &mut words)?;
            if words[..Self::KEY] != *key {
                continue;
            }
            if state.kind() == Kind::Busy {
                state = self.wait_at(rank, at)?;
                self.session.get_blocking(rank, at + 1, &mut words)?;
            }
            return Ok(Some(Found { at, state, words }));
        }
        Ok(None)
    }

    /// The state of a slot, once nobody is at it.
    fn wait_at(&self, rank: u32, at: usize) -> Result<State> {
        let (mut looks, mut waiting) = (0, Waiting::default());
        loop {
            let state = State(self.session.load(rank, at)?);
            if state.kind() != Kind::Busy {
                return Ok(state);
            }
            looks += 1;
            if looks % LOOKS == 0 {
                // It fails once the rank that is at it is found dead.
                self.session.load(state.rank(), TAKEN)?;
                let (me, holder) = (self.session.rank(), state.rank());
                waiting.look(|| {
                    format!("rank {me} waits at a key of a DistMap that rank {holder} is changing")
                });
            }
            thread::yield_now();
        }
    }

    /// One-sided. The key's value, if it has one.
    ///
    /// # Errors
    /// The rank of the key's part died, or the one that is changing the key; a device failed.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let (rank, first) = self.place(key);
        let mut wanted = vec![0; Self::KEY];
        words::write(key, &mut wanted);
        loop {
            let Some(found) = self.find(rank, first, &wanted)? else {
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
        Ok(self.get(key)?.is_some())
    }

    /// One-sided. Gives the key this value, and returns the one that it had.
    ///
    /// # Errors
    /// As for [`DistMap::get`]; [`Error::Full`] where the key is new and its rank's part has no room.
    pub fn insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        self.change("DistMap::insert", true, key, |_| Ok(Some(*value)))
    }

    /// One-sided. Gives the key the value that `with` makes of the one that it has, and returns the one that it had. `with`
    /// is called once, while this rank has the key for itself: it must not use the map, whose keys other ranks may have
    /// for themselves while they wait for this one.
    ///
    /// # Errors
    /// As for [`DistMap::insert`].
    pub fn update(&self, key: &K, with: impl FnOnce(Option<V>) -> V) -> Result<Option<V>> {
        self.change("DistMap::update", true, key, |value| Ok(Some(with(value))))
    }

    /// One-sided. As [`DistMap::update`], where `with` may fail: then the key is as it was.
    ///
    /// # Errors
    /// As for [`DistMap::insert`], and that of `with`.
    pub fn try_update<E: From<Error>>(
        &self,
        key: &K,
        with: impl FnOnce(Option<V>) -> std::result::Result<V, E>,
    ) -> std::result::Result<Option<V>, E> {
        let with = |value| with(value).map(Some);
        self.change("DistMap::try_update", true, key, with)
    }

    /// One-sided. Takes the key's value away, and returns it. The key's room is taken until the next
    /// [`DistMap::reserve`].
    ///
    /// # Errors
    /// As for [`DistMap::get`].
    pub fn remove(&self, key: &K) -> Result<Option<V>> {
        self.change("DistMap::remove", false, key, |_| Ok(None))
    }

    /// Replaces the key's value by what `with` makes of it; the lack of one, too, where that `inserts`.
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
            let found = match self.find(rank, first, &wanted)? {
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
        // No reader may see what is written next without what this rank swapped.
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
        let new = with(value)?;
        // Counted before anybody can remove it, and until it is removed.
        if value.is_none() && new.is_some() {
            count(LIVE, 1)?;
        }
        slot.leave(&wanted, new)?;
        if value.is_some() && new.is_none() {
            count(LIVE, u64::MAX)?;
        }
        Ok(value)
    }

    /// One-sided. The values of many keys, in their order: what can be asked at once, is, so that over a network they take
    /// little longer than one.
    ///
    /// # Errors
    /// As for [`DistMap::get`].
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = vec![None; keys.len()];
        // Those still looked for: number, place, and how many slots further.
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
                    let waited = self.wait_at(search.rank, at(search));
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

    /// One-sided. How many keys have a value. While others insert and remove, it is a number from in between.
    ///
    /// # Errors
    /// A rank died; a device failed.
    pub fn len(&self) -> Result<usize> {
        Ok(words::sum(&self.session, LIVE)? as usize)
    }

    /// One-sided. As [`DistMap::len`]: whether that is 0.
    ///
    /// # Errors
    /// As for [`DistMap::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// One-sided. The keys and values of this rank's part: those that were there all the while, each as it was at some
    /// time.
    ///
    /// # Errors
    /// A rank that is changing a key died.
    pub fn own_entries(&self) -> Result<Vec<(K, V)>> {
        let rank = self.session.rank();
        let mut entries = Vec::new();
        let mut words = vec![0; Self::ENTRY];
        for at in self.slots_from(0) {
            loop {
                let state = self.wait_at(rank, at)?;
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

    /// Collective. Makes room for `capacity` keys on each rank, or for those that are there if they are more, and gives the
    /// room of removed ones back. For that time there is memory for both.
    ///
    /// # Errors
    /// As for [`DistMap::new`]. The map is as it was where nothing was allocated, and is gone where a rank died.
    pub fn reserve(&mut self, capacity: usize) -> Result<()> {
        let comm = self.session.comm().clone();
        // All ranks have done with what they were about.
        comm.barrier()?;
        let entries = self.own_entries()?;
        let most = comm.allreduce_value(entries.len().max(capacity).max(1) as u64, Op::Max)?;
        let larger = Self::new(&comm, most as usize)?;
        for (key, value) in entries {
            // Which rank a key falls to does not depend on the capacity: all of these are this rank's.
            larger.insert(&key, &value)?;
        }
        let old = std::mem::replace(self, larger);
        old.free()
    }

    /// Collective. Frees the map and its windows.
    ///
    /// # Errors
    /// A rank died or left: then the memory is leaked.
    pub fn free(self) -> Result<()> {
        Ok(self.session.free()?)
    }
}

/// A key that [`DistMap::get_many`] looks for.
struct Search {
    index: usize,
    rank: u32,
    /// Its first slot, and how many behind that one it is at.
    first: usize,
    behind: usize,
}

/// A slot that this rank is at. Dropped, by a panic or an error before anything was written, it is left as it was.
struct Busy<'m> {
    session: &'m Session<'static, u64>,
    rank: u32,
    at: usize,
    left_as: State,
}

impl Busy<'_> {
    /// Writes the entry, and leaves the slot with or without a value.
    fn leave<V: Element>(mut self, key: &[u64], value: Option<V>) -> Result<()> {
        let old = self.left_as;
        // What is half written is no value.
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
        // Where the part's rank died, nobody waits for the slot any more.
        if self.left_as.kind() == Kind::Empty {
            let _ = give_room_back(self.session, self.rank);
        }
        let _ = self.session.store(self.rank, self.at, self.left_as.0);
    }
}

/// A slot was not taken after all.
fn give_room_back(session: &Session<'static, u64>, rank: u32) -> Result<()> {
    session.fetch_add(rank, TAKEN, u64::MAX)?;
    Ok(())
}
