//! What a send queue needs of the device.

use std::sync::Arc;

use ibverbs_sys as ffi;
use ibverbs_sys::ibv_wc_status as status;

use crate::Result;
use crate::verbs::adapter::Adapter;
use crate::verbs::objects::{CompletionQueue, ProtectionDomain, QueuePair};
use crate::verbs::rings::Rings;

/// The most entries that are taken from the completion queue at a time.
pub(super) const BATCH: usize = 16;

/// The device's report of a request that it has finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) ticket: u64,
    /// Status and vendor error, if it failed.
    pub(super) error: Option<(status::Type, u32)>,
}

/// A connection's queue pair and completion queue. Dropping it ends all its work; then the device accesses no memory
/// for it.
pub(super) trait Link {
    /// Posts a chain of requests. After an error, some may nevertheless have been posted.
    ///
    /// # Safety
    /// As for [`QueuePair::post_send`].
    unsafe fn post(&self, first: *mut ffi::ibv_send_wr) -> Result<()>;

    /// Takes up to [`BATCH`] reports, which replace the previous ones. Returns their number.
    fn take_reports(&mut self) -> Result<usize>;

    /// One of the reports that were taken last.
    fn report(&self, index: usize) -> Report;

    /// Ends all work soon, with reports.
    fn fail(&self) -> Result<()>;
}

/// The link of a real device.
pub(super) struct Line {
    pub(super) pair: QueuePair,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) rings: Arc<Rings>,
    completions: Arc<CompletionQueue>,
    entries: [ffi::ibv_wc; BATCH],
}

impl Line {
    pub(super) fn new(
        pair: QueuePair,
        completions: Arc<CompletionQueue>,
        adapter: &Adapter,
    ) -> Self {
        Self {
            pair,
            domain: adapter.domain.clone(),
            rings: adapter.rings.clone(),
            completions,
            entries: [ffi::ibv_wc::default(); BATCH],
        }
    }
}

impl Link for Line {
    #[inline]
    unsafe fn post(&self, first: *mut ffi::ibv_send_wr) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.pair.post_send(first) }
    }

    #[inline]
    fn take_reports(&mut self) -> Result<usize> {
        self.completions.poll(&mut self.entries)
    }

    #[inline]
    fn report(&self, index: usize) -> Report {
        let entry = &self.entries[index];
        Report {
            ticket: entry.wr_id(),
            error: entry.error(),
        }
    }

    fn fail(&self) -> Result<()> {
        self.pair.fail()
    }
}
