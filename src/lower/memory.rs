//! Memory that the device knows.

use std::alloc::Layout;

use rdma_sys_shim::LocalRegion;

use crate::comm::Communicator;
use crate::error::{Error, Result};
use crate::memory::registration::Registration;
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

/// Local. Registers `len` bytes of the program at `base` for operations of this communicator's windows: see
/// [`Job::register_mem`](crate::Job::register_mem). `operation` names the call in errors.
///
/// # Errors
/// As for [`Job::register_mem`](crate::Job::register_mem).
///
/// # Safety
/// As for [`Job::register_mem`](crate::Job::register_mem).
pub unsafe fn register(
    comm: &Communicator,
    operation: &'static str,
    base: *mut u8,
    len: usize,
    written: bool,
) -> Result<Registration> {
    not_forked(operation)?;
    let device = comm.team().context.device();
    // SAFETY: the caller's promise.
    let region = unsafe { device.register_origin(base, len, written) };
    let region = region.map_err(|error| Error::from(error).during(operation))?;
    Ok(Registration::new(region))
}
