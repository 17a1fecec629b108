//! Contacts: records in a rank's control memory for each other rank with which it posts or starts. Their number depends
//! on the ranks that it has met in this way, not on the size of the window.
//!
//! A rank makes its own contacts, and finds those that others have for it. [`deliver`] explains how two ranks find each
//! other's contacts without waiting for a call of the other.
//!
//! | word | written by | |
//! |---|---|---|
//! | key | its rank | identifies the other rank, and shows a torn read |
//! | posts | the other rank | how often it has posted to this one |
//! | completions | the other rank | how many access epochs it has completed here |
//! | kept | its rank | a first post that the other rank has to look for |
//!
//! Contacts are in chunks of 8, 32, 128 and so on, whose places are in the window's block. A rank's number determines a
//! group of four contacts in each chunk; its contact is in the first chunk whose group has space.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::layout::{CHUNKS, CONTACTS_AT};
use crate::error::{Error, Result, SystemError};
use crate::memory::control::{ControlBlock, ControlRegion, LocalWord};
use crate::memory::remote::{RemoteMemory, RemoteWord};
use crate::memory::word::SharedWord;
use crate::wait::lock;

/// The words of a contact: the key of its rank; how many exposure epochs that rank has opened to this one; how many
/// access epochs it has completed on this one; which of this rank's posts it has to look for here.
const KEY_AT: u64 = 0;
const POSTS_AT: u64 = 8;
const COMPLETIONS_AT: u64 = 16;
const KEPT_AT: u64 = 24;
const CONTACT: u64 = 32;

/// Contacts are in groups. A rank's number selects a group in each chunk; its contact is in the first of these groups
/// that has space.
const IN_GROUP: u64 = 4;
const GROUP: u64 = IN_GROUP * CONTACT;
/// Each chunk has four times as many groups as the previous one.
const FIRST_GROUPS: u64 = 2;
/// The number of times that a half-written key is read again; writing it takes its rank no time.
const TRIES: u32 = 1000;

fn groups(chunk: usize) -> u64 {
    FIRST_GROUPS << (2 * chunk)
}

/// The offset in a chunk of the group of a rank.
fn group_at(rank: u32, chunk: usize) -> u64 {
    let hash = u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (hash & (groups(chunk) - 1)) * GROUP
}

/// A word that identifies a rank, is not 0, and shows whether a torn value was read.
fn key(rank: u32) -> u64 {
    let number = rank.wrapping_add(1);
    u64::from(!number) << 32 | u64::from(number)
}

fn is_whole(key: u64) -> bool {
    key == 0 || (key >> 32) as u32 == !(key as u32)
}

/// The contacts of this rank.
#[derive(Default)]
pub(crate) struct Contacts {
    chunks: Mutex<Vec<Chunk>>,
}

struct Chunk {
    block: Arc<ControlBlock>,
    /// The number of contacts in each group.
    used: Box<[u8]>,
}

/// A contact of this rank.
pub(crate) struct Contact {
    block: Arc<ControlBlock>,
    at: u64,
    /// Words that the other rank writes.
    pub(super) posts: LocalWord,
    pub(super) completions: LocalWord,
    pub(super) kept: LocalWord,
}

impl Contacts {
    /// Creates the contact of `rank`, which must not have one. `list`: the window's block.
    pub(crate) fn add(
        &self,
        control: &Arc<ControlRegion>,
        list: &ControlBlock,
        rank: u32,
    ) -> Result<Contact> {
        let mut chunks = lock(&self.chunks);
        let group = |number: usize| (group_at(rank, number) / GROUP) as usize;
        let has_room =
            |(number, chunk): (usize, &Chunk)| chunk.used[group(number)] < IN_GROUP as u8;
        let number = match chunks.iter().enumerate().position(has_room) {
            Some(number) => number,
            None => {
                let number = chunks.len();
                chunks.push(Chunk::new(control, list, number)?);
                number
            }
        };
        let chunk = &mut chunks[number];
        let used = &mut chunk.used[group(number)];
        let at = group_at(rank, number) + u64::from(*used) * CONTACT;
        *used += 1;
        chunk
            .block
            .word(at + KEY_AT)
            .store(key(rank), Ordering::Release);
        Ok(Contact::new(&chunk.block, at))
    }

    /// The control memory of the contacts.
    pub(super) fn blocks(&self) -> Vec<Arc<ControlBlock>> {
        let chunks = lock(&self.chunks);
        chunks.iter().map(|chunk| chunk.block.clone()).collect()
    }
}

