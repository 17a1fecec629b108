//! The memory file by which peers know a process. It contains the process's identity, its table of
//! regions, the slots for requests, and space for small allocations and for the first large one,
//! which peers therefore map when they connect.
//!
//! The file is sparse: what is not used costs no memory.
//!
//! The file is sealed against shrinking and growing, and a peer checks seals and length before it maps it. A piece is
//! zeroed when it is freed. A region is freed only when no peer uses it; otherwise it is leaked. Any other allocation
//! has a memory file of its own, which peers open as `/proc/PID/fd/N`.
//!
//! Any process of the same user can open these files: `/proc/PID/fd` needs only `PTRACE_MODE_READ`, which Yama does not
//! restrict. The private memory of a process needs `PTRACE_MODE_ATTACH`, which Yama restricts.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use memmap2::MmapRaw;

use super::memory_file::{self, FileId};
use super::peer::{self, Nonce, PeerProcess};
use super::process::ProcessId;
use super::slots::{AssistWords, Bell, SLOTS, Slot, Slots};
use super::sub_allocator::{SubAllocation, SubAllocator};
use crate::device::combine::GivenCombiner;
use crate::system::is_shortage;
use crate::{Error, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"TRANSOM\x04");

/// The most regions that a process can have registered at once.
pub(crate) const REGIONS: usize = 1 << 16;
/// The most data in one request to an agent.
pub(crate) const SLOT_BYTES: usize = 64 << 10;

/// Written once, before the address is published, except for the last field.
#[repr(C, align(64))]
pub(crate) struct Header {
    magic: AtomicU64,
    nonce: AtomicU64,
    pid: AtomicU32,
    /// 1 once the process has closed its device in good order.
    closed: AtomicU32,
}

/// A registered region. `generation` is a sequence lock: it is odd while the entry is live, and part of the rkey.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct RegionEntry {
    pub(crate) generation: AtomicU32,
    pub(crate) access: AtomicU32,
    pub(crate) address: AtomicU64,
    pub(crate) len: AtomicU64,
    pub(crate) piece_address: AtomicU64,
    /// 0: the region cannot be mapped.
    pub(crate) piece_len: AtomicU64,
    pub(crate) piece_offset: AtomicU64,
    pub(crate) piece_fd: AtomicU32,
    /// The inode of the piece's file.
    pub(crate) piece_inode: AtomicU64,
}

const BELL: usize = 64;
const ASSIST: usize = 128;
const SLOT_TABLE: usize = 4096;
const SLOT_DATA: usize = SLOT_TABLE + 2 * 4096;
/// Distance between the data of two slots. Slots in use at the same time lie in different sets of a cache.
const SLOT_STRIDE: usize = SLOT_BYTES + (1 << 10) + 128;
const REGION_TABLE: usize = (SLOT_DATA + SLOTS * SLOT_STRIDE).next_multiple_of(4096);
const TABLES_END: usize = REGION_TABLE + REGIONS * size_of::<RegionEntry>();
/// Page-aligned for every page size.
const SUB_ALLOCATED: usize = TABLES_END.next_multiple_of(64 << 10);
/// The first part, lent to the first large allocation. The control region fits into it in all but the largest jobs.
const FIRST_BYTES: usize = 16 << 20;
/// The rest, for small pieces.
const PIECES: usize = SUB_ALLOCATED + FIRST_BYTES;
const PIECES_BYTES: usize = 16 << 20;
/// The size of each process's segment.
pub const SEGMENT_BYTES: usize = PIECES + PIECES_BYTES;

const _: () = assert!(size_of::<Header>() <= BELL);
// Loom's atomics are larger; its models keep bells and slots outside of a segment.
#[cfg(not(loom))]
const _: () = assert!(BELL + size_of::<Bell>() <= ASSIST);
#[cfg(not(loom))]
const _: () = assert!(ASSIST + size_of::<AssistWords>() <= SLOT_TABLE);
#[cfg(not(loom))]
const _: () = assert!(SLOT_TABLE + SLOTS * size_of::<Slot>() <= SLOT_DATA);
const _: () = assert!(SLOTS <= u32::BITS as usize);

/// How peers find and check the segment of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) process: ProcessId,
    pub(crate) nonce: Nonce,
    /// The descriptor of the segment.
    pub(crate) fd: RawFd,
    pub(crate) file: FileId,
}

/// This process's segment, or a peer's.
pub(crate) struct Segment {
    map: MmapRaw,
    /// The owner's descriptor, through which peers reach the segment.
    fd: RawFd,
    id: FileId,
    /// The free parts of our own segment.
    vacancy: Mutex<Vacancy>,
    /// The regions of our own segment; `None` for a peer's.
    own_table: Option<OwnTable>,
    /// Carries out the accumulates of peers, if the segment is our own.
    pub(super) combiner: GivenCombiner,
    /// Open if the segment is our own: the lock on it shows peers that the process runs.
    _file: Option<File>,
}

