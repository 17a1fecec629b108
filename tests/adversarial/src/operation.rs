//! A posted operation: its work, and the memory that was lent to it.

use std::ops::Range;

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Direction, Error, Fetch, RemoteAddress, Result, Update, Width};

use crate::inner::Inner;
use crate::options::Fault;
use crate::schedule::{Kind, Shape};

/// The data to write.
pub(crate) enum Source {
    /// The caller's buffer.
    Lent(*const u8),
    /// The buffer's content when the operation was posted.
    Copied(Box<[u8]>),
}

impl Source {
    fn at(&self, offset: usize) -> *const u8 {
        match self {
            Self::Lent(base) => base.wrapping_add(offset),
            Self::Copied(bytes) => bytes.as_ptr().wrapping_add(offset),
        }
    }
}

pub(crate) enum Work {
    Write {
        from: Source,
        len: usize,
        to: RemoteAddress,
    },
    Read {
        to: *mut u8,
        len: usize,
        from: RemoteAddress,
        /// Holds the data that was read until the operation is reported. Without it, the data goes directly to `to`.
        staged: Option<Box<[u8]>>,
    },
    Fetch {
        at: RemoteAddress,
        width: Width,
        fetch: Fetch,
        old: Old,
    },
    UpdateEach {
        at: RemoteAddress,
        width: Width,
        update: Update,
        values: Source,
        count: usize,
    },
    Store {
        at: RemoteAddress,
        old: u64,
        new: u64,
    },
}

/// The value that an atomic found, and the caller's place for it.
pub(crate) struct Old {
    pub(crate) to: *mut u64,
    pub(crate) found: u64,
}

pub(crate) struct PendingOperation {
    pub(crate) work: Work,
    /// Makes the operation fail.
    pub(crate) fault: Option<Fault>,
    /// Whether the fault occurs before the operation takes effect.
    pub(crate) early: bool,
    /// It begins only when a caller asks for its completion, or after a later operation that does not wait.
    pub(crate) waits: bool,
    /// Its buffers have been released to the caller.
    pub(crate) released: bool,
}

// SAFETY: the pointers are to buffers that the poster lent until the operation is complete or has failed (the contract
// of `Endpoint`), for whatever carries the operation out. The engine accesses them only before it publishes either.
unsafe impl Send for PendingOperation {}

impl PendingOperation {
    pub(crate) fn shape(&self) -> Shape {
        let (kind, len, unit) = match &self.work {
            Work::Write { len, .. } => (Kind::Write, *len, Some(1)),
            Work::Read { len, .. } => (Kind::Read, *len, Some(1)),
            Work::Fetch { width, .. } => (Kind::Atomic, width.bytes(), None),
            Work::UpdateEach { width, count, .. } => {
                let bytes = width.bytes();
                (Kind::Atomic, count.saturating_mul(bytes), Some(bytes))
            }
            Work::Store { .. } => (Kind::Store, 8, None),
        };
        Shape { kind, len, unit }
    }

    /// Carries out some bytes of it.
    ///
    /// # Safety
    /// The operation is neither complete nor failed: its buffers are still lent.
    pub(crate) unsafe fn carry_out(&mut self, way: &Inner, bytes: Range<usize>) -> Result<()> {
        let ahead = |place: RemoteAddress| RemoteAddress {
            address: place.address.wrapping_add(bytes.start as u64),
            ..place
        };
        match &mut self.work {
            Work::Write { from, to, .. } => {
                let here = from.at(bytes.start).cast_mut();
                // SAFETY: this is part of the source, which is lent or ours.
                unsafe { way.transfer(Direction::Write, here, bytes.len(), ahead(*to)) }?;
            }
            Work::Read {
                to, from, staged, ..
            } => {
                let base = staged.as_mut().map_or(*to, |staged| staged.as_mut_ptr());
                let here = base.wrapping_add(bytes.start);
                // SAFETY: this is part of the destination, which is lent, or of its replacement.
                unsafe { way.transfer(Direction::Read, here, bytes.len(), ahead(*from)) }?;
            }
            Work::Fetch {
                at,
                width,
                fetch,
                old,
            } => {
                // SAFETY: this is a field of ours; the device below completes before it returns.
                unsafe { way.fetch(*at, *width, *fetch, &raw mut old.found) }?;
            }
            Work::UpdateEach {
                at,
                width,
                update,
                values,
                ..
            } => {
                let (part, count) = (values.at(bytes.start), bytes.len() / width.bytes());
                // SAFETY: these are part of the values, which are lent or ours.
                unsafe { way.update_each(ahead(*at), *width, *update, part, count) }?;
            }
            Work::Store { at, old, new } => {
                let mut found = 0;
                let (expect, new) = (*old, *new);
                let swap = Fetch::CompareSwap { expect, new };
                // SAFETY: a local; the device below completes before it returns.
                unsafe { way.fetch(*at, Width::W8, swap, &raw mut found) }?;
                if found != *old {
                    return Err(Error::RemoteAccess {
                        need: "store",
                        address: at.address,
                        len: 8,
                        pid: way.pid(),
                        host: None,
                        rkey: at.rkey,
                        reason: "the word does not hold what this process is said to have stored",
                    });
                }
            }
        }
        Ok(())
    }

    /// The sources have been read. Operations without `early`, which are half of them, release their buffers before
    /// they are reported.
    pub(crate) fn took_effect(&mut self) {
        let reads_only = matches!(self.work, Work::Write { .. } | Work::UpdateEach { .. });
        self.released |= reads_only && !self.early;
    }

    /// Puts the results where the caller expects them.
    ///
    /// # Safety
    /// As for [`PendingOperation::carry_out`].
    pub(crate) unsafe fn deliver(&mut self) {
        match &mut self.work {
            Work::Read {
                to,
                staged: Some(staged),
                ..
            } => {
                // SAFETY: the destination is lent, and as long as its replacement.
                unsafe { copy(*to, staged.as_ptr(), staged.len()) };
            }
            Work::Fetch { old, .. } => {
                // SAFETY: lent.
                unsafe { old.to.write(old.found) };
            }
            _ => {}
        }
    }
}
