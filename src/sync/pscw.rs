//! Post, start, complete, wait: epochs between the ranks of two groups, and nobody else.
//!
//! Post and start need no atomics. Each rank keeps a contact for each other rank with which it posts or starts. The
//! other rank alone writes its counts, such as how many exposure epochs it has opened to this rank. Start counts the
//! access epochs, and a target may be accessed once the target's count has reached this count.
//!
//! Complete stores the same count in a second word at each target, after this rank's operations there. Wait ends when
//! each origin's count has reached the number of epochs that were opened to it. So a rank knows which origins have
//! completed, including those that have left the job properly.
//!
//! Counts have 64 bits and never wrap; assertions skip waits, never a count.
//!
//! `complete` waits for the posts of targets that were not used, since their completion would otherwise count for an
//! earlier epoch. It does not wait for the arrival of its flags; `free` does. If a target never posted, `complete`
//! takes the count back, so that later epochs still work. An exposure epoch cannot be undone in this way, since other
//! ranks know of it.

use std::sync::atomic::{Ordering, fence};

use super::Assert;
use super::flush::behind_gets;
use crate::comm::Group;
use crate::diagnostics::{self, TracedEpoch};
use crate::error::{EpochState, Error, ErrorKind, Misuse, Result};
use crate::liveness::Awaited;
use crate::peers::not_forked;
use crate::terms::Aim;
use crate::wait::Verdict;
use crate::window::contacts::ContactThere;
use crate::window::pairs::{Pair, Roll};
use crate::window::{Mode, OnTarget, Window};

impl Window {
    /// One-sided. Opens an exposure epoch of this rank's part to the ranks of `group`. Each of them may access it once,
    /// from its [`Window::start`] to its [`Window::complete`], and sees this rank's earlier stores there. Waits only
    /// for connections to new ranks, and for data that they have about this rank (MPI-4.1, section 12.5.2).
    ///
    /// Any group of ranks of the window is legal, even an empty one. If this rank is in the group, it has to access
    /// itself. A rank that waits for itself gets an error if calls do not overlap
    /// ([`ThreadLevel::Serialized`](crate::ThreadLevel)); otherwise it waits for another thread. The assertions have no
    /// effect: even without [`Assert::NO_CHECK`], this is one store for each origin after their first contact.
    ///
    /// # Errors
    /// An exposure epoch is already open; an epoch of fence or `lock_all` is open, or this rank has locked its own
    /// part; a rank of `group` is not in the window; a rank died; out of memory for a new rank's contact, which ends
    /// the job.
    pub fn post(&self, group: &Group, assert: Assert) -> Result<()> {
        const OPERATION: &str = "post";
        not_forked(OPERATION)?;
        assert.check(OPERATION, Assert::OF_POST)?;
        let (epochs, me) = (&self.epochs, self.rank());
        let own = self.targets[me as usize].epoch();
        epochs.check_post(Aim::new(OPERATION, me), own)?;
        self.context().check_unaccompanied(OPERATION)?;
        let origins = &self.pair_table().origins;
        self.call_roll(OPERATION, group, origins)?;
        epochs.post();
        for rank in origins.iter() {
            let aim = Aim::new(OPERATION, rank);
            let told = self.pair(aim);
            let told = told.and_then(|pair| pair.post(|| self.find_there(aim, pair)));
            told.map_err(|error| aim.aside(|aim| self.give_up(self.failed(aim, error))))?;
        }
        self.count_flags(origins);
        self.count_by(|counters| counters.begin_epoch(TracedEpoch::Post));
        Ok(())
    }

