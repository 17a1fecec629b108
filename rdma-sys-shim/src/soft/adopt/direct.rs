//! Moving pages while no other thread runs. The argument is in the module above.

use super::stretch::Stretch;
use super::sys::{self, Refusal, SignalsBlocked};

/// Moves private pages into the memfd.
///
/// # Safety
/// No other thread runs that could access the pages, they are plain private memory, and neither
/// this thread's stack nor its thread-local storage is on them.
pub(super) unsafe fn adopt(stretch: &Stretch) -> Result<(), Refusal> {
    let _blocked = SignalsBlocked::new();
    // Makes poisoned pages and guard regions an error here rather than a signal below. Kernels
    // before 5.14 do not know it, nor guard regions.
    match sys::advise(stretch.addr, stretch.len, libc::MADV_POPULATE_READ) {
        Ok(())
        | Err(Refusal {
            errno: libc::EINVAL,
            ..
        }) => {}
        Err(refusal) => return Err(refusal),
    }
    // SAFETY: the pages are mapped, and this thread, the only one, does not write to them.
    unsafe { stretch.store()? };
    // SAFETY: the memfd holds what the pages hold; nothing ran in between that could have
    // written to them.
    unsafe { stretch.map_shared() }
}

/// Moves adopted pages back into private memory.
///
/// # Safety
/// No other thread runs that could access the pages, nobody writes to the memfd, and neither
/// this thread's stack nor its thread-local storage is on them.
pub(super) unsafe fn give_back(stretch: &Stretch) -> Result<(), Refusal> {
    let _blocked = SignalsBlocked::new();
    // SAFETY: what is at these addresses is in the memfd, and nobody looks until it is back.
    unsafe { stretch.map_private(Some(stretch.addr))? };
    // SAFETY: the pages are fresh.
    let loaded = unsafe { stretch.load(stretch.addr) };
    if loaded.is_err() {
        // SAFETY: the memfd still holds everything.
        unsafe { restore(stretch) };
    }
    loaded
}

/// Puts adopted pages back after a failure.
///
/// # Safety
/// The memfd holds what belongs at the addresses.
pub(super) unsafe fn restore(stretch: &Stretch) {
    // SAFETY: the caller guarantees that the memfd holds what belongs there.
    if unsafe { stretch.map_shared() }.is_err() {
        // The caller's data is in a file that can no longer be put where the caller looks.
        sys::complain("transom: window memory cannot be mapped back after a failure\n");
        std::process::abort();
    }
}