/// The regions as their owner knows them, in memory that no peer can write. The table in the file gives peers the same
/// data, but since every peer can write there, the owner never reads it.
struct OwnTable {
    /// Each is made when its first entry is used.
    chunks: [OnceLock<Box<[RegionEntry; CHUNK]>>; REGIONS / CHUNK],
}

const CHUNK: usize = 256;

impl OwnTable {
    fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; REGIONS / CHUNK],
        }
    }

    /// `None` if the entry was never used.
    fn get(&self, index: usize) -> Option<&RegionEntry> {
        Some(&self.chunks[index / CHUNK].get()?[index % CHUNK])
    }

    fn get_or_make(&self, index: usize) -> &RegionEntry {
        let make = || Box::new(std::array::from_fn(|_| RegionEntry::default()));
        &self.chunks[index / CHUNK].get_or_init(make)[index % CHUNK]
    }
}

#[derive(Default)]
struct Vacancy {
    /// Whether the first part is still free.
    first: bool,
    /// The small pieces. They are zeroed when given back, and fresh memory is zero.
    pieces: SubAllocator,
}

/// Zeroed memory in this process's own segment. Peers keep it mapped as long as they like.
pub(crate) struct Loan {
    segment: Arc<Segment>,
    /// `None`: the first part, which is lent once. Peers may read its last content even after its user has released it.
    piece: Option<SubAllocation>,
    len: usize,
}

impl Loan {
    pub(crate) fn base(&self) -> *mut u8 {
        self.segment.map.as_mut_ptr().wrapping_add(self.at())
    }

    /// Its length, the descriptor of the segment's file, its offset there, and the file's identity.
    pub(crate) fn place(&self) -> (usize, RawFd, u64, FileId) {
        (self.len, self.segment.fd, self.at() as u64, self.segment.id)
    }

    fn at(&self) -> usize {
        self.piece.map_or(SUB_ALLOCATED, |piece| PIECES + piece.at)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(piece) = self.piece {
            // SAFETY: the piece is this loan's, inside the mapping, and its users have stopped, peers included, as
            // those who drop a region promise.
            unsafe { self.base().write_bytes(0, self.len) };
            self.segment.vacancy().pieces.give(piece);
        }
    }
}

