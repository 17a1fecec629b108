//! The epochs of a window at one rank: all of their state, and every call that changes it (MPI-4.1,
//! chapter 12.5).
//!
//! States, where T stands for any other rank:
//!
//! - **N**: no epoch is open
//! - **F**: fence has opened an epoch, and no operation was called
//! - **U**: fence has opened an epoch, and an operation was called
//! - **L**: T is locked
//! - **M**: this rank has locked its own part
//! - **B**: both are locked
//! - **A**: `lock_all` is in force
//! - **S**: `start` has opened an epoch of T
//! - **X**: `post` has exposed this rank's part
//! - **XL**: X, and T is locked
//! - **XS**: X, and `start` has opened an epoch of T
//!
//! The tables show the next state for each state and call. A dot means that the call is an error and changes nothing.
//! For all calls except `fence`, F is the same as N: without an operation, the last fence has begun no epoch. `test`
//! behaves as `wait`, the other flushes and `sync` as `flush` and `flush_all`, and all other operations as `put` and
//! `rput`.
//!
//! |  | `fence` | `NO_SUCCEED` | `NO_PRECEDE` | `start` | `complete` | `post` | `wait` | `lock_all` | `unlock_all` | `free` |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | MPI-4.1 | 12.5.1 | 12.5.5 | 12.5.5 | 12.5.2 | 12.5.2 | 12.5.2 | 12.5.2 | 12.5.3 | 12.5.3 | 12.2.5 |
//! | **N** | F | N | F | S | · | X | · | A | · | N |
//! | **F** | F | N | F | S | · | X | · | A | · | F |
//! | **U** | F | N | · | · | · | · | · | · | · | · |
//! | **L** | · | · | · | · | · | XL | · | · | · | · |
//! | **M** | · | · | · | · | · | · | · | · | · | · |
//! | **B** | · | · | · | · | · | · | · | · | · | · |
//! | **A** | · | · | · | · | · | · | · | · | N | · |
//! | **S** | · | · | · | · | N | XS | · | · | · | · |
//! | **X** | · | · | · | XS | · | · | N | · | · | · |
//! | **XL** | · | · | · | · | · | · | L | · | · | · |
//! | **XS** | · | · | · | · | X | · | S | · | · | · |
//!
//! |  | `lock` me | `lock` T | `unlock` me | `unlock` T | `put` me | `put` T | `rput` T | `flush` me | `flush` T | `flush_all` |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | MPI-4.1 | 12.5.3 | 12.5.3 | 12.5.3 | 12.5.3 | 12.3.1 | 12.3.1 | 12.3.5 | 12.5.4 | 12.5.4 | 12.5.4 |
//! | **N** | M | L | · | · | · | · | · | · | · | · |
//! | **F** | M | L | · | · | U | U | · | · | · | · |
//! | **U** | · | · | · | · | U | U | · | · | · | · |
//! | **L** | B | · | · | N | · | L | L | · | L | L |
//! | **M** | · | B | N | · | M | · | · | M | · | M |
//! | **B** | · | · | L | M | B | B | B | B | B | B |
//! | **A** | · | · | · | · | A | A | A | A | A | A |
//! | **S** | · | · | · | · | · | S | · | · | · | · |
//! | **X** | · | XL | · | · | · | · | · | · | · | · |
//! | **XL** | · | · | · | X | · | XL | XL | · | XL | XL |
//! | **XS** | · | · | · | · | · | XS | · | · | · | · |
//!
//! Calls that wait for other ranks have two parts here: one decides before the wait whether the call is legal, and one
//! changes the state after the wait. State that several threads may change at the same time ([`Window`](super::Window)
//! says which calls may overlap) is changed by read-modify-write operations.

mod active;
mod passive;
mod refusal;
mod target;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

pub(crate) use target::{Held, TargetEpoch};

use crate::error::Result;
use crate::terms::Aim;
use crate::wait::lock;

/// Which epochs of a window are open at this rank, and which targets are entered.
///
/// An operation on a target that was entered in the current epoch needs no further check: one comparison in
/// [`Epochs::is_entered`] replaces all the rules.
pub(crate) struct Epochs {
    /// Number of the current access epoch; a target with the same number was entered in it. It begins at 1 and, with 64
    /// bits, does not wrap; 0 marks a target that was not entered.
    serial: AtomicU64,
    mode: AtomicU8,
    /// How many targets are locked one by one.
    locks: AtomicU32,
    /// Targets whose shared lock was taken under `lock_all`, except this rank.
    entered: Mutex<Vec<u32>>,
    any_entered: AtomicBool,
    /// Whether this rank's part is exposed by `post`.
    exposed: AtomicBool,
    /// The number of its origins, counted from the first, that are known to have completed.
    completed: AtomicU32,
}

/// The open access epoch of the window as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bytemuck::CheckedBitPattern)]
#[repr(u8)]
pub(crate) enum Mode {
    /// No epoch is open; single targets may be locked.
    Idle = 0,
    /// A fence has opened an epoch, which begins with the first operation.
    FenceUnused = 1,
    Fence = 2,
    LockAll = 3,
    /// `lock_all` with the assertion that no conflicting lock is held.
    LockAllUnchecked = 4,
    /// `start` has opened an epoch of some targets.
    Started = 5,
    /// `start` with the assertion that all targets have posted.
    StartedUnchecked = 6,
}

