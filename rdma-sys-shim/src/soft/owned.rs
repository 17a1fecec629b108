//! The memory that this process has registered: allocated segments and caller-owned regions.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Own;
use super::adopt::{self, Adopted};
use super::segment::{self, AddressRange, page_size, whole_pages};
use super::table::MappablePiece;
use super::vma::{self, Rights};
use crate::fork::OfProcess;
use crate::{Access, Adoption, Error, Region, Result};

/// What this process must know of its own registrations to judge the next one.
#[derive(Default)]
pub(crate) struct Registrations(Mutex<Live>);

#[derive(Default)]
struct Live {
    /// Allocated segments by first address: the answer to "may this be mapped already?".
    segments: BTreeMap<usize, SegmentFile>,
    /// Pages of live regions that peers reach by cross-memory attach or the agent. A peer's
    /// transfer may be under way in them at any moment, so they must not be moved.
    unmappable: Vec<Range<usize>>,
}

#[derive(Clone, Copy)]
struct SegmentFile {
    len: usize,
    fd: RawFd,
}

impl Registrations {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// The piece of an allocated segment that holds `len` bytes at `address`.
    fn find_in_segment(&self, address: usize, len: usize) -> Option<MappablePiece> {
        let (&base, segment) = self.segments.range(..=address).next_back()?;
        let offset = address - base;
        if offset > segment.len || len > segment.len - offset {
            return None;
        }
        let start = offset - offset % page_size();
        Some(MappablePiece {
            address: (base + start) as u64,
            len: (segment.len - start) as u64,
            fd: segment.fd,
            offset: start as u64,
        })
    }

    fn is_unmappable(&self, pages: &Range<usize>) -> bool {
        self.unmappable
            .iter()
            .any(|range| range.start < pages.end && pages.start < range.end)
    }
}

/// Memory that the device allocated: a memory file, mapped here and mappable by peers.
struct Segment {
    own: Arc<Own>,
    rkey: u64,
    range: AddressRange,
    _file: File,
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.own.table.remove(self.rkey);
        if !self.own.options.map {
            self.own.agent.release();
        }
        let base = self.range.base().addr();
        self.own.registrations.live().segments.remove(&base);
    }
}

pub(crate) fn allocate(own: &Arc<Own>, len: usize, align: usize) -> Result<Region> {
    let page = page_size();
    let too_large = || {
        Error::os(
            format!("allocating {len} bytes aligned to {align}"),
            std::io::Error::from_raw_os_error(libc::ENOMEM),
        )
    };
    let align = align.checked_next_power_of_two().ok_or_else(too_large)?;
    let mapped = whole_pages(len.max(1))
        .filter(|&mapped| mapped <= isize::MAX as usize)
        .ok_or_else(too_large)?;
    let file = segment::memory_file(c"transom-segment", mapped)?;
    let range = if align <= page {
        AddressRange::of_file(&file, 0, mapped)?
    } else {
        let range = AddressRange::reserve(mapped, align)?;
        range.place(0, &file, 0, mapped)?;
        range
    };
    let base = range.base();
    let piece = MappablePiece {
        address: base.addr() as u64,
        len: mapped as u64,
        fd: file.as_raw_fd(),
        offset: 0,
    };
    if !own.options.map {
        own.agent.retain()?;
    }
    let pieces: &[_] = if own.options.map { &[piece] } else { &[] };
    let remote = own
        .table
        .insert(base.addr() as u64, len as u64, Access::ALL, pieces)
        .inspect_err(|_| {
            if !own.options.map {
                own.agent.release();
            }
        })?;
    let found = SegmentFile {
        len: mapped,
        fd: file.as_raw_fd(),
    };
    own.registrations.live().segments.insert(base.addr(), found);
    Ok(Region {
        remote,
        base,
        _owner: OfProcess::new(Box::new(Segment {
            own: own.clone(),
            rkey: remote.rkey,
            range,
            _file: file,
        })),
    })
}

/// Caller-owned memory.
struct CallerOwned {
    own: Arc<Own>,
    rkey: u64,
    unmappable: Vec<Range<usize>>,
    adopted: Option<Adopted>,
}

impl Drop for CallerOwned {
    fn drop(&mut self) {
        self.own.table.remove(self.rkey);
        let mut live = self.own.registrations.live();
        for gone in &self.unmappable {
            if let Some(at) = live.unmappable.iter().position(|range| range == gone) {
                live.unmappable.swap_remove(at);
            }
        }
        if !self.unmappable.is_empty() {
            self.own.agent.release();
        }
        if let Some(share) = self.adopted.take() {
            // Under the lock: whether pages may move is decided by one thread at a time.
            // SAFETY: the agent's threads touch regions only, and none is left on pages that move.
            unsafe { share.release(self.own.agent.threads()) };
        }
        drop(live);
    }
}

