//! Put with notification: a put that increments a counter at its target. The target can wait for
//! the counter without an epoch of its own. Not in MPI.

use std::cell::Cell;

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Direction, Ticket};

use super::request::{Request, Until};
use super::{PROC_NULL, rows};
use crate::datatype::Row;
use crate::error::{Error, Misuse, PeerError, Result};
use crate::liveness::Awaited;
use crate::memory::displacement::Displacement;
use crate::memory::word::SharedWord;
use crate::peers::not_forked;
use crate::terms::Aim;
use crate::wait::Verdict;
use crate::window::{NOTIFICATION_COUNTERS, OnTarget, Window};

impl Window {
    /// One-sided. As [`Window::put`], and then adds 1 to the notification counter `counter` of `target`. When the
    /// target sees this, it also sees these bytes in its memory, and those of all earlier puts of this rank to it.
    /// `origin` may be used again after the next synchronisation, as for every put. `len` 0 is legal, and only
    /// notifies.
    ///
    /// Counters have 64 bits, begin at 0 and only grow. The hint `transom_notification_counters` sets their number for
    /// each rank.
    ///
    /// # Errors
    /// As for [`Window::put`]; `target` has no such counter. Then nothing is put.
    ///
    /// # Safety
    /// As for [`Window::put`].
    #[inline]
    pub unsafe fn put_notify(
        &self,
        origin: *const u8,
        len: usize,
        target: u32,
        disp: u64,
        counter: u32,
    ) -> Result<()> {
        const OPERATION: &str = "put_notify";
        if let Some(open) = self.open_target(target)
            && (self.all_have_counter(counter) || open.has_counter(counter))
        {
            let there = open.reach(Displacement(disp), len as u64);
            // Data that goes through the device would arrive after a mapped counter.
            if !there.is_null() && !origin.is_null() && open.posted.last() == Ticket::DONE {
                // SAFETY: as in `put`.
                unsafe { copy(there, origin, len) };
                open.set_dirty();
                return self
                    .on_known(Aim::new(OPERATION, target), open)
                    .notify(counter);
            }
        }
        let aim = Aim::new(OPERATION, target);
        // SAFETY: the caller's promise.
        unsafe { self.transfer_and_notify(aim, origin, len, disp, counter) }.map(drop)
    }

    /// As [`Window::put_notify`], where more is needed than a copy.
    ///
    /// # Safety
    /// As for [`Window::put`].
    #[inline(never)]
    unsafe fn transfer_and_notify(
        &self,
        aim: Aim,
        origin: *const u8,
        len: usize,
        disp: u64,
        counter: u32,
    ) -> Result<Ticket> {
        let (from, disp) = (origin.cast_mut(), Displacement(disp));
        // SAFETY: the caller's promise.
        let put = || unsafe { self.transfer(aim, Direction::Write, from, len, disp) };
        self.put_and_notify(aim, counter, put)
    }

    /// Puts by `put`, and then increments the counter, if the target has it.
    fn put_and_notify(
        &self,
        aim: Aim,
        counter: u32,
        put: impl FnOnce() -> Result<Ticket>,
    ) -> Result<Ticket> {
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        self.team.check_rank(aim.operation, aim.rank)?;
        self.check_counter(aim, counter)?;
        let (ticket, on) = (put()?, self.on(aim));
        on.notify(counter).inspect_err(|_| on.await_end(ticket))?;
        Ok(ticket)
    }

    /// One-sided. As [`Window::put_notify`], with a request: when it is complete, `origin` may be used
    /// again; data and notification may arrive later. Needs a lock or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::put_notify`]. Then `origin` may be used again.
    ///
    /// # Safety
    /// As for [`Window::put`], until the request is complete.
    pub unsafe fn rput_notify(
        &self,
        origin: *const u8,
        len: usize,
        target: u32,
        disp: u64,
        counter: u32,
    ) -> Result<Request> {
        let aim = Aim::new("rput_notify", target);
        self.requested(aim, Until::Released, || {
            // SAFETY: the caller's promise.
            unsafe { self.transfer_and_notify(aim, origin, len, disp, counter) }
        })
    }

    /// Local. The number of times that the notification counter `counter` of this rank was incremented. Data that was
    /// put before is visible in this rank's memory.
    ///
    /// # Errors
    /// This rank has no such counter.
    #[inline]
    pub fn notifications(&self, counter: u32) -> Result<u64> {
        self.check_own_counter("notifications", counter)?;
        Ok(self.raised(counter))
    }

