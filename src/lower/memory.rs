//! Memory that the device knows.

use std::alloc::Layout;

use rdma_sys_shim::LocalRegion;

use crate::comm::Communicator;
use crate::error::{Error, Result};
use crate::peers::not_forked;

/// Zeroed bytes that a job's device transfers from and to without a copy. Freed when dropped: no
/// operation may use them then. No other rank is told of them.
pub struct Memory(LocalRegion);

impl Memory {
    /// Local. Memory of this size and, at least, this alignment and one of 64 bytes, for operations of this
    /// communicator's windows. `operation` names the call in errors.
    ///
    /// # Errors
    /// Out of memory, or of memory that may be locked; the process was forked from the rank.
    pub fn allocate(comm: &Communicator, operation: &'static str, layout: Layout) -> Result<Self> {
        not_forked(operation)?;
        let device = comm.team().context.device();
        let region = device
            .allocate(layout.size(), layout.align())
            .map_err(|error| Error::from(error).during(operation))?;
        Ok(Self(region))
    }

    /// Local. The first byte; of no account where there is none.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.0.base()
    }
}
