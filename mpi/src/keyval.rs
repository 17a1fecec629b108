//! Attributes of the host's, which tell when what has them goes.

use std::ffi::{c_int, c_void};

/// What the host calls when a communicator or a datatype is duplicated.
pub(crate) type Copy<H> =
    unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// What the host calls when it goes.
pub(crate) type Delete<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// A duplicate is another, of which nothing has to be told.
///
/// # Safety
/// The last is a place for a flag.
pub(crate) unsafe extern "C" fn not_copied<H>(
    _: H,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { *flag = 0 };
    0
}
