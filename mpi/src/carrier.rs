//! Carriers: windows of the host, whose handles the program gets. The host keeps a carrier's attributes, name and error
//! handler, and converts its handle.
//!
//! Each process makes its own carriers, without memory, on a communicator of itself. All of that is local, so no
//! message is sent, and the host need not support windows between the ranks: Open MPI 4 has none over TCP with several
//! threads, and none over TCP with the defaults of Debian's. Only the group is not local, and Transom keeps that.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Mutex;

use transom::ErrorClass;

use crate::constants;
use crate::errors::{Failure, Result, bad, null};
use crate::host::{self, HostError, check};
use crate::mpi_h::{MPI_Comm, MPI_Group, MPI_Win};
use crate::on_windows::on_windows;
use crate::process::process;
use crate::windows::{Ours, lock};
use crate::{host_windows, report};

/// The communicator of this process alone, once there is a carrier. Threads make carriers one after the other, as MPI
/// demands for any communicator.
static ALONE: Mutex<Option<MPI_Comm>> = Mutex::new(None);

/// Errors on it are reported by the program's call.
fn new_alone() -> std::result::Result<MPI_Comm, HostError> {
    let mut comm = constants::comm_null();
    // SAFETY: a local; the communicator is freed at the end. A duplicate would copy the program's attributes, and call
    // its functions.
    unsafe {
        check(host::PMPI_Comm_split(
            constants::comm_self(),
            0,
            0,
            &raw mut comm,
        ))?;
        check(host::PMPI_Comm_set_errhandler(
            comm,
            constants::errors_return(),
        ))?;
    }
    Ok(comm)
}

/// A carrier that the program does not have yet.
pub(crate) struct Carrier(MPI_Win);

impl Carrier {
    /// # Errors
    /// The host's message, if it refuses.
    pub(crate) fn new() -> std::result::Result<Self, String> {
        make().map(Self).map_err(|error| {
            format!(
                "the MPI library makes no window of one process: {}",
                error.text()
            )
        })
    }

    /// The handle for the program, which frees it.
    pub(crate) fn into_handle(self) -> MPI_Win {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle.
        unsafe { free(&raw mut self.0) };
    }
}

/// Returns the host's code. The host calls the program's functions for the carrier's attributes.
///
/// # Safety
/// `place` contains the handle of a carrier.
pub(crate) unsafe fn free(place: *mut MPI_Win) -> c_int {
    let _host_windows = host_windows::take();
    // SAFETY: the caller's promise.
    unsafe { host::PMPI_Win_free(place) }
}

fn make() -> std::result::Result<MPI_Win, HostError> {
    let mut win = constants::win_null();
    let mut base: *mut c_void = ptr::null_mut();
    let _host_windows = host_windows::take();
    let mut alone = lock(&ALONE);
    let comm = match &mut *alone {
        Some(comm) => *comm,
        none => *none.insert(new_alone()?),
    };
    // SAFETY: no memory is exposed, and the places are locals. For a single rank, Open MPI 4 makes only windows that it
    // allocates.
    check(unsafe {
        host::PMPI_Win_allocate(
            0,
            1,
            constants::info_null(),
            comm,
            (&raw mut base).cast(),
            &raw mut win,
        )
    })?;
    Ok(win)
}

/// The host is about to end.
pub(crate) fn end() {
    if let Some(mut comm) = lock(&ALONE).take() {
        // SAFETY: it is freed once; windows that the program has left are valid without it.
        unsafe { host::PMPI_Comm_free(&raw mut comm) };
    }
}

on_windows! {
    fn MPI_Win_get_group PMPI_Win_get_group(win: MPI_Win, group: *mut MPI_Group) of win as ours {
        // SAFETY: the program's own place.
        unsafe { get_group(ours, group) }
    }
}

/// # Safety
/// `place` is writable.
unsafe fn get_group(ours: &Ours, place: *mut MPI_Group) -> Result<()> {
    if place.is_null() {
        return Err(null("group"));
    }
    let Some(process) = process() else {
        return Err(bad(ErrorClass::Other, report::why_no_job()));
    };
    let group = ours.window().group();
    let ranks: Vec<c_int> = (0..group.size())
        .filter_map(|rank| group.world_rank(rank))
        .map(|rank| rank as c_int)
        .collect();
    // SAFETY: the caller's promise; the list has the given number of ranks.
    check(unsafe {
        host::PMPI_Group_incl(process.world, ranks.len() as c_int, ranks.as_ptr(), place)
    })
    .map_err(Failure::from)
}
