//! What post, start, complete, wait and notifications need to know of other ranks, and the flags
//! that go there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rdma_sys_shim::Ticket;

use crate::comm::Group;
use crate::error::{Error, Misuse, Result};
use crate::memory::control::LocalWord;
use crate::memory::remote::RemoteMemory;
use crate::wait::Polls;
use crate::window::Window;
use crate::window::target::Target;

/// The other ranks, as far as they are used; nothing is allocated before the first one is.
#[derive(Default)]
pub(crate) struct Pairs {
    table: OnceLock<Table>,
    /// Of `test`.
    pub(super) tests: Polls,
    /// Of `test_notify`.
    pub(crate) polls: Polls,
}

struct Table {
    pairs: Box<[OnceLock<Box<Pair>>]>,
    /// To whom this rank's part is exposed.
    origins: Roll,
    /// To whom `start` gave access.
    targets: Roll,
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
    /// How many exposure epochs this rank has opened to the other.
    posted: AtomicU64,
    /// How many access epochs this rank has started on the other, and how many of them the other was
    /// last told to be complete.
    started: AtomicU64,
    told: AtomicU64,
    /// The last flag that the device may still be working on, or 0.
    sent: AtomicU64,
}

/// The members of an open epoch's group, as ranks of the window, in memory that is allocated once.
pub(super) struct Roll {
    ranks: Box<[AtomicU32]>,
    len: AtomicU32,
    /// Whose members these are: a program that uses one group again and again is served faster.
    group: AtomicU64,
}

