//! The memory of large rings. If many connections copy, each has a large ring only while something is under way in it.
//! So the pinned memory depends on how many connections copy at the same time, not on how many have ever copied.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys::ibv_access_flags as access;

use super::memory::Pinned;
use super::objects::ProtectionDomain;
use crate::Result;

/// The size of a large ring, for data that is copied.
pub(super) const LARGE_RING: u32 = 256 << 10;
/// While there are at most this many large rings, each stays with its connection.
const KEPT: usize = 32;
/// Spare rings that nobody took during this many returns are surplus. Fewer returns do not show that, and registering
/// memory again is slow.
const GIVEN: usize = 256;
/// The most rings that are unmapped at a time; unmapping is slow, too.
const UNMAPPED: usize = 4;

pub(super) struct Rings {
    kept: AtomicUsize,
    made: AtomicUsize,
    spare: Mutex<Spare>,
}

/// Rings that connections have returned.
#[derive(Default)]
struct Spare {
    rings: Vec<Pinned>,
    /// The fewest spare rings since the last check for surplus, and the number of returns since then.
    fewest: usize,
    given: usize,
}

impl Default for Rings {
    fn default() -> Self {
        Self {
            kept: AtomicUsize::new(KEPT),
            made: AtomicUsize::new(0),
            spare: Mutex::default(),
        }
    }
}

impl Rings {
    #[cfg(test)]
    pub(super) fn keep(&self, kept: usize) {
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// How many large rings exist.
    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// How many exist beyond those that stay with their connections.
    fn surplus(&self) -> usize {
        self.made()
            .saturating_sub(self.kept.load(Ordering::Relaxed))
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring that another connection has returned, or a new one.
    pub(super) fn take(self: &Arc<Self>, domain: &Arc<ProtectionDomain>) -> Result<LargeRing> {
        let spare = {
            let mut spare = self.spare();
            let found = spare.rings.pop();
            spare.fewest = spare.fewest.min(spare.rings.len());
            found
        };
        let memory = match spare {
            Some(memory) => memory,
            None => {
                let memory =
                    Pinned::new(domain, LARGE_RING as usize, access::IBV_ACCESS_LOCAL_WRITE)?;
                self.made.fetch_add(1, Ordering::Relaxed);
                memory
            }
        };
        Ok(LargeRing {
            memory: ManuallyDrop::new(memory),
            rings: self.clone(),
        })
    }

    fn give(&self, memory: Pinned) {
        let mut spare = self.spare();
        spare.rings.push(memory);
        spare.given += 1;
        if spare.given < GIVEN {
            return;
        }
        let unused = spare.fewest.min(self.surplus()).min(UNMAPPED);
        let left = spare.rings.len() - unused;
        let unused = spare.rings.split_off(left);
        (spare.fewest, spare.given) = (left, 0);
        drop(spare);
        self.made.fetch_sub(unused.len(), Ordering::Relaxed);
    }
}

/// The memory of a large ring. Nothing is under way in it when it is dropped; then another connection may use it.
pub(super) struct LargeRing {
    memory: ManuallyDrop<Pinned>,
    rings: Arc<Rings>,
}

impl LargeRing {
    pub(super) fn memory(&self) -> &Pinned {
        &self.memory
    }

    /// Whether a connection should return it when nothing is under way in it.
    pub(super) fn is_wanted(&self) -> bool {
        self.rings.surplus() > 0
    }
}

impl Drop for LargeRing {
    fn drop(&mut self) {
        // SAFETY: it is not used after this drop.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        self.rings.give(memory);
    }
}