impl Mode {
    /// Whether all calls except fence treat it as no epoch.
    #[inline]
    fn is_none(self) -> bool {
        matches!(self, Self::Idle | Self::FenceUnused)
    }

    #[inline]
    pub(crate) fn is_lock_all(self) -> bool {
        matches!(self, Self::LockAll | Self::LockAllUnchecked)
    }

    #[inline]
    pub(crate) fn is_started(self) -> bool {
        matches!(self, Self::Started | Self::StartedUnchecked)
    }
}

/// What has to happen before the first operation on a target in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Nothing: another thread has entered the target.
    Entered,
    /// The route to the target has to be found; then [`Epochs::enter`].
    Open,
    /// The target's post also has to be awaited; then [`Epochs::enter`].
    AwaitsPost,
    /// The target's lock also has to be taken; then [`Epochs::enter_locked`].
    AwaitsLock,
}

impl Epochs {
    /// A state in which no epoch is open.
    pub(super) fn new() -> Self {
        Self {
            // Targets begin with 0, so none is entered.
            serial: AtomicU64::new(1),
            mode: AtomicU8::new(Mode::Idle as u8),
            locks: AtomicU32::new(0),
            entered: Mutex::default(),
            any_entered: AtomicBool::new(false),
            exposed: AtomicBool::new(false),
            completed: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        let code = self.mode.load(Ordering::Relaxed);
        bytemuck::checked::try_cast(code).unwrap_or(Mode::Idle)
    }

    #[inline]
    fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    #[inline]
    fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Ends the entry of all targets: an access epoch of `start` or `lock_all` is about to begin, or has ended.
    #[inline]
    pub(crate) fn next_serial(&self) {
        self.serial.store(self.serial() + 1, Ordering::Relaxed);
    }

    /// Ends the access epoch that `start` or `lock_all` began.
    #[inline]
    pub(crate) fn end_access(&self) {
        self.next_serial();
        self.set_mode(Mode::Idle);
    }

    /// Records that a target is no longer held: its lock was released or not taken, or its epoch of `start` has ended.
    #[inline]
    pub(crate) fn let_go(&self, target: &TargetEpoch) {
        target.set_held(Held::No);
    }

    /// How many single targets are locked.
    #[inline]
    pub(crate) fn locks(&self) -> u32 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Counts single locks up or down (by −1, wrapping).
    #[inline]
    fn count_lock(&self, change: u32, concurrent: bool) {
        if concurrent {
            self.locks.fetch_add(change, Ordering::Relaxed);
        } else {
            let count = self.locks().wrapping_add(change);
            self.locks.store(count, Ordering::Relaxed);
        }
    }

    /// Whether no epoch of any kind is open.
    #[inline]
    fn is_closed(&self) -> bool {
        self.mode().is_none() && self.locks() == 0 && !self.is_exposed()
    }

    fn entered(&self) -> MutexGuard<'_, Vec<u32>> {
        lock(&self.entered)
    }
}

/// Operations (sections 12.3 and 12.5).
impl Epochs {
    /// Whether the target was entered in the current epoch, so that operations may proceed.
    #[inline]
    pub(crate) fn is_entered(&self, target: &TargetEpoch) -> bool {
        target.is_entered(self.serial())
    }

    /// Whether and how an operation on a target may proceed. The first one after a fence begins its epoch.
    pub(crate) fn admit(&self, aim: Aim, target: &TargetEpoch) -> Result<Admission> {
        let mode = self.mode();
        if self.is_entered(target) {
            return Ok(Admission::Entered);
        }
        if mode == Mode::Idle || mode.is_started() && target.held() != Held::Started {
            return Err(self.refuse_operation(aim, target));
        }
        if mode == Mode::FenceUnused {
            self.set_mode(Mode::Fence);
        }
        Ok(match mode {
            Mode::LockAll => Admission::AwaitsLock,
            Mode::Started => Admission::AwaitsPost,
            _ => Admission::Open,
        })
    }

    /// From now on, operations of this epoch may proceed on the target.
    #[inline]
    pub(crate) fn enter(&self, target: &TargetEpoch) {
        target.set_entered(self.serial());
    }

    /// As [`Epochs::enter`], under `lock_all`, with the target's lock.
    pub(crate) fn enter_locked(&self, rank: u32, target: &TargetEpoch) {
        target.change_held(Held::No, Held::Shared, false);
        self.entered().push(rank);
        self.any_entered.store(true, Ordering::Relaxed);
        self.enter(target);
    }

    /// Operations with a request are allowed in passive-target epochs only (section 12.3.5). Other conditions of an
    /// operation are not checked here.
    #[inline]
    pub(crate) fn takes_requests(&self) -> bool {
        let mode = self.mode();
        !mode.is_started() && !matches!(mode, Mode::Fence | Mode::FenceUnused)
    }
}

/// Free (section 12.2.5).
impl Epochs {
    /// Allowed if no epoch is open.
    pub(crate) fn check_free(&self, operation: &'static str) -> Result<()> {
        match self.is_closed() {
            true => Ok(()),
            false => Err(self.refuse(operation, "it needs a window without an open epoch")),
        }
    }
}
