//! Which MPIs are loaded in this process: this library can stand in front of only one.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};

use crate::constants;

/// The ABIs, in the order of `constants.c`.
const ABIS: [&str; 3] = [
    "MPICH or Intel MPI",
    "Open MPI",
    "an MPI with the ABI of MPI-5",
];

/// Prefixes of the names of libraries, and the MPI to which each belongs.
const HOSTS: [(&str, &str); 4] = [
    ("libmpi.so.12", ABIS[0]),
    ("libmpich.so.12", ABIS[0]),
    ("libmpi.so.40", ABIS[1]),
    ("libmpi_abi.so", ABIS[2]),
];

/// Which of these this library was built for, if it is one of them.
pub(crate) fn built_for() -> Option<&'static str> {
    let place = usize::try_from(constants::abi()).ok()?;
    ABIS.get(place).copied()
}

/// The MPIs whose libraries are loaded.
pub(crate) fn hosts() -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    // SAFETY: the function has the type that the loader demands. It gets this set, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// # Safety
/// `object` is the loader's own record, and `found` a set of names.
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<BTreeSet<&'static str>>()) };
    if object.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings.
    let path = unsafe { CStr::from_ptr(object.dlpi_name) }.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default();
    let host = HOSTS.iter().find(|(library, _)| name.starts_with(library));
    found.extend(host.map(|(_, host)| host));
    0
}
