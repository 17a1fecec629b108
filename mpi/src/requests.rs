//! Requests. They are the host's, so that its waits and tests accept them, also in one list with other requests.
//!
//! An operation that is complete when its call returns gets a request that the host has made complete. Any other
//! operation gets a generalized request of the host (MPI-4.1, section 13.2), which this library has to complete. So the
//! calls that wait for requests or test them look for ours first. While there are none, that costs one load.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use transom::raw::Request;

use crate::constants;
use crate::errors::{self, Result};
use crate::exported::{exported, in_front};
use crate::host::{self, check, host};
use crate::mpi_h::{MPI_Request, MPI_Status, MPI_Win, Number};
use crate::process::process;
use crate::windows::lock;

/// How many requests are not complete, or have failed without a report so far.
static PENDING: AtomicUsize = AtomicUsize::new(0);
/// These requests, by the host's handles.
static ALL: Mutex<Option<HashMap<Number, Pending>>> = Mutex::new(None);

/// An operation whose request the program has.
struct Pending {
    state: State,
    origin: Origin,
}

/// The window that reports a failure, and the name of the call.
#[derive(Clone, Copy)]
struct Origin {
    carrier: MPI_Win,
    call: &'static str,
}

enum State {
    UnderWay(Request),
    /// The host takes it for complete. The call that ends the request reports the error.
    Failed(transom::Error),
}

/// Makes a request of the host for one of ours.
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
    // SAFETY: the functions have the types that MPI demands, and need no state.
    check(unsafe { host::PMPI_Grequest_start(query, free, cancel, ptr::null_mut(), place) })?;
    // SAFETY: the host has just written it.
    let handle = unsafe { *place };
    PENDING.fetch_add(1, Ordering::Release);
    put(handle, State::UnderWay(request), Origin { carrier, call });
    Ok(())
}

/// Makes a request of the host that is complete.
///
/// # Safety
/// `request` is writable.
pub(crate) unsafe fn complete(request: *mut MPI_Request) -> Result<()> {
    let (byte, world) = (constants::byte(), constants::comm_world());
    // SAFETY: the caller's promise.
    Ok(check(unsafe {
        host::receive_from_nobody(byte, world, request)
    })?)
}

