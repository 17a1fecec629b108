//! This rank's own part inside of an epoch: as the origin of puts, and lent under its exclusive lock.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::strided::rows;
use super::target::check_range;
use super::window::{own_part, zeroed};
use super::{Epoch, Region, Target};
use crate::lower::{self, Row, error, not_forked};
use crate::raw::PROC_NULL;
use crate::{Element, EpochState, Misuse, Result, raw};

/// How an epoch uses this rank's own part, other than as the target of operations. In an epoch, only one thread uses
/// it. The fields are atomics because all sessions and their threads share `NEVER_LENT`, and because compiler errors about
/// sharing an epoch between threads would otherwise name this type.
pub(super) struct OwnPart {
    /// Whether puts that may be in flight read it.
    is_read: AtomicBool,
    /// Whether a slice of it is lent, until the lending lock is released.
    is_lent: AtomicBool,
}

impl OwnPart {
    pub(super) const fn new() -> Self {
        Self {
            is_read: AtomicBool::new(false),
            is_lent: AtomicBool::new(false),
        }
    }

    /// Whether puts that may be in flight read it.
    pub(super) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// Records that no put reads the part, and that a slice of it is lent.
    pub(super) fn lend(&self) {
        self.is_read.store(false, Ordering::Relaxed);
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// Records that the slice is gone.
    pub(super) fn take_back(&self) {
        self.is_lent.store(false, Ordering::Relaxed);
    }

    /// Records that a put begins to read the part.
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
    /// Local. A copy of the elements `range` of this rank's own part, made without a lock. After
    /// [`Epoch::wait_notify`], it includes the puts before the notification. If other ranks write an element meanwhile,
    /// the copy may have an old value, a new value or a mixture.
    ///
    /// # Errors
    /// `range` exceeds the part; no memory for the vector; [`Lock::local_mut`](super::Lock::local_mut) lends the own
    /// part: read its slice, or unlock it first.
    pub fn read_own(&self, range: Range<usize>) -> Result<Vec<T>> {
        const OPERATION: &str = "read_own";
        not_forked(OPERATION)?;
        self.state.own.check_not_lent(OPERATION)?;
        copy_own(self.state.raw, OPERATION, range)
    }
}

/// A copy of the elements `range` of this rank's own part. Nothing lends a slice to which this rank may write.
pub(super) fn copy_own<T: Element>(
    raw: &raw::Window,
    operation: &'static str,
    range: Range<usize>,
) -> Result<Vec<T>> {
    check_range::<T>(raw, operation, raw.rank(), range.start, range.len())?;
    let mut elements: Vec<T> = zeroed(operation, range.len())?;
    raw.read_own(range.start as u64, bytemuck::cast_slice_mut(&mut elements))?;
    Ok(elements)
}

impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. Copies the elements `from` of this rank's own part to the elements `to` of the target's, one by one
    /// in their order: a put whose origin buffer is the window (MPI-4.1, section 12.3.1). If the target is the own
    /// part, the copy is complete on return, and the regions may overlap: then the result is that of a copy through a
    /// buffer.
    ///
    /// If other ranks write an element meanwhile, the target may get an old value, a new value or a mixture.
    ///
    /// # Errors
    /// As for [`Target::put_strided`]; [`Lock::local_mut`](super::Lock::local_mut) lends the own part: put from its
    /// slice, or unlock it first. If the target is the own part: no memory for the copy.
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
        // SAFETY: our registered memory, which exists until the window is freed; the row is inside. There is no
        // reference to it: in an epoch, only a `Lock` can lend one. A lock lends it only after this operation is
        // complete, and then no new one begins. Writes of other ranks only make the elements unspecified. The target is
        // another rank's part.
        unsafe { lower::put_row(self.raw, aim, origin, near, far) }
    }

    /// Copies within the own part, through a buffer.
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
        // SAFETY: the copy has room for the row. It is borrowed until the operation is complete, or has failed and the
        // device no longer uses it.
        unsafe { lower::get_row(self.raw, aim, copy.as_mut_ptr(), dense, from)? };
        lower::complete(self.raw, aim)?;
        // SAFETY: as above.
        unsafe { lower::put_row(self.raw, aim, copy.as_ptr(), dense, to)? };
        lower::flush(self.raw, aim)
    }
}
