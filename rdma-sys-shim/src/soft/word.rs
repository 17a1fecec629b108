//! A word of one process that others of this host map: for what is to be known at once, and without a
//! connection.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU64;

use super::segment::{self, AddressRange, page_size};
use crate::{Error, Result};

const NAME: &CStr = c"transom-word";

/// Zero at first; alone in its page.
pub struct SharedWord {
    page: AddressRange,
    /// Open while the word is our own: others reach it through this descriptor.
    file: Option<File>,
}

impl SharedWord {
    /// A word of this process.
    ///
    /// # Errors
    /// Out of memory or of file descriptors.
    pub fn create() -> Result<Self> {
        let file = segment::memory_file(NAME, page_size())?;
        Ok(Self {
            page: AddressRange::of_file(&file, 0, page_size())?,
            file: Some(file),
        })
    }

    /// The word that process `pid` has created, whose [`SharedWord::fd`] is `fd` there.
    ///
    /// # Errors
    /// There is none, or the system does not let this process reach it.
    pub fn open(pid: u32, fd: RawFd) -> Result<Self> {
        let failed = |error| Error::os(format!("opening /proc/{pid}/fd/{fd}"), error);
        let file = segment::open_peer_file(pid, fd).map_err(failed)?;
        // Where /proc is of another PID namespace, the number is another process's.
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = fs::read_link(opened).map_err(failed)?;
        let expected = format!("/memfd:{} ", NAME.to_string_lossy());
        let len = file.metadata().map_err(failed)?.len();
        // Beyond the end of its file, a mapping ends the process that touches it.
        if !path.to_string_lossy().starts_with(&expected) || len != page_size() as u64 {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        Ok(Self {
            page: AddressRange::of_file(&file, 0, page_size())?,
            file: None,
        })
    }

    /// What others open it by; −1 if it is another process's.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// The word, which stays where it is for as long as `self` lives.
    #[must_use]
    pub fn word(&self) -> &AtomicU64 {
        // SAFETY: the first bytes of a mapped page, which lives as long as `self`; everybody who maps it
        // uses them as an atomic word.
        unsafe { AtomicU64::from_ptr(self.page.base().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_word_is_seen_by_those_who_open_it_and_nothing_else_is_taken_for_one() {
        let word = SharedWord::create().unwrap();
        let (pid, fd) = (std::process::id(), word.fd());
        let seen = SharedWord::open(pid, fd).unwrap();
        assert_eq!(seen.word().load(Ordering::Relaxed), 0);
        word.word().store(7, Ordering::Relaxed);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
        drop(word);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
        let other = |name, pages: usize| {
            let file = segment::memory_file(name, pages * page_size()).unwrap();
            SharedWord::open(pid, file.as_raw_fd()).is_err()
        };
        assert!(other(c"other", 1) && other(NAME, 2) && !other(NAME, 1));
        assert!(SharedWord::open(pid, RawFd::MAX).is_err());
    }
}
