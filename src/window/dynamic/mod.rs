//! What dynamic windows keep: the regions that this rank has attached, and what it knows of those of others.
//!
//! The memory that such a window itself exposes is the table of its rank's regions. The rank's entry says where
//! the table is, and origins read the table one-sidedly.

mod cache;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod table;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use rdma_sys_shim::{Access, Device, LocalRegion, RemoteRegion};

pub(crate) use cache::{CachedPlace, KeptMapped, RegionCache};

use crate::error::{Error, Misuse, Result};
use crate::wait::lock;
use table::Table;

/// This rank's side of a dynamic window.
pub(super) struct Regions(Mutex<Attached>);

pub(super) struct Attached {
    table: Table,
    /// Ordered by address.
    regions: BTreeMap<usize, AttachedRegion>,
    /// The address of the region in each entry of the table.
    slots: Vec<usize>,
    /// The addresses of attached regions without bytes.
    empty: Vec<usize>,
}

struct AttachedRegion {
    region: LocalRegion,
    slot: usize,
}

impl Regions {
    /// A table without regions.
    pub(super) fn new(device: &dyn Device) -> Result<Self> {
        Ok(Self(Mutex::new(Attached {
            table: Table::new(device)?,
            regions: BTreeMap::new(),
            slots: Vec::new(),
            empty: Vec::new(),
        })))
    }

    /// The table that other ranks read.
    pub(super) fn table(&self) -> RemoteRegion {
        self.lock().table.remote()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Attached> {
        lock(&self.0)
    }
}

impl Attached {
    /// # Safety
    /// As for [`Window::attach`](super::Window::attach).
    pub(super) unsafe fn attach(
        &mut self,
        device: &dyn Device,
        base: *mut u8,
        size: usize,
    ) -> Result<()> {
        let start = base.addr();
        if size == 0 {
            self.empty.push(start);
            return Ok(());
        }
        if base.is_null() {
            return Err(Error::new("attach", Misuse::NullBuffer { len: size }));
        }
        let Some(end) = start
            .checked_add(size)
            .filter(|_| size <= isize::MAX as usize)
        else {
            let misuse = Misuse::BadSize {
                size: size as u64,
                reason: "the memory would wrap around the address space",
            };
            return Err(Error::new("attach", misuse));
        };
        let before = self.regions.range(..end).next_back();
        if let Some((&other, held)) = before
            && other + held.region.len() > start
        {
            let misuse = Misuse::AttachOverlap {
                base: start,
                size,
                other,
                other_size: held.region.len(),
            };
            return Err(Error::new("attach", misuse));
        }
        // SAFETY: the caller's promise, until `detach` or `free` drops the region; a window that is dropped instead
        // never drops its regions.
        let region = unsafe { device.register(base, size, Access::ALL)? };
        self.table.push(device, region.remote())?;
        let slot = self.slots.len();
        self.slots.push(start);
        self.regions.insert(start, AttachedRegion { region, slot });
        Ok(())
    }

    pub(super) fn detach(&mut self, base: usize) -> Result<()> {
        let Some(gone) = self.regions.remove(&base) else {
            return match self.empty.iter().position(|&empty| empty == base) {
                Some(at) => {
                    self.empty.swap_remove(at);
                    Ok(())
                }
                None => Err(Error::new("detach", Misuse::NotDetachable { base })),
            };
        };
        // The entry is removed before the region, so that peers do not find an entry without one.
        self.table.swap_remove(gone.slot);
        self.slots.swap_remove(gone.slot);
        if let Some(moved) = self.slots.get(gone.slot)
            && let Some(region) = self.regions.get_mut(moved)
        {
            region.slot = gone.slot;
        }
        drop(gone.region);
        Ok(())
    }
}
