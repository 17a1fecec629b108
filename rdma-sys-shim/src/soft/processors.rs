//! Where threads may run.

use std::io;
use std::mem::size_of_val;

use libc::c_ulong;

/// Words of a mask, for 8,192 processors: as many as any kernel is built for.
const WORDS: usize = 8192 / c_ulong::BITS as usize;

/// A bit for each processor.
#[derive(Clone)]
pub(super) struct Processors([c_ulong; WORDS]);

impl Processors {
    /// Those of a process, or of the calling thread (0).
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let mut mask = [0; WORDS];
        let pid = pid.cast_signed();
        // SAFETY: the call writes at most as many bytes as it is told, which are those of the array. A cpu_set_t is such
        // words, and their number is what it is told.
        let rc =
            unsafe { libc::sched_getaffinity(pid, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        match rc {
            0 => Ok(Self(mask)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Has the calling thread run there only.
    pub(super) fn bind(&self) -> io::Result<()> {
        // SAFETY: the call reads as many bytes as it is told, which are those of the array.
        let rc =
            unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        match rc {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[cfg(test)]
    pub(super) fn keep_first(&mut self) {
        let words = self.0.iter_mut().skip_while(|word| **word == 0);
        for (index, word) in words.enumerate() {
            *word = if index == 0 {
                *word & word.wrapping_neg()
            } else {
                0
            };
        }
    }
}
