//! Memory of the program that the device knows.

use std::fmt;

use rdma_sys_shim::OriginRegion;

/// Memory of the program that is registered with the device, made by [`Job::register_mem`](crate::Job::register_mem).
/// Dropping it ends the registration. It may be dropped while operations use the memory, and after this rank has left
/// the job.
#[must_use = "dropping it ends the registration"]
pub struct Registration {
    _region: OriginRegion,
}

impl Registration {
    pub(crate) fn new(region: OriginRegion) -> Self {
        Self { _region: region }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}
