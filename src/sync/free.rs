//! Freeing windows.
//!
//! If a callback of an attribute fails, or an epoch is open, the window is as before. After the barrier, the routes are
//! dropped, and then the memory. A window that is dropped without `free` leaks its block, including the entry, which
//! others may still read.

use crate::comm::Purpose;
use crate::error::{Error, Result};
use crate::peers::not_forked;
use crate::terms::Flavor;
use crate::window::Window;

impl Window {
    /// Collective. Frees the window, its memory if the library allocated it, and detaches attached memory. First
    /// deletes this rank's attributes, then waits for all ranks. It does not wait if all gave the hint `no_locks`,
    /// sizes and displacement units are equal on all, and the window is not a shared one. Then the program must ensure,
    /// by a fence or `wait`, that no operation on this rank's memory and no `shared_query` of it follow (MPI-4.1,
    /// section 12.2.5, `MPI_Win_free`).
    ///
    /// # Errors
    /// As for [`Window::try_free`]; the memory is leaked, since peers may still access it.
    pub fn free(self) -> Result<()> {
        self.try_free().map_err(|(_leaked, error)| error)
    }

    /// Collective. As [`Window::free`], but returns the window if that fails.
    ///
    /// # Errors
    /// An epoch is open, or the callback of an attribute failed: then the window is unchanged, and this rank may try
    /// again while the others wait. A rank died or left, or is in a fence: then all collective calls on the window
    /// fail, and the best is to leak it.
    pub fn try_free(self) -> std::result::Result<(), (Box<Self>, Error)> {
        // Rank 0 frees a shared allocation for all ranks. A rank's entry is in its block: if entries differ, or the
        // memory is shared, others may read the entry at any time, not only when they access the memory.
        let waits = !self.refuses_locks || self.flavor() == Flavor::Shared || self.parts.differ();
        match self.prepare_to_free(waits) {
            Ok(()) => {
                self.give_back();
                Ok(())
            }
            Err(error) => Err((Box::new(self), error)),
        }
    }

    fn prepare_to_free(&self, waits: bool) -> Result<()> {
        self.has_no_epoch()?;
        self.delete_attributes("free", None)?;
        // A callback may have opened one.
        self.has_no_epoch()?;
        self.context().check_aborted("free")?;
        self.await_flags("free")?;
        if waits {
            self.synchronise("free", Purpose::Free)?;
        }
        Ok(())
    }

    fn has_no_epoch(&self) -> Result<()> {
        not_forked("free")?;
        self.epochs.check_free("free")
    }
}

/// Collective. As [`Window::free`], but calls `last_look` with the address and size of this rank's memory, after all
/// ranks have called this and none changes the memory any more. Waits for all ranks whatever the hints, and returns the
/// result of `last_look`.
///
/// # Errors
/// As for [`Window::free`]; then `last_look` was not called.
pub fn free_with<R>(window: Window, last_look: impl FnOnce(*const u8, u64) -> R) -> Result<R> {
    window.prepare_to_free(true)?;
    let looked = last_look(window.base(), window.size());
    window.give_back();
    Ok(looked)
}

/// Collective. As [`Window::try_free`], for a window whose attributes the caller keeps. `delete` is called first,
/// before the other ranks are told. Waits for all ranks whatever the hints.
///
/// # Errors
/// As for [`Window::try_free`]. `delete` failed, or an epoch was open and `delete` was not called: then the window is
/// unchanged.
pub fn try_free_after<E: From<Error>>(
    window: Window,
    delete: impl FnOnce() -> std::result::Result<(), E>,
) -> std::result::Result<(), (Box<Window>, E)> {
    let prepared = (window.has_no_epoch().map_err(E::from))
        .and_then(|()| delete())
        .and_then(|()| Ok(window.prepare_to_free(true)?));
    match prepared {
        Ok(()) => {
            window.give_back();
            Ok(())
        }
        Err(error) => Err((Box::new(window), error)),
    }
}
