//! The memory of large rings. If many connections copy, each has a large ring only while something is under way in it.
//! So the pinned memory depends on how many connections copy at the same time, not on how many have ever copied.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys::ibv_access_flags as access;

use super::memory::Pinned;
use super::objects::ProtectionDomain;
use crate::Result;

/// Room for data that is copied on its way.
pub(super) const LARGE_RING: u32 = 256 << 10;
/// While there are no more than so many, each stays with its connection.
const KEPT: usize = 32;
/// What nobody took while so many were given back is not needed: registering memory takes long.
const GIVEN: usize = 256;
/// So many of these are unmapped at a time, which takes long, too.
const UNMAPPED: usize = 4;

pub(super) struct Rings {
    kept: AtomicUsize,
    made: AtomicUsize,
    spare: Mutex<Spare>,
}

/// What connections have given back.
#[derive(Default)]
struct Spare {
    rings: Vec<Pinned>,
    /// The fewest that there were since this was last looked at, and how many were given back since.
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

    /// How many there are.
    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// How many there are beyond those that stay with their connections.
    fn surplus(&self) -> usize {
        self.made()
            .saturating_sub(self.kept.load(Ordering::Relaxed))
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that another connection has given back, or a new one.
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

/// The memory of a large ring, which goes to another connection when it is dropped: nothing is under way in it then.
pub(super) struct LargeRing {
    memory: ManuallyDrop<Pinned>,
    rings: Arc<Rings>,
}

impl LargeRing {
    pub(super) fn memory(&self) -> &Pinned {
        &self.memory
    }

    /// Whether a connection that has nothing under way in it leaves it to others.
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
