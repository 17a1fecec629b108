//! What post, start, complete, wait and notifications keep of each other rank: who was told what, and
//! how far it has come.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rdma_sys_shim::memory::full_fence;
use rdma_sys_shim::{Endpoint, Ticket};

use super::contacts::{Contact, ContactThere, Contacts, Kept, deliver, find};
use crate::comm::Group;
use crate::error::{Error, Result};
use crate::liveness::Polls;
use crate::memory::control::ControlBlock;
use crate::memory::once_table::OnceTable;
use crate::memory::remote::RemoteMemory;
use crate::memory::word::SharedWord;

/// The other ranks, allocated on first use.
#[derive(Default)]
pub(crate) struct Pairs {
    table: OnceLock<PairTable>,
    /// Calls of `test`.
    pub(crate) tests: Polls,
    /// Calls of `test_notify`.
    pub(crate) polls: Polls,
}

/// A place for each rank of the window; only those of used ranks touch memory.
pub(crate) struct PairTable {
    pairs: OnceTable<Pair>,
    /// The ranks to which this rank's part is exposed.
    pub(crate) origins: Roll,
    /// The ranks to which `start` gave access.
    pub(crate) targets: Roll,
    pub(crate) contacts: Contacts,
    /// Held while a contact is created: two threads must not create two for one rank.
    pub(crate) contacting: Mutex<()>,
}

/// This rank and one other rank.
pub(crate) struct Pair {
    control: Arc<RemoteMemory>,
    /// The place of the window's block in it.
    block: u64,
    /// This rank's contact for the other, if it posts or starts with it. The other rank writes to it how often it has
    /// posted, and how many access epochs it has completed.
    own: OnceLock<Contact>,
    /// The other rank's contact for this one, once found.
    there: OnceLock<ContactThere>,
    /// The number of posts that the other rank has kept in its contact, once known. Later posts are stored in this
    /// rank's contact.
    kept: OnceLock<u64>,
    /// The number of exposure epochs that this rank has opened to the other.
    posted: AtomicU64,
    /// The number of access epochs that this rank has started on the other.
    started: AtomicU64,
    /// The last flag that the device may still be working on, or 0.
    sent: AtomicU64,
}

/// The members of an open epoch's group, as ranks of the window, in memory that is allocated once.
pub(crate) struct Roll {
    ranks: Box<[AtomicU32]>,
    len: AtomicU32,
    /// The group of these members: programs that reuse a group are served faster.
    group: AtomicU64,
}

impl Roll {
    fn new(most: u32) -> Self {
        Self {
            ranks: bytemuck::zeroed_slice_box(most as usize),
            len: AtomicU32::new(0),
            group: AtomicU64::new(0),
        }
    }

    const fn bytes(most: u32) -> u64 {
        most as u64 * size_of::<AtomicU32>() as u64
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<u32> {
        (index < self.len()).then(|| self.ranks[index as usize].load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks[..self.len() as usize]
            .iter()
            .map(|rank| rank.load(Ordering::Relaxed))
    }

    /// Whether it already holds the members of this group.
    #[inline]
    pub(crate) fn is_of(&self, group: &Group) -> bool {
        self.group.load(Ordering::Relaxed) == group.number()
    }

    /// Stores the members of a group. `member` returns the rank at a place in the group; each rank of the window occurs
    /// at most once.
    pub(crate) fn call(
        &self,
        group: &Group,
        mut member: impl FnMut(u32) -> Result<u32>,
    ) -> Result<()> {
        self.group.store(0, Ordering::Relaxed);
        for index in 0..group.size() {
            // A member that is not in the window causes an error here, so there are at most as many members as places.
            let rank = member(index)?;
            self.ranks[index as usize].store(rank, Ordering::Relaxed);
        }
        self.len.store(group.size(), Ordering::Relaxed);
        self.group.store(group.number(), Ordering::Relaxed);
        Ok(())
    }
}

impl Pair {
    /// `block`: the place of the window's block in the other rank's control memory.
    pub(crate) fn new((control, block): (Arc<RemoteMemory>, u64)) -> Self {
        Self {
            control,
            block,
            own: OnceLock::new(),
            there: OnceLock::new(),
            kept: OnceLock::new(),
            posted: AtomicU64::new(0),
            started: AtomicU64::new(0),
            sent: AtomicU64::new(Ticket::DONE.0),
        }
    }

    #[inline]
    pub(crate) fn has_contact(&self) -> bool {
        self.own.get().is_some()
    }

    /// Stores this rank's contact, which was just created.
    pub(crate) fn set_contact(&self, contact: Contact) {
        let _ = self.own.set(contact);
    }

    /// The other rank's contact for this one, if it is known or can now be found. `chunk` and `garbled`: see [`find`].
    pub(crate) fn find_there(
        &self,
        me: u32,
        chunk: impl Fn(u64) -> Result<(Arc<RemoteMemory>, u64)>,
        garbled: impl Fn() -> Error,
    ) -> Result<Option<&ContactThere>> {
        if let Some(known) = self.there.get() {
            return Ok(Some(known));
        }
        let found = find(me, (&self.control, self.block), chunk, garbled)?;
        Ok(found.map(|found| self.there.get_or_init(|| found)))
    }

    #[inline]
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether the other rank is known here to have opened `epochs` exposure epochs to this one.
    #[inline]
    pub(crate) fn has_posted(&self, epochs: u64) -> bool {
        let own = self.own.get();
        own.is_some_and(|own| own.posts.atomic().load(Ordering::Acquire) >= epochs)
            || self.kept.get().is_some_and(|&kept| kept >= epochs)
    }

    /// Whether it is known which posts the other rank keeps; it stores all others here.
    #[inline]
    pub(crate) fn knows_kept(&self) -> bool {
        self.kept.get().is_some()
    }

    /// Finds out which posts the other rank keeps; `find` looks for its contact. If the other had no contact after this
    /// rank had created its own, or one post was stored here, all later ones are stored here.
    pub(crate) fn find_kept<'p>(
        &'p self,
        find: impl FnOnce() -> Result<Option<&'p ContactThere>>,
    ) -> Result<()> {
        let kept = match self.has_posted(1) {
            true => Kept::Posts(0),
            false => find()?.map_or(Ok(Kept::Posts(0)), ContactThere::kept)?,
        };
        if let Kept::Posts(kept) = kept {
            let _ = self.kept.set(kept);
        }
        Ok(())
    }

    /// A post for which this rank has started, and that is still to be stored in its contact: the word and the number.
    pub(crate) fn awaited_post(&self) -> Option<(&ControlBlock, u64, u64)> {
        let started = self.started();
        let (block, at) = self.own.get()?.posts_word();
        (!self.has_posted(started)).then_some((block, at, started))
    }

    /// Counts one more access epoch; returns the new count.
    #[inline]
    pub(crate) fn count_start(&self) -> u64 {
        let started = self.started() + 1;
        self.started.store(started, Ordering::Relaxed);
        started
    }

    /// Tells the other rank that one more exposure epoch is open to it; `find` looks for its contact.
    #[inline]
    pub(crate) fn post<'p>(
        &'p self,
        find: impl FnOnce() -> Result<Option<&'p ContactThere>>,
    ) -> Result<()> {
        let posted = self.posted() + 1;
        self.posted.store(posted, Ordering::Relaxed);
        let there = match (self.there.get(), self.own.get()) {
            (None, Some(own)) => deliver(posted, own.kept.atomic(), full_fence, find)?,
            (known, _) => known,
        };
        if let Some(there) = there {
            self.note_sent(there.posts.store(posted)?);
        }
        Ok(())
    }

