//! Windows of `create` over a copy of what the caller had.

use super::create::Created;
use super::{Info, Window};
use crate::comm::Communicator;
use crate::error::Result;
use crate::terms::Flavor;

/// Collective. As [`Window::allocate`], with a copy of `bytes` in the memory.
///
/// # Errors
/// As for [`Window::allocate`].
pub fn create_copied(
    comm: &Communicator,
    bytes: &[u8],
    disp_unit: u64,
    info: &Info,
) -> Result<Window> {
    let created = Created {
        operation: "create",
        // The memory's owner decides how it is reached, not its initial contents.
        flavor: Flavor::Allocate,
        size: bytes.len(),
        disp_unit,
    };
    Window::build(comm, created, info, |hints, device| {
        let region = device.allocate(bytes.len(), hints.alignment)?;
        // SAFETY: both have this many bytes. The region is new: there is no other reference to it.
        unsafe {
            rdma_sys_shim::memory::copy(region.base(), bytes.as_ptr(), bytes.len());
        }
        Ok(region.into())
    })
}