impl Roll {
    fn new(most: u32) -> Self {
        Self {
            ranks: (0..most).map(|_| AtomicU32::new(0)).collect(),
            len: AtomicU32::new(0),
            group: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<u32> {
        (index < self.len()).then(|| self.ranks[index as usize].load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks[..self.len() as usize]
            .iter()
            .map(|rank| rank.load(Ordering::Relaxed))
    }
}

impl Pair {
    #[inline]
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// How many exposure epochs the other has opened to this rank, as far as it is known here.
    #[inline]
    pub(super) fn posts(&self) -> u64 {
        self.slot.atomic().load(Ordering::Acquire)
    }

    /// Counts one more access epoch; returns how many that makes.
    #[inline]
    pub(super) fn count_start(&self) -> u64 {
        let started = self.started() + 1;
        self.started.store(started, Ordering::Relaxed);
        started
    }

    /// Tells the other rank, `at` bytes into its block, that one more exposure epoch is open to it.
    #[inline]
    pub(super) fn post(&self, at: u64) -> Result<()> {
        let before = self.posted();
        let posted = before + 1;
        self.posted.store(posted, Ordering::Relaxed);
        let sent = self.control.store(self.block + at, before, posted)?;
        self.note_sent(sent);
        Ok(())
    }

    /// How many exposure epochs this rank has opened to the other.
    #[inline]
    pub(super) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Relaxed)
    }

    /// Whether the other has completed its access epochs in all exposure epochs that this rank has
    /// opened to it.
    #[inline]
    pub(super) fn has_completed(&self) -> bool {
        self.completed.atomic().load(Ordering::Acquire) >= self.posted()
    }

    /// Tells the other rank, `at` bytes into its block, that all access epochs so far are complete:
    /// behind everything that this rank did to it, but what went through the device must be complete
    /// if the word is mapped.
    #[inline]
    pub(super) fn complete(&self, at: u64) -> Result<()> {
        let (before, started) = (self.told.load(Ordering::Relaxed), self.started());
        self.told.store(started, Ordering::Relaxed);
        let sent = (self.control).store_behind(self.block + at, before, started)?;
        self.note_sent(sent);
        Ok(())
    }

    /// Whether the word `at` bytes into the other's block is mapped.
    #[inline]
    fn is_mapped(&self, at: u64) -> bool {
        self.control.atomic(self.block + at).is_some()
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
    pub(super) fn uncount_start(&self) {
        self.started.store(self.started() - 1, Ordering::Relaxed);
    }

    fn last_sent(&self) -> Ticket {
        Ticket(self.sent.load(Ordering::Relaxed))
    }

    #[inline]
    fn note_sent(&self, ticket: Ticket) {
        if ticket != Ticket::DONE {
            self.sent.fetch_max(ticket.0, Ordering::Relaxed);
        }
    }
}

impl Pairs {
    #[inline]
    pub(super) fn known(&self, rank: u32) -> Option<&Pair> {
        let table = self.table.get()?;
        table.pairs[rank as usize].get().map(Box::as_ref)
    }

    fn all_known(&self) -> impl Iterator<Item = (u32, &Pair)> {
        let pairs = self.table.get().map_or(&[][..], |table| &table.pairs);
        (0..)
            .zip(pairs)
            .filter_map(|(rank, pair)| Some((rank, pair.get()?.as_ref())))
    }
}

impl Window {
    /// What is kept of a rank of the window, made now if it was not before.
    #[inline]
    pub(crate) fn pair(&self, operation: &'static str, rank: u32) -> Result<&Pair> {
        match self.pairs().known(rank) {
            Some(pair) => Ok(pair),
            None => self.make_pair(operation, rank),
        }
    }

    #[cold]
    fn make_pair(&self, operation: &'static str, rank: u32) -> Result<&Pair> {
        let peer = self.team().peer(rank);
        let peer = peer.map_err(|error| self.failed(operation, rank, error))?;
        let place = &self.pair_table().pairs[rank as usize];
        Ok(place.get_or_init(|| {
            Box::new(Pair {
                control: peer.control().clone(),
                block: self.block_of(rank),
                slot: self.own_word(self.layout().post_slot(rank)),
                completed: self.own_word(self.layout().completion_slot(rank)),
                posted: AtomicU64::new(0),
                started: AtomicU64::new(0),
                told: AtomicU64::new(0),
                sent: AtomicU64::new(Ticket::DONE.0),
            })
        }))
    }

    /// Waits for what this rank posted to a target, if a flag `at` bytes into its block would overtake
    /// it: a mapped word is stored at once.
    #[inline]
    pub(crate) fn complete_before_flag(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
        pair: &Pair,
        at: u64,
    ) -> Result<()> {
        match target.posted() != Ticket::DONE && pair.is_mapped(at) {
            true => self.complete_posted(operation, rank, target),
            false => Ok(()),
        }
    }

    #[inline]
    fn pair_table(&self) -> &Table {
        self.pairs().table.get_or_init(|| Table {
            pairs: (0..self.ranks()).map(|_| OnceLock::new()).collect(),
            origins: Roll::new(self.ranks()),
            targets: Roll::new(self.ranks()),
        })
    }

    #[inline]
    pub(super) fn origins(&self) -> &Roll {
        &self.pair_table().origins
    }

    #[inline]
    pub(super) fn started_targets(&self) -> &Roll {
        &self.pair_table().targets
    }

    /// Writes the members of `group` into a roll that no epoch uses, and makes their pairs.
    #[inline]
    pub(super) fn call_roll(
        &self,
        operation: &'static str,
        group: &Group,
        roll: &Roll,
    ) -> Result<()> {
        match roll.group.load(Ordering::Relaxed) == group.number() {
            true => Ok(()),
            false => self.call_new_roll(operation, group, roll),
        }
    }

    #[cold]
    fn call_new_roll(&self, operation: &'static str, group: &Group, roll: &Roll) -> Result<()> {
        roll.group.store(0, Ordering::Relaxed);
        // Every rank of the window is in the group at most once, so the roll has room.
        for index in 0..group.size() {
            let rank = self.rank_of_member(operation, group, index)?;
            self.pair(operation, rank)?;
            roll.ranks[index as usize].store(rank, Ordering::Relaxed);
        }
        roll.len.store(group.size(), Ordering::Relaxed);
        roll.group.store(group.number(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether every member of `group` is a rank of the window.
    pub(crate) fn check_group(&self, operation: &'static str, group: &Group) -> Result<()> {
        (0..group.size())
            .try_for_each(|index| self.rank_of_member(operation, group, index).map(drop))
    }

    /// Whether this rank exposes its part to itself if it accesses that.
    pub(crate) fn check_own_part(
        &self,
        operation: &'static str,
        origins: &Group,
        targets: &Group,
    ) -> Result<()> {
        let me = self.context().rank();
        let is_in = |group: &Group| group.rank_of_world(me).is_some();
        if is_in(origins) == is_in(targets) {
            return Ok(());
        }
        let why = "it is in one of the two groups only";
        Err(Error::new(operation, Misuse::WaitsForItself { why }))
    }

    fn rank_of_member(&self, operation: &'static str, group: &Group, index: u32) -> Result<u32> {
        let world_rank = group.world_rank(index).unwrap_or(u32::MAX);
        match self.group().rank_of_world(world_rank) {
            Some(rank) => Ok(rank),
            None => Err(Error::new(
                operation,
                Misuse::NotInWindow {
                    rank: index,
                    world_rank,
                    ranks: self.ranks(),
                },
            )),
        }
    }

    /// Whether what this rank told others about epochs has arrived.
    pub(super) fn flags_have_arrived(&self) -> bool {
        self.pairs().all_known().all(|(_, pair)| {
            let sent = pair.last_sent();
            let endpoint = pair.control.endpoint();
            sent == Ticket::DONE || endpoint.completed(sent).unwrap_or(false)
        })
    }

    /// Waits until what this rank told others about epochs has arrived, before their blocks and its
    /// own are used for something else.
    pub(crate) fn settle_flags(&self, operation: &'static str) -> Result<()> {
        let mut result = Ok(());
        for (rank, pair) in self.pairs().all_known() {
            let arrived = self
                .context()
                .patience()
                .complete(&**pair.control.endpoint(), pair.last_sent());
            result = result.and(arrived.map_err(|error| self.failed(operation, rank, error)));
        }
        // An epoch that was started without a check may be over before its post has arrived here.
        let layout = self.layout();
        let slots = self.pairs().all_known();
        let slots = slots.map(|(rank, pair)| (layout.post_slot(rank), pair.started()));
        self.retire_block_until(slots);
        result.map_err(|error| self.give_up(error))
    }
}
