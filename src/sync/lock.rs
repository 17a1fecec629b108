//! Lock and unlock of single targets.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

use rdma_sys_shim::Ticket;
use rdma_sys_shim::memory::{TOTAL_STORE_ORDER, full_fence};

use super::precedence::Precedence;
use super::{Assert, lock_word};
use crate::error::{Error, Misuse, Result};
use crate::memory::remote::RemoteWord;
use crate::peers::{Awaited, is_forked, not_forked};
use crate::terms::LockKind;
use crate::window::target::{Route, Target};
use crate::window::{Held, Window};

impl Window {
    /// One-sided. Begins a passive-target epoch of `target`: waits for its lock, without the
    /// target's help. A waiting exclusive lock keeps new shared ones back (MPI-4.1, section
    /// 12.5.3): for 20 ms, where this rank holds a lock, of any window, that others wait for, and for a
    /// second elsewhere. So it need not be a program's care in which order it takes shared locks.
    ///
    /// # Errors
    /// `target` is locked by this rank already or not a rank; an epoch of fence or `start`, or
    /// `lock_all` is in force; `target` is this rank, and exposed by `post`; the window has the hint
    /// `no_locks`; another assertion than [`Assert::NO_CHECK`]; a rank that could hold the lock died.
    #[inline]
    pub fn lock(&self, kind: LockKind, target: u32, assert: Assert) -> Result<()> {
        const OPERATION: &str = "lock";
        assert.check(OPERATION, Assert::OF_LOCK)?;
        let ready = self.epochs().takes_locks() && !self.no_locks() && !is_forked();
        if !ready || target >= self.ranks() {
            self.prepare_to_lock(target)?;
        }
        let route = self.route_of(OPERATION, target)?;
        let state = self.targets()[target as usize].epoch();
        let held = match kind {
            _ if assert.contains(Assert::NO_CHECK) => Held::Unchecked,
            LockKind::Shared => Held::Shared,
            LockKind::Exclusive => Held::Exclusive,
        };
        let concurrent = self.context().concurrent();
        (self.epochs()).begin_lock(OPERATION, target, state, concurrent)?;
        let taken = match held {
            Held::Shared => self.take_shared(OPERATION, target, route),
            Held::Exclusive => self.take_exclusive(OPERATION, target, route),
            _ => {
                // What others did before this rank was told that it need not check is seen.
                fence(Ordering::Acquire);
                Ok(())
            }
        };
        if let Err(error) = taken {
            self.epochs().give_up_lock(state);
            return Err(error);
        }
        self.epochs().lock(state, held, concurrent);
        Ok(())
    }

    /// One-sided. Ends the epoch that [`Window::lock`] began: all of this rank's operations on
    /// `target` are complete there when it returns (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// `target` is not locked by this rank or not a rank; an operation failed; the target died, or the
    /// job was aborted because another rank did: then the epoch is over all the same.
    #[inline]
    pub fn unlock(&self, target: u32) -> Result<()> {
        let (Some(state), false) = (self.targets().get(target as usize), is_forked()) else {
            return Err(self.cannot_unlock(target));
        };
        let Some(held) = self.epochs().locked_by_lock(state.epoch()) else {
            return Err(self.cannot_unlock(target));
        };
        match state.posted() {
            Ticket::DONE => self.end_lock(target, state, held)?,
            posted => self.end_lock_behind(target, state, held, posted)?,
        }
        self.heed_target("unlock", target, state)
    }

    /// Where operations went through the device.
    #[inline(never)]
    fn end_lock_behind(
        &self,
        rank: u32,
        target: &Target,
        held: Held,
        posted: Ticket,
    ) -> Result<()> {
        self.complete_before_release("unlock", rank, target)?;
        self.end_lock(rank, target, held)?;
        target.forget_posted(posted);
        Ok(())
    }

    #[inline(always)]
    fn end_lock(&self, rank: u32, target: &Target, held: Held) -> Result<()> {
        const OPERATION: &str = "unlock";
        let route = self.route_to(OPERATION, rank, target)?;
        let (epochs, concurrent) = (self.epochs(), self.context().concurrent());
        if !epochs.begin_unlock(target.epoch(), held, concurrent) {
            return Err(self.cannot_unlock(rank));
        }
        let released = self.release(OPERATION, rank, held, route);
        epochs.unlock(target.epoch());
        released
    }

