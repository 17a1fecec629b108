//! What the log says of windows.

use std::sync::atomic::Ordering;

use super::Window;
use crate::liveness::Awaited;
use crate::terms::Flavor;
use crate::wait::Verdict;

/// The target of all log messages about windows, whichever file they come from.
pub(super) const LOG: &str = "transom::window";

impl Window {
    /// See [`Context::check`](crate::peers::Context::check), for a call of this window.
    #[cold]
    pub(crate) fn check(&self, operation: &'static str, awaited: Awaited<'_>) -> Verdict<'_> {
        let place = || match &*self.name() {
            "" => format!("of window {}", self.number),
            name => format!("of window {name:?}"),
        };
        self.context().check(operation, awaited, &place)
    }

    pub(super) fn log_creation(&self) {
        tracing::info!(
            target: LOG,
            bytes = self.size(),
            disp_unit = self.disp_unit(),
            ranks = self.ranks(),
            device = self.team.fabric.device.name(),
            memory = self.memory_in_words(),
            atomics = ?self.atomic_domain,
            base = ?self.base,
            "made a window by {}", self.flavor
        );
    }

    pub(super) fn log_free(&self) {
        tracing::info!(
            target: LOG,
            bytes = self.size(),
            base = ?self.base,
            "freed a window of {}", self.flavor
        );
    }

    /// Logs the first lock that is taken in a window despite the hint `no_locks`.
    pub(crate) fn log_lock(&self, operation: &'static str) {
        if self.hints.no_locks() && !self.logged_lock.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: LOG,
                base = ?self.base,
                "{operation}: the window has the hint no_locks, and is locked all the same"
            );
        }
    }

    /// Reports once that a call is outside the epochs in which MPI defines it.
    #[cold]
    pub(crate) fn log_epoch(&self, operation: &'static str) {
        if !self.logged_epoch.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: LOG,
                base = ?self.base,
                "{operation}: MPI allows it only in an epoch of lock or lock_all; it is carried out all the same"
            );
        }
    }

    /// How ranks of this host access this rank's memory. This rank's access to theirs is decided at first use.
    fn memory_in_words(&self) -> &'static str {
        let exposed = self.parts.own.exposed();
        let is_mapped = || {
            let own = self.team.connect_to(self.rank()).ok()?.endpoint();
            // Memory of the program is also mapped here, but not for the atomics of other processes.
            let mapped = own.has_atomics(&exposed) && own.map(&exposed).ok()?.is_some();
            mapped.then_some(())
        };
        match self.flavor {
            Flavor::Dynamic => "attached later",
            Flavor::Shared => "mapped",
            _ if exposed.len == 0 => "none",
            _ if is_mapped().is_some() => "mapped",
            _ => "not mapped",
        }
    }
}
