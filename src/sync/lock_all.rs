//! Lock_all: a shared lock of every target, taken where it is needed.

use rdma_sys_shim::memory::full_fence;

use super::{Assert, lock_word};
use crate::error::{Error, Misuse, Result};
use crate::job::is_forked;
use crate::window::target::{Held, Route};
use crate::window::{Mode, Window};

impl Window {
    /// One-sided. Begins a passive-target epoch of all targets with a shared lock (MPI-4.1, section
    /// 12.5.3).
    ///
    /// This rank's own lock is taken at once (its loads and stores issue no operation that could
    /// take it), and the others' at the first operation there: targets that are never touched cost
    /// nothing. Locks are so taken in the order of first use; if ranks hold exclusive locks of some
    /// targets while they begin such an epoch, they can wait in a circle. The hint
    /// `transom_eager_lock_all` takes all of them here, in the order of ranks.
    ///
    /// # Errors
    /// A lock is held, an epoch of fence, `start` or `post` or another `lock_all` is in force; the
    /// window has the hint `no_locks`; another assertion than [`Assert::NO_CHECK`]; a rank that could
    /// hold a lock died.
    #[inline]
    pub fn lock_all(&self, assert: Assert) -> Result<()> {
        const OPERATION: &str = "lock_all";
        assert.check(OPERATION, Assert::OF_LOCK)?;
        let idle = matches!(self.mode(), Mode::Idle | Mode::FenceUnused);
        let closed = self.locks() == 0 && !self.exposure().is_open();
        if !idle || !closed || self.no_locks() || is_forked() {
            return Err(self.cannot_lock_all());
        }
        self.next_serial();
        if assert.contains(Assert::NO_CHECK) {
            self.set_mode(Mode::LockAllUnchecked);
            return Ok(());
        }
        let me = self.rank();
        let route = self.route_of(OPERATION, me)?;
        self.take_shared(OPERATION, me, route)?;
        let own = &self.targets()[me as usize];
        own.change_held(Held::No, Held::Shared, false);
        own.set_entered(self.serial());
        self.set_mode(Mode::LockAll);
        if self.eager_lock_all() {
            self.lock_all_now(OPERATION)?;
        }
        Ok(())
    }

    /// Takes the locks that operations would take; on failure, none is held.
    #[cold]
    fn lock_all_now(&self, operation: &'static str) -> Result<()> {
        for rank in 0..self.ranks() {
            if let Err(error) = self.enter(operation, rank) {
                // The first failure says more than what releasing after it may find.
                let _ = self.unlock_all();
                return Err(error);
            }
        }
        Ok(())
    }

    /// One-sided. Ends the epoch that [`Window::lock_all`] began: all of this rank's operations are
    /// complete at their targets when it returns (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// `lock_all` is not in force; an operation failed; a target died.
    #[inline]
    pub fn unlock_all(&self) -> Result<()> {
        const OPERATION: &str = "unlock_all";
        let mode = self.mode();
        if !mode.is_lock_all() {
            return Err(self.cannot_unlock_all());
        }
        if self.device_used() || self.any_entered() || mode == Mode::LockAllUnchecked {
            return self.unlock_others_first(OPERATION, mode);
        }
        self.next_serial();
        self.set_mode(Mode::Idle);
        self.leave(OPERATION, self.rank())
    }

    /// Ends the epoch where there is more to do than to give back this rank's own lock.
    fn unlock_others_first(&self, operation: &'static str, mode: Mode) -> Result<()> {
        let completed = if self.device_used() {
            self.each_posted(|rank, target| self.complete_before_release(operation, rank, target))
        } else {
            Ok(())
        };
        self.next_serial();
        self.set_mode(Mode::Idle);
        if mode == Mode::LockAllUnchecked {
            full_fence();
            return completed;
        }
        let others = if self.any_entered() {
            self.leave_entered(operation)
        } else {
            Ok(())
        };
        // The last: its memory may be the origin buffer of operations on the others.
        let target = &self.targets()[self.rank() as usize];
        let posted = target.posted();
        let own = self.leave(operation, self.rank());
        if own.is_ok() {
            target.forget_posted(posted);
        }
        completed.and(others).and(own)
    }

    /// Releases every target that was entered, also after a failure.
    fn leave_entered(&self, operation: &'static str) -> Result<()> {
        let mut result = Ok(());
        let mut by_device = Vec::new();
        for rank in self.take_entered() {
            match self.route_of(operation, rank) {
                Ok(route) if route.lock.atomic().is_none() => by_device.push((rank, route, 0)),
                _ => result = result.and(self.leave(operation, rank)),
            }
        }
        if !by_device.is_empty() {
            result = result.and(self.leave_by_device(operation, by_device));
        }
        result
    }

    /// Posts all releases before it waits for one, so that they take no longer than one does. Each
    /// ends behind this rank's operations on its target.
    #[cold]
    fn leave_by_device(
        &self,
        operation: &'static str,
        mut entered: Vec<(u32, &Route, u64)>,
    ) -> Result<()> {
        full_fence();
        let mut result = Ok(());
        let mut posted = Vec::with_capacity(entered.len());
        for (rank, route, old) in &mut entered {
            let target = &self.targets()[*rank as usize];
            target.change_held(Held::Shared, Held::No, false);
            // SAFETY: `entered` keeps the word until every operation is waited for below.
            match unsafe { route.lock.begin_fetch_add(lock_word::SHARED_RELEASE, old) } {
                Ok(ticket) => posted.push((*rank, *route, target.posted(), ticket)),
                Err(error) => result = result.and(Err(self.stranded(operation, *rank, error))),
            }
        }
        for (rank, route, before, ticket) in posted {
            match route.lock.complete(ticket) {
                Ok(()) => self.targets()[rank as usize].forget_posted(before),
                Err(error) => result = result.and(Err(self.stranded(operation, rank, error))),
            }
        }
        result
    }

    #[inline(always)]
    fn leave(&self, operation: &'static str, rank: u32) -> Result<()> {
        let target = &self.targets()[rank as usize];
        target.change_held(Held::Shared, Held::No, false);
        target.set_clean();
        let route = self.route_of(operation, rank)?;
        self.release(operation, rank, Held::Shared, route)
    }

    #[cold]
    fn cannot_lock_all(&self) -> Error {
        if is_forked() {
            return Error::new("lock_all", Misuse::Forked);
        }
        if self.no_locks() {
            return Error::new("lock_all", Misuse::NoLocks);
        }
        Error::new(
            "lock_all",
            Misuse::Epoch {
                needs: "lock_all needs a window without locks and without an epoch of fence, start \
                        or post",
                state: self.state(None),
            },
        )
    }

    #[cold]
    fn cannot_unlock_all(&self) -> Error {
        Error::new(
            "unlock_all",
            Misuse::Epoch {
                needs: "unlock_all needs lock_all",
                state: self.state(None),
            },
        )
    }
}