    /// Waits for what the release of a lock does not wait for itself. One that goes through the
    /// device takes effect after everything that was posted before it, and its end is awaited: then
    /// all of that is complete, or the release fails with it.
    #[cold]
    pub(super) fn complete_before_release(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        let by_device = matches!(target.epoch().held(), Held::Shared | Held::Exclusive)
            && self.route_of(operation, rank)?.lock.atomic().is_none();
        match by_device {
            true => Ok(()),
            false => self.complete_posted(operation, rank, target),
        }
    }

    /// Ends every passive-target epoch that is open on this window. No lock goes back before all
    /// operations are complete: one target's memory may be the origin buffer of another's.
    pub(crate) fn unlock_everything(&self, operation: &'static str) -> Result<()> {
        not_forked(operation)?;
        self.complete_all(operation)?;
        if self.epochs().mode().is_lock_all() {
            return self.unlock_all();
        }
        let mut result = Ok(());
        if self.epochs().has_locks() {
            for (rank, target) in (0..).zip(self.targets()) {
                if target.epoch().held().is_held() {
                    result = result.and(self.unlock(rank));
                }
            }
        }
        result
    }

    /// Gives a lock back, behind what this rank has stored.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        operation: &'static str,
        rank: u32,
        held: Held,
        route: &Route,
    ) -> Result<()> {
        if !TOTAL_STORE_ORDER {
            full_fence();
        }
        let add = match held {
            Held::Shared => lock_word::SHARED_RELEASE,
            Held::Exclusive => lock_word::exclusive_release(self.world_rank()),
            _ => {
                full_fence();
                return Ok(());
            }
        };
        match route.lock.fetch_add(add) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.stranded(operation, rank, error)),
        }
    }

    #[inline(always)]
    pub(crate) fn take_shared(
        &self,
        operation: &'static str,
        rank: u32,
        route: &Route,
    ) -> Result<()> {
        match lock_word::try_shared(&route.lock) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(seen)) => self.await_lock(operation, rank, &route.lock, Held::Shared, seen),
            Err(error) => Err(self.stranded(operation, rank, error)),
        }
    }

    #[inline(always)]
    fn take_exclusive(&self, operation: &'static str, rank: u32, route: &Route) -> Result<()> {
        match lock_word::try_exclusive(&route.lock, self.world_rank()) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(seen)) => self.await_lock(operation, rank, &route.lock, Held::Exclusive, seen),
            Err(error) => Err(self.stranded(operation, rank, error)),
        }
    }

    /// Tries until the lock is there. Who holds it shared is not known, so any rank may be the one
    /// whose death makes the wait endless. `seen` is what stood in the way of the first attempt.
    #[cold]
    fn await_lock(
        &self,
        operation: &'static str,
        rank: u32,
        word: &RemoteWord,
        wanted: Held,
        seen: u64,
    ) -> Result<()> {
        let stranded = |error: Error| self.stranded(operation, rank, error);
        let precedence = Precedence::new();
        let seen = Cell::new(seen);
        let take = || {
            let tried = match wanted {
                Held::Exclusive => lock_word::retry_exclusive(word, self.world_rank()),
                _ => lock_word::retry_shared(word, || precedence.overtakes()),
            };
            match tried.map_err(stranded)? {
                Ok(()) => Ok(true),
                Err(now) => {
                    seen.set(now);
                    Ok(false)
                }
            }
        };
        let team = self.team();
        let any = |index| team.group.world_rank(index);
        let check = || {
            let awaited = match lock_word::holder(seen.get()) {
                Some(holder) if holder != team.context.rank() => Awaited::Rank(holder),
                _ => Awaited::AnyOf {
                    ranks: &any,
                    excused: &|_, _| false,
                },
            };
            team.context.check(operation, awaited)
        };
        team.context.patience().wait(take, check)
    }

    #[inline]
    fn world_rank(&self) -> u32 {
        self.context().rank()
    }

    /// What has to be so before a lock, off the fast path.
    #[cold]
    fn prepare_to_lock(&self, target: u32) -> Result<()> {
        self.team().check_rank("lock", target)?;
        not_forked("lock")?;
        if self.no_locks() {
            return Err(Error::new("lock", Misuse::NoLocks));
        }
        self.epochs().prepare_lock("lock", target == self.rank())
    }

    #[cold]
    fn cannot_unlock(&self, target: u32) -> Error {
        if let Err(error) = self.team().check_rank("unlock", target) {
            return error;
        }
        if is_forked() {
            return Error::new("unlock", Misuse::Forked);
        }
        let state = self.targets()[target as usize].epoch();
        self.epochs().refuse_unlock("unlock", target, state)
    }
}
