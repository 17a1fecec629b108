//! Attributes of the host, by which this library learns when the host deletes an object.

use std::ffi::{c_int, c_void};

/// The host calls this when a communicator or a datatype is duplicated.
pub(crate) type Copy<H> =
    unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// The host calls this when the object is deleted.
pub(crate) type Delete<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// A duplicate is another object, and gets no attribute.
///
/// # Safety
/// The last argument is a place for a flag.
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
