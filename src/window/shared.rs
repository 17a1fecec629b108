//! Shared windows: memory of all ranks in the address space of each.
//!
//! It is one allocation of rank 0, which the other ranks map as a whole; each rank's base and rkey refer to it. Its
//! data never goes through an endpoint. With `alloc_shared_noncontig` it is an allocated window on a device that maps
//! memory. On a device that maps nothing, creating one is an error, because loads and stores need a mapping.

use std::ptr;

use rdma_sys_shim::{LocalRegion, Mapping, RemoteRegion};

use super::create::{Created, Exposed};
use super::hints::{Common, Hints};
use super::{Info, Window, WindowMemory};
use crate::comm::Communicator;
use crate::error::{Error, Misuse, PeerError, Result};
use crate::memory::displacement::Offset;
use crate::memory::reach::Reach;
use crate::peers::not_forked;
use crate::terms::{Aim, Flavor};

/// The memory of all ranks, one part after the other: rank 0 has allocated it, and the others have mapped it.
pub(super) struct SharedAllocation {
    /// Its address in this process.
    base: *mut u8,
    /// Its description by rank 0.
    whole: RemoteRegion,
    /// Present on rank 0.
    _region: Option<LocalRegion>,
    /// Present on the other ranks.
    _mapping: Option<Mapping>,
}

// SAFETY: `base` is only an address; the region or the mapping, which are Send, own the memory.
unsafe impl Send for SharedAllocation {}
// SAFETY: as above; nothing is dereferenced here.
unsafe impl Sync for SharedAllocation {}

impl SharedAllocation {
    /// The part that peers know as `exposed`; `None` if it is not inside.
    pub(super) fn part(&self, exposed: &RemoteRegion) -> Option<Reach> {
        let offset = exposed.address.checked_sub(self.whole.address)?;
        let fits = Offset(offset).fits(exposed.len, self.whole.len);
        fits.then(|| Reach {
            base: self.base.wrapping_add(offset as usize),
            len: exposed.len,
        })
    }

    /// Opens the memory that [`allocate_for_all`] has made.
    fn open(comm: &Communicator, whole: RemoteRegion, region: Option<LocalRegion>) -> Result<Self> {
        let mapping = match region {
            Some(_) => None,
            None => comm.team().connect_to(0)?.endpoint().map(&whole)?,
        };
        let mapped = mapping.as_ref().map(Mapping::base);
        let base = region.as_ref().map(LocalRegion::base).or(mapped);
        Ok(Self {
            base: base.ok_or_else(|| no_sharing(comm))?,
            whole,
            _region: region,
            _mapping: mapping,
        })
    }
}

/// A rank's memory in this process's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPart {
    /// First byte. Null if no memory is mapped here; but for an empty part between contiguous ones, the end of the
    /// previous rank's.
    pub base: *mut u8,
    /// Length in bytes; 0 if it is not mapped here, regardless of [`Window::size_of`].
    pub size: u64,
    /// That rank's displacement unit in bytes.
    pub disp_unit: u64,
}

/// The alignment of a rank's own memory in a shared window.
const PAGE: usize = 4096;

impl Window {
    /// Collective. A window over memory that all ranks can load from and store to: `size` zeroed bytes of this rank,
    /// whose address in this process is the window's base (MPI-4.1, section 12.2.3, `MPI_Win_allocate_shared`).
    /// [`Window::shared_query`] returns the other ranks' parts.
    ///
    /// The ranks' parts are contiguous: the first byte of a rank follows the last one of the previous rank. With the
    /// hint `alloc_shared_noncontig` on all ranks, each rank has memory of its own, which begins at a page. Then its
    /// alignment does not depend on its neighbour's length, and its pages are near the rank that touches them first.
    /// `mpi_minimum_memory_alignment` applies to each rank's memory with the hint, and to rank 0's without it; in other
    /// processes, to a page at most.
    ///
    /// Neighbours may store to the memory at any time, so that no reference to it would be sound. The safe form is
    /// [`allocate_shared`](crate::Window::allocate_shared) of the typed interface, in which ranks alternately write to
    /// their own parts and load from all.
    ///
    /// # Errors
    /// On every rank if one rank fails: the communicator's ranks cannot load from and store to each other's memory
    /// ([`RmaShared`](crate::ErrorClass::RmaShared)). This is so if an RDMA device connects them, because its atomics
    /// and the processor's would not be atomic to each other. On every device, a communicator of
    /// [`Communicator::split_shared`] works. As for [`Window::allocate`].
    pub fn allocate_shared(
        comm: &Communicator,
        size: usize,
        disp_unit: u64,
        info: &Info,
    ) -> Result<Self> {
        let created = Created {
            operation: "allocate_shared",
            flavor: Flavor::Shared,
            size,
            disp_unit,
        };
        let during = |error: Error| error.during(created.operation);
        let prepared = created
            .check()
            .and_then(|()| maps_memory(comm))
            .and_then(|()| Hints::parse(info))
            .map_err(during);
        let mine = prepared.as_ref().map(|hints| {
            let Common { flags, granularity } = hints.common;
            [size as u64, flags, granularity]
        });
        let agreed = comm.agree_on(created.operation, mine);
        let mut hints = prepared?;
        let all = agreed?;
        let common = |&[_, flags, granularity]: &[u64; 3]| Common { flags, granularity };
        hints.take_weakest(all.iter().map(common));
        if hints.noncontiguous() {
            return Self::build(comm, created, info, |hints, device| {
                Ok(device.allocate(size, hints.alignment.max(PAGE))?.into())
            });
        }
        let sizes = all.iter().map(|&[size, ..]| size);
        let (whole, region) = allocate_for_all(comm, created, sizes, hints.alignment)?;
        let before = all[..comm.rank() as usize].iter();
        let before = before.fold(0, |before: u64, part| before.saturating_add(part[0]));
        Self::build(comm, created, info, |_, _| {
            let shared = SharedAllocation::open(comm, whole, region)?;
            let remote = RemoteRegion {
                address: whole.address.saturating_add(before),
                len: size as u64,
                ..whole
            };
            let part = shared.part(&remote).ok_or_else(|| {
                let what = "the memory for all ranks";
                let rank = comm.team().world_rank(0).0;
                Error::new(created.operation, PeerError::Garbled { rank, what })
            })?;
            Ok(Exposed {
                base: part.base,
                memory: WindowMemory::Shared(shared),
                remote,
            })
        })
    }

