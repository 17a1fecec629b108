//! Copies so long that a second thread has time to come and do part of them.

use std::convert::Infallible;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::copier::{self, Pieces};

/// From here on.
pub(super) const LONG: usize = 4 << 20;

/// What a thread does of it at a time: some tens of microseconds.
pub(super) const PIECE: usize = 512 << 10;

/// A way to copy ranges that do not overlap, for any thread.
///
/// # Safety
/// As [`super::copy`]; the ranges do not overlap, and the processor has the instructions.
pub(super) type Method = unsafe fn(*mut u8, *const u8, usize);

/// Copies by `method`, piece by piece by two threads if that is sooner; returns whether it was so.
///
/// # Safety
/// As for the method.
pub(super) unsafe fn copy(method: Method, to: *mut u8, from: *const u8, len: usize) -> bool {
    let in_pieces = AtomicBool::new(false);
    let (to, from) = (to.expose_provenance(), from.expose_provenance());
    let done = copier::share_out(Pieces::Copies, len, PIECE, |bytes| {
        if bytes.len() < len {
            in_pieces.store(true, Ordering::Relaxed);
        }
        let to = ptr::with_exposed_provenance_mut(to + bytes.start);
        let from = ptr::with_exposed_provenance(from + bytes.start);
        // SAFETY: a part of what the caller promises, which lasts until `share_out` returns; no two parts overlap, as each
        // byte is in one.
        unsafe { method(to, from, bytes.len()) };
        Ok::<_, Infallible>(())
    });
    let Ok(()) = done;
    in_pieces.into_inner()
}