    /// One-sided. Opens an access epoch of the ranks of `group`. Each of them exposes its part by a [`Window::post`] to
    /// a group that contains this rank (MPI-4.1, section 12.5.2).
    ///
    /// Waits only for connections to new ranks, and for data that they have about this rank. The first operation on a
    /// target waits for its post, so that no rank waits for a target before it is needed. `complete` waits for the
    /// posts of unused targets.
    ///
    /// With [`Assert::NO_CHECK`] nothing waits: all targets have posted, and this rank was told so by other means. (The
    /// first time on a target, it is checked whether its call has returned.) Loads and stores through a pointer of
    /// [`Window::shared_query`] are not operations, and so do not wait either. MPI lets start return before the post,
    /// so the program has to learn of the post first, for example by a get.
    ///
    /// # Errors
    /// An access epoch is already open, by `start`, fence, `lock_all` or a lock; a rank of `group` is not in the
    /// window; a rank died; out of memory for a new rank's contact, which ends the job.
    pub fn start(&self, group: &Group, assert: Assert) -> Result<()> {
        const OPERATION: &str = "start";
        not_forked(OPERATION)?;
        assert.check(OPERATION, Assert::OF_START)?;
        let epochs = &self.epochs;
        epochs.check_start(OPERATION)?;
        self.context().check_unaccompanied(OPERATION)?;
        let targets = &self.pair_table().targets;
        self.call_roll(OPERATION, group, targets)?;
        let unchecked = assert.contains(Assert::NO_CHECK);
        if unchecked {
            // Posts that a target kept before it met this rank are not looked for later.
            for rank in targets.iter() {
                self.on(Aim::new(OPERATION, rank)).await_first_post()?;
            }
        }
        epochs.next_serial();
        for rank in targets.iter() {
            let on = self.on(Aim::new(OPERATION, rank));
            epochs.start_on(on.epoch());
            let pair = on.pair()?;
            let started = pair.count_start();
            let may_enter = unchecked || pair.has_posted(started);
            if may_enter && on.target.route().is_some() {
                epochs.enter(on.epoch());
            }
        }
        fence(Ordering::Acquire);
        epochs.start(unchecked);
        self.count_by(|counters| counters.begin_epoch(TracedEpoch::Start));
        Ok(())
    }

    /// One-sided. Closes the access epoch that [`Window::start`] opened. When it returns, the buffers of this rank's
    /// operations may be used again, and fetched data has arrived. Puts are complete at their targets when the targets'
    /// [`Window::wait`] returns (MPI-4.1, section 12.5.2).
    ///
    /// # Errors
    /// No epoch of `start` is open: nothing has changed. An operation failed; a target died; a target that has not
    /// posted is in a fence or `free`, where it waits for this rank: after these errors too, the epoch is closed at all
    /// targets that have posted.
    pub fn complete(&self) -> Result<()> {
        const OPERATION: &str = "complete";
        not_forked(OPERATION)?;
        let epochs = &self.epochs;
        epochs.check_complete(OPERATION)?;
        let _call = self.in_shown_call(OPERATION, None);
        let targets = &self.pair_table().targets;
        if epochs.mode() == Mode::Started && targets.iter().any(|rank| rank == self.rank()) {
            self.has_own_post(OPERATION)?;
        }
        let mut result = Ok(());
        for rank in targets.iter() {
            // If the job ends, no rank needs the remaining flags; if one target does not post, the other targets do
            // need them.
            if !result.as_ref().is_err_and(ends_job) {
                result = result.and(self.on(Aim::new(OPERATION, rank)).signal_complete());
            }
        }
        if self.device_used() {
            for rank in targets.iter() {
                result = result.and(self.on(Aim::new(OPERATION, rank)).flush_locally());
            }
        }
        self.count_flags(targets);
        for rank in targets.iter() {
            epochs.let_go(self.targets[rank as usize].epoch());
        }
        behind_gets();
        epochs.end_access();
        self.count_by(|counters| counters.end_epoch(TracedEpoch::Start));
        result.map_err(|error| self.give_up(error))
    }

