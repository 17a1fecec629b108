//! Of which ranks this one has a pointer to their memory.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Window;
use crate::wait::lock;

/// The ranks whose memory this one has a pointer to, in windows where not all have it of all.
#[derive(Default)]
pub(super) struct HandedOut {
    any: AtomicBool,
    ranks: Mutex<BTreeSet<u32>>,
}

impl Window {
    /// Notes that this rank may load from and store to the memory of `rank`.
    pub(super) fn give_away(&self, rank: u32) {
        lock(&self.handed_out.ranks).insert(rank);
        self.handed_out.any.store(true, Ordering::Relaxed);
    }

    /// Whether this rank may load from and store to memory of another, in windows not of
    /// `allocate_shared`.
    #[inline]
    pub(crate) fn has_handed_out(&self) -> bool {
        self.handed_out.any.load(Ordering::Relaxed)
    }

    /// Whose memory that is, and this rank, in their order.
    pub(crate) fn handed_out_and_own(&self) -> BTreeSet<u32> {
        let mut ranks = lock(&self.handed_out.ranks).clone();
        ranks.insert(self.rank());
        ranks
    }
}
