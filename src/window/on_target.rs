//! An operation of this rank on a target: what its errors name, and all that it needs to know there.

use rdma_sys_shim::Ticket;

use super::Window;
use super::epochs::TargetEpoch;
use super::target::Target;
use crate::error::{Error, Result};
use crate::liveness::Awaited;
use crate::memory::remote::RemoteWord;
use crate::terms::{Aim, WorldRank};
use crate::wait::Verdict;

/// A window's call on one target. Its methods are where they belong: reaching the memory, entering, locks, flushes and
/// the operations themselves.
#[derive(Clone, Copy)]
pub(crate) struct OnTarget<'w> {
    pub(crate) window: &'w Window,
    pub(crate) target: &'w Target,
    pub(crate) aim: Aim,
}

impl Window {
    /// For a rank of the window.
    #[inline(always)]
    pub(crate) fn on(&self, aim: Aim) -> OnTarget<'_> {
        self.on_known(aim, &self.targets[aim.rank as usize])
    }

    /// For a target that was already looked up.
    #[inline(always)]
    pub(crate) fn on_known<'w>(&'w self, aim: Aim, target: &'w Target) -> OnTarget<'w> {
        OnTarget {
            window: self,
            target,
            aim,
        }
    }

    /// Every target that was ever used, in the order of ranks.
    pub(crate) fn on_used(&self, operation: &'static str) -> impl Iterator<Item = OnTarget<'_>> {
        let used = self.targets.used();
        used.map(move |(rank, target)| self.on_known(Aim::new(operation, rank), target))
    }
}

impl<'w> OnTarget<'w> {
    /// Whether the target may be accessed, and how it is locked.
    #[inline(always)]
    pub(crate) fn epoch(self) -> &'w TargetEpoch {
        self.target.epoch()
    }

    /// See [`Aim::aside`].
    #[inline(always)]
    pub(crate) fn aside<R>(self, body: impl FnOnce(Self) -> R) -> R {
        let (window, target) = (self.window, self.target);
        self.aim
            .aside(move |aim| body(window.on_known(aim, target)))
    }

    /// See [`Aim::by_call`].
    #[inline(always)]
    pub(crate) fn by_call<R>(self, body: impl FnOnce(Self) -> R) -> R {
        let (window, target) = (self.window, self.target);
        self.aim
            .by_call(move |aim| body(window.on_known(aim, target)))
    }

    /// Names the rank if the device named only a process.
    #[cold]
    pub(crate) fn failed(self, error: impl Into<Error>) -> Error {
        self.window.failed(self.aim, error)
    }

    /// For a lock word that could not be changed and may be left locked; see [`Window::give_up`]. If the device could
    /// not even be connected, the word is unchanged.
    #[cold]
    pub(crate) fn stranded(self, error: Error) -> Error {
        let error = self.failed(error);
        let route = self.target.route();
        match route.is_some_and(|route| !route.endpoint.is_connected()) {
            true => error,
            false => self.window.give_up(error),
        }
    }

    /// Now and then checks whether the job was aborted and whether the target lives. For calls that have accessed the
    /// target; most quick calls check only a count.
    #[inline]
    pub(crate) fn check_liveness(self) -> Result<()> {
        match self.target.checks().counts() {
            true => Ok(()),
            false => self.aside(Self::check_liveness_now),
        }
    }

    #[cold]
    fn check_liveness_now(self) -> Result<()> {
        self.count_call();
        let Self { window, aim, .. } = self;
        let rank = || window.team.world_rank(aim.rank);
        // If calls are counted, each call has to come here.
        let counts = window.counters.is_some();
        (self.target.checks()).check(window.context(), aim.operation, rank, counts)
    }

    /// Whether a wait for the lock in `word` can still end: whether its holder, which `holder` extracts from the word,
    /// is still there. If the word names no rank, any rank may be the holder, also one that left if `may_have_left`.
    #[cold]
    pub(crate) fn check_holder(
        self,
        word: &RemoteWord,
        holder: fn(u64) -> Option<u32>,
        may_have_left: fn(u64) -> bool,
    ) -> Verdict<'w> {
        let Ok(seen) = word.load_by_atomic() else {
            // The next attempt reports the error.
            return Ok(());
        };
        let team = &self.window.team;
        let WorldRank(me) = team.context.rank();
        let awaited = match holder(seen) {
            Some(rank) if rank != me => Awaited::Rank(WorldRank(rank)),
            _ => Awaited::AnyOf {
                ranks: &|index| team.group.in_world(index),
                excused: &|_, left| left && !may_have_left(seen),
                surely: None,
            },
        };
        self.window.check(self.aim.operation, awaited)
    }

    /// See [`Window::note_posted`].
    #[inline]
    pub(crate) fn note_posted(self, ticket: Ticket) {
        self.window.note_posted(self.target, ticket);
    }
}
