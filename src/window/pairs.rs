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

/// The other ranks, as far as they are used; nothing is allocated before the first one is.
#[derive(Default)]
pub(crate) struct Pairs {
    table: OnceLock<PairTable>,
    /// Of `test`.
    pub(crate) tests: Polls,
    /// Of `test_notify`.
    pub(crate) polls: Polls,
}

/// A place for each rank of the window; memory is touched for those that are used.
pub(crate) struct PairTable {
    pairs: OnceTable<Pair>,
    /// To whom this rank's part is exposed.
    pub(crate) origins: Roll,
    /// To whom `start` gave access.
    pub(crate) targets: Roll,
    pub(crate) contacts: Contacts,
    /// Held while a contact is made: two threads must not make two for one rank.
    pub(crate) contacting: Mutex<()>,
}

/// This rank and another one.
pub(crate) struct Pair {
    control: Arc<RemoteMemory>,
    /// Where the window's block stands in it.
    block: u64,
    /// This rank's contact for the other, if it posts or starts with it; the other writes there how often it has posted, and
    /// how many access epochs it has completed.
    own: OnceLock<Contact>,
    /// The other's for this rank, once it was found.
    there: OnceLock<ContactThere>,
    /// How many posts the other has kept in its contact, once that is known: those after them come to this rank's.
    kept: OnceLock<u64>,
    /// How many exposure epochs this rank has opened to the other.
    posted: AtomicU64,
    /// How many access epochs this rank has started on the other.
    started: AtomicU64,
    /// The last flag that the device may still be working on, or 0.
    sent: AtomicU64,
}

/// The members of an open epoch's group, as ranks of the window, in memory that is allocated once.
pub(crate) struct Roll {
    ranks: Box<[AtomicU32]>,
    len: AtomicU32,
    /// Whose members these are: a program that uses one group again and again is served faster.
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

    /// Whether it holds the members of this group already.
    #[inline]
    pub(crate) fn is_of(&self, group: &Group) -> bool {
        self.group.load(Ordering::Relaxed) == group.number()
    }

    /// Writes down the members of a group, which `member` names by their places in it; each is a rank of
    /// the window once at most.
    pub(crate) fn call(
        &self,
        group: &Group,
        mut member: impl FnMut(u32) -> Result<u32>,
    ) -> Result<()> {
        self.group.store(0, Ordering::Relaxed);
        for index in 0..group.size() {
            // One that is no rank of the window fails here; of those, there are no more than places.
            let rank = member(index)?;
            self.ranks[index as usize].store(rank, Ordering::Relaxed);
        }
        self.len.store(group.size(), Ordering::Relaxed);
        self.group.store(group.number(), Ordering::Relaxed);
        Ok(())
    }
}

impl Pair {
    /// `block`: where the window's block stands in the other's control memory.
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

    /// Keeps this rank's contact, which was made just now.
    pub(crate) fn set_contact(&self, contact: Contact) {
        let _ = self.own.set(contact);
    }

    /// The other's contact for this rank, if it is known or there now. `chunk` and `garbled`: as of [`find`].
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

    /// Whether the other has opened so many exposure epochs to this rank, as far as it is known here.
    #[inline]
    pub(crate) fn has_posted(&self, epochs: u64) -> bool {
        let own = self.own.get();
        own.is_some_and(|own| own.posts.atomic().load(Ordering::Acquire) >= epochs)
            || self.kept.get().is_some_and(|&kept| kept >= epochs)
    }

    /// Whether it is known which posts the other keeps: all others are told.
    #[inline]
    pub(crate) fn knows_kept(&self) -> bool {
        self.kept.get().is_some()
    }

    /// Finds out which posts the other keeps; `find` looks for its contact. If none was there after this rank had made its own,
    /// or one post was told, all later ones are.
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

    /// A post that this rank started on, and that has still to be stored in its contact: where, and the number.
    pub(crate) fn awaited_post(&self) -> Option<(&ControlBlock, u64, u64)> {
        let started = self.started();
        let (block, at) = self.own.get()?.posts_word();
        (!self.has_posted(started)).then_some((block, at, started))
    }

    /// Counts one more access epoch; returns how many that makes.
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

    /// How many exposure epochs this rank has opened to the other.
    #[inline]
    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Relaxed)
    }

    /// Whether the other has completed its access epochs in all exposure epochs that this rank has
    /// opened to it.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        let own = self.own.get();
        own.is_some_and(|own| own.completions.atomic().observe() >= self.posted())
    }

    /// Tells the other rank, in its contact, that all access epochs so far are complete: behind everything that this rank did
    /// to it, but what went through the device must be complete if that is [told here](ContactThere::is_completed_here).
    #[inline]
    pub(crate) fn complete(&self, there: &ContactThere) -> Result<()> {
        let sent = there.completions.store(self.started())?;
        self.note_sent(sent);
        Ok(())
    }

    /// The other's contact for this rank, if it was found.
    #[inline]
    pub(crate) fn there(&self) -> Option<&ContactThere> {
        self.there.get()
    }

    /// As [`RemoteMemory::is_raised_here`], of the word `at` bytes into the other's block.
    #[inline]
    pub(crate) fn is_raised_here(&self, at: u64) -> bool {
        self.control.is_raised_here(self.block + at)
    }

    /// Adds one to the word `at` bytes into the other's block; see [`RemoteMemory::raise`].
    #[inline]
    pub(crate) fn raise(&self, at: u64) -> Result<Ticket> {
        let sent = self.control.raise(self.block + at)?;
        self.note_sent(sent);
        Ok(sent)
    }

    /// Takes back what [`Pair::count_start`] counted, for an epoch that the other never opened.
    #[cold]
    pub(crate) fn uncount_start(&self) {
        self.started.store(self.started() - 1, Ordering::Relaxed);
    }

    /// The last flag that may still be under way.
    pub(crate) fn last_sent(&self) -> Ticket {
        Ticket(self.sent.load(Ordering::Relaxed))
    }

    /// By what its flags go.
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
    /// The table of a window of so many ranks.
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

    /// What of this rank's control memory the pairs take.
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
    /// How much memory a table takes, once all of it is touched, without the pairs.
    pub(crate) const fn bytes(ranks: u32) -> u64 {
        OnceTable::<Pair>::bytes(ranks) + 2 * Roll::bytes(ranks)
    }

    /// The pair with a rank, made now if it was not before.
    pub(crate) fn pair_or(&self, rank: u32, make: impl FnOnce() -> Pair) -> &Pair {
        match self.pairs.get(rank) {
            Some(pair) => pair,
            None => self.pairs.set(rank, make()),
        }
    }
}
