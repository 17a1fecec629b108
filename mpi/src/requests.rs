//! Requests: the host's, so that its waits and tests know them, also in one list with others.
//!
//! What is complete when the call that makes it returns is a request that the host made complete. The rest is a
//! generalized request of the host's (MPI-4.1, section 13.2), which somebody has to complete: so the calls that
//! wait for requests and test them look for ours first. While there are none, that is one load.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mpi_sys::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status, MPI_Win};
use transom::raw::Request;

use crate::constants;
use crate::errors::{self, Result};
use crate::exported::exported;
use crate::host::{check, host};
use crate::process::process;
use crate::windows::lock;

/// How many requests are not complete.
static PENDING: AtomicUsize = AtomicUsize::new(0);
/// Those, by the host's handles.
static ALL: Mutex<Option<HashMap<usize, Pending>>> = Mutex::new(None);

/// An operation that is under way.
struct Pending {
    request: Request,
    carrier: MPI_Win,
    call: &'static str,
}

// SAFETY: the carrier is a handle that all threads may use.
unsafe impl Send for Pending {}

type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// A request of the host's for this one of ours.
///
/// # Safety
/// `place` is writable.
pub(crate) unsafe fn lend(
    call: &'static str,
    carrier: MPI_Win,
    mut request: Request,
    place: *mut MPI_Request,
) -> Result<()> {
    if request.test()? {
        // SAFETY: the caller's promise.
        return unsafe { complete(place) };
    }
    // SAFETY: the functions are what MPI calls them by, and need no state.
    check(unsafe {
        host!(PMPI_Grequest_start(Query, Free, Cancel, *mut c_void, *mut MPI_Request))(
            query,
            free,
            cancel,
            ptr::null_mut(),
            place,
        )
    })?;
    // SAFETY: the host has just written it.
    let handle = unsafe { *place };
    let pending = Pending {
        request,
        carrier,
        call,
    };
    lock(&ALL)
        .get_or_insert_default()
        .insert(number(handle), pending);
    PENDING.fetch_add(1, Ordering::Release);
    Ok(())
}

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

fn number(request: MPI_Request) -> usize {
    request.0 as usize
}

/// # Safety
/// MPI's, for the query function of a request.
unsafe extern "C" fn query(_: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: the status is the host's.
    unsafe {
        host!(PMPI_Status_set_elements(*mut MPI_Status, MPI_Datatype, c_int))(
            status,
            constants::byte(),
            0,
        );
        host!(PMPI_Status_set_cancelled(*mut MPI_Status, c_int))(status, 0);
    }
    // What failed was told to the window's handler.
    0
}

/// # Safety
/// None is needed.
unsafe extern "C" fn free(_: *mut c_void) -> c_int {
    0
}

/// Operations of windows cannot be cancelled.
///
/// # Safety
/// None is needed.
unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    0
}

impl Pending {
    /// Tells the host that it is complete, and the window's handler what failed. Returns the error's code.
    fn finish(self, handle: MPI_Request, result: transom::Result<()>) -> c_int {
        PENDING.fetch_sub(1, Ordering::Release);
        // SAFETY: the request is one of `lend`, completed once: it was taken from the list.
        unsafe { host!(PMPI_Grequest_complete(MPI_Request))(handle) };
        match result {
            Ok(()) => 0,
            Err(error) => errors::tell(self.call, self.carrier, error),
        }
    }
}

#[inline(always)]
fn any() -> bool {
    PENDING.load(Ordering::Acquire) > 0
}

fn take(handle: MPI_Request) -> Option<Pending> {
    lock(&ALL).as_mut()?.remove(&number(handle))
}

/// Waits for ours among these. Returns the code of the first that failed.
#[cold]
fn settle(handles: &[MPI_Request]) -> c_int {
    let mut code = 0;
    for &handle in handles {
        if let Some(mut pending) = take(handle) {
            let result = pending.request.complete();
            code = first(code, pending.finish(handle, result));
        }
    }
    code
}

fn first(code: c_int, later: c_int) -> c_int {
    if code != 0 { code } else { later }
}

/// Completes those of ours among these that have come about. Returns the code of the first that failed, and
/// whether others are still under way.
#[cold]
fn poll(handles: &[MPI_Request]) -> (c_int, bool) {
    let (mut code, mut some_left) = (0, false);
    for &handle in handles {
        let Some(mut pending) = take(handle) else {
            continue;
        };
        match pending.request.test() {
            Ok(false) => {
                some_left = true;
                lock(&ALL)
                    .get_or_insert_default()
                    .insert(number(handle), pending);
            }
            result => code = first(code, pending.finish(handle, result.map(drop))),
        }
    }
    (code, some_left)
}

