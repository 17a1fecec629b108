//! Dynamic windows: each rank attaches and detaches memory while the window is there.

use std::sync::MutexGuard;

use super::create::{Created, Exposed};
use super::dynamic::{Attached, CachedPlace, RegionCache, Regions};
use super::{Info, OnTarget, Window, WindowMemory};
use crate::comm::Communicator;
use crate::error::{Error, Misuse, Result};
use crate::liveness::Awaited;
use crate::memory::displacement::Address;
use crate::peers::not_forked;
use crate::terms::{Aim, Flavor};

/// Local. The address of memory of this rank as a displacement in a dynamic window (MPI-4.1,
/// section 5.1.5, `MPI_Get_address`).
#[must_use]
pub fn get_address<T: ?Sized>(location: *const T) -> u64 {
    location.addr() as u64
}

impl Window {
    /// Collective. A window without memory. Each rank attaches memory later, and may detach it again (MPI-4.1, section
    /// 12.2.4, `MPI_Win_create_dynamic`). A displacement is the address at the target, as
    /// [`get_address`](crate::raw::get_address) returns it there; the displacement unit is 1.
    ///
    /// An origin reads a target's table of regions after the table has changed. It reads the table's version at every
    /// operation: by a load if the device maps memory, and otherwise by a small read.
    ///
    /// # Errors
    /// On every rank if one rank fails: a malformed hint, out of memory, a rank that died or left.
    pub fn create_dynamic(comm: &Communicator, info: &Info) -> Result<Self> {
        let created = Created {
            operation: "create_dynamic",
            flavor: Flavor::Dynamic,
            size: 0,
            disp_unit: 1,
        };
        Self::build(comm, created, info, |_, device| {
            let regions = Regions::new(device)?;
            Ok(Exposed {
                remote: regions.table(),
                base: std::ptr::null_mut(),
                memory: WindowMemory::Dynamic(regions),
            })
        })
    }

    /// Local. Lets the other ranks access `size` bytes at `base`: memory of any kind and alignment, even if it shares
    /// pages with other regions (MPI-4.1, section 12.2.4, `MPI_Win_attach`). After this call, they have to be told the
    /// address.
    ///
    /// A size of 0 is legal. An access may span several regions, whether they are adjacent or a layout has data in
    /// each; this costs one operation for each part. An element of an accumulate has to be in one region.
    ///
    /// # Errors
    /// The window is not dynamic ([`RmaFlavor`](crate::ErrorClass::RmaFlavor)); a part of the memory
    /// is attached already ([`RmaAttach`](crate::ErrorClass::RmaAttach)); it is not mapped; out of
    /// memory.
    ///
    /// # Safety
    /// The promises of [`Window::create`] about its memory hold until the region is detached or the window is freed.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        const OPERATION: &str = "attach";
        let device = &self.team.fabric.device;
        // SAFETY: the caller's promise.
        unsafe { self.attached(OPERATION)?.attach(&**device, base, size) }
            .map_err(|error| error.during(OPERATION))
    }

    /// Local. Ends the other ranks' access to the region that was attached at `base`. All of their operations on it
    /// must be complete (MPI-4.1, section 12.2.4, `MPI_Win_detach`).
    ///
    /// # Errors
    /// The window is not dynamic ([`RmaFlavor`](crate::ErrorClass::RmaFlavor)); nothing was attached
    /// at this address ([`RmaAttach`](crate::ErrorClass::RmaAttach)).
    pub fn detach(&self, base: *const u8) -> Result<()> {
        const OPERATION: &str = "detach";
        self.attached(OPERATION)?
            .detach(base.addr())
            .map_err(|error| error.during(OPERATION))
    }

    fn attached(&self, operation: &'static str) -> Result<MutexGuard<'_, Attached>> {
        not_forked(operation)?;
        match &self.memory {
            Some(WindowMemory::Dynamic(regions)) => Ok(regions.lock()),
            _ => Err(Error::new(
                operation,
                Misuse::Flavor {
                    found: self.flavor,
                    needs: "a window of create_dynamic",
                },
            )),
        }
    }
}

impl<'w> OnTarget<'w> {
    /// The place of `len` bytes at an address of the target.
    pub(crate) fn find_attached(
        self,
        cache: &'w RegionCache,
        address: Address,
        len: u64,
    ) -> Result<CachedPlace<'w>> {
        let Aim { operation, rank } = self.aim;
        let awaited = self.window.team.world_rank(rank);
        let check = || self.window.check(operation, Awaited::Rank(awaited));
        let found = cache
            .find(address, len, &check)
            .map_err(|error| self.failed(error))?;
        found.ok_or_else(|| {
            let address = address.0;
            Error::new(operation, Misuse::NotAttached { rank, address, len })
        })
    }
}
