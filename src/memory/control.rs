//! The control region: registered memory of this rank from which communicators and windows take
//! the words and buffers that their peers write.
//!
//! A block is zeroed before peers learn where it is. A dropped block is reused only when the last words that peers
//! still have to write to it have arrived (`ControlBlock::retire_until`). Windows take blocks from the front, so that
//! their places are the same on all ranks, and everything else takes them from the back.
//!
//! If there is no space for a block, the rank registers another *slab*, as long as all earlier ones together, and adds
//! it to its list before it publishes the block. The place of a block is one word with slab and offset. A peer that
//! does not know the slab yet reads the list. Slabs are kept until the end of the job, since peers have mapped them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Device, LocalRegion, RemoteRegion};

use crate::error::{Error, Misuse, Result, SystemError};
use crate::wait::lock;

/// Each word has a line of its own, so that two ranks that write neighbouring words do not slow each other.
pub(crate) const LINE: u64 = 64;

const DEFAULT_BYTES: u64 = 16 << 20;
/// The default size if the device locks it into physical memory, of which users may lock little.
pub(crate) const PINNED_BYTES: u64 = 4 << 20;
/// The default size is at least this many times that of the world communicator's block.
const COMMUNICATORS: u64 = 16;
const VARIABLE: &str = "TRANSOM_CONTROL_BYTES";

/// Bits of an offset; no slab of a control region needs more.
const OFFSET_BITS: u32 = 40;
/// More slabs than any control region has: each further one is as long as all earlier ones together.
const SLABS: u64 = 32;
/// The bytes of the list of slabs in the first one: address, length and rkey of each.
pub(crate) const SLAB_LIST_BYTES: u64 = (SLABS * ENTRY).next_multiple_of(LINE);
const ENTRY: u64 = 24;

/// The place of a block in its rank's control region: the slab and the offset in it, in one word that peers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) slab: u64,
    pub(crate) offset: u64,
}

impl BlockPlace {
    fn to_word(self) -> u64 {
        self.slab << OFFSET_BITS | self.offset
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self {
            slab: word >> OFFSET_BITS,
            offset: word & ((1 << OFFSET_BITS) - 1),
        }
    }

    /// The offset in the list of slabs of the entry of the block's slab.
    pub(crate) fn entry(self) -> u64 {
        self.slab * ENTRY
    }
}

/// Whether this can be the place of a peer's block in its control region. The device checks the region's length.
pub(crate) fn may_be_block(word: u64) -> bool {
    let BlockPlace { slab, offset } = BlockPlace::from_word(word);
    offset.is_multiple_of(LINE) && slab < SLABS
}

/// The slab that an entry of a peer's list describes.
pub(crate) fn listed_slab(entry: [u64; 3]) -> RemoteRegion {
    let [address, len, rkey] = entry;
    RemoteRegion { address, len, rkey }
}

/// This rank's control region: a slab that peers know from the start, and others on demand.
pub(crate) struct ControlRegion {
    device: Arc<dyn Device>,
    first: Arc<Slab>,
    /// All slabs, including the first.
    slabs: Mutex<Vec<Arc<Slab>>>,
    /// The offset of the list of slabs in the first one.
    list_at: u64,
    /// Whether the environment sets its size.
    is_fixed: bool,
    /// The offset in the first slab for blocks that all ranks allocate alike.
    alike_from: AtomicU64,
    /// Blocks whose users are gone, but to which a peer has yet to write its last word.
    retired: Mutex<Vec<Retired>>,
}

struct Slab {
    number: u64,
    region: LocalRegion,
    free: Mutex<FreeSpace>,
}

struct Retired {
    slab: Arc<Slab>,
    offset: u64,
    len: u64,
    awaited: Box<[(u64, u64)]>,
}

impl Slab {
    /// `reserved`: bytes at the start that are never allocated.
    fn new(device: &dyn Device, number: u64, reserved: u64, len: u64) -> Result<Self> {
        let region = device.allocate(len as usize, LINE as usize)?;
        let end = region.len() as u64 / LINE * LINE;
        let free = FreeSpace::new(reserved.next_multiple_of(LINE), end);
        Ok(Self {
            number,
            region,
            free: Mutex::new(free),
        })
    }

