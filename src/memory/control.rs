//! The control region: registered memory of this rank from which communicators and windows take
//! the words and buffers that their peers write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Device, Region, RemoteRegion};

use crate::error::{Error, Misuse, Result, SystemError};
use crate::wait::lock;

/// A line of its own for each word, so that two ranks writing neighbours do not slow each other.
pub(crate) const LINE: u64 = 64;

const DEFAULT_BYTES: u64 = 16 << 20;
/// The default where the device locks it into physical memory, of which users are allowed little.
const PINNED_BYTES: u64 = 4 << 20;
/// The default holds so many times what the world communicator takes, at the least.
const COMMUNICATORS: u64 = 16;
const VARIABLE: &str = "TRANSOM_CONTROL_BYTES";

/// More than any control region has.
const MOST_BYTES: u64 = 1 << 40;

/// Whether a peer's block can stand there in its control region. How long that is, the device checks.
pub(crate) fn may_be_block(offset: u64) -> bool {
    offset.is_multiple_of(LINE) && offset < MOST_BYTES
}

/// This rank's control region.
pub(crate) struct ControlRegion {
    region: Region,
    free: Mutex<FreeSpace>,
    /// Blocks whose users are gone, while a peer's last word is still under way to them.
    retired: Mutex<Vec<Retired>>,
}

struct Retired {
    offset: u64,
    len: u64,
    awaited: Box<[(u64, u64)]>,
}

impl ControlRegion {
    /// `reserved` bytes at the start are left to the caller, at the same offset on every rank.
    pub(crate) fn new(device: &dyn Device, reserved: u64) -> Result<Arc<Self>> {
        let usual = match device.capabilities().pins_memory {
            true => PINNED_BYTES,
            false => DEFAULT_BYTES,
        };
        let len = configured_bytes()?
            .unwrap_or_else(|| usual.max(COMMUNICATORS * reserved))
            .max(reserved + 4096);
        let region = device.allocate(len as usize, LINE as usize)?;
        let free = FreeSpace::new(reserved.next_multiple_of(LINE), region.len() as u64);
        Ok(Arc::new(Self {
            region,
            free: Mutex::new(free),
            retired: Mutex::default(),
        }))
    }

    pub(crate) fn remote(&self) -> RemoteRegion {
        self.region.remote()
    }

    /// A zeroed block of `len` bytes, aligned to a line.
    pub(crate) fn allocate(self: &Arc<Self>, len: u64) -> Result<ControlBlock> {
        let len = len.next_multiple_of(LINE);
        self.reclaim();
        let offset = self.space().take(len).ok_or_else(|| {
            Error::from(SystemError::ControlFull {
                wanted: len as usize,
                capacity: self.region.len(),
            })
        })?;
        let block = self.block(offset, len, true);
        for at in (0..len).step_by(8) {
            block.word(at).store(0, Ordering::Relaxed);
        }
        Ok(block)
    }

    /// The block of `len` bytes at `offset` in the part that `new` left to the caller.
    pub(crate) fn reserved(self: &Arc<Self>, offset: u64, len: u64) -> ControlBlock {
        self.block(offset, len, false)
    }

    fn block(self: &Arc<Self>, offset: u64, len: u64, owned: bool) -> ControlBlock {
        ControlBlock {
            region: self.clone(),
            offset,
            len,
            owned,
            awaited: OnceLock::new(),
        }
    }

    /// Frees the retired blocks that nobody will write to any more.
    fn reclaim(&self) {
        let mut retired = lock(&self.retired);
        retired.retain(|block| {
            let settled = self.have_arrived(block.offset, &block.awaited);
            if settled {
                self.space().give(block.offset, block.len);
            }
            !settled
        });
    }

    /// Whether the words of the block at `offset`, which only grow, have come to these values, the
    /// last that peers write.
    fn have_arrived(&self, offset: u64, words: &[(u64, u64)]) -> bool {
        words
            .iter()
            .all(|&(at, value)| self.word(offset + at).load(Ordering::Acquire) >= value)
    }

    /// The aligned word `at` bytes into the region.
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.region.len() as u64);
        let place = self.region.base().wrapping_add(at as usize);
        // SAFETY: inside the region, aligned (regions start at a cache line), alive as long as `self`;
        // peers use it as an atomic word too.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    fn space(&self) -> MutexGuard<'_, FreeSpace> {
        lock(&self.free)
    }
}

