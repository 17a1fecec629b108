//! Memory that the device knows.

use std::alloc::Layout;

use rdma_sys_shim::LocalRegion;

use crate::comm::Communicator;
use crate::error::{Error, Result};
use crate::peers::not_forked;

/// Zeroed bytes that a job's device transfers from and to without a copy. Freed when dropped: no operation may use them
/// then. Other ranks cannot access them.
pub struct Memory(LocalRegion);

impl Memory {
    /// Local. Memory of this size, aligned as `layout` says and at least to 64 bytes, for operations of this
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

    /// Local. The first byte; meaningless if the size is 0.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.0.base()
    }
}
