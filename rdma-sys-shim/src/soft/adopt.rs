//! Moving caller-owned memory to where peers can map it.

use std::ops::Range;
use std::os::fd::RawFd;

/// Part of adopted memory: `len` bytes at `addr` are backed by `fd` at `offset`.
pub(crate) struct Piece {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    pub(crate) fd: RawFd,
    pub(crate) offset: u64,
}

/// A share in adopted pages.
pub(crate) struct Adopted {
    pieces: Vec<Piece>,
}

impl Adopted {
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// # Safety
/// The contract of [`crate::Device::register`].
pub(crate) unsafe fn adopt(
    _base: *mut u8,
    _len: usize,
    _own_threads: usize,
    _in_use: &dyn Fn(Range<usize>) -> bool,
) -> Result<Adopted, &'static str> {
    Err("no memory is adopted yet")
}
