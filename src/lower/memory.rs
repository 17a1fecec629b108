//! Memory that the device knows.

use std::fmt;
use std::ptr::NonNull;

use rdma_sys_shim::LocalRegion;

use crate::comm::Communicator;
use crate::error::{Error, Misuse, Result};
use crate::peers::not_forked;

/// Zeroed bytes that a job's device transfers from and to without a copy. Freed when dropped: no
/// operation may use them then. No other rank is told of them.
pub struct Memory {
    region: LocalRegion,
    len: usize,
}

impl Memory {
    /// Local. `len` bytes, aligned to 64 at least and to `align`, for operations of this
    /// communicator's windows. `operation` names the call in errors.
    ///
    /// # Errors
    /// Out of memory, or of memory that may be locked; an alignment that is no power of two; the
    /// process was forked from the rank.
    pub fn allocate(
        comm: &Communicator,
        operation: &'static str,
        len: usize,
        align: usize,
    ) -> Result<Self> {
        not_forked(operation)?;
        if !align.is_power_of_two() {
            return Err(Error::new(operation, Misuse::BadAlignment { align }));
        }
        let device = comm.team().context.device();
        let region = device
            .allocate(len, align)
            .map_err(|error| Error::from(error).during(operation))?;
        Ok(Self { region, len })
    }

    /// Local. The first byte; dangling where there is none.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        match self.len {
            0 => NonNull::dangling(),
            _ => NonNull::new(self.region.base()).unwrap_or(NonNull::dangling()),
        }
    }

    /// Local. How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Local. True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}
