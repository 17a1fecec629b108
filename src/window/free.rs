//! What becomes of a window's memory.

use std::mem;

use super::Window;
use crate::peers::is_forked;

impl Window {
    /// Releases all resources. All ranks have called free, or promised not to use the window any
    /// more.
    pub(crate) fn give_back(mut self) {
        self.targets.withdraw();
        self.targets.drop_routes();
        drop(self.memory.take());
        self.log_free();
        if let Some(counters) = &self.counters {
            counters.finish();
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        // Once the job was aborted, the resources cannot be released.
        if !is_forked() && !self.context().is_aborted() {
            tracing::warn!(
                base = ?self.base,
                size = self.size(),
                "a window was dropped without being freed: its memory is leaked, since other ranks \
                 may still access it"
            );
        }
        mem::forget(memory);
        // For the same reason, the words in the control block are not released.
        mem::forget(self.block.clone());
        mem::forget(mem::take(&mut self.pairs));
    }
}
