//! The memory that this process has registered: allocated by the device, or the caller's own.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapRaw;

use super::Own;
use super::assist;
use super::memory_file::{self, FileId, whole_pages};
use super::segment::Loan;
use super::table::MappablePiece;
use crate::assist::Attached;
use crate::system::page_size;
use crate::vma;
use crate::{Access, Error, LocalRegion, Result};

/// Allocated memory by first address; tells whether peers can map given memory already.
#[derive(Default)]
pub(crate) struct Allocations(Mutex<BTreeMap<usize, MappablePiece>>);

impl Allocations {
    fn live(&self) -> MutexGuard<'_, BTreeMap<usize, MappablePiece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The piece of allocated memory that contains `len` bytes at `address`.
    fn find(&self, address: usize, len: usize) -> Option<MappablePiece> {
        let live = self.live();
        let (&base, piece) = live.range(..=address).next_back()?;
        let offset = (address - base) as u64;
        if offset > piece.len || len as u64 > piece.len - offset {
            return None;
        }
        let start = offset - offset % page_size() as u64;
        Some(MappablePiece {
            address: piece.address + start,
            len: piece.len - start,
            offset: piece.offset + start,
            ..*piece
        })
    }
}

/// The memory file that contains allocated memory.
enum Home {
    /// The memory's own file, from `skip` bytes to the end.
    Own {
        mapped: MmapRaw,
        skip: usize,
        file: File,
    },
    Segment(Loan),
}

impl Home {
    /// Allocates `len` bytes.
    fn new(own: &Own, len: usize, align: usize) -> Result<Self> {
        let too_large = || {
            Error::os(
                format!("allocating {len} bytes aligned to {align}"),
                std::io::Error::from_raw_os_error(libc::ENOMEM),
            )
        };
        let align = align.checked_next_power_of_two().ok_or_else(too_large)?;
        let len = len.max(1);
        if align <= page_size()
            && let Some(loan) = own.segment.lend(len.max(align))
        {
            return Ok(Self::Segment(loan));
        }
        // The kernel maps whole pages at any page boundary.
        let slack = align.saturating_sub(page_size());
        let bytes = len.checked_add(slack).and_then(whole_pages);
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(too_large)?;
        let file = memory_file::create(c"transom-memory", bytes)?;
        let mapped = memory_file::map(&file, 0, bytes)?;
        let skip = mapped.as_mut_ptr().align_offset(align);
        Ok(Self::Own { mapped, skip, file })
    }

    fn base(&self) -> *mut u8 {
        match self {
            Self::Own { mapped, skip, .. } => mapped.as_mut_ptr().wrapping_add(*skip),
            Self::Segment(loan) => loan.base(),
        }
    }

    fn piece(&self) -> Result<MappablePiece> {
        let (len, fd, offset, file) = match self {
            Self::Own { mapped, skip, file } => {
                let (len, id) = (mapped.len() - skip, FileId::of(file)?);
                (len, file.as_raw_fd(), *skip as u64, id)
            }
            Self::Segment(loan) => loan.place(),
        };
        Ok(MappablePiece {
            address: self.base().addr() as u64,
            len: len as u64,
            fd,
            offset,
            inode: file.inode,
        })
    }
}

/// Publishes memory to peers until it is dropped.
struct Owner {
    own: Arc<Own>,
    rkey: u64,
    /// Whether peers may have to ask the agent for it.
    by_agent: bool,
    /// `Some` if peers cannot map it.
    _attached: Option<Attached>,
    /// The memory, if the device allocated it: mapped here, and mappable by peers.
    home: Option<Home>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.own.table.remove(self.rkey);
        if self.by_agent {
            self.own.agent.release();
        }
        if let Some(home) = &self.home {
            self.own.allocations.live().remove(&home.base().addr());
        }
    }
}

/// Publishes memory to peers. `piece` holds it if peers can map it; `home` if the device allocated it.
fn publish(
    own: &Arc<Own>,
    base: *mut u8,
    len: usize,
    access: Access,
    piece: Option<MappablePiece>,
    home: Option<Home>,
) -> Result<LocalRegion> {
    let piece = piece.filter(|_| own.options.map);
    let is_attached = len > 0 && piece.is_none();
    let by_agent = is_attached && own.needs_agent();
    if by_agent {
        own.agent.retain()?;
    }
    let remote = own
        .table
        .insert(base.addr() as u64, len as u64, access, piece)
        .inspect_err(|_| {
            if by_agent {
                own.agent.release();
            }
        })?;
    let is_assisted = is_attached && home.is_none() && own.options.assist;
    let owner = Owner {
        own: own.clone(),
        rkey: remote.rkey,
        by_agent,
        // From here on, peers may make requests for it.
        _attached: is_assisted.then(|| assist::attach(&own.segment)),
        home,
    };
    Ok(LocalRegion::new(base, remote, owner))
}

pub(crate) fn allocate(own: &Arc<Own>, len: usize, align: usize) -> Result<LocalRegion> {
    let home = Home::new(own, len, align)?;
    let (base, piece) = (home.base(), home.piece()?);
    let region = publish(own, base, len, Access::ALL, Some(piece), Some(home))?;
    own.allocations.live().insert(base.addr(), piece);
    Ok(region)
}

/// # Safety
/// The contract of [`crate::Device::register`].
pub(crate) unsafe fn register(
    own: &Arc<Own>,
    base: *mut u8,
    len: usize,
    access: Access,
) -> Result<LocalRegion> {
    let address = base.addr();
    let access = vma::allowed(address, len, access)?;
    let piece = own.allocations.find(address, len);
    let access = match own.options.map && piece.is_none() {
        // Peers have no atomics on memory that they cannot map.
        true => access.without(Access::ATOMIC),
        false => access,
    };
    publish(own, base, len, access, piece, None)
}