impl Chunk {
    fn new(control: &Arc<ControlRegion>, list: &ControlBlock, number: usize) -> Result<Self> {
        let (groups, number) = (groups(number), number as u64);
        if number >= CHUNKS {
            let wanted = (groups * GROUP) as usize;
            let capacity = control.remote().len as usize;
            return Err(SystemError::ControlFull { wanted, capacity }.into());
        }
        let block = Arc::new(control.allocate(groups * GROUP)?);
        let place = list.word(CONTACTS_AT + 8 * number);
        place.store(block.place(), Ordering::Release);
        let used = vec![0; groups as usize].into();
        Ok(Self { block, used })
    }
}

impl Contact {
    fn new(block: &Arc<ControlBlock>, at: u64) -> Self {
        let word = |offset| LocalWord::new(block, at + offset);
        Self {
            posts: word(POSTS_AT),
            completions: word(COMPLETIONS_AT),
            kept: word(KEPT_AT),
            block: block.clone(),
            at,
        }
    }

    /// The word where the other rank stores how often it has posted.
    pub(super) fn posts_word(&self) -> (&ControlBlock, u64) {
        (&self.block, self.at + POSTS_AT)
    }
}

/// The contact that another rank has for this one.
pub(crate) struct ContactThere {
    pub(super) posts: RemoteWord,
    pub(super) completions: RemoteWord,
    kept: RemoteWord,
}

impl ContactThere {
    /// Whether this rank completes by plain stores there, without the device.
    #[inline]
    pub(crate) fn is_completed_here(&self) -> bool {
        self.completions.is_stored_here()
    }

    fn new(memory: &Arc<RemoteMemory>, at: u64) -> Self {
        Self {
            posts: memory.word(at + POSTS_AT),
            completions: memory.word(at + COMPLETIONS_AT),
            kept: memory.word(at + KEPT_AT),
        }
    }

    /// The posts that the other rank has kept.
    pub(super) fn kept(&self) -> Result<Kept> {
        Ok(Kept::from_word(self.kept.load_whole()?))
    }
}

