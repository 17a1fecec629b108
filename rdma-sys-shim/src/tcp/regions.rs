//! The memory that this process shows to its peers: what a key is checked against.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use memmap2::MmapRaw;

use super::frame::Refusal;
use crate::guard::{self, AccessFault};
use crate::pages;
use crate::{Access, Error, LocalRegion, RemoteAddress, RemoteRegion, Result, vma};

pub(super) struct Regions {
    by_key: RwLock<HashMap<u64, Entry>>,
    /// Counts up from a random number, so that a key of another process or of an earlier region is not valid here. It
    /// begins below 2^48, and so does not reach the bits of the rights.
    next: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    len: u64,
    access: Access,
}

/// The highest byte of a key tells which rights the region lacks. So an origin can refuse an access itself; if the
/// target had to refuse it, the connection would end.
const RIGHTS_AT: u32 = 56;

/// The device that makes the keys of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// This device.
    Own,
    /// A device that has registered the same memory.
    OfAnother,
}

impl Keys {
    /// The rights of a key, if its owner is honest. `None` if no tcp device made the key. For another device's key, it
    /// assumes all rights, since only the target knows them.
    pub(super) fn rights(self, rkey: u64) -> Option<Access> {
        let lacks = match self {
            Self::Own => (rkey >> RIGHTS_AT) as u8,
            Self::OfAnother => 0,
        };
        let is_known = lacks <= Access::ALL.bits();
        is_known.then(|| Access::from_bits(!lacks))
    }
}

impl Regions {
    /// `first` is the first key.
    pub(super) fn new(first: u64) -> Arc<Self> {
        // Accesses by peers may fault; then they end with an answer.
        guard::watch();
        Arc::new(Self {
            by_key: RwLock::default(),
            next: AtomicU64::new(first),
            bytes: AtomicU64::new(0),
        })
    }

    /// Total bytes of all regions.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Calls `body` with the address of `len` bytes, if a peer has this access to them. The region stays until `body`
    /// returns.
    pub(super) fn lend<T>(
        &self,
        at: RemoteAddress,
        len: u64,
        need: Access,
        body: impl FnOnce(*mut u8) -> T,
    ) -> std::result::Result<T, Refusal> {
        let regions = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        Ok(body(find(&regions, at, len, need)?))
    }

    /// As [`Regions::lend`] for an accumulate on `len` bytes, with the address of its lock, an aligned word.
    pub(super) fn lend_with_lock<T>(
        &self,
        at: RemoteAddress,
        len: u64,
        need: Access,
        lock: RemoteAddress,
        body: impl FnOnce(*mut u8, *mut u8) -> T,
    ) -> std::result::Result<T, Refusal> {
        // One guard for both: whoever waits to change the table would keep this thread from a second one.
        let regions = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        let there = find(&regions, at, len, need)?;
        let word = find(&regions, lock, size_of::<u64>() as u64, Access::ATOMIC)?;
        match word.cast::<u64>().is_aligned() {
            true => Ok(body(there, word)),
            false => Err(Refusal::NoLock),
        }
    }

    /// Accesses `piece` bytes at a place for a peer, if its whole access of `len` bytes is allowed. `body` gets the
    /// address, and returns `None` if a word is misaligned.
    ///
    /// # Safety
    /// `body` accesses no more than the `piece` bytes, which are not more than `len`, and does so as [`guard::guarded`] asks.
    pub(super) unsafe fn access<T: Copy>(
        &self,
        at: RemoteAddress,
        len: u64,
        piece: usize,
        need: Access,
        body: impl FnOnce(*mut u8) -> Option<T>,
    ) -> std::result::Result<T, Refusal> {
        let guarded = |base: *mut u8| {
            // SAFETY: the caller's promise; `lend` holds its lock outside of the call.
            unsafe { guard::guarded(base, piece, || body(base)) }
        };
        match self.lend(at, len, need, guarded)? {
            Ok(done) => done.ok_or(Refusal::Misaligned),
            Err(AccessFault) => Err(Refusal::NotMapped),
        }
    }

    fn next_key(&self, access: Access) -> u64 {
        let lacks = Access::ALL.without(access).bits();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        u64::from(lacks) << RIGHTS_AT | number
    }

    /// Until the region is dropped, peers may access the memory, unless it is unmapped: the caller has no reference to
    /// it that forbids that. `memory` owns it, or the caller keeps it mapped.
    unsafe fn show(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: Access,
        rkey: u64,
        memory: Option<MmapRaw>,
    ) -> LocalRegion {
        let remote = RemoteRegion {
            address: base.addr() as u64,
            len: len as u64,
            rkey,
        };
        let entry = Entry {
            address: remote.address,
            len: remote.len,
            access,
        };
        let mut regions = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(rkey, entry);
        self.bytes.fetch_add(remote.len, Ordering::Relaxed);
        let shown = Shown {
            regions: self.clone(),
            rkey,
            _memory: memory,
        };
        LocalRegion::new(base, remote, shown)
    }

    /// Allocates zeroed memory with all rights, aligned to `align` and to a page.
    pub(super) fn allocate(self: &Arc<Self>, len: usize, align: usize) -> Result<LocalRegion> {
        let (memory, base) = pages::zeroed(len, align)?;
        let (access, rkey) = (Access::ALL, self.next_key(Access::ALL));
        // SAFETY: the mapping goes into the region; nobody has a reference to it.
        Ok(unsafe { self.show(base, len, access, rkey, Some(memory)) })
    }

    /// Registers memory that the caller owns.
    ///
    /// # Safety
    /// As for [`crate::Device::register`].
    pub(super) unsafe fn register(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<LocalRegion> {
        let access = vma::allowed(base.addr(), len, access)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.show(base, len, access, self.next_key(access), None) })
    }

    /// Registers the caller's memory, which another device has registered, under that device's key. No region of this
    /// table has that key.
    ///
    /// # Safety
    /// As for [`crate::Device::register`].
    pub(super) unsafe fn register_as(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: Access,
        rkey: u64,
    ) -> Result<LocalRegion> {
        // The other device has checked that the memory is mapped.
        let access = match vma::allowed(base.addr(), len, access) {
            Err(Error::System { .. }) => access,
            allowed => allowed?,
        };
        // SAFETY: the caller's promise.
        Ok(unsafe { self.show(base, len, access, rkey, None) })
    }
}

/// The address of `len` bytes, if a peer has this access to them.
fn find(
    regions: &HashMap<u64, Entry>,
    at: RemoteAddress,
    len: u64,
    need: Access,
) -> std::result::Result<*mut u8, Refusal> {
    let region = regions.get(&at.rkey).ok_or(Refusal::NoRegion)?;
    if !region.access.allows(need) {
        return Err(Refusal::NoRight);
    }
    let skip = at.address.wrapping_sub(region.address);
    if skip > region.len || len > region.len - skip {
        return Err(Refusal::Outside);
    }
    Ok(at.address as usize as *mut u8)
}

/// A region of the table, with its memory if the device allocated it.
struct Shown {
    regions: Arc<Regions>,
    rkey: u64,
    _memory: Option<MmapRaw>,
}

impl Drop for Shown {
    /// Waits for an access in progress; later ones find no region.
    fn drop(&mut self) {
        let regions = &self.regions.by_key;
        let mut regions = regions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = regions.remove(&self.rkey) {
            self.regions.bytes.fetch_sub(entry.len, Ordering::Relaxed);
        }
    }
}
