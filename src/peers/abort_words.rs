//! Whether the job ends, for ranks that wait for nothing: two loads.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdma_sys_shim::BootstrapSegment;

use super::control_header::ABORT;
use crate::memory::control::ControlBlock;

/// The two words that tell of an abort. Both are zero before, and stay in this processor's cache.
pub(crate) struct AbortWords {
    /// This rank's abort word, which its peers write.
    abort: NonNull<AtomicU64>,
    /// The launcher's word, or this rank's abort word if the launcher has none.
    notice: NonNull<AtomicU64>,
    _header: ControlBlock,
    _launcher: Option<BootstrapSegment>,
}

// SAFETY: the pointers are to atomics that many processes share, in memory that the other fields keep.
unsafe impl Send for AbortWords {}
// SAFETY: as above.
unsafe impl Sync for AbortWords {}

impl AbortWords {
    pub(super) fn new(header: ControlBlock, launcher: Option<BootstrapSegment>) -> Self {
        let abort = NonNull::from(header.word(ABORT));
        let notice = launcher
            .as_ref()
            .map(|segment| NonNull::from(segment.word()));
        Self {
            abort,
            notice: notice.unwrap_or(abort),
            _header: header,
            _launcher: launcher,
        }
    }

    /// The cause of the job's end; 0 if it has not ended.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        match self.abort().load(Ordering::Relaxed) {
            0 => self.notice().load(Ordering::Relaxed),
            word => word,
        }
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.abort().load(Ordering::Relaxed) | self.notice().load(Ordering::Relaxed) != 0
    }

    /// As [`Self::is_set`], for a device, which lives at least as long as these words; false once they are dropped.
    pub(super) fn watched(self: &Arc<Self>) -> Arc<dyn Fn() -> bool + Send + Sync> {
        let words = Arc::downgrade(self);
        Arc::new(move || words.upgrade().is_some_and(|words| words.is_set()))
    }

    /// This rank's abort word.
    #[inline]
    pub(crate) fn abort(&self) -> &AtomicU64 {
        // SAFETY: the block lives as long as `self`, and so does the region of the word.
        unsafe { self.abort.as_ref() }
    }

    /// Tells the launcher whose failure was the first, before ranks that learn of it end. Nobody changes a notice.
    pub(crate) fn tell_launcher(&self, word: u64) {
        let order = Ordering::Relaxed;
        let _ = self.notice().compare_exchange(0, word, order, order);
    }

    #[inline]
    fn notice(&self) -> &AtomicU64 {
        // SAFETY: as above, or the launcher's word, which lives as long as `self`.
        unsafe { self.notice.as_ref() }
    }
}
