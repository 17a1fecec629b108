//! Freeing windows.

use crate::comm::Purpose;
use crate::error::{Error, Result};
use crate::peers::not_forked;
use crate::terms::Flavor;
use crate::window::Window;

impl Window {
    /// Collective. Frees the window, and its memory if the library allocated it; what is attached is
    /// detached. First deletes this rank's attributes, then waits for all ranks, unless all gave the
    /// hint `no_locks`, sizes and displacement units are the same on all, and the window is not a shared one: then the program sees to
    /// it that no operation on this rank's memory is still to come, nor a `shared_query` of it, by a fence or by `wait`
    /// (MPI-4.1, section 12.2.5, `MPI_Win_free`).
    ///
    /// # Errors
    /// As for [`Window::try_free`]; the memory is leaked, since peers may still access it.
    pub fn free(self) -> Result<()> {
        self.try_free().map_err(|(_leaked, error)| error)
    }

    /// Collective. As [`Window::free`], and gives the window back if that fails.
    ///
    /// # Errors
    /// An epoch is open, or the callback of an attribute failed: then the window is as it was, and
    /// this rank may try again, while the others wait. A rank died or left, or is in a fence: then
    /// the window can do nothing that is collective any more, and is best leaked.
    pub fn try_free(self) -> std::result::Result<(), (Box<Self>, Error)> {
        // A segment of all ranks goes with the first of them. And what a rank says of its part stands in its block: where
        // that differs, or the memory is shared, others may read it at any time, and not only when they access the memory.
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

/// Collective. As [`Window::free`], with a last look at this rank's memory, its first byte and how many there
/// are, once all ranks have come here and nobody changes it any more. Waits for all ranks whatever the
/// hints, and returns what `last_look` did.
///
/// # Errors
/// As for [`Window::free`]; then nothing was looked at.
pub fn free_with<R>(window: Window, last_look: impl FnOnce(*const u8, u64) -> R) -> Result<R> {
    window.prepare_to_free(true)?;
    let looked = last_look(window.base(), window.size());
    window.give_back();
    Ok(looked)
}

/// Collective. As [`Window::try_free`], for a window whose attributes the caller has: `delete` is called before anything else is
/// done, and before the other ranks hear of it. Waits for all ranks whatever the hints.
///
/// # Errors
/// As for [`Window::try_free`]. `delete` failed, or an epoch was open, so that it was not called: then the window is as it
/// was.
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
