//! Whether the program has used its MPI past this library, as programs do that take functions from the handle of the
//! MPI's library (`dlsym`). Nothing else would report this, since no call arrives here.

use std::ptr;

use crate::{launcher, loaded, report, world};

/// The loader calls this when the process ends. By then MPI is finalized, and the program's own output is complete.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    let is_asked = report::strict() || report::is_asked_for();
    if !is_asked || world::was_begun_here() || report::has_windows() || !loaded::is_initialized() {
        return;
    }
    if launcher::rank() == 0 {
        report::trouble(
            "the program has used its MPI, but no call came through this library, and all windows were the host's: it \
             takes the functions from the handle of the MPI's library, which should be libmpi_transom_mpich.so or \
             libmpi_transom_openmpi.so instead (see docs/mpi.md)",
        );
    }
    if report::strict() {
        // SAFETY: a null pointer stands for all streams of the C library, which writes them only later.
        unsafe { libc::fflush(ptr::null_mut()) };
        // SAFETY: it ends the process; the loader has run the other libraries' functions that depend on this one.
        unsafe { libc::_exit(1) };
    }
}
