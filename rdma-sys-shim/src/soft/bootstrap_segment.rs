//! Memory of one process that others of this host map: for what is to be known at once, and without a
//! connection.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::memory_file::{self, AddressRange, FileId, whole_pages};
use crate::system::page_size;
use crate::{Error, Result};

const NAME: &CStr = c"transom-notices";
const WORD: usize = size_of::<u64>();
/// Of a note, with the word that holds its length, and above that its generation.
const SLOT: usize = 512;
const LEN_BITS: u32 = 16;

/// A word that is zero at first, and a note of each rank. Ranks may be one program after the other: a note
/// of the next is none for those who are still in the last.
pub struct BootstrapSegment {
    map: AddressRange,
    notes: usize,
    /// Open while the segment is our own: others reach it through this descriptor.
    file: Option<File>,
}

impl BootstrapSegment {
    /// The longest note in bytes.
    pub const LONGEST: usize = SLOT - WORD;

    /// A segment of this process, with room for so many notes.
    ///
    /// # Errors
    /// Out of memory or of file descriptors.
    pub fn create(notes: usize) -> Result<Self> {
        let len = bytes(notes)?;
        let file = memory_file::create(NAME, len)?;
        Ok(Self {
            map: AddressRange::of_file(&file, 0, len)?,
            notes,
            file: Some(file),
        })
    }

