//! Which MPIs are loaded in this process: this library can stand in front of only one.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem;

use crate::constants;

/// The ABIs, in the order of `constants.c`.
const ABIS: [&str; 3] = [
    "MPICH or Intel MPI",
    "Open MPI",
    "an MPI with the ABI of MPI-5",
];

/// The ABIs of one family of MPIs each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abi {
    Mpich,
    OpenMpi,
}

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

/// The ABI that this library was built for, if it is one of those.
pub(crate) fn abi() -> Option<Abi> {
    match constants::abi() {
        0 => Some(Abi::Mpich),
        1 => Some(Abi::OpenMpi),
        _ => None,
    }
}

/// The MPIs whose libraries are loaded.
pub(crate) fn hosts() -> BTreeSet<&'static str> {
    libraries().into_iter().map(|(host, _)| host).collect()
}

/// Whether the program has initialised one of them.
pub(crate) fn is_initialized() -> bool {
    libraries().into_iter().any(|(_, path)| {
        // SAFETY: the path is a C string. The library is loaded, so no code of it runs.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return false;
        }
        let mut flag = 0;
        // SAFETY: the handle was just opened, and the name is a C string. An MPI's function of this name has this
        // type, may be called at any time, and writes the local.
        unsafe {
            let function = libc::dlsym(library, c"MPI_Initialized".as_ptr());
            if !function.is_null() {
                mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(function)(
                    &raw mut flag,
                );
            }
            libc::dlclose(library);
        }
        flag != 0
    })
}

/// The libraries of MPIs that are loaded: the MPI, and the path.
fn libraries() -> Vec<(&'static str, CString)> {
    let mut found = Vec::new();
    // SAFETY: the function has the type that the loader demands. It gets this list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// # Safety
/// `object` is the loader's own record, and `found` a list of libraries.
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Vec<(&str, CString)>>()) };
    if object.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings.
    let path = unsafe { CStr::from_ptr(object.dlpi_name) };
    let text = path.to_string_lossy();
    let name = text.rsplit('/').next().unwrap_or_default();
    let host = HOSTS.iter().find(|(library, _)| name.starts_with(library));
    found.extend(host.map(|(_, host)| (*host, path.to_owned())));
    0
}
