//! The flags that post, start, complete, wait and notifications send to other ranks.

use std::ptr;

use rdma_sys_shim::Ticket;
use rdma_sys_shim::memory::full_fence;

use crate::comm::Group;
use crate::error::{Error, Misuse, PeerError, Result};
use crate::memory::control::may_be_block;
use crate::terms::{Aim, WorldRank};
use crate::wait::lock;
use crate::window::contacts::ContactThere;
use crate::window::pairs::{Pair, PairTable, Roll};
use crate::window::{OnTarget, Window};

impl Window {
    /// The pair with a rank of the window, created if it does not exist.
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
        let block = self.block_of(rank);
        let block = block.map_err(|error| self.failed(aim, error))?;
        Ok(self.pair_table().pair_or(rank, || Pair::new(block)))
    }

    /// As [`Window::pair`], with a contact.
    #[inline]
    pub(super) fn contact(&self, aim: Aim) -> Result<&Pair> {
        let pair = self.pair(aim)?;
        if !pair.has_contact() {
            aim.aside(|aim| self.make_contact(aim, pair))?;
        }
        Ok(pair)
    }

    #[cold]
    fn make_contact(&self, aim: Aim, pair: &Pair) -> Result<()> {
        let table = self.pair_table();
        let _alone = lock(&table.contacting);
        if !pair.has_contact() {
            let control = &self.team.fabric.control;
            let contact = table.contacts.add(control, &self.block, aim.rank);
            // The others wait for this rank.
            let contact = contact.map_err(|error| self.give_up(error.during(aim.operation)))?;
            pair.set_contact(contact);
        }
        Ok(())
    }

    /// The contact of the rank of `aim` for this one, if it exists; this rank has created its own.
    #[cold]
    pub(super) fn find_there<'p>(
        &self,
        aim: Aim,
        pair: &'p Pair,
    ) -> Result<Option<&'p ContactThere>> {
        let peer = self.team.connect_to(aim.rank)?;
        let world_rank = self.team.world_rank(aim.rank);
        let garbled = || {
            let (WorldRank(rank), what) = (world_rank, "its contacts");
            Error::new(aim.operation, PeerError::Garbled { rank, what })
        };
        let chunk = |place| match may_be_block(place) {
            true => peer.block_in(self.atomic_domain(), place),
            false => Err(garbled()),
        };
        full_fence();
        pair.find_there(self.rank(), chunk, garbled)
    }

    /// Finds out which posts the rank of `aim` has kept for this one, unless that is known.
    #[cold]
    pub(super) fn find_kept(&self, aim: Aim, pair: &Pair) -> Result<()> {
        let found = pair.find_kept(|| self.find_there(aim, pair));
        found.map_err(|error| self.failed(aim, error))
    }

    #[inline]
    pub(super) fn pair_table(&self) -> &PairTable {
        self.pairs.table(self.ranks())
    }

    /// Writes the members of `group` into a roll that no epoch uses, and creates their pairs.
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
            self.contact(Aim::new(operation, rank))?;
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

    /// Whether this rank's flags about epochs have arrived.
    pub(super) fn flags_have_arrived(&self) -> bool {
        self.pairs.all_known().all(|(_, pair)| {
            let sent = pair.last_sent();
            let endpoint = pair.endpoint();
            sent == Ticket::DONE || endpoint.completed(sent).unwrap_or(false)
        })
    }

    /// Waits until this rank's flags about epochs have arrived, before the others' blocks and its own are reused.
    pub(crate) fn await_flags(&self, operation: &'static str) -> Result<()> {
        let mut result = Ok(());
        for (rank, pair) in self.pairs.all_known() {
            let arrived = self
                .context()
                .patience()
                .complete(pair.endpoint(), pair.last_sent());
            let aim = Aim::new(operation, rank);
            result = result.and(arrived.map_err(|error| self.failed(aim, error)));
        }
        // An epoch that was started without a check may end before its post has arrived here.
        let posts = || (self.pairs.all_known()).filter_map(|(_, pair)| pair.awaited_post());
        if posts().next().is_some() {
            for block in self.pairs.blocks() {
                let own = posts().filter(|(of, ..)| ptr::eq(*of, &*block));
                block.retire_until(own.map(|(_, at, value)| (at, value)));
            }
        }
        result.map_err(|error| self.give_up(error))
    }
}

impl<'w> OnTarget<'w> {
    /// The pair with the target, created if it does not exist.
    #[inline]
    pub(crate) fn pair(self) -> Result<&'w Pair> {
        self.window.pair(self.aim)
    }

    /// Waits for operations that this rank posted to the target, if a flag would overtake them: a flag that the
    /// processor stores at once.
    #[inline]
    pub(crate) fn complete_before_flag(self, is_changed_here: impl FnOnce() -> bool) -> Result<()> {
        match self.target.posted.last() != Ticket::DONE && is_changed_here() {
            true => self.by_call(Self::complete_posted),
            false => Ok(()),
        }
    }
}

/// Local. Checks the groups of an epoch in which this rank posts to `origins` and starts for `targets`.
///
/// # Errors
/// A rank of a group is not in the window; this rank is in only one of the groups, and would wait for itself.
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
