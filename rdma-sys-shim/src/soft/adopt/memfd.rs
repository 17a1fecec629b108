//! The anonymous files that adopted pages live in.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use std::sync::atomic::{AtomicUsize, Ordering};

use super::declined::Declined;
use super::sys::{self, Refusal};

/// An anonymous file of fixed size, full of holes at first.
#[derive(Debug)]
pub(super) struct Memfd {
    fd: OwnedFd,
    id: FileId,
}

/// How many this process has.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// A forked child has none of its parent's.
pub(super) fn forget_all() {
    COUNT.store(0, Ordering::Relaxed);
}

impl Drop for Memfd {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How `/proc/self/maps` names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
}

impl Memfd {
    pub(super) fn new(len: usize) -> Result<Self, Declined> {
        if len as u64 > file_size_limit() {
            // Not only would the calls below fail: they would send SIGXFSZ.
            return Err(Declined::FileSizeLimit);
        }
        let create = |more| {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | more;
            // SAFETY: the name is a C string.
            unsafe { libc::memfd_create(c"transom-adopted".as_ptr(), flags) }
        };
        // Kernels before 6.3 do not know the flag; later ones may insist on it.
        let mut fd = create(libc::MFD_NOEXEC_SEAL);
        if fd < 0 && Refusal::of("memfd_create").errno == libc::EINVAL {
            fd = create(0);
        }
        if fd < 0 {
            return Err(Refusal::of("memfd_create").into());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } < 0 {
            return Err(Refusal::of("ftruncate").into());
        }
        // A file that a peer could cut short would turn this process's loads into SIGBUS.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(Refusal::of("fcntl(F_ADD_SEALS)").into());
        }
        // SAFETY: all zeroes is a valid value of this plain structure.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the buffer is this frame's.
        if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } < 0 {
            return Err(Refusal::of("fstat").into());
        }
        let id = FileId {
            major: libc::major(stat.st_dev),
            minor: libc::minor(stat.st_dev),
            inode: stat.st_ino,
        };
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { fd, id })
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Frees the memory of pages that are no longer in use here.
    pub(super) fn free(&self, offset: u64, len: usize) {
        // A refusal keeps memory until the file is closed; nothing depends on it.
        // SAFETY: the descriptor is open; the pages are no longer mapped by their owner.
        unsafe {
            libc::fallocate(
                self.raw(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                len as libc::off_t,
            )
        };
    }
}

fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is this frame's. The call cannot fail with these arguments.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// The part of `offset..offset + len` of a file that holds data, as the next run at or after
/// `from`; `None` if only holes follow. Moves the descriptor's position, which nobody uses.
pub(super) fn next_data(
    fd: RawFd,
    from: u64,
    end: u64,
) -> Result<Option<std::ops::Range<u64>>, Refusal> {
    let seek = |to: u64, whence| {
        // SAFETY: seeking touches no memory.
        let at = unsafe { libc::lseek(fd, to as libc::off_t, whence) };
        u64::try_from(at).map_err(|_| Refusal::of("lseek"))
    };
    let start = match seek(from, libc::SEEK_DATA) {
        Ok(start) => start,
        Err(Refusal {
            errno: libc::ENXIO, ..
        }) => return Ok(None),
        Err(refusal) => return Err(refusal),
    };
    if start >= end {
        return Ok(None);
    }
    let stop = seek(start, libc::SEEK_HOLE)?.min(end);
    debug_assert_eq!(start % sys::page_size() as u64, 0);
    Ok(Some(start..stop))
}