/// # Safety
/// As MPI demands for the query function of a request.
unsafe extern "C" fn query(_: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: the status is the host's.
    unsafe {
        host::PMPI_Status_set_elements(status, constants::byte(), 0);
        host::PMPI_Status_set_cancelled(status, 0);
    }
    // The window's handler reports the failure. With an error here, the host would call the world's handler.
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

#[inline(always)]
fn any() -> bool {
    PENDING.load(Ordering::Acquire) > 0
}

fn put(handle: MPI_Request, state: State, origin: Origin) {
    lock(&ALL)
        .get_or_insert_default()
        .insert(handle.number(), Pending { state, origin });
}

fn take(handle: MPI_Request) -> Option<Pending> {
    lock(&ALL).as_mut()?.remove(&handle.number())
}

/// Tells the host that a request is complete.
fn complete_at_host(handle: MPI_Request) {
    // SAFETY: the request was made by `lend`, and is completed once: it was taken from the list as a pending one.
    unsafe { host::PMPI_Grequest_complete(handle) };
}

/// Those of our requests in a call that have failed. They are no longer in the list, because the host may give the
/// handle of a request that it has ended to another request.
#[derive(Default)]
struct Failures(Vec<Failure>);

struct Failure {
    /// Its index in the call's list.
    index: usize,
    handle: MPI_Request,
    origin: Origin,
    error: transom::Error,
}

impl Failures {
    /// Waits for our requests among these.
    #[cold]
    fn settle(&mut self, handles: &[MPI_Request]) {
        self.find(handles, |request| request.complete().map(|()| true));
    }

    /// Completes our requests among these whose operations are complete. Returns whether others are still pending.
    #[cold]
    fn poll(&mut self, handles: &[MPI_Request]) -> bool {
        self.find(handles, Request::test)
    }

    fn find(
        &mut self,
        handles: &[MPI_Request],
        is_over: impl Fn(&mut Request) -> transom::Result<bool>,
    ) -> bool {
        let mut some_left = false;
        for (index, &handle) in handles.iter().enumerate() {
            let Some(Pending { state, origin }) = take(handle) else {
                continue;
            };
            let error = match state {
                State::Failed(error) => error,
                State::UnderWay(mut request) => match is_over(&mut request) {
                    Ok(true) => {
                        PENDING.fetch_sub(1, Ordering::Release);
                        complete_at_host(handle);
                        continue;
                    }
                    Ok(false) => {
                        some_left = true;
                        put(handle, State::UnderWay(request), origin);
                        continue;
                    }
                    Err(error) => {
                        complete_at_host(handle);
                        error
                    }
                },
            };
            self.0.push(Failure {
                index,
                handle,
                origin,
                error,
            });
        }
        some_left
    }

    /// Polls the host while some of these are ours and pending. After that the host may wait.
    #[cold]
    fn wait_with(&mut self, handles: &[MPI_Request], mut ask: impl FnMut() -> bool) {
        let Some(process) = process() else { return };
        let waited = process.job.wait_until(None, || {
            let some_left = self.poll(handles);
            ask() || !some_left
        });
        if waited.is_err() {
            // Some rank died: requests that involve it end with an error, and the others as usual.
            self.settle(handles);
        }
    }

    /// Reports the failures of requests that the host has ended, through the handlers of their windows. Returns their
    /// indices in the list and their codes.
    ///
    /// # Safety
    /// The list is the call's, as the host left it.
    unsafe fn tell(self, requests: *const MPI_Request) -> Vec<(usize, c_int)> {
        let mut told = Vec::new();
        for Failure {
            index,
            handle,
            origin,
            error,
        } in self.0
        {
            // SAFETY: the caller's promise; the handle was found at this index.
            if unsafe { *requests.add(index) } == handle {
                put(handle, State::Failed(error), origin);
            } else {
                let Origin { carrier, call } = origin;
                PENDING.fetch_sub(1, Ordering::Release);
                told.push((index, errors::tell(call, carrier, error)));
            }
        }
        told
    }

    /// The result of a call that ends at most one request.
    ///
    /// # Safety
    /// As for [`Failures::tell`].
    unsafe fn of_one(self, code: c_int, requests: *const MPI_Request) -> c_int {
        // SAFETY: the caller's promise.
        let told = unsafe { self.tell(requests) };
        first(code, told.first().map_or(0, |&(_, code)| code))
    }

    /// The result of a call that ends several requests and has written `count` statuses. `place` gives the index in the
    /// list of each status. If there is an error in a status, each status gets a code (MPI-4.1, section 3.7.5).
    ///
    /// # Safety
    /// As for [`Failures::tell`]; the statuses are writable, or to be ignored.
    unsafe fn of_several(
        self,
        code: c_int,
        requests: *const MPI_Request,
        statuses: *mut MPI_Status,
        count: usize,
        place: impl Fn(usize) -> Option<usize>,
    ) -> c_int {
        // SAFETY: the caller's promise.
        let told = unsafe { self.tell(requests) };
        let in_status = constants::error_in_status();
        if told.is_empty() || code != 0 && errors::class_of(code) != in_status {
            return code;
        }
        if statuses != constants::statuses_ignore() && !statuses.is_null() {
            // SAFETY: the caller's promise.
            let error = |index: usize| unsafe { error_of(statuses, index) };
            if code == 0 {
                // SAFETY: the caller's promise. The host writes the errors only if something failed.
                (0..count).for_each(|index| unsafe { *error(index) = 0 });
            }
            for (index, code) in told {
                if let Some(index) = place(index) {
                    // SAFETY: the caller's promise.
                    unsafe { *error(index) = code };
                }
            }
        }
        first(code, in_status)
    }

    /// The same for a call that says which requests it has ended: how many, and their indices in the list.
    ///
    /// # Safety
    /// As for [`Failures::of_several`]; there are as many indices.
    unsafe fn of_some(
        self,
        code: c_int,
        requests: *const MPI_Request,
        done: *const c_int,
        indices: *const c_int,
        statuses: *mut MPI_Status,
    ) -> c_int {
        if self.0.is_empty() {
            return code;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let indices = match number_of(*done) {
                0 => &[],
                done => std::slice::from_raw_parts(indices, done),
            };
            let place = |index| {
                indices
                    .iter()
                    .position(|&at| usize::try_from(at) == Ok(index))
            };
            self.of_several(code, requests, statuses, indices.len(), place)
        }
    }
}

fn first(code: c_int, later: c_int) -> c_int {
    if code != 0 { code } else { later }
}

fn number_of(count: c_int) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// # Safety
/// The list has `count` requests.
unsafe fn list<'l>(count: c_int, requests: *const MPI_Request) -> &'l [MPI_Request] {
    match number_of(count) {
        0 => &[],
        _ if requests.is_null() => &[],
        // SAFETY: the caller's promise.
        count => unsafe { std::slice::from_raw_parts(requests, count) },
    }
}

/// Completes our requests among these whose operations are complete, for a call that ends none of them.
///
/// # Safety
/// The list has `count` requests.
unsafe fn look_at(count: c_int, requests: *const MPI_Request) {
    if any() {
        let mut failures = Failures::default();
        // SAFETY: the caller's promise; no request of the list has ended.
        unsafe {
            failures.poll(list(count, requests));
            failures.tell(requests);
        }
    }
}

/// Calls that end requests. Each waits for our requests in the list, or polls them. Then it calls the host, and returns
/// the host's code, or that of a request of ours that failed.
macro_rules! ending {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),*) $first:ident $list:expr;
        then |$failures:ident, $code:ident| $then:expr;)*) => {
        exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                let mut $failures = Failures::default();
                // SAFETY: the program's own requests, statuses and places.
                unsafe {
                    if any() {
                        $failures.$first($list);
                    }
                    let $code = host!($pmpi($($ty),*))($($arg),*);
                    $then
                }
            }
        )*}
    };
}

