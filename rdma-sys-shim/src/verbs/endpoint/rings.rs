//! The memory of large rings, which connections have for as long as they copy: what a process pins for copies grows with
//! the connections that copy at a time, and not with those that ever did.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ibverbs_sys::ibv_access_flags as access;

use crate::Result;
use crate::verbs::memory::Pinned;
use crate::verbs::objects::ProtectionDomain;

/// Room for data that is copied on its way.
pub(super) const LARGE_RING: u32 = 256 << 10;
/// While there are no more than so many, each stays with its connection.
const KEPT: usize = 32;

pub(in crate::verbs) struct Rings {
    kept: AtomicUsize,
    made: AtomicUsize,
    /// What connections have given back.
    spare: Mutex<Vec<Pinned>>,
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
    pub(in crate::verbs) fn keep(&self, kept: usize) {
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// How many there are.
    pub(in crate::verbs) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Whether there are more than stay with their connections.
    fn are_many(&self) -> bool {
        self.made() > self.kept.load(Ordering::Relaxed)
    }

    /// One that another connection has given back, or a new one.
    pub(super) fn take(self: &Arc<Self>, domain: &Arc<ProtectionDomain>) -> Result<RingMemory> {
        let spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let memory = match spare {
            Some(memory) => memory,
            None => {
                let memory =
                    Pinned::new(domain, LARGE_RING as usize, access::IBV_ACCESS_LOCAL_WRITE)?;
                self.made.fetch_add(1, Ordering::Relaxed);
                memory
            }
        };
        Ok(RingMemory {
            memory: Some(memory),
            rings: Some(self.clone()),
        })
    }

    fn give(&self, memory: Pinned) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if self.are_many() && spare.len() >= self.kept.load(Ordering::Relaxed) / 2 {
            drop(spare);
            drop(memory);
            self.made.fetch_sub(1, Ordering::Relaxed);
        } else {
            spare.push(memory);
        }
    }
}

/// The memory of a ring; nothing is under way to or from it when it is dropped.
pub(super) struct RingMemory {
    /// Gone only while this is dropped.
    memory: Option<Pinned>,
    /// Where it goes, if it is large.
    rings: Option<Arc<Rings>>,
}

impl RingMemory {
    pub(super) fn small(domain: &Arc<ProtectionDomain>, len: u32) -> Result<Self> {
        Ok(Self {
            memory: Some(Pinned::new(
                domain,
                len as usize,
                access::IBV_ACCESS_LOCAL_WRITE,
            )?),
            rings: None,
        })
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(std::ptr::null_mut(), Pinned::base)
    }

    pub(super) fn lkey(&self) -> u32 {
        self.memory.as_ref().map_or(0, Pinned::lkey)
    }

    /// Whether a connection that has nothing under way in it leaves it to others.
    pub(super) fn is_wanted(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.are_many())
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        if let (Some(memory), Some(rings)) = (self.memory.take(), &self.rings) {
            rings.give(memory);
        }
    }
}