/// Asks the host again and again, while some of these are ours and under way; then the host may wait. Returns
/// the code of the first that failed.
#[cold]
fn wait_with(handles: &[MPI_Request], mut ask: impl FnMut() -> bool) -> c_int {
    let Some(process) = process() else { return 0 };
    let mut code = 0;
    let waited = process.job.wait_until(None, || {
        let (failed, some_left) = poll(handles);
        code = first(code, failed);
        ask() || !some_left
    });
    match waited {
        Ok(()) => code,
        // Some rank died: those that it had a part in end with an error, and the others as they do.
        Err(_) => first(code, settle(handles)),
    }
}

/// # Safety
/// There are that many requests.
unsafe fn list<'l>(count: c_int, requests: *const MPI_Request) -> &'l [MPI_Request] {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if count > 0 && !requests.is_null() => unsafe {
            std::slice::from_raw_parts(requests, count)
        },
        _ => &[],
    }
}

/// The list of a call, waited for or asked about with ours in it. Then the host's own call, whose success is
/// that of ours.
macro_rules! with_ours {
    ($ours:expr, $host:expr) => {{
        let code = if any() { $ours } else { 0 };
        first($host, code)
    }};
}

exported! {
    fn MPI_Wait PMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) {
        // SAFETY: the program's own request and status.
        unsafe {
            with_ours!(
                settle(list(1, request)),
                host!(PMPI_Wait(*mut MPI_Request, *mut MPI_Status))(request, status)
            )
        }
    }

    fn MPI_Waitall PMPI_Waitall(count: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status) {
        // SAFETY: the program's own requests and statuses.
        unsafe {
            with_ours!(
                settle(list(count, requests)),
                host!(PMPI_Waitall(c_int, *mut MPI_Request, *mut MPI_Status))(count, requests, statuses)
            )
        }
    }

    fn MPI_Test PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) {
        // SAFETY: the program's own request and places.
        unsafe {
            with_ours!(
                poll(list(1, request)).0,
                host!(PMPI_Test(*mut MPI_Request, *mut c_int, *mut MPI_Status))(request, flag, status)
            )
        }
    }

    fn MPI_Testall PMPI_Testall(count: c_int, requests: *mut MPI_Request, flag: *mut c_int,
        statuses: *mut MPI_Status) {
        // SAFETY: the program's own requests and places.
        unsafe {
            with_ours!(
                poll(list(count, requests)).0,
                host!(PMPI_Testall(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status))(
                    count, requests, flag, statuses,
                )
            )
        }
    }

    fn MPI_Testany PMPI_Testany(count: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status) {
        // SAFETY: the program's own requests and places.
        unsafe {
            with_ours!(
                poll(list(count, requests)).0,
                host!(PMPI_Testany(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                    count, requests, index, flag, status,
                )
            )
        }
    }

    fn MPI_Testsome PMPI_Testsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) {
        // SAFETY: the program's own requests and places.
        unsafe {
            with_ours!(
                poll(list(count, requests)).0,
                host!(PMPI_Testsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                    count, requests, done, indices, statuses,
                )
            )
        }
    }

    fn MPI_Request_get_status PMPI_Request_get_status(request: MPI_Request, flag: *mut c_int,
        status: *mut MPI_Status) {
        // SAFETY: the program's own places.
        unsafe {
            with_ours!(
                poll(&[request]).0,
                host!(PMPI_Request_get_status(MPI_Request, *mut c_int, *mut MPI_Status))(request, flag, status)
            )
        }
    }

    fn MPI_Waitany PMPI_Waitany(count: c_int, requests: *mut MPI_Request, index: *mut c_int,
        status: *mut MPI_Status) {
        let mut failed = 0;
        if any() {
            let (mut code, mut flag) = (0, 0);
            // SAFETY: the program's own requests, copied, since the host changes them.
            let handles = unsafe { list(count, requests) }.to_vec();
            failed = wait_with(&handles, || {
                // SAFETY: the program's own arguments, and locals.
                code = unsafe {
                    host!(PMPI_Testany(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                        count, requests, index, &raw mut flag, status,
                    )
                };
                flag != 0 || code != 0
            });
            if flag != 0 || code != 0 {
                return first(code, failed);
            }
        }
        // SAFETY: the program's own arguments.
        let code = unsafe {
            host!(PMPI_Waitany(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status))(
                count, requests, index, status,
            )
        };
        first(code, failed)
    }

    fn MPI_Waitsome PMPI_Waitsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) {
        let mut failed = 0;
        if any() {
            let (mut code, mut some) = (0, false);
            // SAFETY: as in MPI_Waitany.
            let handles = unsafe { list(count, requests) }.to_vec();
            failed = wait_with(&handles, || {
                // SAFETY: the program's own arguments.
                unsafe {
                    code = host!(PMPI_Testsome(
                        c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status
                    ))(count, requests, done, indices, statuses);
                    some = code != 0 || *done != 0;
                }
                some
            });
            if some {
                return first(code, failed);
            }
        }
        // SAFETY: the program's own arguments.
        let code = unsafe {
            host!(PMPI_Waitsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                count, requests, done, indices, statuses,
            )
        };
        first(code, failed)
    }
}