    /// Local. Waits until the notification counter `counter` of this rank is at least `at_least`. Needs no epoch. Data
    /// that was put before is then visible in this rank's memory.
    ///
    /// # Errors
    /// This rank has no such counter; a rank of the window died or left.
    #[inline]
    pub fn wait_notify(&self, counter: u32, at_least: u64) -> Result<()> {
        const OPERATION: &str = "wait_notify";
        self.check_own_counter(OPERATION, counter)?;
        if self.raised(counter) >= at_least {
            return Ok(());
        }
        let _call = self.in_shown_call(OPERATION, None);
        self.context().patience().wait(
            || Ok(self.raised(counter) >= at_least),
            || self.check_notifiers(OPERATION),
        )
    }

    /// Local. As [`Window::wait_notify`], without waiting: true if the counter has reached the value.
    ///
    /// # Errors
    /// As for [`Window::wait_notify`]; repeated calls notice the death of a rank.
    pub fn test_notify(&self, counter: u32, at_least: u64) -> Result<bool> {
        const OPERATION: &str = "test_notify";
        self.check_own_counter(OPERATION, counter)?;
        self.pairs.polls.poll(
            || Ok(self.raised(counter) >= at_least),
            || self.check_notifiers(OPERATION),
        )
    }

    #[inline]
    fn raised(&self, counter: u32) -> u64 {
        let word = self.block.word(self.layout.notification(counter));
        word.observe()
    }

    fn check_counter(&self, aim: Aim, counter: u32) -> Result<()> {
        not_forked(aim.operation)?;
        match self.all_have_counter(counter) {
            true => Ok(()),
            false => has_counter(aim, counter, self.counters_of(aim)?),
        }
    }

    #[inline]
    fn check_own_counter(&self, operation: &'static str, counter: u32) -> Result<()> {
        not_forked(operation)?;
        let aim = Aim::new(operation, self.rank());
        has_counter(aim, counter, self.own_counters())
    }

    /// Whether the ranks that may notify this one are still there. With `no_locks`, a rank may free the window and
    /// leave after it has notified; but at least one other rank must be there.
    #[cold]
    fn check_notifiers(&self, operation: &'static str) -> Verdict<'_> {
        let team = &self.team;
        let context = &team.context;
        let member = |index| team.group.in_world(index);
        let gone = Cell::new(None);
        let excused = |rank, left: bool| {
            gone.set(Some(rank));
            left && self.refuses_locks
        };
        let awaited = Awaited::AnyOf {
            ranks: &member,
            excused: &excused,
            surely: None,
        };
        self.check(operation, awaited)?;
        let Some(rank) = gone.get() else {
            return Ok(());
        };
        let mut others = (0..team.size()).filter(|&rank| rank != team.rank);
        let all_left = others.all(|rank| context.has_left(team.world_rank(rank)));
        match all_left {
            true => Err(Error::new(operation, PeerError::Left { rank: rank.0 }).into()),
            false => Ok(()),
        }
    }
}

/// Fails unless the rank of `aim`, which has `counters` counters, has this one.
#[inline]
fn has_counter(aim: Aim, counter: u32, counters: u32) -> Result<()> {
    if counter < counters {
        return Ok(());
    }
    let Aim { operation, rank } = aim;
    let misuse = Misuse::NoCounter {
        rank,
        counter,
        counters,
        hint: NOTIFICATION_COUNTERS,
    };
    Err(Error::new(operation, misuse))
}

/// One-sided. As [`put_row`](rows::put_row), and then increments the target's notification counter `counter` by 1, as
/// [`Window::put_notify`] does.
///
/// # Errors
/// As for [`put_row`](rows::put_row); the target has no such counter. Then nothing is put.
///
/// # Safety
/// As for [`put_row`](rows::put_row).
pub unsafe fn put_notify_row(
    window: &Window,
    aim: Aim,
    origin: *const u8,
    near: Row,
    far: Row,
    counter: u32,
) -> Result<()> {
    let (from, both) = (origin.cast_mut(), [near, far]);
    // SAFETY: the caller's promise.
    let put = || unsafe { rows::transfer(window, aim, Direction::Write, from, both) };
    window.put_and_notify(aim, counter, put).map(drop)
}

impl OnTarget<'_> {
    /// Increments a counter of the entered target, after all operations of this rank there.
    #[inline]
    fn notify(self, counter: u32) -> Result<()> {
        let pair = self.pair()?;
        let at = self.window.layout.notification(counter);
        self.complete_before_flag(|| pair.is_raised_here(at))?;
        let raised = pair.raise(at).map_err(|error| self.failed(error))?;
        self.note_posted(raised);
        Ok(())
    }
}
