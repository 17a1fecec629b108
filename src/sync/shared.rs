//! Handing out other ranks' memory.

use crate::error::Result;
use crate::terms::Aim;
use crate::window::{Mode, SharedPart, Window};

impl Window {
    /// Local. Where the memory of `rank` is in this process, to be loaded from and stored to; `None`
    /// as rank stands for the first one whose memory is not empty, as `MPI_PROC_NULL` does (MPI-4.1,
    /// section 12.2.3, `MPI_Win_shared_query`). Connects to the rank if that has not happened.
    ///
    /// Finds the memory of all ranks of a shared window, and of others where the device has mapped
    /// all of that rank's: allocated windows on the soft device, and created ones over
    /// memory of `alloc_mem`. Elsewhere the answer is a size of 0 and no base. A rank's own memory is always found.
    ///
    /// From then on, [`Window::lock_all`] takes the lock of a part that was found at once, since loads
    /// and stores take none. Where it is in force without that lock, this call waits for it.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the window is dynamic
    /// ([`RmaFlavor`](crate::ErrorClass::RmaFlavor)); the rank cannot be reached, or under `lock_all`
    /// not be locked.
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