    /// The aligned word at offset `at` of the slab.
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.region.len() as u64);
        let place = self.region.base().wrapping_add(at as usize);
        // SAFETY: inside the region, aligned (regions start at a cache line), lives as long as `self`; peers also use
        // it as an atomic word.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    /// Whether the words of the block at `offset`, which only grow, have reached these values, the last that peers
    /// write.
    fn have_arrived(&self, offset: u64, words: &[(u64, u64)]) -> bool {
        words
            .iter()
            .all(|&(at, value)| self.word(offset + at).load(Ordering::Acquire) >= value)
    }

    /// A zeroed run of `len` bytes.
    fn take(&self, len: u64, end: End) -> Option<u64> {
        let (offset, is_zero) = self.space().take(len, end)?;
        let used = if is_zero { 0 } else { len };
        for at in (0..used).step_by(8) {
            self.word(offset + at).store(0, Ordering::Relaxed);
        }
        Some(offset)
    }

    fn space(&self) -> MutexGuard<'_, FreeSpace> {
        lock(&self.free)
    }
}

impl ControlRegion {
    /// `reserved` bytes at the start are left to the caller, at the same offset on every rank, except the
    /// [`SLAB_LIST_BYTES`] at `list_at` among them.
    pub(crate) fn new(device: &Arc<dyn Device>, reserved: u64, list_at: u64) -> Result<Arc<Self>> {
        let usual = match device.capabilities().pins_memory {
            true => PINNED_BYTES,
            false => DEFAULT_BYTES,
        };
        let configured = configured_bytes()?;
        let len = configured
            .unwrap_or_else(|| usual.max(COMMUNICATORS * reserved))
            .max(reserved + 4096);
        let first = Arc::new(Slab::new(&**device, 0, reserved, len)?);
        Ok(Arc::new(Self {
            device: device.clone(),
            slabs: Mutex::new(vec![first.clone()]),
            first,
            list_at,
            is_fixed: configured.is_some(),
            alike_from: AtomicU64::new(0),
            retired: Mutex::default(),
        }))
    }

    /// The slab that peers know from the start.
    pub(crate) fn remote(&self) -> RemoteRegion {
        self.first.region.remote()
    }

    /// A zeroed block of `len` bytes, aligned to a line.
    pub(crate) fn allocate(self: &Arc<Self>, len: u64) -> Result<ControlBlock> {
        self.allocate_at(End::Back, len)
    }

    /// The same, for blocks that all ranks of the job usually allocate alike: separate from all others, so that the
    /// place is usually the same on every rank.
    pub(crate) fn allocate_alike(self: &Arc<Self>, len: u64) -> Result<ControlBlock> {
        let from = self.alike_from.load(Ordering::Relaxed);
        self.allocate_at(End::Front { from }, len)
    }

    /// Makes later blocks of [`ControlRegion::allocate_alike`] follow the one of `len` bytes at `place`, if there is
    /// space: on some rank that one is the last.
    pub(crate) fn go_on_behind(&self, place: u64, len: u64) {
        let BlockPlace { slab, offset } = BlockPlace::from_word(place);
        if slab == 0 {
            let end = offset.saturating_add(len.next_multiple_of(LINE));
            self.alike_from.fetch_max(end, Ordering::Relaxed);
        }
    }

    fn allocate_at(self: &Arc<Self>, end: End, len: u64) -> Result<ControlBlock> {
        let len = len.next_multiple_of(LINE);
        self.reclaim();
        let mut slabs = lock(&self.slabs);
        let with_room = |slab: &Arc<Slab>| Some((slab.clone(), slab.take(len, end)?));
        let found = slabs.iter().find_map(with_room);
        let (slab, offset) = match found {
            Some(found) => found,
            None => {
                let slab = self.grow(&slabs, len)?;
                slabs.push(slab.clone());
                let offset = slab.take(len, end);
                let offset = offset.ok_or_else(|| self.full(&slabs, len))?;
                (slab, offset)
            }
        };
        Ok(self.block(slab, offset, len, true))
    }

    /// Adds a slab that holds a block of `len` bytes, with its entry in the list. `slabs`: all others.
    fn grow(&self, slabs: &[Arc<Slab>], len: u64) -> Result<Arc<Slab>> {
        let number = slabs.len() as u64;
        if self.is_fixed || number == SLABS {
            return Err(self.full(slabs, len));
        }
        let slab = Slab::new(&*self.device, number, 0, len.max(capacity(slabs)))?;
        let RemoteRegion { address, len, rkey } = slab.region.remote();
        let entry = self.list_at + number * ENTRY;
        for (at, word) in (entry..).step_by(8).zip([address, len, rkey]) {
            self.first.word(at).store(word, Ordering::Release);
        }
        Ok(Arc::new(slab))
    }

