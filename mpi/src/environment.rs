//! Where the program begins and ends.

use std::ffi::{c_char, c_int};

use mpi_sys::MPI_Comm;

use crate::exported::exported;
use crate::host::host;
use crate::{constants, memory, process, report, types};

exported! {
    fn MPI_Init PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) {
        // SAFETY: the program's own arguments.
        let code = unsafe { host!(PMPI_Init(*mut c_int, *mut *mut *mut c_char))(argc, argv) };
        begun(code)
    }

    fn MPI_Init_thread PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int,
    ) {
        // SAFETY: the program's own arguments.
        let code = unsafe {
            host!(PMPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int))(
                argc, argv, required, provided,
            )
        };
        begun(code)
    }

    fn MPI_Finalize PMPI_Finalize() {
        if process::process().is_some() {
            report::print(world_rank());
            types::end();
            memory::end();
        }
        process::end();
        // SAFETY: no arguments.
        unsafe { host!(PMPI_Finalize())() }
    }
}

fn begun(code: c_int) -> c_int {
    if code == 0 {
        types::begin();
        process::begin();
    }
    code
}

fn world_rank() -> u32 {
    let mut rank = 0;
    // SAFETY: a local; the host has begun.
    unsafe { host!(PMPI_Comm_rank(MPI_Comm, *mut c_int))(constants::comm_world(), &raw mut rank) };
    rank.unsigned_abs()
}