ending! {
    fn MPI_Wait PMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) settle list(1, request);
        then |failures, code| failures.of_one(code, request);
    fn MPI_Waitall PMPI_Waitall(count: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status)
        settle list(count, requests);
        then |failures, code| failures.of_several(code, requests, statuses, number_of(count), Some);
    fn MPI_Test PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) poll list(1, request);
        then |failures, code| failures.of_one(code, request);
    fn MPI_Testall PMPI_Testall(count: c_int, requests: *mut MPI_Request, flag: *mut c_int, statuses: *mut MPI_Status)
        poll list(count, requests);
        then |failures, code| failures.of_several(code, requests, statuses, number_of(count), Some);
    fn MPI_Testany PMPI_Testany(count: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status) poll list(count, requests);
        then |failures, code| failures.of_one(code, requests);
    fn MPI_Testsome PMPI_Testsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status) poll list(count, requests);
        then |failures, code| failures.of_some(code, requests, done, indices, statuses);
}

/// Calls that end no request. The call that ends a failed request reports its failure.
macro_rules! looking {
    ($(fn $mpi:ident $pmpi:ident($($arg:ident: $ty:ty),*) at $count:expr, $list:expr;)*) => {
        exported! {$(
            fn $mpi $pmpi($($arg: $ty),*) {
                // SAFETY: the program's own requests and places.
                unsafe {
                    look_at($count, $list);
                    host!($pmpi($($ty),*))($($arg),*)
                }
            }
        )*}
    };
}

// The calls for several requests are of MPI-4.1: a program that uses them has a host with them.
looking! {
    fn MPI_Request_get_status PMPI_Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status)
        at 1, &raw const request;
    fn MPI_Request_get_status_all PMPI_Request_get_status_all(count: c_int, requests: *const MPI_Request,
        flag: *mut c_int, statuses: *mut MPI_Status) at count, requests;
    fn MPI_Request_get_status_any PMPI_Request_get_status_any(count: c_int, requests: *const MPI_Request,
        index: *mut c_int, flag: *mut c_int, status: *mut MPI_Status) at count, requests;
    fn MPI_Request_get_status_some PMPI_Request_get_status_some(count: c_int, requests: *const MPI_Request,
        done: *mut c_int, indices: *mut c_int, statuses: *mut MPI_Status) at count, requests;
}

in_front! {
    // The operation continues. The call that completes it at the origin or the target reports how it ended.
    fn MPI_Request_free PMPI_Request_free(request: *mut MPI_Request) or host {
        if any() {
            // SAFETY: the program's own request.
            for &handle in unsafe { list(1, request) } {
                if let Some(pending) = take(handle) {
                    PENDING.fetch_sub(1, Ordering::Release);
                    if let State::UnderWay(_) = pending.state {
                        complete_at_host(handle);
                    }
                }
            }
        }
        host()
    }

    fn MPI_Waitany PMPI_Waitany(count: c_int, requests: *mut MPI_Request, index: *mut c_int,
        status: *mut MPI_Status) or host {
        let mut failures = Failures::default();
        if any() {
            let (mut code, mut flag) = (0, 0);
            // SAFETY: the program's own requests. They are copied, since the host changes them.
            let handles = unsafe { list(count, requests) }.to_vec();
            failures.wait_with(&handles, || {
                // SAFETY: the program's own arguments, and locals.
                code = unsafe {
                    host::PMPI_Testany(
                        count, requests, index, &raw mut flag, status,
                    )
                };
                flag != 0 || code != 0
            });
            if flag != 0 || code != 0 {
                // SAFETY: the program's own requests.
                return unsafe { failures.of_one(code, requests) };
            }
        }
        let code = host();
        // SAFETY: the program's own requests.
        unsafe { failures.of_one(code, requests) }
    }

    fn MPI_Waitsome PMPI_Waitsome(count: c_int, requests: *mut MPI_Request, done: *mut c_int,
        indices: *mut c_int, statuses: *mut MPI_Status) or host {
        let mut failures = Failures::default();
        let (mut code, mut some) = (0, false);
        if any() {
            // SAFETY: as in MPI_Waitany.
            let handles = unsafe { list(count, requests) }.to_vec();
            failures.wait_with(&handles, || {
                // SAFETY: the program's own arguments.
                unsafe {
                    code = host::PMPI_Testsome(count, requests, done, indices, statuses);
                    some = code != 0 || *done != 0;
                }
                some
            });
        }
        if !some {
            code = host();
        }
        // SAFETY: the program's own arguments.
        unsafe { failures.of_some(code, requests, done, indices, statuses) }
    }
}

/// The place of the error in one of several statuses.
///
/// # Safety
/// There are more statuses than `index`.
unsafe fn error_of(several: *mut MPI_Status, index: usize) -> *mut c_int {
    let at = index * constants::status_size() + constants::status_error();
    // SAFETY: the caller's promise.
    unsafe { several.byte_add(at).cast() }
}