fn configured_bytes() -> Result<Option<u64>> {
    let Ok(text) = std::env::var(VARIABLE) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(bytes) if (1 << 16..=MOST_BYTES).contains(&bytes) => Ok(Some(bytes)),
        _ => Err(Error::new(
            "job start",
            Misuse::BadVariable {
                name: VARIABLE,
                value: text,
                legal: "65536 to 1099511627776 bytes",
            },
        )),
    }
}

/// Part of this rank's control region; given back when dropped.
pub(crate) struct ControlBlock {
    region: Arc<ControlRegion>,
    offset: u64,
    len: u64,
    owned: bool,
    /// Words, by their place in the block, that must hold these values before it is used again.
    awaited: OnceLock<Box<[(u64, u64)]>>,
}

impl ControlBlock {
    /// Where the block stands in the region: what peers need to know.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The aligned word `at` bytes into the block.
    #[inline]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at + 8 <= self.len);
        self.region.word(self.offset + at)
    }

    /// Keeps the block from being used again, once dropped, until each of these words holds the
    /// value beside it: the last that a peer will write there.
    pub(crate) fn retire_until(&self, words: impl Iterator<Item = (u64, u64)>) {
        let _ = self.awaited.set(words.collect());
    }

    /// Copies what peers wrote `at` bytes into the block.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        assert!(at <= self.len && to.len() as u64 <= self.len - at);
        let place = self
            .region
            .region
            .base()
            .wrapping_add((self.offset + at) as usize);
        // SAFETY: the range was checked to lie in the block; `to` is a unique slice.
        unsafe { copy(to.as_mut_ptr(), place, to.len()) };
    }
}

/// A word of this rank's control region that peers write.
pub(crate) struct LocalWord {
    place: *mut u64,
    _block: Arc<ControlBlock>,
}

// SAFETY: the pointer leads to an atomic word that `_block` keeps alive.
unsafe impl Send for LocalWord {}
// SAFETY: as above.
unsafe impl Sync for LocalWord {}

impl LocalWord {
    pub(crate) fn new(block: &Arc<ControlBlock>, at: u64) -> Self {
        Self {
            place: block.word(at).as_ptr(),
            _block: block.clone(),
        }
    }

    #[inline]
    pub(crate) fn atomic(&self) -> &AtomicU64 {
        // SAFETY: `ControlBlock::word` handed it out, and the block is kept alive.
        unsafe { AtomicU64::from_ptr(self.place) }
    }
}

impl Drop for ControlBlock {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let region = &self.region;
        match self.awaited.take() {
            Some(awaited) if !region.have_arrived(self.offset, &awaited) => {
                let mut retired = lock(&region.retired);
                retired.push(Retired {
                    offset: self.offset,
                    len: self.len,
                    awaited,
                });
            }
            _ => region.space().give(self.offset, self.len),
        }
    }
}

/// First-fit over the free runs, neighbours joined.
struct FreeSpace(BTreeMap<u64, u64>);

impl FreeSpace {
    fn new(start: u64, end: u64) -> Self {
        Self(BTreeMap::from([(start, end - start)]))
    }

    fn take(&mut self, len: u64) -> Option<u64> {
        let (&offset, &found) = self.0.iter().find(|(_, found)| **found >= len)?;
        self.0.remove(&offset);
        if found > len {
            self.0.insert(offset + len, found - len);
        }
        Some(offset)
    }

    fn give(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.0.range(..offset).next_back()
            && before + before_len == offset
        {
            self.0.remove(&before);
            offset = before;
            len += before_len;
        }
        if let Some(after_len) = self.0.remove(&(offset + len)) {
            len += after_len;
        }
        self.0.insert(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_given_back_joins_its_neighbours() {
        let mut space = FreeSpace::new(64, 640);
        let blocks: Vec<_> = (0..9).map(|_| space.take(64).unwrap()).collect();
        assert_eq!(space.take(64), None);
        for &at in [1, 3, 5, 7, 2, 6, 4, 0, 8].map(|i: usize| &blocks[i]) {
            space.give(at, 64);
        }
        assert_eq!(space.0, BTreeMap::from([(64, 576)]));
        assert_eq!(space.take(576), Some(64));
    }
}
