//! Memory of this process that the device may use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ibverbs_sys::ibv_access_flags as Flags;
use memmap2::MmapRaw;

use super::objects::{MemoryRegion, ProtectionDomain};
use crate::pages;
use crate::vma::{self, Rights};
use crate::{Access, Error, LocalRegion, OriginRegion, RemoteAddress, RemoteRegion, Result};

/// Memory that this process owns and the device may use. It is deregistered before it is unmapped.
pub(super) struct Pinned {
    region: MemoryRegion,
    memory: MmapRaw,
}

impl Pinned {
    /// Zeroed, page-aligned memory; `len` is not 0.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, len: usize, access: Flags) -> Result<Self> {
        let (memory, base) = pages::zeroed(len, 0)?;
        // SAFETY: the mapping is kept beside the region, and unmapped after it.
        let region = unsafe { register(domain, base, len, access)? };
        Ok(Self { region, memory })
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    pub(super) fn lkey(&self) -> u32 {
        self.region.lkey()
    }

    /// Its first byte, for requests.
    pub(super) fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            address: self.base().expose_provenance() as u64,
            rkey: self.region.rkey().into(),
        }
    }
}

/// # Safety
/// As for [`MemoryRegion::register`].
unsafe fn register(
    domain: &Arc<ProtectionDomain>,
    base: *mut u8,
    len: usize,
    access: Flags,
) -> Result<MemoryRegion> {
    // SAFETY: the caller's promise.
    let registered = unsafe { MemoryRegion::register(domain, base, len, access) };
    // A failure because memory is not mapped may appear as "out of memory".
    registered.map_err(|error| match vma::rights(base.addr(), len) {
        Ok(Rights::None) => Error::BadMemory {
            address: base.addr(),
            len,
            reason: "not all of it is mapped and readable",
        },
        _ => error,
    })
}

/// Registers an origin buffer for the operations that use it.
///
/// # Safety
/// Until drop, the memory stays mapped, and the device may read it, and write to it if `written`.
pub(super) unsafe fn lend(
    domain: &Arc<ProtectionDomain>,
    base: *mut u8,
    len: usize,
    written: bool,
) -> Result<MemoryRegion> {
    // SAFETY: the caller's promise.
    unsafe { MemoryRegion::register(domain, base, len, origin_flags(written)) }
}

/// The rights to an origin buffer: peers have none.
fn origin_flags(written: bool) -> Flags {
    match written {
        true => Flags::IBV_ACCESS_LOCAL_WRITE,
        false => Flags(0),
    }
}

/// The key of a region for peers: the verbs key in the lower half, and above it the rights that the region lacks. So an
/// origin can refuse an access itself; if the target's device had to, the connection would break.
fn key(rkey: u32, access: Access) -> u64 {
    let lacks = Access::ALL.bits() & !access.bits();
    u64::from(lacks) << 32 | u64::from(rkey)
}

/// The rights of a key; `None` if no verbs device made it.
#[inline]
pub(super) fn rights(key: u64) -> Option<Access> {
    let lacks = key >> 32;
    let known = lacks <= Access::ALL.bits().into();
    known.then(|| Access::from_bits(!(lacks as u8)))
}

/// The regions that this process shows to its peers, whose memory also serves for origin buffers without another
/// registration, and those that the program registers for this purpose alone.
pub(super) struct Regions {
    domain: Arc<ProtectionDomain>,
    /// Drivers of devices without atomics may refuse to grant that right.
    has_atomics: bool,
    /// By first byte, and a number that distinguishes regions of the same memory.
    by_place: RwLock<BTreeMap<(usize, u64), Entry>>,
    next: AtomicU64,
}

struct Entry {
    len: usize,
    region: Arc<MemoryRegion>,
    writable: bool,
}

/// How many regions that start at or before an address are searched. They may overlap. If the right one is missed, the
/// data is only copied.
const LOOKED_AT: usize = 4;

