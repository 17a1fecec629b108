//! Flush: operations are complete at their targets, while the epoch goes on.

use rdma_sys_shim::Ticket;
use rdma_sys_shim::memory::full_fence;

use crate::error::{Error, Misuse, Result};
use crate::window::Window;
use crate::window::target::{Held, Target};

impl Window {
    /// One-sided. Returns when all of this rank's operations on `target` are complete there
    /// (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// `target` is not locked or not a rank; an operation failed; the target died.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<()> {
        let open = self.passive_target("flush", target)?;
        if open.posted() != Ticket::DONE {
            self.complete_posted("flush", target, open)?;
        }
        // A store of ours may still sit in the processor's store buffer, where a later load of
        // ours would overtake it.
        if open.is_dirty() {
            open.set_clean();
            full_fence();
        }
        Ok(())
    }

    /// One-sided. Returns when the origin buffers of all of this rank's operations on `target` may
    /// be used again (MPI-4.1, section 12.5.4). Needs a lock of `target` or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<()> {
        let open = self.passive_target("flush_local", target)?;
        if open.posted() != Ticket::DONE {
            self.complete_posted("flush_local", target, open)?;
        }
        Ok(())
    }

    /// One-sided. As [`Window::flush`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked; an operation failed; a target died.
    pub fn flush_all(&self) -> Result<()> {
        self.needs_any_lock("flush_all")?;
        self.complete_all("flush_all")?;
        full_fence();
        Ok(())
    }

    /// One-sided. As [`Window::flush_local`], for all targets. Needs a lock.
    ///
    /// # Errors
    /// As for [`Window::flush_all`].
    pub fn flush_local_all(&self) -> Result<()> {
        self.needs_any_lock("flush_local_all")?;
        self.complete_all("flush_local_all")
    }

    /// Local. Makes this rank's own loads and stores and its peers' operations on its memory see
    /// each other (MPI-4.1, section 12.5.4, `MPI_Win_sync`). Needs a lock.
    ///
    /// # Errors
    /// Nothing is locked.
    pub fn sync(&self) -> Result<()> {
        self.needs_any_lock("sync")?;
        full_fence();
        Ok(())
    }

    /// The target, if operations on it go ahead in a passive-target epoch.
    #[inline]
    fn passive_target(&self, operation: &'static str, rank: u32) -> Result<&Target> {
        match self.targets().get(rank as usize) {
            Some(target) if target.held() != Held::No || self.mode().is_lock_all() => Ok(target),
            _ => Err(self.not_passive(operation, rank)),
        }
    }

    #[cold]
    fn not_passive(&self, operation: &'static str, rank: u32) -> Error {
        if let Err(error) = self.team().check_rank(operation, rank) {
            return error;
        }
        Error::new(
            operation,
            Misuse::Epoch {
                needs: "it needs a lock of its target or lock_all",
                state: self.state(Some(rank)),
            },
        )
    }

    fn needs_any_lock(&self, operation: &'static str) -> Result<()> {
        if self.mode().is_lock_all() || self.locks() > 0 {
            return Ok(());
        }
        Err(Error::new(
            operation,
            Misuse::Epoch {
                needs: "it needs a lock or lock_all",
                state: self.state(None),
            },
        ))
    }

    /// Waits for what the device has not reported complete yet, on one target.
    #[cold]
    pub(crate) fn complete_posted(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
    ) -> Result<()> {
        let route = self.route_of(operation, rank)?;
        let endpoint = &*route.endpoint;
        self.context()
            .patience()
            .complete(endpoint, target.posted())
            .map_err(|error| self.failed(operation, rank, error))
    }

    /// The same on all targets.
    #[inline]
    pub(crate) fn complete_all(&self, operation: &'static str) -> Result<()> {
        if self.device_used() {
            self.complete_every_target(operation)?;
        }
        Ok(())
    }

    #[cold]
    fn complete_every_target(&self, operation: &'static str) -> Result<()> {
        for (rank, target) in (0..).zip(self.targets()) {
            if target.posted() != Ticket::DONE {
                self.complete_posted(operation, rank, target)?;
            }
        }
        Ok(())
    }
}
