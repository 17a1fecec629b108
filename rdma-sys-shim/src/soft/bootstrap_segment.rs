//! Memory of one process that others on this host map, for news that they need at once and without a
//! connection.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU64;

use memmap2::MmapRaw;

use super::memory_file::{self, FileId};
use crate::system::page_size;
use crate::{Error, Result};

const NAME: &CStr = c"transom-notices";

/// A shared word that is initially zero.
pub struct BootstrapSegment {
    map: MmapRaw,
    /// Open if this process made the segment: others reach it through this descriptor.
    file: Option<File>,
}

impl BootstrapSegment {
    /// A new segment of this process.
    ///
    /// # Errors
    /// Out of memory or of file descriptors.
    pub fn create() -> Result<Self> {
        let len = page_size();
        let file = memory_file::create(NAME, len)?;
        Ok(Self {
            map: memory_file::map(&file, 0, len)?,
            file: Some(file),
        })
    }

    /// Opens the segment with the [`BootstrapSegment::place`] that another process gave.
    ///
    /// # Errors
    /// There is no such segment, or the system does not let this process reach it.
    pub fn open(place: &str) -> Result<Self> {
        let failed = |error| Error::os(format!("opening the bootstrap segment at {place}"), error);
        let mut numbers = place.split('/').map(str::parse::<u64>);
        let mut next = || match numbers.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(failed(io::ErrorKind::InvalidInput.into())),
        };
        let (pid, fd) = (next()? as u32, next()? as RawFd);
        let id = FileId {
            device: next()?,
            inode: next()?,
        };
        let file = memory_file::open_peer_file(pid, fd, id).map_err(failed)?;
        // If /proc belongs to another PID namespace, the number is another process's.
        let opened = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        let path = fs::read_link(opened).map_err(failed)?;
        let expected = format!("/memfd:{} ", NAME.to_string_lossy());
        let len = page_size();
        let found = file.metadata().map_err(failed)?.len();
        if !path.to_string_lossy().starts_with(&expected) || found != len as u64 {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        memory_file::must_hold(&file, 0, found)
            .map_err(|reason| failed(io::Error::other(reason)))?;
        Ok(Self {
            map: memory_file::map(&file, 0, len)?,
            file: None,
        })
    }

    /// How other processes find the segment: process, descriptor, device and inode. `None` if another process made it.
    ///
    /// # Errors
    /// The system does not give the identity of the file.
    pub fn place(&self) -> Result<Option<String>> {
        let place = |file: &File| {
            let FileId { device, inode } = FileId::of(file)?;
            let (pid, fd) = (std::process::id(), file.as_raw_fd());
            Ok(format!("{pid}/{fd}/{device}/{inode}"))
        };
        self.file.as_ref().map(place).transpose()
    }

    /// The word. Its address is fixed while `self` lives.
    #[must_use]
    pub fn word(&self) -> &AtomicU64 {
        // SAFETY: the first word of the mapping, which begins a page and lives as long as `self`; everybody who maps
        // it uses it as an atomic.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn those_who_open_the_segment_see_what_it_holds() {
        let segment = BootstrapSegment::create().unwrap();
        let place = segment.place().unwrap().expect("it is our own");
        let seen = BootstrapSegment::open(&place).unwrap();
        assert_eq!(seen.place().unwrap(), None);
        assert_eq!(seen.word().load(Ordering::Relaxed), 0);
        segment.word().store(7, Ordering::Relaxed);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
        drop(segment);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
    }

    #[test]
    fn nothing_else_is_taken_for_a_bootstrap_segment() {
        let other = |name, pages: usize, next: u64| {
            let file = memory_file::create(name, pages * page_size()).unwrap();
            let FileId { device, inode } = FileId::of(&file).unwrap();
            let (pid, fd, inode) = (std::process::id(), file.as_raw_fd(), inode + next);
            BootstrapSegment::open(&format!("{pid}/{fd}/{device}/{inode}")).is_err()
        };
        assert!(other(c"other", 1, 0) && other(NAME, 2, 0));
        assert!(other(NAME, 1, 1) && !other(NAME, 1, 0));
        for place in ["", "1", "1/2", "1/2/3", "x/2/3/4", "1/99999999/3/4"] {
            assert!(BootstrapSegment::open(place).is_err(), "{place:?}");
        }
    }
}
