//! Room for bytes on their way between the memory of two processes.

use std::mem::MaybeUninit;

const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [MaybeUninit<u8>; LINE],
}

/// A buffer for bytes of another process's memory; only bytes copied into it are read. They have the same offset from a
/// cache line as in the other process: then the kernel copies fastest.
#[derive(Default)]
pub struct Buffer(Box<[MaybeUninit<Line>]>);

impl Buffer {
    /// A place for `len` bytes from address `there` of the other process. If the buffer was shorter, its content is
    /// lost.
    pub fn at_least(&mut self, len: usize, there: u64) -> *mut u8 {
        let skip = there as usize % LINE;
        let lines = (skip + len).div_ceil(LINE);
        if self.0.len() < lines {
            self.0 = Box::new_uninit_slice(lines);
        }
        self.0.as_mut_ptr().cast::<u8>().wrapping_add(skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_in_their_lines_as_they_do_there() {
        let mut buffer = Buffer::default();
        for (len, there) in [
            (0, 0),
            (1, 63),
            (64, 1),
            (5000, 0x7f00_1238),
            (64 << 10, 16),
        ] {
            let at = buffer.at_least(len, there);
            assert_eq!(at.addr() % LINE, there as usize % LINE);
            let room = buffer.0.as_ptr_range();
            assert!(room.start.addr() <= at.addr() && at.addr() + len <= room.end.addr());
        }
    }

    #[test]
    fn what_is_long_enough_stays() {
        let mut buffer = Buffer::default();
        let first = buffer.at_least(1000, 0);
        assert_eq!(buffer.at_least(10, 0), first);
        assert_eq!(buffer.at_least(1000, 0), first);
    }
}
