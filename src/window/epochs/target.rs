//! What the epochs of a window know of one target, beside all else that an operation needs of it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytemuck::Zeroable;

use crate::terms::LockKind;

/// How a target is locked by this rank; the value 0 is "not at all".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Held {
    No = 0,
    Shared = 1,
    Exclusive = 2,
    /// Asserted to be without conflicts: no lock word was changed.
    Unchecked = 3,
    /// A thread is about to take or release the lock.
    Changing = 4,
    /// Not locked, but in the group of `start`.
    Started = 5,
}

impl Held {
    /// The state for a lock of this kind.
    #[inline]
    pub(crate) fn by(kind: LockKind) -> Self {
        match kind {
            LockKind::Shared => Self::Shared,
            LockKind::Exclusive => Self::Exclusive,
        }
    }

    /// Whether operations may rely on it.
    #[inline]
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Shared | Self::Exclusive | Self::Unchecked)
    }

    #[inline]
    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Shared,
            2 => Self::Exclusive,
            3 => Self::Unchecked,
            4 => Self::Changing,
            5 => Self::Started,
            _ => Self::No,
        }
    }
}

/// The state of one target; the transitions of [`Epochs`](super::Epochs) change it. All zero means
/// "neither entered nor held".
#[derive(Zeroable)]
#[repr(C)]
pub(crate) struct TargetEpoch {
    /// The window's serial number of the epoch in which this target was entered.
    serial: AtomicU64,
    held: AtomicU8,
}

impl TargetEpoch {
    #[inline]
    pub(super) fn is_entered(&self, serial: u64) -> bool {
        self.serial.load(Ordering::Acquire) == serial
    }

    #[inline]
    pub(super) fn set_entered(&self, serial: u64) {
        self.serial.store(serial, Ordering::Release);
    }

    #[inline]
    pub(super) fn set_left(&self) {
        self.serial.store(0, Ordering::Relaxed);
    }

    /// As [`TargetEpoch::set_left`], but does not write to pages that the parent has not touched.
    pub(crate) fn leave_in_child(&self) {
        if self.serial.load(Ordering::Relaxed) != 0 {
            self.set_left();
        }
    }

    #[inline]
    pub(crate) fn held(&self) -> Held {
        Held::from_code(self.held.load(Ordering::Relaxed))
    }

    /// Changes how the target is held from `from` to `to`; fails if it is not held as `from`.
    /// `concurrent`: other threads may try the same.
    #[inline]
    pub(super) fn change_held(&self, from: Held, to: Held, concurrent: bool) -> bool {
        if concurrent {
            return self
                .held
                .compare_exchange(from as u8, to as u8, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        }
        let as_expected = self.held.load(Ordering::Relaxed) == from as u8;
        if as_expected {
            self.held.store(to as u8, Ordering::Relaxed);
        }
        as_expected
    }

    /// For a thread that has set [`Held::Changing`], or is alone by the rules of the call.
    #[inline]
    pub(super) fn set_held(&self, held: Held) {
        self.held.store(held as u8, Ordering::Release);
    }
}
