//! What the log says of windows.

use std::sync::atomic::Ordering;

use super::Window;
use crate::terms::Flavor;

/// Where a reader looks for it, whichever file says it.
pub(super) const LOG: &str = "transom::window";

impl Window {
    pub(super) fn tell_made(&self) {
        tracing::info!(
            target: LOG,
            bytes = self.size(),
            disp_unit = self.disp_unit(),
            ranks = self.ranks(),
            device = self.team.fabric.device().name(),
            memory = self.memory_in_words(),
            atomics = ?self.atomic_domain,
            base = ?self.base,
            "made a window by {}", self.flavor
        );
    }

    pub(super) fn tell_freed(&self) {
        tracing::info!(
            target: LOG,
            bytes = self.size(),
            base = ?self.base,
            "freed a window of {}", self.flavor
        );
    }

    /// A lock is taken despite the hint `no_locks`, if it was given: the first time in a window.
    pub(crate) fn tell_of_lock(&self, operation: &'static str) {
        if self.hints.no_locks && !self.told_of_locks.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: LOG,
                base = ?self.base,
                "{operation}: the window has the hint no_locks, and is locked all the same"
            );
        }
    }

    /// How ranks of this host get at this rank's memory. How this rank gets at theirs is found at first use.
    fn memory_in_words(&self) -> &'static str {
        let exposed = self.exposed(self.rank());
        let is_mapped = || {
            let own = self.team.peer(self.rank()).ok()?.endpoint();
            // Memory of the program's is mapped here, too, but none for the atomics of other processes.
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
