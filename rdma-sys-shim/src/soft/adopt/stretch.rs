//! A stretch of pages and the place in a memfd that belongs to it; copying between the two.

use std::os::fd::RawFd;

use libc::c_int;

use super::memfd::next_data;
use super::sys::{self, Refusal};

/// How much is moved at once: what the process needs beyond its memory, and about how long other
/// threads' writes wait (a few milliseconds).
pub(super) const CHUNK: usize = 4 << 20;

/// Stretches of zeroes of this many bytes stay holes in the memfd, so that memory which was never
/// touched costs nothing there either.
const BLOCK: usize = 64 << 10;

/// Whole pages at `addr`, and where in `fd` they are or shall be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) addr: usize,
    pub(super) len: usize,
    pub(super) fd: RawFd,
    pub(super) offset: u64,
    pub(super) attributes: Attributes,
}

/// What the owner of private memory has said about it, and gets back with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) no_reserve: bool,
    pub(super) dont_dump: bool,
    pub(super) huge_pages: Option<bool>,
}

impl Attributes {
    fn map_flags(self) -> c_int {
        if self.no_reserve {
            libc::MAP_NORESERVE
        } else {
            0
        }
    }

    /// Hints all: a kernel that refuses one (without huge pages, say) had none to begin with.
    fn apply(self, addr: usize, len: usize) {
        if self.dont_dump {
            let _ = sys::advise(addr, len, libc::MADV_DONTDUMP);
        }
        if let Some(huge) = self.huge_pages {
            let advice = if huge {
                libc::MADV_HUGEPAGE
            } else {
                libc::MADV_NOHUGEPAGE
            };
            let _ = sys::advise(addr, len, advice);
        }
    }
}

impl Stretch {
    /// The parts of at most [`CHUNK`] bytes that it consists of.
    pub(super) fn chunks(self) -> impl Iterator<Item = Self> {
        (0..self.len).step_by(CHUNK).map(move |at| Self {
            addr: self.addr + at,
            len: CHUNK.min(self.len - at),
            offset: self.offset + at as u64,
            ..self
        })
    }

    /// Copies what the pages hold into the memfd, which has holes there.
    ///
    /// # Safety
    /// The pages are mapped and readable, and nobody writes to them.
    pub(super) unsafe fn store(&self) -> Result<(), Refusal> {
        let mut run = 0..0;
        for start in (0..self.len).step_by(BLOCK) {
            let end = (start + BLOCK).min(self.len);
            // SAFETY: within the pages, which the caller guarantees.
            if unsafe { is_zero(self.addr + start, end - start) } {
                // SAFETY: as above.
                unsafe { self.store_run(&run)? };
                run = end..end;
            } else {
                run.end = end;
            }
        }
        // SAFETY: as above.
        unsafe { self.store_run(&run) }
    }

    /// # Safety
    /// As for [`Self::store`]; the run lies within.
    unsafe fn store_run(&self, run: &std::ops::Range<usize>) -> Result<(), Refusal> {
        let offset = self.offset + run.start as u64;
        // SAFETY: the caller guarantees that the pages are mapped.
        unsafe { sys::write_at(self.fd, self.addr + run.start, run.len(), offset) }
    }

    /// Copies what the memfd holds to fresh, zeroed pages at `to`.
    ///
    /// # Safety
    /// The pages at `to` are mapped, and nobody else accesses them.
    pub(super) unsafe fn load(&self, to: usize) -> Result<(), Refusal> {
        let end = self.offset + self.len as u64;
        let mut from = self.offset;
        while let Some(data) = next_data(self.fd, from, end)? {
            let at = to + (data.start - self.offset) as usize;
            let len = (data.end - data.start) as usize;
            // SAFETY: `data` lies within this stretch, so `at..at + len` within the pages.
            unsafe { sys::read_at(self.fd, at, len, data.start)? };
            from = data.end;
        }
        Ok(())
    }

    /// Puts the memfd's pages at the addresses, over whatever is there.
    ///
    /// # Safety
    /// What is there may be replaced: the memfd holds the same, or what was there is gone.
    pub(super) unsafe fn map_shared(&self) -> Result<(), Refusal> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the caller guarantees that it may be replaced.
        unsafe { sys::map(self.addr, self.len, flags, self.fd, self.offset)? };
        self.attributes.apply(self.addr, self.len);
        Ok(())
    }

    /// Fresh private pages, zeroed, with the owner's attributes: at `addr`, over whatever is
    /// there, or where the kernel likes.
    ///
    /// # Safety
    /// What is at `addr` may be replaced.
    pub(super) unsafe fn map_private(&self, addr: Option<usize>) -> Result<usize, Refusal> {
        let fixed = addr.map_or(0, |_| libc::MAP_FIXED);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed | self.attributes.map_flags();
        // SAFETY: the caller guarantees that it may be replaced.
        let at = unsafe { sys::map(addr.unwrap_or(0), self.len, flags, -1, 0)? };
        self.attributes.apply(at, self.len);
        Ok(at)
    }
}

/// # Safety
/// The bytes are mapped, both numbers are multiples of eight, and nobody writes to them.
unsafe fn is_zero(addr: usize, len: usize) -> bool {
    let words = std::ptr::with_exposed_provenance::<u64>(addr);
    // SAFETY: the caller guarantees that the words are mapped and still.
    let words = unsafe { std::slice::from_raw_parts(words, len / size_of::<u64>()) };
    words
        .chunks(64)
        .all(|chunk| chunk.iter().fold(0, |all, word| all | word) == 0)
}