    /// One-sided. Closes the exposure epoch that [`Window::post`] opened: waits until every origin has completed its
    /// access epoch. Its operations are then complete here (MPI-4.1, section 12.5.2).
    ///
    /// # Errors
    /// No epoch of `post` is open; an origin died or left, or is in a fence or `free`, where it waits for this rank.
    /// Then the epoch stays open: other ranks may still access this rank's part.
    pub fn wait(&self) -> Result<()> {
        const OPERATION: &str = "wait";
        not_forked(OPERATION)?;
        self.epochs.check_wait(OPERATION)?;
        let _call = self.in_shown_call(OPERATION, None);
        if !self.count_completions() {
            self.awaits_others(OPERATION)?;
            self.context().patience().wait(
                || Ok(self.count_completions()),
                || self.check_origins(OPERATION),
            )?;
        }
        self.epochs.wait();
        self.count_by(|counters| counters.end_epoch(TracedEpoch::Post));
        Ok(())
    }

    /// Local. As [`Window::wait`], without waiting: true if this call closed the exposure epoch (MPI-4.1, section
    /// 12.5.2, `MPI_Win_test`). Then it must not be called again before the next [`Window::post`].
    ///
    /// # Errors
    /// As for [`Window::wait`]; repeated calls notice the death of an origin.
    pub fn test(&self) -> Result<bool> {
        const OPERATION: &str = "test";
        not_forked(OPERATION)?;
        self.epochs.check_wait(OPERATION)?;
        let closed = self.pairs.tests.poll(
            || Ok(self.count_completions()),
            || self.check_origins(OPERATION),
        )?;
        if closed {
            self.epochs.wait();
            self.count_by(|counters| counters.end_epoch(TracedEpoch::Post));
        }
        Ok(closed)
    }

    /// Counts a flag for each of these ranks that has a contact, if traffic is counted.
    #[inline]
    fn count_flags(&self, roll: &Roll) {
        if diagnostics::counts_traffic() {
            let pairs = roll.iter().filter_map(|rank| self.pairs.known(rank));
            for there in pairs.filter_map(Pair::there) {
                diagnostics::note_flag(there.is_completed_here());
            }
        }
    }

    /// Fails if this rank itself has not posted to itself, and no other thread can do so.
    #[cold]
    fn has_own_post(&self, operation: &'static str) -> Result<()> {
        let pair = self.pair(Aim::new(operation, self.rank()))?;
        if pair.posted() >= pair.started() || self.context().concurrent() {
            return Ok(());
        }
        let why = "it is in the group of its start, and has not posted to itself";
        Err(Error::new(operation, Misuse::WaitsForItself { why }))
    }

    /// Fails if this rank itself has not completed, and no other thread can do so.
    #[cold]
    fn awaits_others(&self, operation: &'static str) -> Result<()> {
        let is_me = |rank: u32| rank == self.rank();
        if self.context().concurrent() || !self.pair_table().origins.iter().any(is_me) {
            return Ok(());
        }
        let pair = self.pair(Aim::new(operation, self.rank()))?;
        let accesses =
            self.epochs.mode().is_started() && self.pair_table().targets.iter().any(is_me);
        // Otherwise the flag of its completion may still be on its way to itself.
        if pair.started() >= pair.posted() && !accesses {
            return Ok(());
        }
        let why = "it is in the group of its post, and has not completed an access epoch on itself";
        Err(Error::new(operation, Misuse::WaitsForItself { why }))
    }

    /// Waits until a target of this epoch has posted.
    pub(crate) fn await_post(&self, aim: Aim) -> Result<()> {
        let (operation, rank) = (aim.operation, aim.rank);
        let _call = self.in_call(aim);
        let pair = self.pair(aim)?;
        let started = pair.started();
        let posted = || {
            if !pair.has_posted(started) && !pair.knows_kept() {
                self.find_kept(aim, pair)?;
            }
            Ok(pair.has_posted(started))
        };
        if posted()? {
            return Ok(());
        }
        if rank == self.rank() {
            self.has_own_post(operation)?;
        }
        let world_rank = self.team.world_rank(rank);
        self.context().patience().wait(posted, || {
            self.check(operation, Awaited::Rank(world_rank))?;
            Ok(self.check_cross_wait(aim, "start needs its targets to post")?)
        })
    }

