//! The calls that initialise and finalize MPI.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::exported::in_front;
use crate::host;
use crate::keyval::not_copied;
use crate::mpi_h::{MPI_Comm, MPI_Errhandler, MPI_Info};
use crate::{
    carrier, constants, groups, host_progress, launcher, loaded, memory, process, report, types,
    world,
};

in_front! {
    fn MPI_Init PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) or host {
        check_start();
        begun(host())
    }

    fn MPI_Init_thread PMPI_Init_thread(
        argc: *mut c_int, argv: *mut *mut *mut c_char, required: c_int, provided: *mut c_int,
    ) or host {
        check_start();
        begun(host())
    }
}

/// Goes on to the next function of its own name, which may be that of a tool.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    host_progress::before_finalize();
    // SAFETY: the program's own call, as it would be without us.
    unsafe { host::host!(MPI_Finalize())() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn PMPI_Finalize() -> c_int {
    host_progress::before_finalize();
    // SAFETY: as above.
    unsafe { host::host!(PMPI_Finalize())() }
}

/// The number of sessions that the program has begun and not ended.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);

in_front! {
    fn MPI_Session_init PMPI_Session_init(info: MPI_Info, handler: MPI_Errhandler, session: *mut c_void) or host {
        check_start();
        let code = host();
        if code == 0 {
            SESSIONS.fetch_add(1, Ordering::Relaxed);
            world::session_begins();
        }
        code
    }

    fn MPI_Session_finalize PMPI_Session_finalize(session: *mut c_void) or host {
        let code = host();
        let was_last = code == 0 && SESSIONS.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && !world::has_begun() {
            report::print(launcher::rank(), None);
        }
        code
    }
}

/// Ends the process if a variable has a value that is not known, or if two MPIs are loaded: calls of one could end in the
/// other, which does not know its handles.
fn check_start() {
    report::check_variables();
    let hosts = loaded::hosts();
    if hosts.len() > 1 {
        let hosts: Vec<&str> = hosts.into_iter().collect();
        report::trouble(&format!(
            "{} are loaded into one process; with `transom mpi --host`, name the one that the program uses",
            hosts.join(" and ")
        ));
        std::process::exit(1);
    }
    if let (Some(built_for), Some(host)) = (loaded::built_for(), hosts.first())
        && built_for != *host
    {
        report::trouble(&format!(
            "this library is for {built_for}, and the program's MPI is {host}: start it with `transom mpi`, which takes \
             the library for that"
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

/// Has the host report when it ends, by an attribute of `MPI_COMM_SELF`. MPI deletes the attribute that was set first
/// last (MPI-4.1, section 11.4.2), because functions of the program's attributes may still use windows.
fn end_in_finalize() {
    let mut keyval = constants::keyval_invalid();
    // SAFETY: both functions have the types that MPI demands, and live as long as the process.
    unsafe {
        host::PMPI_Comm_create_keyval(not_copied, ending, &raw mut keyval, ptr::null_mut());
        host::PMPI_Comm_set_attr(constants::comm_self(), keyval, ptr::null_mut());
        // The keyval exists as long as the attribute.
        host::PMPI_Comm_free_keyval(&raw mut keyval);
    }
}

unsafe extern "C" fn ending(_: MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    match process::process() {
        Some(process) => {
            report::print(process.job.world().rank(), Some(process.job.device_name()));
        }
        None => report::print(world::rank(), None),
    }
    types::end();
    groups::end();
    memory::end();
    carrier::end();
    process::end();
    0
}