    /// The segment for so many notes whose [`BootstrapSegment::place`] another process has told.
    ///
    /// # Errors
    /// There is none, or the system does not let this process reach it.
    pub fn open(place: &str, notes: usize) -> Result<Self> {
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
        // Where /proc is of another PID namespace, the number is another process's.
        let opened = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        let path = fs::read_link(opened).map_err(failed)?;
        let expected = format!("/memfd:{} ", NAME.to_string_lossy());
        let len = bytes(notes)?;
        let found = file.metadata().map_err(failed)?.len();
        if !path.to_string_lossy().starts_with(&expected) || found != len as u64 {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        memory_file::must_hold(&file, 0, found)
            .map_err(|reason| failed(io::Error::other(reason)))?;
        Ok(Self {
            map: AddressRange::of_file(&file, 0, len)?,
            notes,
            file: None,
        })
    }

    /// What others find it by: process, descriptor, device and inode; `None` if it is another process's.
    ///
    /// # Errors
    /// The system does not say which file it is.
    pub fn place(&self) -> Result<Option<String>> {
        let place = |file: &File| {
            let FileId { device, inode } = FileId::of(file)?;
            let (pid, fd) = (std::process::id(), file.as_raw_fd());
            Ok(format!("{pid}/{fd}/{device}/{inode}"))
        };
        self.file.as_ref().map(place).transpose()
    }

    /// The word, which stays where it is for as long as `self` lives.
    #[must_use]
    pub fn word(&self) -> &AtomicU64 {
        &self.words(0, WORD)[0]
    }

    /// Leaves a note in the place of the last one, and returns its generation: one more. `None` if it is
    /// empty or too long, or there is no place for it. For one writer.
    #[must_use]
    pub fn write(&self, number: usize, note: &[u8]) -> Option<u64> {
        if number >= self.notes || note.is_empty() || note.len() > Self::LONGEST {
            return None;
        }
        let (head, words) = self.slot(number);
        let generation = head.load(Ordering::Relaxed) >> LEN_BITS;
        head.store(generation << LEN_BITS, Ordering::Relaxed);
        // Who reads a part of the new note sees that the old one is gone.
        fence(Ordering::Release);
        for (word, bytes) in words.iter().zip(note.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        let generation = generation + 1;
        head.store(
            generation << LEN_BITS | note.len() as u64,
            Ordering::Release,
        );
        Some(generation)
    }

    /// The note of this generation, if it is there.
    #[must_use]
    pub fn read(&self, number: usize, generation: u64) -> Option<Vec<u8>> {
        if number >= self.notes {
            return None;
        }
        let (head, words) = self.slot(number);
        let found = head.load(Ordering::Acquire);
        let len = (found & ((1 << LEN_BITS) - 1)) as usize;
        if found >> LEN_BITS != generation || len == 0 || len > Self::LONGEST {
            return None;
        }
        let used = words.iter().take(len.div_ceil(WORD));
        let mut note: Vec<u8> = used
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .collect();
        note.truncate(len);
        fence(Ordering::Acquire);
        (head.load(Ordering::Relaxed) == found).then_some(note)
    }

    /// The length and generation of a note, and its bytes.
    fn slot(&self, number: usize) -> (&AtomicU64, &[AtomicU64]) {
        let words = self.words(page_size() + number * SLOT, SLOT);
        (&words[0], &words[1..])
    }

    fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
        assert!(
            at.is_multiple_of(WORD) && at.checked_add(len).is_some_and(|end| end <= self.map.len())
        );
        let first = self.map.base().wrapping_add(at).cast_const().cast();
        // SAFETY: words of the mapping, which begins a page and lives as long as `self`; everybody who maps
        // it uses them as atomics.
        unsafe { slice::from_raw_parts(first, len / WORD) }
    }
}

/// What a segment for so many notes takes: the word is alone in its page.
fn bytes(notes: usize) -> Result<usize> {
    let len = notes
        .checked_mul(SLOT)
        .and_then(|len| whole_pages(len)?.checked_add(page_size()));
    len.ok_or_else(|| {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        Error::os(format!("a bootstrap segment of {notes} notes"), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_open_the_segment_see_what_it_holds() {
        let segment = BootstrapSegment::create(9).unwrap();
        let place = segment.place().unwrap().expect("it is our own");
        let seen = BootstrapSegment::open(&place, 9).unwrap();
        assert_eq!(seen.place().unwrap(), None);
        assert_eq!(seen.word().load(Ordering::Relaxed), 0);
        segment.word().store(7, Ordering::Relaxed);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
        let long = [b'x'; BootstrapSegment::LONGEST];
        for (number, note) in [(0, &b"of the first"[..]), (8, &long), (3, b"12345678")] {
            assert_eq!(seen.read(number, 1), None);
            assert_eq!(segment.write(number, note), Some(1));
            assert_eq!(seen.read(number, 1).unwrap(), note);
        }
        assert!(segment.write(9, b"beyond").is_none() && segment.write(1, &[0; SLOT]).is_none());
        assert!(segment.write(1, b"").is_none());
        assert_eq!((segment.read(9, 1), segment.read(1, 0)), (None, None));
        drop(segment);
        assert_eq!(seen.word().load(Ordering::Relaxed), 7);
        assert_eq!(seen.read(3, 1).unwrap(), b"12345678");
        // The next program's.
        assert_eq!(seen.write(3, b"new"), Some(2));
        assert_eq!(seen.read(3, 1), None);
        assert_eq!(seen.read(3, 2).unwrap(), b"new");
    }

    #[test]
    fn nothing_else_is_taken_for_a_bootstrap_segment() {
        let other = |name, pages: usize, next: u64| {
            let file = memory_file::create(name, pages * page_size()).unwrap();
            let FileId { device, inode } = FileId::of(&file).unwrap();
            let (pid, fd, inode) = (std::process::id(), file.as_raw_fd(), inode + next);
            BootstrapSegment::open(&format!("{pid}/{fd}/{device}/{inode}"), 1).is_err()
        };
        assert!(other(c"other", 2, 0) && other(NAME, 1, 0) && other(NAME, 3, 0));
        assert!(other(NAME, 2, 1) && !other(NAME, 2, 0));
        for place in ["", "1", "1/2", "1/2/3", "x/2/3/4", "1/99999999/3/4"] {
            assert!(BootstrapSegment::open(place, 1).is_err(), "{place:?}");
        }
        assert!(BootstrapSegment::create(usize::MAX).is_err());
    }
}
