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
    /// Collective. A window without memory, to which each rank attaches memory later, and from
    /// which it detaches it (MPI-4.1, section 12.2.4, `MPI_Win_create_dynamic`). A displacement is
    /// the address at the target, as [`get_address`](crate::raw::get_address) says there; the
    /// displacement unit is 1.
    ///
    /// An origin reads a target's table of regions when it has changed, and its version at every
    /// operation: that is a load where the device maps memory, and a small read where it does not.
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

    /// Local. Lets the other ranks access `size` bytes at `base`: memory of any kind and alignment,
    /// also a part of a page that other regions have parts of (MPI-4.1, section 12.2.4,
    /// `MPI_Win_attach`). They must be told the address, after this call.
    ///
    /// A size of 0 is legal. An access may lie in several regions, be it that they touch or that a
    /// layout has data in each; that costs as much as an operation for each of its parts. A single
    /// element of an accumulate has to lie in one region.
    ///
    /// # Errors
    /// The window is not dynamic ([`RmaFlavor`](crate::ErrorClass::RmaFlavor)); a part of the memory
    /// is attached already ([`RmaAttach`](crate::ErrorClass::RmaAttach)); it is not mapped; out of
    /// memory.
    ///
    /// # Safety
    /// Until it is detached or the window freed, what [`Window::create`] asks of its memory holds.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        const OPERATION: &str = "attach";
        let device = &self.team.fabric.device;
        // SAFETY: the caller's promise.
        unsafe { self.attached(OPERATION)?.attach(&**device, base, size) }
            .map_err(|error| error.during(OPERATION))
    }

    /// Local. Takes the region that was attached at `base` from the other ranks, all of whose
    /// operations on it must be complete (MPI-4.1, section 12.2.4, `MPI_Win_detach`).
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
    /// Where `len` bytes at an address there are.
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
