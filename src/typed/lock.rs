//! Locks: of one rank's part, and of all.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::slice;

use super::batch::AllTargets;
use super::epoch::OpenEpoch;
use super::window::own_part;
use super::{Passive, Target};
use crate::lower::error;
use crate::raw::Assert;
use crate::{Element, EpochState, IntoRank, IntoTarget, LockKind, Misuse, Result};

/// A lock of one rank's part. It dereferences to its [`Target`], which has the operations.
///
/// When dropped, it unlocks at once; if that fails, the epoch returns the error. If it is forgotten or dropped by a
/// panic, the lock is held to the end of the epoch. If the panic ends the epoch, the lock stays held, so that no rank
/// takes incomplete work for complete.
#[must_use = "a dropped lock unlocks at once; call `unlock` for its error"]
pub struct Lock<'op, T> {
    target: Target<'op, T, Passive>,
    kind: LockKind,
    /// Whether `local_mut` has lent this rank's own part.
    lends: bool,
    state: &'op OpenEpoch<'op>,
}

impl<'op, T: Element> Lock<'op, T> {
    #[inline]
    pub(super) fn take(
        state: &'op OpenEpoch<'op>,
        rank: impl IntoRank,
        kind: LockKind,
    ) -> Result<Self> {
        let target = Target::new("lock", state.raw, &state.own, rank)?;
        state.raw.lock(kind, target.rank(), Assert::NONE)?;
        Ok(Self {
            target,
            kind,
            lends: false,
            state,
        })
    }

    /// Local. The locked part.
    #[must_use]
    pub fn target(&self) -> &Target<'op, T, Passive> {
        &self.target
    }

    /// Local. This rank's own part, for plain loads and stores, under an exclusive lock of it. First completes this
    /// rank's operations there, and after a [`Target::put_own`] those on all ranks. From then on, `put_own` is refused
    /// until the unlock.
    ///
    /// # Errors
    /// The lock is shared or is of another rank's part; an operation failed.
    pub fn local_mut(&mut self) -> Result<&mut [T]> {
        let raw = self.state.raw;
        if self.kind != LockKind::Exclusive || self.target.rank() != raw.rank() {
            let misuse = Misuse::Epoch {
                needs: "plain access needs an exclusive lock of this rank's own part",
                state: EpochState::LockOf(self.kind, self.target.rank()),
            };
            return Err(error("local_mut", misuse));
        }
        match self.state.own.is_read() {
            true => raw.flush_all()?,
            false => self.target.flush()?,
        }
        self.state.own.lend();
        self.lends = true;
        let (base, len) = own_part(raw);
        // SAFETY: our registered memory, aligned and of this length; any bytes are a `T`. In a passive epoch all ranks
        // access it under its lock, which we hold exclusively. Our own operations on it are complete; new ones need the
        // lock, which is borrowed uniquely. Puts that read it are refused while the lock is held. If the lock and its
        // slice are leaked, the close of the epoch releases the lock, after it has completed all operations.
        Ok(unsafe { slice::from_raw_parts_mut(base.as_ptr(), len) })
    }

    /// One-sided. Releases the lock. When it returns, all of this rank's operations on the target are complete there
    /// (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// An operation failed, or the target died; then the close of the epoch fails too.
    #[inline]
    pub fn unlock(self) -> Result<()> {
        ManuallyDrop::new(self).give_back()
    }
}

impl<T> Lock<'_, T> {
    #[inline]
    fn give_back(&self) -> Result<()> {
        if self.lends {
            self.state.own.take_back();
        }
        self.state.raw.unlock(self.target.rank())
    }
}

impl<'op, T> Deref for Lock<'op, T> {
    type Target = Target<'op, T, Passive>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.target
    }
}

impl<T> Drop for Lock<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.state.is_panicking()
            && let Err(error) = self.give_back()
        {
            self.state.fail(error);
        }
    }
}

/// Shared locks of all ranks' parts. When dropped or forgotten, it behaves like [`Lock`].
#[must_use = "a dropped lock unlocks at once; call `unlock` for its error"]
pub struct LockAll<'op, T> {
    state: &'op OpenEpoch<'op>,
    marker: PhantomData<Target<'op, T, Passive>>,
}

impl<'op, T: Element> LockAll<'op, T> {
    pub(super) fn take(state: &'op OpenEpoch<'op>) -> Result<Self> {
        state.raw.lock_all(Assert::NONE)?;
        Ok(Self {
            state,
            marker: PhantomData,
        })
    }

    /// Local. The part of `rank`, or of no rank for `None` (see [`Target`]).
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<LockedTarget<'_, 'op, T>> {
        Ok(LockedTarget {
            target: Target::new("target", self.state.raw, &self.state.own, rank)?,
            lock: PhantomData,
        })
    }

    pub(super) fn parts(&self) -> AllTargets<'_, T> {
        AllTargets::new(self.state.raw, &self.state.own)
    }

    /// One-sided. Returns when all of this rank's operations on all targets are complete there (MPI-4.1, section
    /// 12.5.4). [`Target::flush`] does this for one target.
    ///
    /// # Errors
    /// An operation failed, or a target died.
    pub fn flush(&self) -> Result<()> {
        self.state.raw.flush_all()
    }

    /// One-sided. Releases the locks. When it returns, all of this rank's operations are complete at their targets
    /// (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// An operation failed, or a target died; then the close of the epoch fails too.
    pub fn unlock(self) -> Result<()> {
        let lock = ManuallyDrop::new(self);
        lock.state.raw.unlock_all()
    }
}

impl<T> Drop for LockAll<'_, T> {
    fn drop(&mut self) {
        if !self.state.is_panicking()
            && let Err(error) = self.state.raw.unlock_all()
        {
            self.state.fail(error);
        }
    }
}

/// A [`Target`] that a [`LockAll`] has locked, for as long as the `LockAll` is borrowed.
pub struct LockedTarget<'lock, 'op, T> {
    target: Target<'op, T, Passive>,
    lock: PhantomData<&'lock ()>,
}

impl<'op, T> Deref for LockedTarget<'_, 'op, T> {
    type Target = Target<'op, T, Passive>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.target
    }
}
