//! Memory files and their mappings.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::ptr;

use super::limits;
use super::process;
use crate::system::page_size;
use crate::{Error, Result};

const FORBIDDEN: &str = "a filter of system calls forbids it: have it allow memfd_create; for a \
                         container, a `--security-opt seccomp=` profile does";

/// Keep a memory file as long as it is: what others have mapped must not lose its pages, whose touch would end them.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// `len` rounded up to whole pages, unless that overflows.
pub(crate) fn whole_pages(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(page_size())
}

/// A new anonymous memory file of `len` bytes, all zero and none of them allocated yet. Nobody can change its length.
pub(crate) fn create(name: &CStr, len: usize) -> Result<File> {
    limits::check_file_size(len)?;
    // SAFETY: the name is a C string; the call returns a new descriptor or -1.
    let fd = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        libc::memfd_create(name.as_ptr(), flags)
    };
    if fd < 0 {
        let error = Error::last_os("memfd_create");
        return Err(match error.os_code() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => error.with_remedy(FORBIDDEN),
            _ => error,
        });
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    limits::check_descriptor(fd)?;
    file.set_len(len as u64)
        .map_err(|error| Error::os(format!("ftruncate of a memory file to {len} bytes"), error))?;
    // SAFETY: the call takes a descriptor that is open, and integers.
    if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } == -1 {
        return Err(Error::last_os("sealing the length of a memory file"));
    }
    Ok(file)
}

/// Which file a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// The device that it is on.
    pub(crate) device: u64,
    /// Its inode there.
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(file: &File) -> Result<Self> {
        let found = file.metadata();
        let found = found.map_err(|error| Error::os("fstat of a memory file", error))?;
        Ok(Self::read(&found))
    }

    fn read(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

/// Opens descriptor `fd` of process `pid` as a file of our own, if it is of this file. Another process may have the number
/// by now.
pub(crate) fn open_peer_file(pid: u32, fd: RawFd, id: FileId) -> io::Result<File> {
    let check = |found: &fs::Metadata| match FileId::read(found) == id {
        true => Ok(()),
        false => {
            let what = "the descriptor is of another file";
            Err(io::Error::new(io::ErrorKind::NotFound, what))
        }
    };
    let open = |path: &str| {
        // Looked at first: to open something else may have effects.
        check(&fs::metadata(path)?)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path)?;
        check(&file.metadata()?)?;
        Ok::<_, io::Error>(file)
    };
    let opened = open(&format!("/proc/{pid}/fd/{fd}"));
    match opened {
        // Those of a process whose first thread has ended are to be found at another.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let others = process::threads(pid)?
                .into_iter()
                .filter(|&thread| thread != pid);
            let mut opened =
                others.map(|thread| open(&format!("/proc/{pid}/task/{thread}/fd/{fd}")));
            opened
                .find(|opened| !is_not_found(opened))
                .unwrap_or(Err(error))
        }
        opened => opened,
    }
}

/// Says why a peer's file must not be mapped: unless it holds `len` bytes at `offset`, and always will, whoever maps them
/// may be ended by SIGBUS.
pub(crate) fn must_hold(file: &File, offset: u64, len: u64) -> std::result::Result<(), String> {
    // SAFETY: the call takes a descriptor that is open, and nothing else.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals == -1 || seals & SEALS != SEALS {
        return Err("the length of its memory file is not sealed".to_owned());
    }
    let found = file.metadata().map_or(0, |data| data.len());
    match offset.checked_add(len) {
        Some(end) if end <= found => Ok(()),
        _ => Err(format!(
            "it says that its memory file holds {len} bytes at {offset}, but the file has {found}"
        )),
    }
}

fn is_not_found(opened: &io::Result<File>) -> bool {
    opened
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A range of address space that this process owns, unmapped on drop.
pub(crate) struct AddressRange {
    base: *mut u8,
    len: usize,
}

// SAFETY: the range is an address and a length; nothing is dereferenced here.
unsafe impl Send for AddressRange {}
// SAFETY: as above.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Address space of `len` bytes (whole pages, more than 0), aligned to `align`, with nothing
    /// behind it.
    pub(crate) fn reserve(len: usize, align: usize) -> Result<Self> {
        let slack = align.saturating_sub(page_size());
        let total = len
            .checked_add(slack)
            .ok_or_else(|| Error::os("mmap", io::Error::from_raw_os_error(libc::ENOMEM)))?;
        let base = map(ptr::null_mut(), total, libc::PROT_NONE, None)?;
        let skip = base.addr().next_multiple_of(align.max(1)) - base.addr();
        // SAFETY: head and tail lie in the range that was just mapped and that nobody uses yet.
        unsafe {
            if skip > 0 {
                libc::munmap(base.cast(), skip);
            }
            if slack > skip {
                libc::munmap(base.add(skip + len).cast(), slack - skip);
            }
        }
        Ok(Self {
            base: base.wrapping_add(skip),
            len,
        })
    }

    /// `len` bytes (whole pages, more than 0) of a file, mapped shared.
    pub(crate) fn of_file(file: &File, offset: u64, len: usize) -> Result<Self> {
        let base = map(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            Some((file, offset)),
        )?;
        Ok(Self { base, len })
    }

    /// Puts `len` bytes of a file at `at` bytes into this range.
    pub(crate) fn place(&self, at: usize, file: &File, offset: u64, len: usize) -> Result<()> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
        map(
            self.base.wrapping_add(at),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            Some((file, offset)),
        )?;
        Ok(())
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps a mapping of somebody else's memory out of core dumps and forked children.
    pub(crate) fn mark_foreign(&self) {
        // SAFETY: advice on a range that this process owns; failure leaves it as it was.
        unsafe {
            libc::madvise(self.base.cast(), self.len, libc::MADV_DONTDUMP);
            libc::madvise(self.base.cast(), self.len, libc::MADV_DONTFORK);
        }
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and the users of its pointers promised to stop before this
        // (`Device::register`, `Endpoint::map`).
        let rc = unsafe { libc::munmap(self.base.cast(), self.len) };
        if rc != 0 {
            tracing::error!(base = ?self.base, len = self.len, "munmap failed");
        }
    }
}

fn map(
    at: *mut u8,
    len: usize,
    prot: libc::c_int,
    backing: Option<(&File, u64)>,
) -> Result<*mut u8> {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let (flags, fd, offset) = match backing {
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
    };
    // SAFETY: either the kernel chooses an unused range, or `at` lies in a range that the caller
    // reserved (`place` checks that), so no mapping that is in use is replaced.
    let base = unsafe {
        libc::mmap(
            at.cast(),
            len,
            prot,
            flags | fixed | libc::MAP_NORESERVE,
            fd,
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(Error::last_os(format!("mmap of {len} bytes")));
    }
    Ok(base.cast())
}