/// # Safety
/// The contract of [`crate::Device::register`].
pub(crate) unsafe fn register(
    own: &Arc<Own>,
    base: *mut u8,
    len: usize,
    access: Access,
    adoption: Adoption,
) -> Result<Region> {
    let address = base.addr();
    let access = allowed(address, len, access)?;
    let mut live = own.registrations.live();
    let mut adopted = None;
    let mut pieces = Vec::new();
    match live.find_in_segment(address, len) {
        Some(piece) if own.options.map => pieces.push(piece),
        Some(_) => {}
        None => {
            let may_move = own.options.map
                && own.options.adopt
                && adoption == Adoption::Allowed
                && access.allows(Access::WRITE);
            // SAFETY: the caller of `register` makes the promises that adoption asks for.
            adopted = unsafe { share(own, &live, base, len, may_move) };
            if own.options.map {
                pieces.extend(adopted.iter().flat_map(Adopted::pieces).map(|piece| {
                    MappablePiece {
                        address: piece.addr as u64,
                        len: piece.len as u64,
                        fd: piece.fd,
                        offset: piece.offset,
                    }
                }));
            }
        }
    }
    let unmappable = outside(address, len, &pieces);
    if !unmappable.is_empty() {
        own.agent.retain()?;
    }
    let remote = own
        .table
        .insert(address as u64, len as u64, access, &pieces)
        .inspect_err(|_| {
            if !unmappable.is_empty() {
                own.agent.release();
            }
        })?;
    live.unmappable.extend(unmappable.iter().cloned());
    drop(live);
    Ok(Region {
        remote,
        base,
        _owner: OfProcess::new(Box::new(CallerOwned {
            own: own.clone(),
            rkey: remote.rkey,
            unmappable,
            adopted,
        })),
    })
}

/// A share in the region's adopted pages: of all that can be adopted if it may be moved, else of
/// what an earlier region has moved, which must not move back under this region's peers.
///
/// # Safety
/// The contract of [`crate::Device::register`].
unsafe fn share(
    own: &Own,
    live: &Live,
    base: *mut u8,
    len: usize,
    may_move: bool,
) -> Option<Adopted> {
    if may_move {
        let in_use = |pages: Range<usize>| live.is_unmappable(&pages);
        // SAFETY: the caller's promise; agents are parked, since requests reach only regions that
        // are not adopted, and those are `in_use`.
        match unsafe { adopt::adopt(base, len, own.agent.threads(), &in_use) } {
            Ok(share) => return Some(share),
            Err(why) => tracing::debug!(?base, len, %why, "memory is not adopted"),
        }
    }
    adopt::hold(base, len)
}

/// `wanted`, less what the memory itself does not allow.
fn allowed(address: usize, len: usize, wanted: Access) -> Result<Access> {
    let bad = |reason| Error::BadMemory {
        address,
        len,
        reason,
    };
    if len == 0 {
        return Ok(wanted);
    }
    if address.checked_add(len).is_none() || len > isize::MAX as usize {
        return Err(bad("it wraps around the address space"));
    }
    match vma::rights(address, len).map_err(|error| Error::os("reading /proc/self/maps", error))? {
        Rights::None => Err(bad("not all of it is mapped and readable")),
        // Peers may still get from it; a put is refused.
        Rights::Read => Ok(Access::READ),
        Rights::ReadWrite => Ok(wanted),
    }
}

/// The pages of the region that none of `pieces` (neighbours, in order) covers.
fn outside(address: usize, len: usize, pieces: &[MappablePiece]) -> Vec<Range<usize>> {
    if len == 0 {
        return Vec::new();
    }
    let page = page_size();
    let start = address - address % page;
    let end = (address + len).next_multiple_of(page);
    let mapped = match (pieces.first(), pieces.last()) {
        (Some(first), Some(last)) => first.address as usize..(last.address + last.len) as usize,
        _ => end..end,
    };
    [start..mapped.start.min(end), mapped.end.max(start)..end]
        .into_iter()
        .filter(|range| !range.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_piece_covers_is_unmappable() {
        let page = page_size();
        let piece = |from: usize, to: usize| MappablePiece {
            address: (from * page) as u64,
            len: ((to - from) * page) as u64,
            fd: 0,
            offset: 0,
        };
        let pages = |from: usize, to: usize| from * page..to * page;
        assert_eq!(outside(page + 16, page, &[]), [pages(1, 3)]);
        assert_eq!(
            outside(page + 16, 3 * page, &[piece(2, 4)]),
            [pages(1, 2), pages(4, 5)]
        );
        assert!(outside(page + 16, page, &[piece(1, 2), piece(2, 3)]).is_empty());
        assert!(outside(page, page, &[piece(0, 9)]).is_empty());
        assert!(outside(7, 0, &[]).is_empty());
    }
}