    /// The number of exposure epochs that this rank has opened to the other.
    #[inline]
    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Relaxed)
    }

    /// Whether the other rank has completed its access epochs for all exposure epochs that this rank has opened to it.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        let own = self.own.get();
        own.is_some_and(|own| own.completions.atomic().observe() >= self.posted())
    }

    /// Tells the other rank, in its contact, that all access epochs so far are complete. This becomes visible after
    /// everything that this rank did to it. If it is [stored by the processor](ContactThere::is_completed_here),
    /// operations of the device must already be complete.
    #[inline]
    pub(crate) fn complete(&self, there: &ContactThere) -> Result<()> {
        let sent = there.completions.store(self.started())?;
        self.note_sent(sent);
        Ok(())
    }

    /// The other rank's contact for this one, if it was found.
    #[inline]
    pub(crate) fn there(&self) -> Option<&ContactThere> {
        self.there.get()
    }

    /// See [`RemoteMemory::is_raised_here`]; for the word at offset `at` of the other rank's block.
    #[inline]
    pub(crate) fn is_raised_here(&self, at: u64) -> bool {
        self.control.is_raised_here(self.block + at)
    }

    /// Adds one to the word at offset `at` of the other rank's block; see [`RemoteMemory::raise`].
    #[inline]
    pub(crate) fn raise(&self, at: u64) -> Result<Ticket> {
        let sent = self.control.raise(self.block + at)?;
        self.note_sent(sent);
        Ok(sent)
    }

    /// Undoes [`Pair::count_start`], for an epoch that the other rank never opened.
    #[cold]
    pub(crate) fn uncount_start(&self) {
        self.started.store(self.started() - 1, Ordering::Relaxed);
    }

    /// The last flag that may still be in flight.
    pub(crate) fn last_sent(&self) -> Ticket {
        Ticket(self.sent.load(Ordering::Relaxed))
    }

    /// The endpoint that carries its flags.
    pub(crate) fn endpoint(&self) -> &dyn Endpoint {
        &**self.control.endpoint()
    }

    #[inline]
    fn note_sent(&self, ticket: Ticket) {
        if ticket != Ticket::DONE {
            self.sent.fetch_max(ticket.0, Ordering::Relaxed);
        }
    }
}

impl Pairs {
    /// The table of a window of `ranks` ranks.
    #[inline]
    pub(crate) fn table(&self, ranks: u32) -> &PairTable {
        self.table.get_or_init(|| PairTable {
            pairs: OnceTable::new(ranks),
            origins: Roll::new(ranks),
            targets: Roll::new(ranks),
            contacts: Contacts::default(),
            contacting: Mutex::default(),
        })
    }

    #[inline]
    pub(crate) fn known(&self, rank: u32) -> Option<&Pair> {
        self.table.get()?.pairs.get(rank)
    }

    /// The control memory of this rank that the pairs use.
    pub(crate) fn blocks(&self) -> Vec<Arc<ControlBlock>> {
        let table = self.table.get();
        table.map_or_else(Vec::new, |table| table.contacts.blocks())
    }

    pub(crate) fn all_known(&self) -> impl Iterator<Item = (u32, &Pair)> {
        let table = self.table.get().into_iter();
        table.flat_map(|table| table.pairs.iter())
    }
}

impl PairTable {
    /// The memory that a table takes without the pairs, once all of it is touched.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        OnceTable::<Pair>::bytes(ranks) + 2 * Roll::bytes(ranks)
    }

    /// The pair with a rank, created if it does not exist.
    pub(crate) fn pair_or(&self, rank: u32, make: impl FnOnce() -> Pair) -> &Pair {
        match self.pairs.get(rank) {
            Some(pair) => pair,
            None => self.pairs.set(rank, make()),
        }
    }
}