    /// Counts the origins that have completed, in order; returns whether all have.
    #[inline]
    fn count_completions(&self) -> bool {
        let epochs = &self.epochs;
        let mut index = epochs.completed();
        while let Some(rank) = self.pair_table().origins.get(index) {
            if !self.has_completed(rank) {
                epochs.set_completed(index);
                return false;
            }
            index += 1;
        }
        epochs.set_completed(index);
        true
    }

    #[inline]
    fn has_completed(&self, origin: u32) -> bool {
        self.pairs.known(origin).is_some_and(Pair::has_completed)
    }

    /// Whether the awaited origins are still there. Origins that have completed may leave.
    #[cold]
    fn check_origins(&self, operation: &'static str) -> Verdict<'_> {
        let team = &self.team;
        let origins = &self.pair_table().origins;
        let member = |index| Some(team.world_rank(origins.get(index)?));
        let excused = |world_rank, _| {
            let rank = team.group.place_of(world_rank);
            rank.is_some_and(|rank| self.has_completed(rank))
        };
        let next = origins.get(self.epochs.completed());
        let awaited = Awaited::AnyOf {
            ranks: &member,
            excused: &excused,
            surely: next.map(|next| team.world_rank(next)),
        };
        self.check(operation, awaited)?;
        match next {
            // The next origin is checked when this one has completed.
            Some(next) if next != self.rank() => {
                let aim = Aim::new(operation, next);
                Ok(self.check_cross_wait(aim, "post needs its origins to complete")?)
            }
            _ => Ok(()),
        }
    }
}

impl OnTarget<'_> {
    /// Tells the target that this rank's epoch has ended, after its operations there.
    #[inline]
    fn signal_complete(self) -> Result<()> {
        let Self { window, aim, .. } = self;
        let epochs = &window.epochs;
        let must_wait = !epochs.is_entered(self.epoch()) && epochs.mode() == Mode::Started;
        if must_wait && let Err(error) = aim.aside(|aim| window.await_post(aim)) {
            self.pair()?.uncount_start();
            return Err(error);
        }
        let pair = self.pair()?;
        let there = match pair.there() {
            Some(known) => known,
            None => self.aside(|on| on.find_target(pair))?,
        };
        self.complete_before_flag(|| there.is_completed_here())?;
        pair.complete(there)
            .map_err(|error| self.aside(|on| on.failed(error)))
    }

    /// For a target that has posted, as the program promises: waits until it is known whether it keeps its first post.
    #[inline]
    fn await_first_post(self) -> Result<()> {
        let pair = self.pair()?;
        match pair.knows_kept() {
            true => Ok(()),
            false => self.aside(|on| on.await_decision(pair)),
        }
    }

    #[cold]
    fn await_decision(self, pair: &Pair) -> Result<()> {
        let Self { window, aim, .. } = self;
        let _call = window.in_call(aim);
        let next = pair.started() + 1;
        let known = || {
            window.find_kept(aim, pair)?;
            Ok(pair.knows_kept() || pair.has_posted(next))
        };
        let world_rank = window.team.world_rank(aim.rank);
        let check = || window.check(aim.operation, Awaited::Rank(world_rank));
        window.context().patience().wait(known, check)
    }

    /// The contact of a target that has posted, and so has created one. If it has not, the epoch is not counted.
    #[cold]
    fn find_target(self, pair: &Pair) -> Result<&ContactThere> {
        let Self { window, aim, .. } = self;
        let there = window.find_there(aim, pair);
        let there = there.map_err(|error| window.failed(aim, error))?;
        there.ok_or_else(|| {
            pair.uncount_start();
            let needs = "start without a check needs targets that have posted";
            let state = EpochState::NotExposed;
            Error::new(aim.operation, Misuse::Epoch { needs, state })
        })
    }
}

/// Whether a rank with this error can no longer continue together with the others.
fn ends_job(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Misuse(_))
}
