//! Hints, between the host's form and Transom's.

use std::ffi::{CStr, CString, c_char, c_int};

use transom::{ErrorClass, Info};

use crate::constants;
use crate::errors::{Result, bad};
use crate::host::{self, check};
use crate::mpi_h::MPI_Info;
use crate::{report, world};

/// The host's hints without malformed ones: MPI lets a library ignore hints that it does not understand.
pub(crate) fn from_host(info: MPI_Info) -> Result<Info> {
    let mut hints = Info::new();
    if info == constants::info_null() {
        return Ok(hints);
    }
    let mut count = 0;
    // SAFETY: a local; the host checks the handle.
    check(unsafe { host::PMPI_Info_get_nkeys(info, &raw mut count) })?;
    for at in 0..count {
        let (key, value) = pair(info, at)?;
        match transom::lower::is_legal_hint(&key, &value) {
            true => hints = hints.with(key, value),
            false => report::trouble(&format!(
                "{}the hint {key}={value:?} is malformed, and ignored",
                world::name()
            )),
        }
    }
    Ok(hints)
}

/// The hints of a call whose only purpose is to set hints.
pub(crate) fn given(info: MPI_Info) -> Result<Info> {
    match info == constants::info_null() {
        true => Err(bad(ErrorClass::Info, "the info object is MPI_INFO_NULL")),
        false => from_host(info),
    }
}

fn pair(info: MPI_Info, at: c_int) -> Result<(String, String)> {
    let mut key = vec![0 as c_char; constants::max_info_key().unsigned_abs() as usize + 1];
    let (mut len, mut flag) = (0, 0);
    // SAFETY: there is room for the longest key; the other places are locals.
    unsafe {
        check(host::PMPI_Info_get_nthkey(info, at, key.as_mut_ptr()))?;
        check(host::PMPI_Info_get_valuelen(
            info,
            key.as_ptr(),
            &raw mut len,
            &raw mut flag,
        ))?;
    }
    let mut value = vec![0 as c_char; len.unsigned_abs() as usize + 1];
    // SAFETY: there is room for all characters of the value, and the 0.
    check(unsafe {
        host::PMPI_Info_get(info, key.as_ptr(), len, value.as_mut_ptr(), &raw mut flag)
    })?;
    let text = |bytes: &[c_char]| {
        // SAFETY: the host ends both with a 0.
        let text = unsafe { CStr::from_ptr(bytes.as_ptr()) };
        text.to_string_lossy().into_owned()
    };
    Ok((text(&key), text(&value)))
}

/// Makes an info object of the host, which the program frees.
pub(crate) fn to_host(hints: &Info) -> Result<MPI_Info> {
    let mut info = constants::info_null();
    // SAFETY: a local.
    check(unsafe { host::PMPI_Info_create(&raw mut info) })?;
    for (key, value) in hints.iter() {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else {
            return Err(bad(ErrorClass::InfoValue, "a hint has a zero in it"));
        };
        // SAFETY: both are C strings, which the host copies.
        check(unsafe { host::PMPI_Info_set(info, key.as_ptr(), value.as_ptr()) })?;
    }
    Ok(info)
}