    #[cold]
    fn full(&self, slabs: &[Arc<Slab>], wanted: u64) -> Error {
        Error::from(SystemError::ControlFull {
            wanted: wanted as usize,
            capacity: capacity(slabs) as usize,
        })
    }

    /// The block of `len` bytes at `offset` in the part that `new` left to the caller.
    pub(crate) fn reserved(self: &Arc<Self>, offset: u64, len: u64) -> ControlBlock {
        self.block(self.first.clone(), offset, len, false)
    }

    fn block(
        self: &Arc<Self>,
        slab: Arc<Slab>,
        offset: u64,
        len: u64,
        owned: bool,
    ) -> ControlBlock {
        ControlBlock {
            control: self.clone(),
            slab,
            offset,
            len,
            owned,
            awaited: OnceLock::new(),
        }
    }

    /// Frees the retired blocks to which no rank will write any more.
    fn reclaim(&self) {
        let mut retired = lock(&self.retired);
        retired.retain(|block| {
            let slab = &block.slab;
            let settled = slab.have_arrived(block.offset, &block.awaited);
            if settled {
                slab.space().give(block.offset, block.len);
            }
            !settled
        });
    }
}

/// The total number of bytes of these slabs.
fn capacity(slabs: &[Arc<Slab>]) -> u64 {
    let lens = slabs.iter().map(|slab| slab.region.len() as u64);
    lens.sum()
}

fn configured_bytes() -> Result<Option<u64>> {
    let Some(text) = rdma_sys_shim::variable(VARIABLE) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(bytes) if (1 << 16..=1 << OFFSET_BITS).contains(&bytes) => Ok(Some(bytes)),
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

/// Part of this rank's control region; freed when dropped.
pub(crate) struct ControlBlock {
    control: Arc<ControlRegion>,
    slab: Arc<Slab>,
    offset: u64,
    len: u64,
    owned: bool,
    /// Words, by their offset in the block, that must have these values before the block is reused.
    awaited: OnceLock<Box<[(u64, u64)]>>,
}

impl ControlBlock {
    /// The place of the block in the region, as a word for peers.
    pub(crate) fn place(&self) -> u64 {
        let (slab, offset) = (self.slab.number, self.offset);
        BlockPlace { slab, offset }.to_word()
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The aligned word at offset `at` of the block.
    #[inline]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at + 8 <= self.len);
        self.slab.word(self.offset + at)
    }

    /// After the block is dropped, it is not reused until each of these words has the value beside it: the last that a
    /// peer will write there.
    pub(crate) fn retire_until(&self, words: impl Iterator<Item = (u64, u64)>) {
        let _ = self.awaited.set(words.collect());
    }

    /// Copies data that peers wrote at offset `at` of the block.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) {
        assert!(at <= self.len && to.len() as u64 <= self.len - at);
        let base = self.slab.region.base();
        let place = base.wrapping_add((self.offset + at) as usize);
        // SAFETY: the range was checked to lie in the block; `to` is a unique slice.
        unsafe { copy(to.as_mut_ptr(), place, to.len()) };
    }
}

/// A word of this rank's control region that peers write.
pub(crate) struct LocalWord {
    place: *mut u64,
    _block: Arc<ControlBlock>,
}

// SAFETY: the pointer is to an atomic word that `_block` keeps alive.
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
        // SAFETY: the pointer is from `ControlBlock::word`, and the block is kept alive.
        unsafe { AtomicU64::from_ptr(self.place) }
    }
}

impl Drop for ControlBlock {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        match self.awaited.take() {
            Some(awaited) if !self.slab.have_arrived(self.offset, &awaited) => {
                let mut retired = lock(&self.control.retired);
                retired.push(Retired {
                    slab: self.slab.clone(),
                    offset: self.offset,
                    len: self.len,
                    awaited,
                });
            }
            _ => self.slab.space().give(self.offset, self.len),
        }
    }
}

/// The end of a slab from which a block is taken.
#[derive(Clone, Copy)]
enum End {
    /// After `from`, if there is space.
    Front {
        from: u64,
    },
    Back,
}

/// First fit over the free runs, from either end; adjacent runs are joined.
struct FreeSpace {
    runs: BTreeMap<u64, u64>,
    /// Nothing was ever allocated in this range, so it is all zero.
    untouched: Range<u64>,
}

