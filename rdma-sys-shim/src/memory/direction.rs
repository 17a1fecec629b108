//! Which way bytes go between this process and a peer.

use super::copy;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From memory of this process to that of a peer.
    Write,
    /// From memory of a peer to that of this process.
    Read,
}

impl Direction {
    /// Copies in this direction between memory of this process, `here`, and a peer's memory, which is mapped at
    /// `there`.
    ///
    /// # Safety
    /// As for [`copy`] in that direction.
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
