//! What post, start, complete, wait and notifications keep of each other rank: who was told what, and
//! how far it has come.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rdma_sys_shim::{Endpoint, Ticket};

use crate::comm::Group;
use crate::error::Result;
use crate::liveness::Polls;
use crate::memory::control::LocalWord;
use crate::memory::once_table::OnceTable;
use crate::memory::remote::{RemoteMemory, RemoteWord};
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
}

/// This rank and another one.
pub(crate) struct Pair {
    control: Arc<RemoteMemory>,
    /// Where the window's block stands in it.
    block: u64,
    /// How many exposure epochs the other has opened to this rank.
    slot: LocalWord,
    /// How many access epochs the other has completed on this rank.
    completed: LocalWord,
    /// Where the other counts the exposure epochs that this rank has opened to it, and the access epochs that this
    /// rank has completed on it.
    slot_there: RemoteWord,
    completed_there: RemoteWord,
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
    /// `block`: where the window's block stands in the other's control region, and in that the slot that this rank
    /// posts to and the one for what it completes. The two words are this rank's own.
    pub(crate) fn new(
        control: Arc<RemoteMemory>,
        block: u64,
        [post_slot, completion_slot]: [u64; 2],
        slot: LocalWord,
        completed: LocalWord,
    ) -> Self {
        Self {
            slot_there: control.word(block + post_slot),
            completed_there: control.word(block + completion_slot),
            control,
            block,
            slot,
            completed,
            posted: AtomicU64::new(0),
            started: AtomicU64::new(0),
            sent: AtomicU64::new(Ticket::DONE.0),
        }
    }

    #[inline]
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// How many exposure epochs the other has opened to this rank, as far as it is known here.
    #[inline]
    pub(crate) fn posts(&self) -> u64 {
        self.slot.atomic().load(Ordering::Acquire)
    }

    /// Counts one more access epoch; returns how many that makes.
    #[inline]
    pub(crate) fn count_start(&self) -> u64 {
        let started = self.started() + 1;
        self.started.store(started, Ordering::Relaxed);
        started
    }

    /// Tells the other rank that one more exposure epoch is open to it.
    #[inline]
    pub(crate) fn post(&self) -> Result<()> {
        let posted = self.posted() + 1;
        self.posted.store(posted, Ordering::Relaxed);
        let sent = self.slot_there.store(posted)?;
        self.note_sent(sent);
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
        self.completed.atomic().observe() >= self.posted()
    }

    /// Tells the other rank that all access epochs so far are complete: behind everything that this rank did to it,
    /// but what went through the device must be complete if that is [told here](Pair::completes_here).
    #[inline]
    pub(crate) fn complete(&self) -> Result<()> {
        let sent = self.completed_there.store(self.started())?;
        self.note_sent(sent);
        Ok(())
    }

    /// Whether what [`Pair::complete`] stores does not go through the device.
    #[inline]
    pub(crate) fn completes_here(&self) -> bool {
        self.completed_there.is_stored_here()
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
        })
    }

    #[inline]
    pub(crate) fn known(&self, rank: u32) -> Option<&Pair> {
        self.table.get()?.pairs.get(rank)
    }

    pub(crate) fn all_known(&self) -> impl Iterator<Item = (u32, &Pair)> {
        let table = self.table.get().into_iter();
        table.flat_map(|table| table.pairs.iter())
    }
}

impl PairTable {
    /// The pair with a rank, made now if it was not before.
    pub(crate) fn pair_or(&self, rank: u32, make: impl FnOnce() -> Pair) -> &Pair {
        match self.pairs.get(rank) {
            Some(pair) => pair,
            None => self.pairs.set(rank, make()),
        }
    }
}
