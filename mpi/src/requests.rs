//! Requests: the host's, so that its waits and tests know them, also in one list with others.
//!
//! What is complete when the call that makes it returns is a request that the host made complete. The rest is a
//! generalized request of the host's (MPI-4.1, section 13.2), which somebody has to complete: so the calls that
//! wait for requests and test them look for ours first. While there are none, that is one load.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

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
    outcome: Outcome,
}

/// Where the host finds the error code of a request that is complete. The host frees it with the request.
#[derive(Clone, Copy)]
struct Outcome(*const AtomicI32);

// SAFETY: the code is an atomic on the heap, and the carrier a handle that all threads may use.
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
    let outcome = Outcome(Box::into_raw(Box::new(AtomicI32::new(0))));
    // SAFETY: the functions are what MPI calls them by, with the state that is theirs until the last.
    check(unsafe {
        host!(PMPI_Grequest_start(Query, Free, Cancel, *mut c_void, *mut MPI_Request))(
            query,
            free,
            cancel,
            outcome.0.cast_mut().cast(),
            place,
        )
    })?;
    // SAFETY: the host has just written it.
    let handle = unsafe { *place };
    let pending = Pending {
        request,
        carrier,
        call,
        outcome,
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
/// MPI's, for the query function of a request of [`lend`].
unsafe extern "C" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: the status is the host's; the state lasts until `free`.
    unsafe {
        host!(PMPI_Status_set_elements(*mut MPI_Status, MPI_Datatype, c_int))(
            status,
            constants::byte(),
            0,
        );
        host!(PMPI_Status_set_cancelled(*mut MPI_Status, c_int))(status, 0);
        (*state.cast::<AtomicI32>()).load(Ordering::Acquire)
    }
}

/// # Safety
/// As for [`query`]; it is the last call with this state.
unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: made in `lend`, for this request alone, which was completed before.
    drop(unsafe { Box::from_raw(state.cast::<AtomicI32>()) });
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
    /// Tells the host that it is complete.
    fn finish(self, handle: MPI_Request, result: transom::Result<()>) {
        if let Err(error) = result {
            let code = errors::tell(self.call, self.carrier, error);
            // SAFETY: the host frees it after the request is complete.
            unsafe { &*self.outcome.0 }.store(code, Ordering::Release);
        }
        PENDING.fetch_sub(1, Ordering::Release);
        // SAFETY: the request is one of `lend`, completed once: it was taken from the list.
        unsafe { host!(PMPI_Grequest_complete(MPI_Request))(handle) };
    }
}

#[inline(always)]
fn any() -> bool {
    PENDING.load(Ordering::Acquire) > 0
}

fn take(handle: MPI_Request) -> Option<Pending> {
    lock(&ALL).as_mut()?.remove(&number(handle))
}

/// Waits for ours among these.
#[cold]
fn settle(handles: &[MPI_Request]) {
    for &handle in handles {
        if let Some(mut pending) = take(handle) {
            let result = pending.request.complete();
            pending.finish(handle, result);
        }
    }
}

/// Completes those of ours among these that have come about, and says whether others have not.
#[cold]
fn poll(handles: &[MPI_Request]) -> bool {
    let mut some_left = false;
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
            result => pending.finish(handle, result.map(drop)),
        }
    }
    some_left
}

/// Asks the host again and again, while some of these are ours and under way; then the host may wait.
#[cold]
fn wait_with(handles: &[MPI_Request], mut ask: impl FnMut() -> bool) {
    let process = process();
    let Some(process) = &*process else { return };
    let waited = process.job.wait_until(None, || {
        let some_left = poll(handles);
        ask() || !some_left
    });
    if waited.is_err() {
        // Some rank died: those that it had a part in end with an error, and the others as they do.
        settle(handles);
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

exported! {
    fn MPI_Wait PMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own request.
            settle(unsafe { list(1, request) });
        }
        // SAFETY: the program's own arguments.
        unsafe { host!(PMPI_Wait(*mut MPI_Request, *mut MPI_Status))(request, status) }
    }

    fn MPI_Waitall PMPI_Waitall(count: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own requests.
            settle(unsafe { list(count, requests) });
        }
        // SAFETY: the program's own arguments.
        unsafe { host!(PMPI_Waitall(c_int, *mut MPI_Request, *mut MPI_Status))(count, requests, statuses) }
    }

    fn MPI_Waitany PMPI_Waitany(count: c_int, requests: *mut MPI_Request, index: *mut c_int,
        status: *mut MPI_Status) {
        if any() {
            let (mut code, mut flag) = (0, 0);
            // SAFETY: the program's own requests, copied, since the host changes them.
            let handles = unsafe { list(count, requests) }.to_vec();
            wait_with(&handles, || {
                // SAFETY: the program's own arguments, and locals.
                code = unsafe {
                    host!(PMPI_Testany(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                        count, requests, index, &raw mut flag, status,
                    )
                };
                flag != 0 || code != 0
            });
            if flag != 0 || code != 0 {
                return code;
            }
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Waitany(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status))(
                count, requests, index, status,
            )
        }
    }

    fn MPI_Waitsome PMPI_Waitsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) {
        if any() {
            let mut code = 0;
            // SAFETY: as in MPI_Waitany.
            let handles = unsafe { list(count, requests) }.to_vec();
            let mut some = false;
            wait_with(&handles, || {
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
                return code;
            }
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Waitsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                count, requests, done, indices, statuses,
            )
        }
    }

    fn MPI_Test PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own request.
            poll(unsafe { list(1, request) });
        }
        // SAFETY: the program's own arguments.
        unsafe { host!(PMPI_Test(*mut MPI_Request, *mut c_int, *mut MPI_Status))(request, flag, status) }
    }

    fn MPI_Testall PMPI_Testall(count: c_int, requests: *mut MPI_Request, flag: *mut c_int,
        statuses: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own requests.
            poll(unsafe { list(count, requests) });
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Testall(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status))(
                count, requests, flag, statuses,
            )
        }
    }

    fn MPI_Testany PMPI_Testany(count: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own requests.
            poll(unsafe { list(count, requests) });
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Testany(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                count, requests, index, flag, status,
            )
        }
    }

    fn MPI_Testsome PMPI_Testsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) {
        if any() {
            // SAFETY: the program's own requests.
            poll(unsafe { list(count, requests) });
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Testsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status))(
                count, requests, done, indices, statuses,
            )
        }
    }

    fn MPI_Request_get_status PMPI_Request_get_status(request: MPI_Request, flag: *mut c_int,
        status: *mut MPI_Status) {
        if any() {
            poll(&[request]);
        }
        // SAFETY: the program's own arguments.
        unsafe {
            host!(PMPI_Request_get_status(MPI_Request, *mut c_int, *mut MPI_Status))(request, flag, status)
        }
    }
}
