//! The lock of a connection.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use super::queue::SendQueue;
use crate::verbs::objects::MemoryRegion;

/// A locked send queue. Once it is unlocked, this thread deregisters the origin buffers that no request uses any more:
/// other threads need not wait for these system calls.
pub(super) struct Locked<'e> {
    // Declared first, so that it is unlocked before the regions are dropped.
    queue: MutexGuard<'e, SendQueue>,
    ended: Vec<Arc<MemoryRegion>>,
}

impl<'e> Locked<'e> {
    #[inline]
    pub(super) fn new(queue: MutexGuard<'e, SendQueue>) -> Self {
        Self {
            queue,
            ended: Vec::new(),
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ended = self.queue.take_ended();
    }
}

impl Deref for Locked<'_> {
    type Target = SendQueue;

    #[inline]
    fn deref(&self) -> &SendQueue {
        &self.queue
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }
}
