//! Which way bytes go between this process and a peer.

use super::copy;

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From memory of this process to that of a peer.
    Write,
    /// From memory of a peer to that of this process.
    Read,
}

impl Direction {
    /// Copies so between memory of this process, `here`, and that of a peer, which is mapped `there`.
    ///
    /// # Safety
    /// As for [`copy`], from one to the other.
    #[inline(always)]
    pub unsafe fn copy(self, here: *mut u8, there: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Write => copy(there, here, len),
                Self::Read => copy(here, there, len),
            }
        }
    }
}
