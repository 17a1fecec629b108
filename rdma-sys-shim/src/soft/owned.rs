//! The memory that this process has registered: allocated segments and caller-owned regions.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Own;
use super::assist::Attached;
use super::memory_file::{self, AddressRange, FileId, whole_pages};
use super::segment::Loan;
use super::table::MappablePiece;
use crate::system::page_size;
use crate::vma::{self, Rights};
use crate::{Access, Error, Region, Result};

/// Allocated segments by first address: the answer to "may this be mapped already?".
#[derive(Default)]
pub(crate) struct Segments(Mutex<BTreeMap<usize, SegmentFile>>);

#[derive(Clone, Copy)]
struct SegmentFile {
    len: usize,
    fd: RawFd,
    /// Where it begins in the file.
    offset: u64,
    inode: u64,
}

impl Segments {
    fn live(&self) -> MutexGuard<'_, BTreeMap<usize, SegmentFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The piece of an allocated segment that holds `len` bytes at `address`.
    fn find(&self, address: usize, len: usize) -> Option<MappablePiece> {
        let live = self.live();
        let (&base, segment) = live.range(..=address).next_back()?;
        let offset = address - base;
        if offset > segment.len || len > segment.len - offset {
            return None;
        }
        let start = offset - offset % page_size();
        Some(MappablePiece {
            address: (base + start) as u64,
            len: (segment.len - start) as u64,
            fd: segment.fd,
            offset: segment.offset + start as u64,
            inode: segment.inode,
        })
    }
}

/// Memory that the device allocated: mapped here and mappable by peers.
struct Segment {
    own: Arc<Own>,
    rkey: u64,
    home: Home,
}

/// Whose memory file it is in.
enum Home {
    Own { range: AddressRange, file: File },
    Port(Loan),
}

impl Home {
    /// For `len` bytes.
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
            return Ok(Self::Port(loan));
        }
        let mapped = whole_pages(len)
            .filter(|&mapped| mapped <= isize::MAX as usize)
            .ok_or_else(too_large)?;
        let file = memory_file::create(c"transom-segment", mapped)?;
        let range = if align <= page_size() {
            AddressRange::of_file(&file, 0, mapped)?
        } else {
            let range = AddressRange::reserve(mapped, align)?;
            range.place(0, &file, 0, mapped)?;
            range
        };
        Ok(Self::Own { range, file })
    }

    fn base(&self) -> *mut u8 {
        match self {
            Self::Own { range, .. } => range.base(),
            Self::Port(loan) => loan.base(),
        }
    }

    fn segment(&self) -> Result<SegmentFile> {
        Ok(match self {
            Self::Own { range, file } => SegmentFile {
                len: range.len(),
                fd: file.as_raw_fd(),
                offset: 0,
                inode: FileId::of(file)?.inode,
            },
            Self::Port(loan) => SegmentFile {
                len: loan.len(),
                fd: loan.fd(),
                offset: loan.offset(),
                inode: loan.file().inode,
            },
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.own.table.remove(self.rkey);
        if !self.own.options.map {
            self.own.agent.release();
        }
        let base = self.home.base().addr();
        self.own.segments.live().remove(&base);
    }
}

pub(crate) fn allocate(own: &Arc<Own>, len: usize, align: usize) -> Result<Region> {
    let home = Home::new(own, len, align)?;
    let (base, segment) = (home.base(), home.segment()?);
    let piece = MappablePiece {
        address: base.addr() as u64,
        len: segment.len as u64,
        fd: segment.fd,
        offset: segment.offset,
        inode: segment.inode,
    };
    if !own.options.map {
        own.agent.retain()?;
    }
    let piece = own.options.map.then_some(piece);
    let remote = own
        .table
        .insert(base.addr() as u64, len as u64, Access::ALL, piece)
        .inspect_err(|_| {
            if !own.options.map {
                own.agent.release();
            }
        })?;
    own.segments.live().insert(base.addr(), segment);
    let owner = Segment {
        own: own.clone(),
        rkey: remote.rkey,
        home,
    };
    Ok(Region::new(base, remote, owner))
}

/// Caller-owned memory.
struct CallerOwned {
    own: Arc<Own>,
    rkey: u64,
    /// Peers may have to ask the agent for it.
    by_agent: bool,
    /// They cannot map it.
    _attached: Option<Attached>,
}

impl Drop for CallerOwned {
    fn drop(&mut self) {
        self.own.table.remove(self.rkey);
        if self.by_agent {
            self.own.agent.release();
        }
    }
}

/// # Safety
/// The contract of [`crate::Device::register`].
pub(crate) unsafe fn register(
    own: &Arc<Own>,
    base: *mut u8,
    len: usize,
    access: Access,
) -> Result<Region> {
    let address = base.addr();
    let access = allowed(address, len, access)?;
    let segment = own.segments.find(address, len);
    let access = match own.options.map && segment.is_none() {
        // Peers have no atomics on memory that they cannot map.
        true => access.without(Access::ATOMIC),
        false => access,
    };
    let piece = segment.filter(|_| own.options.map);
    let is_attached = len > 0 && piece.is_none();
    let by_agent = is_attached && own.needs_agent();
    if by_agent {
        own.agent.retain()?;
    }
    let remote = own
        .table
        .insert(address as u64, len as u64, access, piece)
        .inspect_err(|_| {
            if by_agent {
                own.agent.release();
            }
        })?;
    let owner = CallerOwned {
        own: own.clone(),
        rkey: remote.rkey,
        by_agent,
        _attached: (is_attached && own.options.assist).then(|| Attached::new(&own.segment)),
    };
    Ok(Region::new(base, remote, owner))
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
    match vma::rights(address, len)
        .map_err(|error| Error::os("reading /proc/thread-self/maps", error))?
    {
        Rights::None => Err(bad("not all of it is mapped and readable")),
        // Peers may still get from it; a put is refused.
        Rights::Read => Ok(Access::READ),
        Rights::ReadWrite => Ok(wanted),
    }
}
