//! Memory of this process that the device may use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ibverbs_sys::ibv_access_flags as Flags;
use memmap2::{MmapMut, MmapOptions};

use super::objects::{MemoryRegion, ProtectionDomain};
use crate::system::page_size;
use crate::vma::{self, Rights};
use crate::{Access, Error, Region, RemoteRegion, Result};

/// Memory that this process owns and the device may use. Deregistered before it is unmapped.
pub(super) struct Pinned {
    region: MemoryRegion,
    base: *mut u8,
    _memory: MmapMut,
}

// SAFETY: the pointer is an address to give away; every access through it is the unsafe code of
// whoever uses it.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Zeroed, page-aligned memory; `len` is not 0.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, len: usize, access: Flags) -> Result<Self> {
        let mut memory = MmapOptions::new()
            .len(len)
            .map_anon()
            .map_err(|error| Error::os(format!("mapping {len} bytes"), error))?;
        let base = memory.as_mut_ptr();
        // SAFETY: the mapping is kept beside the region, and unmapped after it.
        let region = unsafe { register(domain, base, len, access)? };
        Ok(Self {
            region,
            base,
            _memory: memory,
        })
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn lkey(&self) -> u32 {
        self.region.lkey()
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
    // What finds first that memory is not there may call that "out of memory".
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
    let access = match written {
        true => Flags::IBV_ACCESS_LOCAL_WRITE,
        false => Flags(0),
    };
    // SAFETY: the caller's promise.
    unsafe { register(domain, base, len, access) }
}

/// What peers are given for a region: the key of verbs in the lower half, and above it the rights
/// that the region lacks. So an origin knows what the target's device would refuse, and break the
/// connection for.
fn key(rkey: u32, access: Access) -> u64 {
    let lacks = Access::ALL.bits() & !access.bits();
    u64::from(lacks) << 32 | u64::from(rkey)
}

/// The rights that come with a key; `None` if no verbs device made it.
#[inline]
pub(super) fn rights(key: u64) -> Option<Access> {
    let lacks = key >> 32;
    let known = lacks <= Access::ALL.bits().into();
    known.then(|| Access::from_bits(!(lacks as u8)))
}

/// The regions that this process shows to its peers. Their memory also serves as origin buffers
/// without being registered again.
#[derive(Default)]
pub(super) struct Regions {
    /// By first byte and a number that tells regions of the same memory apart.
    by_place: RwLock<BTreeMap<(usize, u64), Entry>>,
    next: AtomicU64,
}

struct Entry {
    len: usize,
    region: Arc<MemoryRegion>,
    writable: bool,
}

/// Regions that start before an address and are looked at for it: they may overlap, and one that
/// is not found costs a copy only.
const LOOKED_AT: usize = 4;

impl Regions {
    /// Applies `take` to a region that contains `len` bytes at `base`, if there is one. Whoever
    /// keeps it may use it, also if its owner gives it up.
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

/// A region that is listed; what it is made of goes after it is no longer found.
struct Listed {
    regions: Arc<Regions>,
    place: (usize, u64),
    _region: Arc<MemoryRegion>,
    _memory: Option<MmapMut>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.regions.remove(self.place);
    }
}

// SAFETY: none of its parts is bound to a thread; the mapping is only unmapped.
unsafe impl Send for Listed {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Listed {}

fn flags(access: Access) -> Flags {
    let mut flags = Flags(0);
    if access.allows(Access::READ) {
        flags |= Flags::IBV_ACCESS_REMOTE_READ;
    }
    // Peers may write only where this process lets its device write.
    if access.allows(Access::WRITE) {
        flags |= Flags::IBV_ACCESS_REMOTE_WRITE | Flags::IBV_ACCESS_LOCAL_WRITE;
    }
    if access.allows(Access::ATOMIC) {
        flags |= Flags::IBV_ACCESS_REMOTE_ATOMIC | Flags::IBV_ACCESS_LOCAL_WRITE;
    }
    flags
}

/// Allocates zeroed memory with all rights, aligned to `align` and to a page.
pub(super) fn allocate(
    domain: &Arc<ProtectionDomain>,
    regions: &Arc<Regions>,
    len: usize,
    align: usize,
) -> Result<Region> {
    let page = page_size();
    let room = len
        .max(1)
        .checked_add(align.saturating_sub(page))
        .ok_or_else(|| too_large(len))?;
    let mut memory = MmapOptions::new()
        .len(room)
        .map_anon()
        .map_err(|error| Error::os(format!("mapping {room} bytes"), error))?;
    let start = memory.as_mut_ptr();
    let base = start.wrapping_add(start.align_offset(align.max(1)));
    // SAFETY: the mapping goes into the region, which unmaps it last.
    unsafe { show(domain, regions, base, len, Access::ALL, Some(memory)) }
}

/// Registers memory of the caller.
///
/// # Safety
/// As for [`crate::Device::register`].
pub(super) unsafe fn expose(
    domain: &Arc<ProtectionDomain>,
    regions: &Arc<Regions>,
    base: *mut u8,
    len: usize,
    access: Access,
) -> Result<Region> {
    if base.addr().checked_add(len).is_none() {
        return Err(Error::BadMemory {
            address: base.addr(),
            len,
            reason: "it wraps around the address space",
        });
    }
    // SAFETY: the caller's promise.
    match unsafe { show(domain, regions, base, len, access, None) } {
        // Peers may still get from memory that nobody can write to, if this process can.
        Err(Error::BadMemory { .. })
            if access != Access::READ && access.allows(Access::READ) && is_readable(base, len) =>
        {
            // SAFETY: the caller's promise, of which this needs a part.
            unsafe { show(domain, regions, base, len, Access::READ, None) }
        }
        shown => shown,
    }
}

/// Whether this process may read the memory. The kernel lets a device read what it may not.
fn is_readable(base: *mut u8, len: usize) -> bool {
    vma::rights(base.addr(), len).is_ok_and(|rights| rights != Rights::None)
}

/// # Safety
/// The memory stays mapped until the region is dropped: because it is `memory`, or by the caller's
/// promise; peers may use it as far as `access` says.
unsafe fn show(
    domain: &Arc<ProtectionDomain>,
    regions: &Arc<Regions>,
    base: *mut u8,
    len: usize,
    access: Access,
    memory: Option<MmapMut>,
) -> Result<Region> {
    let mut remote = RemoteRegion {
        address: base.addr() as u64,
        len: len as u64,
        rkey: 0,
    };
    // Verbs know no region without bytes; nobody can access one either.
    let owner: Box<dyn Send + Sync> = if len == 0 {
        Box::new(memory)
    } else {
        // SAFETY: the caller's promise.
        let region = unsafe { register(domain, base, len, flags(access))? };
        let region = Arc::new(region);
        remote.rkey = key(region.rkey(), access);
        let entry = Entry {
            len,
            region: region.clone(),
            writable: access.allows(Access::WRITE) || access.allows(Access::ATOMIC),
        };
        Box::new(Listed {
            place: regions.insert(base.addr(), entry),
            regions: regions.clone(),
            _region: region,
            _memory: memory,
        })
    };
    Ok(Region::new(base, remote, owner))
}

fn too_large(len: usize) -> Error {
    Error::os(
        format!("registering {len} bytes"),
        std::io::Error::from_raw_os_error(libc::ENOMEM),
    )
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