impl Segment {
    /// Makes this process's segment, by which peers identify it from now on.
    pub(crate) fn create(pid: u32, nonce: u64) -> Result<Self> {
        let file = memory_file::create(c"transom-segment", SEGMENT_BYTES)?;
        peer::hold(&file)?;
        let segment = Self {
            map: memory_file::map(&file, 0, SEGMENT_BYTES)?,
            fd: file.as_raw_fd(),
            id: FileId::of(&file)?,
            vacancy: Mutex::new(Vacancy {
                first: true,
                pieces: SubAllocator::new(PIECES_BYTES),
            }),
            own_table: Some(OwnTable::new()),
            combiner: GivenCombiner::default(),
            _file: Some(file),
        };
        let header = segment.header();
        header.pid.store(pid, Ordering::Relaxed);
        header.nonce.store(nonce, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Opens the segment that another process has published. Returns it with the process.
    pub(crate) fn open(
        device: &'static str,
        own: ProcessId,
        published: &Published,
    ) -> Result<(Self, PeerProcess)> {
        let &Published {
            process,
            nonce,
            fd,
            file: id,
        } = published;
        let pid = process.pid;
        let unreachable = |reason: String| Error::Unreachable {
            device,
            pid,
            reason,
        };
        let is_own = pid == own.pid;
        let opened = match is_own {
            // Another device of this process. Closing another descriptor of its file would release its lock.
            true => borrow(fd, id),
            false => memory_file::open_peer_file(pid, fd, id).map(ManuallyDrop::new),
        };
        let mut file = opened.map_err(|error| {
            if is_shortage(&error) {
                return Error::os(format!("opening /proc/{pid}/fd/{fd}"), error);
            }
            let is_not_found = error.kind() == std::io::ErrorKind::NotFound;
            match process.exists() {
                false => Error::PeerGone { pid },
                // Or the process has closed the device and still runs; other checks detect that.
                true if is_not_found && process.is_visible() => Error::PeerReplaced { pid },
                true => unreachable(format!(
                    "opening /proc/{pid}/fd/{fd} failed: {error}; ranks must run as one user, in one \
                     PID namespace, and stay dumpable"
                )),
            }
        })?;
        let segment = Self::map_peers(&file, published, unreachable);
        if !is_own {
            // SAFETY: the file is not used below.
            unsafe { ManuallyDrop::drop(&mut file) };
        }
        let place = (!is_own).then_some((fd, id));
        Ok((segment?, PeerProcess::new(process, own, nonce, place)))
    }

    fn map_peers(
        file: &File,
        published: &Published,
        unreachable: impl Fn(String) -> Error,
    ) -> Result<Self> {
        let len = file.metadata().map_or(0, |data| data.len());
        if len != SEGMENT_BYTES as u64 {
            return Err(unreachable(format!(
                "its segment has {len} bytes where this version of transom has {SEGMENT_BYTES}"
            )));
        }
        memory_file::must_hold(file, 0, len).map_err(&unreachable)?;
        let segment = Self {
            map: memory_file::map(file, 0, SEGMENT_BYTES)?,
            fd: published.fd,
            id: published.file,
            vacancy: Mutex::default(),
            own_table: None,
            combiner: GivenCombiner::default(),
            _file: None,
        };
        memory_file::mark_foreign(&segment.map);
        let (header, pid) = (segment.header(), published.process.pid);
        let ours = header.magic.load(Ordering::Acquire) == MAGIC
            && header.nonce.load(Ordering::Relaxed) == published.nonce.value
            && header.pid.load(Ordering::Relaxed) == pid;
        match ours {
            true => Ok(segment),
            false => Err(unreachable(format!(
                "/proc/{pid}/fd/{} is not the segment that it published; do the ranks share a PID \
                 namespace?",
                published.fd
            ))),
        }
    }

    /// What peers need to find this segment.
    pub(crate) fn published(&self, process: ProcessId) -> Published {
        let nonce = &self.header().nonce;
        Published {
            process,
            nonce: Nonce {
                value: nonce.load(Ordering::Relaxed),
                address: (&raw const *nonce).addr() as u64,
            },
            fd: self.fd,
            file: self.id,
        }
    }

    /// The identity of another file of the owner: all memory files are on one device.
    pub(crate) fn sibling(&self, inode: u64) -> FileId {
        FileId { inode, ..self.id }
    }

    /// `len` zeroed bytes, if there is room. A loan of a page or more is page-aligned; all are aligned to a cache line.
    pub(crate) fn lend(self: &Arc<Self>, len: usize) -> Option<Loan> {
        let mut vacancy = self.vacancy();
        let piece = vacancy.pieces.take(len);
        if piece.is_none() {
            // Small pieces must not take the first part when theirs is full: it is for the control region.
            let fits = len > SubAllocator::MOST && len <= FIRST_BYTES;
            if !(fits && std::mem::take(&mut vacancy.first)) {
                return None;
            }
        }
        Some(Loan {
            segment: self.clone(),
            piece,
            len,
        })
    }

    fn vacancy(&self) -> MutexGuard<'_, Vacancy> {
        self.vacancy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address here of `len` bytes at `offset` of the owner's file `fd`, if they lie in the sub-allocated part of
    /// the segment.
    pub(crate) fn in_sub_allocator(&self, fd: RawFd, offset: u64, len: u64) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        let inside = fd == self.fd && offset >= SUB_ALLOCATED as u64 && end <= SEGMENT_BYTES as u64;
        inside.then(|| self.map.as_mut_ptr().wrapping_add(offset as usize))
    }

    fn header(&self) -> &Header {
        self.at(0)
    }

    /// Tells peers that this process leaves in good order.
    pub(crate) fn close(&self) {
        self.header().closed.store(1, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.header().closed.load(Ordering::Acquire) != 0
    }

    /// The slot's `SLOT_BYTES` bytes of data. The slot's state determines who may use them.
    pub(crate) fn slot_data(&self, index: usize) -> *mut u8 {
        assert!(index < SLOTS);
        self.map
            .as_mut_ptr()
            .wrapping_add(SLOT_DATA + index * SLOT_STRIDE)
    }

    /// The entry for checking an access: in our own segment the owner's, in a peer's the published one. `None` if it
    /// was never used.
    pub(crate) fn entry(&self, index: usize) -> Option<&RegionEntry> {
        match &self.own_table {
            Some(own) => own.get(index),
            None => Some(self.published_entry(index)),
        }
    }

    /// The owner's entry, for the owner to write.
    pub(crate) fn own_entry(&self, index: usize) -> Option<&RegionEntry> {
        let own = self.own_table.as_ref()?;
        Some(own.get_or_make(index))
    }

    /// The entry that peers read.
    pub(crate) fn published_entry(&self, index: usize) -> &RegionEntry {
        assert!(index < REGIONS);
        self.at(REGION_TABLE + index * size_of::<RegionEntry>())
    }

    fn at<T>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= TABLES_END && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: the range lies in the page-aligned mapping, which lives as long as `self`; the
        // types used are made of atomics, for which any bits are valid and sharing is sound.
        unsafe { &*self.map.as_mut_ptr().wrapping_add(offset).cast::<T>() }
    }
}

/// The file of a descriptor of this process, if it has this identity. Its owner closes it.
fn borrow(fd: RawFd, id: FileId) -> std::io::Result<ManuallyDrop<File>> {
    let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
    if fd < 0 {
        return Err(gone());
    }
    // SAFETY: the descriptor is not closed here. If its device is gone, it is closed or names another file, which the
    // check below and the caller's check of the mapped content detect.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    match FileId::of(&file) {
        Ok(found) if found == id => Ok(file),
        _ => Err(gone()),
    }
}

impl Slots for Segment {
    fn bell(&self) -> &Bell {
        self.at(BELL)
    }

    fn assist(&self) -> &AssistWords {
        self.at(ASSIST)
    }

    fn slot(&self, index: usize) -> &Slot {
        assert!(index < SLOTS);
        self.at(SLOT_TABLE + index * size_of::<Slot>())
    }
}
