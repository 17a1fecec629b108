//! How single atomics, which take no lock, keep out of the way of work on many elements, which takes the accumulate
//! lock and no atomics.
//!
//! Each thread of a rank has a mark, which only it writes; each target has an announcement, which is written under its
//! accumulate lock. (Below `ThreadLevel::Multiple` all threads of a rank have one mark, since they take turns.)
//!
//! | | |
//! |---|---|
//! | single atomics | set the mark of their thread; if nothing is announced, are carried out; take the mark away. Else they take the lock instead |
//! | work on many elements | takes the lock; if nothing is announced, announces it, makes a fence for all threads, and waits until it has seen each thread without its mark |
//!
//! Either the single atomic sees the announcement, or the other its mark. That takes a full fence on both sides,
//! of which the frequent one has none: the other makes it for both, at a price. So an announcement stays, until some
//! single atomics have paid for it with the lock.

use crate::memory::word::SharedWord;

#[cfg(not(all(test, loom)))]
use rdma_sys_shim::light_fence;

/// In a model, the fence stands where the other side would make it.
#[cfg(all(test, loom))]
fn light_fence() {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// A thread is at single atomics while this lives.
pub(super) struct InFlight<'m, W: SharedWord>(&'m W);

impl<W: SharedWord> Drop for InFlight<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.publish(0);
    }
}

/// For single atomics of the thread whose mark this is. `None` where work on many elements is announced.
#[inline(always)]
pub(super) fn begin_single<'m, W: SharedWord>(
    flag: &'m W,
    bulk_mode: &W,
) -> Option<InFlight<'m, W>> {
    flag.publish(1);
    let marked = InFlight(flag);
    light_fence();
    (bulk_mode.observe() == 0).then_some(marked)
}

/// Under the lock: announces work on many elements, until `singles` single atomics have found it so. True if it was
/// not announced: then a fence has to be made, and the marks awaited.
pub(super) fn enter_bulk_mode(bulk_mode: &impl SharedWord, singles: u64) -> bool {
    let left = bulk_mode.look();
    if left != singles {
        bulk_mode.publish(singles);
    }
    left == 0
}

/// Under the lock: a single atomic found the announcement.
pub(super) fn found_bulk_mode(bulk_mode: &impl SharedWord) {
    let left = bulk_mode.look();
    bulk_mode.publish(left.saturating_sub(1));
}

#[cfg(all(test, loom))]
mod loom_model;
