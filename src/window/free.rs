//! What becomes of a window's memory.

use std::mem;

use super::Window;
use crate::peers::is_forked;

impl Window {
    /// Gives everything back. All ranks have come to free the window, or promised that they will
    /// not use it any more.
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
        // Once the job was aborted, there is nothing to free it with.
        if !is_forked() && !self.context().is_aborted() {
            tracing::warn!(
                base = ?self.base,
                size = self.size(),
                "a window was dropped without being freed: its memory is leaked, since other ranks \
                 may still access it"
            );
        }
        mem::forget(memory);
        // The words in the control block stay taken for the same reason.
        mem::forget(self.block.clone());
        mem::forget(mem::take(&mut self.pairs));
    }
}