impl Regions {
    pub(super) fn new(domain: &Arc<ProtectionDomain>, has_atomics: bool) -> Arc<Self> {
        Arc::new(Self {
            domain: domain.clone(),
            has_atomics,
            by_place: RwLock::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Applies `take` to a region that contains `len` bytes at `base`, if there is one. Its holder may use it even
    /// after the owner releases it.
    pub(super) fn find<T>(
        &self,
        base: *const u8,
        len: usize,
        written: bool,
        take: impl FnOnce(&Arc<MemoryRegion>) -> T,
    ) -> Option<T> {
        let address = base.addr();
        let regions = self.by_place.read().unwrap_or_else(PoisonError::into_inner);
        regions
            .range(..=(address, u64::MAX))
            .rev()
            .take(LOOKED_AT)
            .find(|((start, _), entry)| {
                let at = address - start;
                at <= entry.len && len <= entry.len - at && (entry.writable || !written)
            })
            .map(|(_, entry)| take(&entry.region))
    }

    fn insert(&self, base: usize, entry: Entry) -> (usize, u64) {
        let place = (base, self.next.fetch_add(1, Ordering::Relaxed));
        self.by_place
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(place, entry);
        place
    }

    fn remove(&self, place: (usize, u64)) {
        self.by_place
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&place);
    }
}

/// An entry of the list. Its region and memory are dropped after it is removed.
struct Listed {
    regions: Arc<Regions>,
    place: (usize, u64),
    _region: Arc<MemoryRegion>,
    _memory: Option<MmapRaw>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.regions.remove(self.place);
    }
}

fn flags(access: Access) -> Flags {
    let mut flags = Flags(0);
    if access.allows(Access::READ) {
        flags |= Flags::IBV_ACCESS_REMOTE_READ;
    }
    // Peers may write only if this process also lets its device write.
    if access.allows(Access::WRITE) {
        flags |= Flags::IBV_ACCESS_REMOTE_WRITE | Flags::IBV_ACCESS_LOCAL_WRITE;
    }
    if access.allows(Access::ATOMIC) {
        flags |= Flags::IBV_ACCESS_REMOTE_ATOMIC | Flags::IBV_ACCESS_LOCAL_WRITE;
    }
    flags
}

impl Regions {
    /// Allocates zeroed memory with all rights, aligned to `align` and to a page.
    pub(super) fn allocate(self: &Arc<Self>, len: usize, align: usize) -> Result<LocalRegion> {
        let (memory, base) = pages::zeroed(len, align)?;
        // SAFETY: the mapping goes into the region, which unmaps it last.
        unsafe { self.show(base, len, Access::ALL, Some(memory)) }
    }

    /// Registers memory of the caller. Peers may read memory that is not writable.
    ///
    /// # Safety
    /// As for [`crate::Device::register`].
    pub(super) unsafe fn expose(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<LocalRegion> {
        // The kernel lets a device read memory that this process may not read. If the rights are unknown, the device
        // decides.
        let access = match vma::allowed(base.addr(), len, access) {
            Err(Error::System { .. }) => access,
            allowed => allowed?,
        };
        // SAFETY: the caller's promise.
        match unsafe { self.show(base, len, access, None) } {
            // Devices may not write to some memory that this process may write to: shared mappings of files on disks.
            Err(Error::BadMemory { .. })
                if access != Access::READ && access.allows(Access::READ) =>
            {
                // SAFETY: the caller's promise for `access` includes reads.
                unsafe { self.show(base, len, Access::READ, None) }
            }
            shown => shown,
        }
    }

    /// Registers memory of the caller for origin buffers of this process.
    ///
    /// # Safety
    /// As for [`crate::Device::register_origin`].
    pub(super) unsafe fn keep(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        written: bool,
    ) -> Result<OriginRegion> {
        if len == 0 {
            return Ok(OriginRegion::default());
        }
        // SAFETY: the caller's promise.
        let region = unsafe { register(&self.domain, base, len, origin_flags(written))? };
        Ok(OriginRegion::new(self.list(
            base,
            len,
            Arc::new(region),
            written,
            None,
        )))
    }

    /// Has operations of this process find a region.
    fn list(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        region: Arc<MemoryRegion>,
        writable: bool,
        memory: Option<MmapRaw>,
    ) -> Listed {
        let entry = Entry {
            len,
            region: region.clone(),
            writable,
        };
        Listed {
            place: self.insert(base.addr(), entry),
            regions: self.clone(),
            _region: region,
            _memory: memory,
        }
    }

    /// # Safety
    /// Until the region is dropped, the memory stays mapped: because it is `memory`, or by the caller's promise. Peers
    /// may use it as far as `access` allows.
    unsafe fn show(
        self: &Arc<Self>,
        base: *mut u8,
        len: usize,
        access: Access,
        memory: Option<MmapRaw>,
    ) -> Result<LocalRegion> {
        let mut remote = RemoteRegion {
            address: base.addr() as u64,
            len: len as u64,
            rkey: 0,
        };
        // Verbs do not support empty regions, and nobody can access one either.
        if len == 0 {
            return Ok(LocalRegion::new(base, remote, memory));
        }
        let granted = match self.has_atomics {
            true => access,
            false => access.without(Access::ATOMIC),
        };
        // SAFETY: the caller's promise.
        let registered = unsafe { register(&self.domain, base, len, flags(granted)) };
        let region = Arc::new(registered?);
        remote.rkey = key(region.rkey(), access);
        let writable = granted.allows(Access::WRITE) || granted.allows(Access::ATOMIC);
        let owner = self.list(base, len, region, writable, memory);
        Ok(LocalRegion::new(base, remote, owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_which_rights_come_with_it() {
        let both = Access::READ.and(Access::ATOMIC);
        for access in [Access::ALL, Access::READ, Access::WRITE, both] {
            let key = key(u32::MAX, access);
            assert_eq!(rights(key), Some(access), "{key:#x}");
            assert_eq!(key as u32, u32::MAX);
        }
        assert_eq!(key(7, Access::ALL), 7);
        assert_eq!(rights(8 << 32), None);
        assert_eq!(rights(1 << 40), None);
        assert_eq!(rights(u64::MAX), None);
    }
}
