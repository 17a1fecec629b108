//! Where the program begins and ends.

use std::ffi::{c_char, c_int};

use crate::exported::exported;
use crate::host::host;
use crate::{loaded, memory, process, report, types};

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

    fn MPI_Finalize PMPI_Finalize() {
        if let Some(process) = &*process::process() {
            report::print(process.job.world().rank(), process.job.device_name());
            types::end();
            memory::end();
        }
        process::end();
        // SAFETY: no arguments.
        unsafe { host!(PMPI_Finalize())() }
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
    }
    code
}
