//! Memory files and their mappings.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;

use super::limits;
use super::process;
use crate::system::page_size;
use crate::{Error, Result};

const FORBIDDEN: &str = "a filter of system calls forbids it: have it allow memfd_create; for a \
                         container, a `--security-opt seccomp=` profile does";

/// Fix the length of a memory file. If a mapped file lost pages, an access to them would kill the process.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// `len` rounded up to whole pages; `None` if that overflows.
pub(crate) fn whole_pages(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(page_size())
}

/// A new anonymous memory file of `len` zero bytes, with no pages allocated yet. Nobody can change its length.
pub(crate) fn create(name: &CStr, len: usize) -> Result<File> {
    limits::check_file_size(len)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(name, flags).map_err(|errno| {
        let error = Error::os("memfd_create", errno.into());
        match errno {
            Errno::PERM | Errno::ACCESS | Errno::NOSYS => error.with_remedy(FORBIDDEN),
            _ => error,
        }
    })?;
    let file = File::from(file);
    limits::check_descriptor(file.as_raw_fd())?;
    file.set_len(len as u64)
        .map_err(|error| Error::os(format!("ftruncate of a memory file to {len} bytes"), error))?;
    fcntl_add_seals(&file, SEALS)
        .map_err(|error| Error::os("sealing the length of a memory file", error.into()))?;
    Ok(file)
}

/// Identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// The device that contains it.
    pub(crate) device: u64,
    /// Its inode on the device.
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

/// Opens descriptor `fd` of process `pid` as a file of our own, if it refers to the file `id`. Another process may have
/// the number by now.
pub(crate) fn open_peer_file(pid: u32, fd: RawFd, id: FileId) -> io::Result<File> {
    let check = |found: &fs::Metadata| match FileId::read(found) == id {
        true => Ok(()),
        false => {
            let what = "the descriptor is of another file";
            Err(io::Error::new(io::ErrorKind::NotFound, what))
        }
    };
    let open = |path: &str| {
        // Checked before the open, since opening another file may have side effects.
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
        // If the first thread of a process has ended, its descriptors are visible only at another thread.
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

/// Gives a reason not to map a peer's file. The file must hold `len` bytes at `offset`, and always will; otherwise
/// SIGBUS may kill a process that maps them.
pub(crate) fn must_hold(file: &File, offset: u64, len: u64) -> std::result::Result<(), String> {
    if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS)) {
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

/// Maps `len` bytes (more than 0) of a file at `offset`, shared. Both are whole pages.
pub(crate) fn map(file: &File, offset: u64, len: usize) -> Result<MmapRaw> {
    let mut options = MmapOptions::new();
    let mapped = options.offset(offset).len(len).no_reserve_swap();
    let mapped = mapped.map_raw(file);
    mapped.map_err(|error| Error::os(format!("mmap of {len} bytes"), error))
}

/// Keeps a mapping of another process's memory out of core dumps and forked children.
pub(crate) fn mark_foreign(mapped: &MmapRaw) {
    // If the kernel refuses the advice, the mapping stays as it was.
    let _ = mapped.advise(Advice::DontDump);
    let _ = mapped.advise(Advice::DontFork);
}
