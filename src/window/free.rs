//! Freeing windows.

use std::mem;

use super::{Mode, Window};
use crate::comm::Purpose;
use crate::error::{Error, Misuse, Result};

impl Window {
    /// Collective. Frees the window, and its memory if the library allocated it. Waits for all
    /// ranks, unless all gave the hint `no_locks`: then the last fence has done so (MPI-4.1,
    /// section 12.2.5, `MPI_Win_free`).
    ///
    /// # Errors
    /// An access epoch is open, a rank died or left, or is in a fence; then the memory is leaked,
    /// since peers may still access it.
    pub fn free(self) -> Result<()> {
        if self.mode() != Mode::Idle && self.mode() != Mode::FenceUnused || self.locks() > 0 {
            let misuse = Misuse::Epoch {
                needs: "free needs a window without an open epoch",
                state: self.state(None),
            };
            return Err(Error::new("free", misuse));
        }
        if !self.no_locks() {
            self.synchronise("free", Purpose::Free)?;
        }
        self.give_back();
        Ok(())
    }

    /// Gives everything back. All ranks have come to free the window, or promised that they will
    /// not use it any more.
    pub(crate) fn give_back(mut self) {
        for target in &mut self.targets {
            drop(target.take_route());
        }
        drop(self.memory.take());
    }

    /// Collective. Waits until every rank has come here, for the same purpose.
    #[inline]
    pub(crate) fn synchronise(&self, operation: &'static str, purpose: Purpose) -> Result<()> {
        let blocks = &self.columns.block;
        self.barrier
            .wait(operation, purpose, &self.team, blocks, &|_| Ok(()))
            .map_err(|error| self.give_up(error))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        tracing::warn!(
            base = ?self.base,
            size = self.size(),
            "a window was dropped without being freed: its memory is leaked, since other ranks \
             may still access it"
        );
        mem::forget(memory);
        // The words in the control block stay taken for the same reason.
        mem::forget(self.block.clone());
    }
}
