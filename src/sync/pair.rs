//! The flags that post, start, complete, wait and notifications send to other ranks.

use rdma_sys_shim::Ticket;

use crate::comm::Group;
use crate::error::{Error, Misuse, Result};
use crate::terms::Aim;
use crate::window::pairs::{Pair, PairTable, Roll};
use crate::window::{OnTarget, Window};

impl Window {
    /// What is kept of a rank of the window, made now if it was not before.
    #[inline]
    pub(crate) fn pair(&self, aim: Aim) -> Result<&Pair> {
        match self.pairs.known(aim.rank) {
            Some(pair) => Ok(pair),
            None => aim.aside(|aim| self.make_pair(aim)),
        }
    }

    #[cold]
    fn make_pair(&self, aim: Aim) -> Result<&Pair> {
        let rank = aim.rank;
        let peer = self.team.connect_to(rank);
        let peer = peer.map_err(|error| self.failed(aim, error))?;
        let block = peer.block_in(self.atomic_domain(), self.columns.block.get(rank));
        let (control, block) = block.map_err(|error| self.failed(aim, error))?;
        Ok(self.pair_table().pair_or(rank, || {
            let slot = self.own_word(self.layout.post_slot(rank));
            let completed = self.own_word(self.layout.completion_slot(rank));
            let (layout, me) = (self.layout, self.rank());
            let there = [layout.post_slot(me), layout.completion_slot(me)];
            Pair::new(control, block, there, slot, completed)
        }))
    }

    #[inline]
    pub(super) fn pair_table(&self) -> &PairTable {
        self.pairs.table(self.ranks())
    }

    /// Writes the members of `group` into a roll that no epoch uses, and makes their pairs.
    #[inline]
    pub(super) fn call_roll(
        &self,
        operation: &'static str,
        group: &Group,
        roll: &Roll,
    ) -> Result<()> {
        match roll.is_of(group) {
            true => Ok(()),
            false => self.call_new_roll(operation, group, roll),
        }
    }

    #[cold]
    fn call_new_roll(&self, operation: &'static str, group: &Group, roll: &Roll) -> Result<()> {
        roll.call(group, |index| {
            let rank = self.rank_of_member(operation, group, index)?;
            self.pair(Aim::new(operation, rank))?;
            Ok(rank)
        })
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
        self.pairs.all_known().all(|(_, pair)| {
            let sent = pair.last_sent();
            let endpoint = pair.endpoint();
            sent == Ticket::DONE || endpoint.completed(sent).unwrap_or(false)
        })
    }

    /// Waits until what this rank told others about epochs has arrived, before their blocks and its
    /// own are used for something else.
    pub(crate) fn settle_flags(&self, operation: &'static str) -> Result<()> {
        let mut result = Ok(());
        for (rank, pair) in self.pairs.all_known() {
            let arrived = self
                .context()
                .patience()
                .complete(pair.endpoint(), pair.last_sent());
            let aim = Aim::new(operation, rank);
            result = result.and(arrived.map_err(|error| self.failed(aim, error)));
        }
        // An epoch that was started without a check may be over before its post has arrived here.
        let layout = self.layout;
        let slots = self.pairs.all_known();
        let slots = slots.map(|(rank, pair)| (layout.post_slot(rank), pair.started()));
        self.block.retire_until(slots);
        result.map_err(|error| self.give_up(error))
    }
}

impl<'w> OnTarget<'w> {
    /// What is kept of the target, made now if it was not before.
    #[inline]
    pub(crate) fn pair(self) -> Result<&'w Pair> {
        self.window.pair(self.aim)
    }

    /// Waits for what this rank posted to the target, if a flag there would overtake it: one that is changed
    /// here, at once.
    #[inline]
    pub(crate) fn complete_before_flag(self, is_changed_here: impl FnOnce() -> bool) -> Result<()> {
        match self.target.posted.last() != Ticket::DONE && is_changed_here() {
            true => self.by_call(Self::complete_posted),
            false => Ok(()),
        }
    }
}

/// Local. Checks the groups of an epoch in which this rank posts to `origins` and starts for
/// `targets`.
///
/// # Errors
/// A rank of a group is not in the window; this one is in one of the groups only, and would wait for
/// itself.
pub fn check_groups(
    window: &Window,
    operation: &'static str,
    origins: &Group,
    targets: &Group,
) -> Result<()> {
    for group in [origins, targets] {
        for index in 0..group.size() {
            window.rank_of_member(operation, group, index)?;
        }
    }
    let me = window.context().rank();
    let is_in = |group: &Group| group.place_of(me).is_some();
    if is_in(origins) == is_in(targets) {
        return Ok(());
    }
    let why = "it is in one of the two groups only";
    Err(Error::new(operation, Misuse::WaitsForItself { why }))
}
