//! Requests: the host's, so that its waits and tests know them.

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi_sys::{MPI_Comm, MPI_Datatype, MPI_Request};

use crate::constants;
use crate::errors::Result;
use crate::host::{check, host};

/// A request of the host's that is complete: of a receive from nobody.
///
/// # Safety
/// `request` is writable.
pub(crate) unsafe fn complete(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the request is the caller's promise; nothing is received.
    check(unsafe {
        host!(
            PMPI_Irecv(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request)
        )(
            ptr::null_mut(),
            0,
            constants::byte(),
            constants::proc_null(),
            0,
            constants::comm_world(),
            request,
        )
    })?;
    Ok(())
}