    /// The result of [`Window::shared_query`], and the rank whose memory it gives access to, if that rank has to be
    /// locked for it.
    pub(crate) fn find_shared(
        &self,
        operation: &'static str,
        rank: Option<u32>,
    ) -> Result<(SharedPart, Option<u32>)> {
        not_forked(operation)?;
        if self.flavor == Flavor::Dynamic {
            let misuse = Misuse::Flavor {
                found: self.flavor,
                needs: "a window that has memory itself",
            };
            return Err(Error::new(operation, misuse));
        }
        let first = || Some(self.parts.sizes.other_than(0)?.0);
        let rank = rank.or_else(first).unwrap_or(0);
        self.team.check_rank(operation, rank)?;
        if rank == self.rank() {
            let part = SharedPart {
                base: self.base,
                size: self.size(),
                disp_unit: self.disp_unit(),
            };
            return Ok((part, None));
        }
        let route = self.on(Aim::new(operation, rank)).route()?;
        let mut handed_out = None;
        let mut part = SharedPart {
            base: route.mapped.base,
            size: route.size,
            disp_unit: route.entry.unit,
        };
        if self.is_shared_allocation() {
            // The part has a place between its neighbours' even if it is empty.
        } else if route.size == 0 || route.mapped.len < route.size {
            (part.base, part.size) = (ptr::null_mut(), 0);
        } else if self.flavor != Flavor::Shared {
            self.give_away(rank);
            handed_out = Some(rank);
        }
        Ok((part, handed_out))
    }
}

/// Fails if the device does not map peers' memory: then it does not map this rank's own either.
fn maps_memory(comm: &Communicator) -> Result<()> {
    let team = comm.team();
    if team.fabric.maps_memory(team.context.patience())? {
        return Ok(());
    }
    Err(no_sharing(comm))
}

fn no_sharing(comm: &Communicator) -> Error {
    let device = comm.team().fabric.device.name().to_owned();
    Error::new("allocate_shared", Misuse::NoSharing { device })
}

/// Collective. Allocates memory at rank 0 for all: its description by rank 0 and, on rank 0, its owner.
fn allocate_for_all(
    comm: &Communicator,
    created: Created,
    sizes: impl Iterator<Item = u64>,
    alignment: usize,
) -> Result<(RemoteRegion, Option<LocalRegion>)> {
    let operation = created.operation;
    let total = sizes.fold(0, u64::saturating_add);
    let mine = if comm.rank() > 0 {
        Ok(None)
    } else if total > isize::MAX as u64 {
        let misuse = Misuse::BadSize {
            size: total,
            reason: "an object has at most 2^63 − 1 bytes, and this is the sum over all ranks",
        };
        Err(Error::new(operation, misuse))
    } else {
        let device = &comm.team().fabric.device;
        // An empty region cannot be mapped.
        let region = device.allocate(total.max(1) as usize, alignment);
        region.map(Some).map_err(Error::from)
    };
    let mine = mine.map_err(|error| error.during(operation));
    let told = mine.as_ref().map(|region| {
        let remote = region
            .as_ref()
            .map_or(RemoteRegion::default(), LocalRegion::remote);
        [remote.address, remote.len, remote.rkey]
    });
    let told = comm.agree_on(operation, told);
    let region = mine?;
    let [address, len, rkey] = told?[0];
    Ok((RemoteRegion { address, len, rkey }, region))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_part_lies_in_the_allocation_or_is_none() {
        let device = crate::devices::open("soft");
        let region = device.allocate(4096, 64).unwrap();
        let whole = region.remote();
        let shared = SharedAllocation {
            base: region.base(),
            whole,
            _region: Some(region),
            _mapping: None,
        };
        let part = |from: u64, len| {
            let address = whole.address.wrapping_add(from);
            shared.part(&RemoteRegion {
                address,
                len,
                ..whole
            })
        };
        for (from, len) in [(0, 4096), (4096, 0), (64, 64)] {
            let part = part(from, len).unwrap();
            assert_eq!(part.base, shared.base.wrapping_add(from as usize));
            assert_eq!(part.len, len);
        }
        let minus_one = 1_u64.wrapping_neg();
        for (from, len) in [
            (0, 4097),
            (4097, 0),
            (minus_one, 1),
            (1 << 40, 1),
            (8, u64::MAX),
        ] {
            assert!(part(from, len).is_none(), "{from:#x} {len}");
        }
    }
}
