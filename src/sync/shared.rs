//! Handing out other ranks' memory.

use crate::error::Result;
use crate::terms::Aim;
use crate::window::{Mode, SharedPart, Window};

impl Window {
    /// Local. The address of the memory of `rank` in this process, for loads and stores. `None` as rank stands for the
    /// first rank whose memory is not empty, as `MPI_PROC_NULL` does (MPI-4.1, section 12.2.3, `MPI_Win_shared_query`).
    /// Connects to the rank if necessary.
    ///
    /// Finds the memory of all ranks of a shared window. In other windows, finds that of ranks whose memory the device
    /// has mapped completely: allocated windows on the soft device, and windows created over memory of `alloc_mem`. For
    /// other ranks, the result has size 0 and no base. A rank's own memory is always found.
    ///
    /// From then on, [`Window::lock_all`] takes the lock of this part at once, since loads and stores take none. If
    /// `lock_all` is open without that lock, this call waits for it.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the window is dynamic ([`RmaFlavor`](crate::ErrorClass::RmaFlavor)); the
    /// rank cannot be reached, or not be locked under `lock_all`.
    pub fn shared_query(&self, rank: Option<u32>) -> Result<SharedPart> {
        const OPERATION: &str = "shared_query";
        let (part, handed_out) = self.find_shared(OPERATION, rank)?;
        if let Some(rank) = handed_out
            && self.epochs.mode() == Mode::LockAll
        {
            self.enter(Aim::new(OPERATION, rank))?;
        }
        Ok(part)
    }
}
