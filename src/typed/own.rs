//! This rank's own part inside of an epoch: as the origin of puts, and lent under its exclusive lock.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::strided::rows;
use super::window::{own_part, zeroed};
use super::{Epoch, Region, Target};
use crate::lower::{self, Row, error, not_forked};
use crate::raw::PROC_NULL;
use crate::{Element, EpochState, Misuse, Result};

/// What this rank's own part is used for in an epoch, besides operations that have it as their target.
/// One thread at a time does; atomics keep the compiler from naming this where it refuses two.
pub(super) struct OwnPart {
    /// Puts that may be under way read it.
    is_read: AtomicBool,
    /// There is a slice of it, until the lock that lent it is given back.
    is_lent: AtomicBool,
}

impl OwnPart {
    pub(super) const fn new() -> Self {
        Self {
            is_read: AtomicBool::new(false),
            is_lent: AtomicBool::new(false),
        }
    }

    /// Whether puts that may be under way read it.
    pub(super) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// Nothing reads it, and a slice of it is handed out.
    pub(super) fn lend(&self) {
        self.is_read.store(false, Ordering::Relaxed);
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// The slice is gone.
    pub(super) fn take_back(&self) {
        self.is_lent.store(false, Ordering::Relaxed);
    }

    /// A put begins to read it.
    fn read(&self, operation: &'static str) -> Result<()> {
        self.check_not_lent(operation)?;
        self.is_read.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn check_not_lent(&self, operation: &'static str) -> Result<()> {
        if self.is_lent.load(Ordering::Relaxed) {
            let misuse = Misuse::Epoch {
                needs: "it reads this rank's own part",
                state: EpochState::OwnPartLent,
            };
            return Err(error(operation, misuse));
        }
        Ok(())
    }
}

impl<T: Element, Mode> Epoch<'_, '_, T, Mode> {
    /// Local. The elements `range` of this rank's own part, copied, under no lock: after
    /// [`Epoch::wait_notify`], what was put before the notification. Elements that others change meanwhile are
    /// as they were at some time, or in parts.
    ///
    /// # Errors
    /// Elements past the end of the part, no memory for the vector, or
    /// [`Lock::local_mut`](super::Lock::local_mut) lends the own part: read its slice, or unlock it first.
    pub fn read_own(&self, range: Range<usize>) -> Result<Vec<T>> {
        const OPERATION: &str = "read_own";
        not_forked(OPERATION)?;
        self.state.own.check_not_lent(OPERATION)?;
        let raw = self.state.raw;
        let own = Target::<T, Mode>::new(OPERATION, raw, &self.state.own, raw.rank())?;
        own.check_range(OPERATION, range.start, range.len())?;
        let mut elements: Vec<T> = zeroed(OPERATION, range.len())?;
        let start = own_part::<T>(raw).0.as_ptr().wrapping_add(range.start);
        // SAFETY: the range is inside our registered memory, which stays until the window is freed. There is no
        // reference to it: none outside of a `Lock` lives in an epoch, and none is lent by one.
        unsafe { lower::read_memory(start.cast(), bytemuck::cast_slice_mut(&mut elements)) };
        Ok(elements)
    }
}

impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. Copies the elements `from` of this rank's own part to the elements `to` of the
    /// target's, one by one in their order: a put whose origin is the window (MPI-4.1, section
    /// 12.3.1). Into the own part, it returns when the copy is complete, and both may overlap: then a
    /// copy of `from` is what arrives.
    ///
    /// Elements that others change meanwhile arrive as they were at some time, or in parts.
    ///
    /// # Errors
    /// As for [`Target::put_strided`]; [`Lock::local_mut`](super::Lock::local_mut) lends the own part:
    /// put from its slice, or unlock it first. Into the own part: no memory for the copy.
    pub fn put_own(&self, to: impl Into<Region>, from: impl Into<Region>) -> Result<()> {
        const OPERATION: &str = "put_own";
        not_forked(OPERATION)?;
        let (base, len) = own_part::<T>(self.raw);
        let (near, far) = rows::<T>(OPERATION, from.into(), len, to.into())?;
        if self.rank == PROC_NULL {
            return Ok(());
        }
        self.own.read(OPERATION)?;
        if self.rank == self.raw.rank() {
            return self.move_within(OPERATION, near, far);
        }
        let (aim, origin) = (self.aim(OPERATION), base.as_ptr().cast_const().cast());
        // SAFETY: our registered memory, which stays until the window is freed; the row is inside. There
        // is no reference to it: none outside of a `Lock` lives in an epoch, and one that a lock lends
        // waits until this is complete, and keeps others from beginning. What others write there
        // meanwhile makes elements unspecified. The target's part is another rank's.
        unsafe { lower::put_row(self.raw, aim, origin, near, far) }
    }

    /// From the own part to itself, by way of a copy.
    #[cold]
    fn move_within(&self, operation: &'static str, from: Row, to: Row) -> Result<()> {
        let aim = self.aim(operation);
        let len = from.len * from.count;
        let mut copy = zeroed::<u8>(operation, len as usize)?;
        let dense = Row {
            at: 0,
            len,
            count: 1,
            stride: 0,
        };
        // SAFETY: the copy has room for the row, and is borrowed until the operation is complete, or
        // has failed, and so has the device done with it.
        unsafe { lower::get_row(self.raw, aim, copy.as_mut_ptr(), dense, from)? };
        lower::complete(self.raw, aim)?;
        // SAFETY: as above.
        unsafe { lower::put_row(self.raw, aim, copy.as_ptr(), dense, to)? };
        lower::flush(self.raw, aim)
    }
}