/// One-sided. The contact for `rank` of the rank whose window's block is at `list`, if there is one. `chunk` returns
/// the memory at a place that the block names. `garbled`: makes the error for malformed data.
pub(crate) fn find(
    rank: u32,
    (memory, list): (&Arc<RemoteMemory>, u64),
    chunk: impl Fn(u64) -> Result<(Arc<RemoteMemory>, u64)>,
    garbled: impl Fn() -> Error,
) -> Result<Option<ContactThere>> {
    for number in 0..CHUNKS {
        let place = memory.word(list + CONTACTS_AT + 8 * number).load_whole()?;
        if place == 0 {
            return Ok(None);
        }
        let (memory, start) = chunk(place)?;
        let group = start + group_at(rank, number as usize);
        let keys = read_keys(&memory, group)?.ok_or_else(&garbled)?;
        if let Some(found) = (0..).zip(keys).find(|&(_, found)| found == key(rank)) {
            return Ok(Some(ContactThere::new(&memory, group + found.0 * CONTACT)));
        }
        if keys.contains(&0) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The keys of a group, if none of them is torn.
fn read_keys(memory: &RemoteMemory, group: u64) -> Result<Option<[u64; IN_GROUP as usize]>> {
    const WORDS: usize = (CONTACT / 8) as usize;
    let mut words = [[0_u64; WORDS]; IN_GROUP as usize];
    for _ in 0..TRIES {
        memory.read(group, bytemuck::cast_slice_mut(words.as_flattened_mut()))?;
        let keys = words.map(|words| words[(KEY_AT / 8) as usize]);
        if keys.iter().all(|&key| is_whole(key)) {
            return Ok(Some(keys));
        }
    }
    Ok(None)
}

/// The posts that a rank keeps in its own contact, for another rank to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// This number of posts: none or the first one. Later ones are stored at the other rank.
    Posts(u64),
    /// It is not yet decided whether the last one will be stored at the other rank.
    Undecided,
}

impl Kept {
    fn from_word(word: u64) -> Self {
        match word % 2 == 1 || word == 0 {
            true => Self::Posts(word / 2),
            false => Self::Undecided,
        }
    }
}

/// Delivers post number `post` to another rank, if it is not known whether that rank has a contact for this one. `find`
/// looks for that contact and returns it. `kept` is the word for the result in this rank's own contact.
///
/// A rank creates its own contact before it looks for the other's, with a full fence in between. So at least one of two
/// ranks finds the other's contact. If a rank posts and finds no contact, it keeps the post in its own contact; the
/// other rank will look there after it has created its own. If the other rank looks while this rank is still searching,
/// it waits for the decision. So it knows which posts will still be stored in its memory.
pub(super) fn deliver<T>(
    post: u64,
    kept: &impl SharedWord,
    full_fence: impl FnOnce(),
    find: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    kept.publish(2 * post);
    full_fence();
    let found = find()?;
    let is_kept = u64::from(found.is_none());
    kept.publish(2 * (post - 1 + is_kept) + 1);
    Ok(found)
}

#[cfg(all(test, loom))]
mod loom_model;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use super::*;
    use crate::comm::Communicator;
    use crate::peers::{Context, ranks_in_process};
    use crate::raw::{Assert, Window};
    use crate::wait::Patience;
    use crate::window::Info;

    /// More than the first chunk of each holds.
    const RANKS: u32 = 20;

    /// Each rank puts to each other one, in an epoch of all.
    fn meet_all(context: &Arc<Context>) {
        let world = Communicator::world(context);
        let bytes = 8 * RANKS as usize;
        let window = Window::allocate(&world, bytes, 8, &Info::new()).unwrap();
        let (me, everyone) = (u64::from(world.rank()), world.group());
        for round in 1..=3_u64 {
            let value = 1000 * me + round;
            window.post(everyone, Assert::NONE).unwrap();
            window.start(everyone, Assert::NONE).unwrap();
            for rank in 0..RANKS {
                // SAFETY: the value outlives the epoch.
                unsafe { window.put((&raw const value).cast(), 8, rank, me) }.unwrap();
            }
            window.complete().unwrap();
            window.wait().unwrap();
            for rank in 0..RANKS {
                let place = window.base().cast::<u64>().wrapping_add(rank as usize);
                // SAFETY: a word of the window, which nobody writes before the next post.
                assert_eq!(unsafe { place.read() }, 1000 * u64::from(rank) + round);
            }
        }
        window.free().unwrap();
    }

    #[test]
    fn ranks_that_all_meet_find_each_other() {
        for device in ["soft", "soft:map=off", "soft:adversarial"] {
            let ranks = ranks_in_process(device, RANKS, Patience::suspicious());
            thread::scope(|scope| {
                for context in &ranks {
                    scope.spawn(move || meet_all(context));
                }
            });
        }
    }

    #[test]
    fn half_written_keys_are_known() {
        for rank in [0, 1, 254, 255, 256, 0x00ff_ffff, u32::MAX - 1] {
            let bytes = key(rank).to_ne_bytes();
            assert!(is_whole(key(rank)) && key(rank) != 0);
            for written in 1_u32..255 {
                let torn =
                    std::array::from_fn(|at| if written >> at & 1 == 1 { bytes[at] } else { 0 });
                let torn = u64::from_ne_bytes(torn);
                assert!(
                    torn == key(rank) || torn == 0 || !is_whole(torn),
                    "{rank} {written:#b}"
                );
            }
        }
        assert!(is_whole(0));
    }

    /// How much memory contacts take of so many ranks.
    fn bytes_of(ranks: impl Iterator<Item = u32>) -> u64 {
        let mut used = HashMap::new();
        let mut chunks = 0;
        for rank in ranks {
            let has_room = |number: &usize| {
                let group = used.entry((*number, group_at(rank, *number))).or_insert(0);
                *group += 1;
                *group <= IN_GROUP
            };
            let number = (0..CHUNKS as usize).find(has_room).expect("there is room");
            chunks = chunks.max(number + 1);
        }
        (0..chunks).map(|number| groups(number) * GROUP).sum()
    }

    #[test]
    fn memory_grows_with_the_ranks_that_were_met() {
        let near = |count: u32| bytes_of((1..=count / 2).flat_map(|far| [500 + far, 500 - far]));
        assert_eq!(near(4), 256);
        assert!(near(16) <= 1280, "{}", near(16));
        let all = bytes_of(0..32_768);
        assert!(all <= 3 << 20, "{all}");
        assert!(bytes_of((0..64).map(|number| number << 16)) <= 6 << 10);
    }
}
