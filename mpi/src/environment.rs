//! Where the program begins and ends.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::exported::exported;
use crate::host::host;
use crate::keyval::{Copy, Delete, not_copied};
use crate::mpi_h::MPI_Comm;
use crate::{carrier, constants, groups, loaded, memory, process, report, types};

exported! {
    fn MPI_Init PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) {
        one_host();
        // SAFETY: the program's own arguments.
        let code = unsafe { host!(PMPI_Init(*mut c_int, *mut *mut *mut c_char))(argc, argv) };
        begun(code)
    }

    fn MPI_Init_thread PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int,
    ) {
        one_host();
        // SAFETY: the program's own arguments.
        let code = unsafe {
            host!(PMPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int))(
                argc, argv, required, provided,
            )
        };
        begun(code)
    }
}

/// With two MPIs, calls of one would end in the other.
fn one_host() {
    let hosts = loaded::hosts();
    if hosts.len() > 1 {
        let hosts: Vec<&str> = hosts.into_iter().collect();
        report::trouble(&format!(
            "{} are loaded into one process; with `transom mpi --host`, name the one that the program uses",
            hosts.join(" and ")
        ));
        std::process::exit(1);
    }
}

fn begun(code: c_int) -> c_int {
    if code == 0 {
        types::begin();
        process::begin();
        end_in_finalize();
    }
    code
}

/// Has the host tell when it ends: by an attribute of `MPI_COMM_SELF`, of which that which was set first is
/// deleted last (MPI-4.1, section 11.4.2). The program's own may still use its windows.
fn end_in_finalize() {
    let mut keyval = constants::keyval_invalid();
    // SAFETY: both functions are what MPI calls them by, and live as long as the process.
    unsafe {
        host!(PMPI_Comm_create_keyval(Copy<MPI_Comm>, Delete<MPI_Comm>, *mut c_int, *mut c_void))(
            not_copied,
            ending,
            &raw mut keyval,
            ptr::null_mut(),
        );
        host!(PMPI_Comm_set_attr(MPI_Comm, c_int, *mut c_void))(
            constants::comm_self(),
            keyval,
            ptr::null_mut(),
        );
        // It lives on with the attribute.
        host!(PMPI_Comm_free_keyval(*mut c_int))(&raw mut keyval);
    }
}

unsafe extern "C" fn ending(_: MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    if let Some(process) = process::process() {
        report::print(process.job.world().rank(), process.job.device_name());
    }
    types::end();
    groups::end();
    memory::end();
    carrier::end();
    process::end();
    0
}