impl FreeSpace {
    fn new(start: u64, end: u64) -> Self {
        Self {
            runs: BTreeMap::from([(start, end - start)]),
            untouched: start..end,
        }
    }

    /// The beginning of a run, and whether none of its bytes was allocated before.
    fn take(&mut self, len: u64, end: End) -> Option<(u64, bool)> {
        let mut runs = (self.runs.iter()).map(|(&start, &found)| (start, found));
        let behind = |from: u64| {
            move |(start, found): (u64, u64)| {
                let offset = start.max(from);
                let end = offset.checked_add(len)?;
                (end <= start + found).then_some((start, found, offset))
            }
        };
        let at_end = |(start, found): (u64, u64)| {
            let offset = (start + found).checked_sub(len)?;
            (offset >= start).then_some((start, found, offset))
        };
        let (start, found, offset) = match end {
            End::Front { from } => {
                (runs.clone().find_map(behind(from))).or_else(|| runs.find_map(behind(0)))?
            }
            End::Back => runs.rev().find_map(at_end)?,
        };
        self.runs.remove(&start);
        let rests = [(start, offset), (offset + len, start + found)];
        let rests = rests.into_iter().filter(|(from, to)| from < to);
        self.runs.extend(rests.map(|(from, to)| (from, to - from)));
        let untouched = self.untouched.clone();
        let is_zero = untouched.start <= offset && offset + len <= untouched.end;
        match end {
            End::Front { .. } => self.untouched.start = untouched.start.max(offset + len),
            End::Back => self.untouched.end = untouched.end.min(offset),
        }
        Some((offset, is_zero))
    }

    fn give(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.runs.range(..offset).next_back()
            && before + before_len == offset
        {
            self.runs.remove(&before);
            offset = before;
            len += before_len;
        }
        if let Some(after_len) = self.runs.remove(&(offset + len)) {
            len += after_len;
        }
        self.runs.insert(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: End = End::Front { from: 0 };

    #[test]
    fn space_given_back_joins_its_neighbours() {
        let mut space = FreeSpace::new(64, 640);
        let ends = [FRONT, End::Back].into_iter().cycle();
        let blocks = ends.take(9).map(|end| space.take(64, end).unwrap());
        let blocks: Vec<(u64, bool)> = blocks.collect();
        let from_both = [64, 576, 128, 512, 192, 448, 256, 384, 320];
        assert_eq!(blocks, from_both.map(|offset| (offset, true)));
        assert!(space.take(64, FRONT).is_none() && space.take(64, End::Back).is_none());
        for (at, _) in [1, 3, 5, 7, 2, 6, 4, 0, 8].map(|i: usize| blocks[i]) {
            space.give(at, 64);
        }
        assert_eq!(space.runs, BTreeMap::from([(64, 576)]));
        assert_eq!(space.take(576, FRONT), Some((64, false)));
    }

    #[test]
    fn what_was_taken_before_is_not_taken_for_zero() {
        let mut space = FreeSpace::new(0, 1024);
        assert_eq!(space.take(256, FRONT), Some((0, true)));
        assert_eq!(space.take(256, End::Back), Some((768, true)));
        space.give(0, 256);
        space.give(768, 256);
        // Of each, a part was taken before.
        assert_eq!(space.take(320, FRONT), Some((0, false)));
        assert_eq!(space.take(320, End::Back), Some((704, false)));
        assert_eq!(space.take(384, End::Back), Some((320, true)));
        space.give(0, 1024);
        for end in [FRONT, End::Back] {
            assert!(!space.take(64, end).unwrap().1);
        }
    }

    #[test]
    fn what_is_to_stand_behind_a_place_does_while_there_is_room() {
        let mut space = FreeSpace::new(0, 1024);
        let behind = |from| End::Front { from };
        assert_eq!(space.take(64, behind(256)), Some((256, true)));
        assert_eq!(space.take(64, behind(256)), Some((320, true)));
        assert_eq!(space.take(64, FRONT), Some((0, false)));
        space.give(256, 64);
        assert_eq!(space.take(64, behind(256)), Some((256, false)));
        assert_eq!(space.take(704, behind(512)), None);
        assert_eq!(space.take(128, behind(960)), Some((64, false)));
        assert_eq!(space.take(64, behind(u64::MAX)), Some((192, false)));
    }
}
