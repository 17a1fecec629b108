//! Buffers of operations, with guard bytes around them.

use std::mem::ManuallyDrop;

use crate::access::Layout;

const GUARD: usize = 40;
pub(crate) const GUARD_BYTE: u8 = 0xc3;

/// A buffer of any alignment. It is never freed unless it is released: after a failure, operations
/// may still work on it.
pub(crate) struct Buffer {
    bytes: ManuallyDrop<Box<[u8]>>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(content: &[u8], shift: usize) -> Self {
        let start = GUARD + shift % 16;
        let mut bytes = vec![GUARD_BYTE; start + content.len() + GUARD];
        bytes[start..start + content.len()].copy_from_slice(content);
        Self {
            bytes: ManuallyDrop::new(bytes.into()),
            start,
            len: content.len(),
        }
    }

    /// To be called when no operation uses it.
    pub(crate) fn release(self) {
        drop(ManuallyDrop::into_inner(self.bytes));
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.start)
    }

    /// To be called when no operation uses it.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// Where a layout is placed so that its first byte of data is the buffer's first byte.
    pub(crate) fn placed(&mut self, layout: &Layout) -> *mut u8 {
        let to_first = layout.data.start as isize;
        self.pointer().wrapping_offset(-to_first)
    }

    /// Overwrites one byte.
    pub(crate) fn spoil(&mut self, at: usize) {
        self.bytes[self.start + at] ^= 0xff;
    }

    /// Makes sure that whoever still reads it is found out.
    pub(crate) fn scribble(&mut self) {
        self.bytes[self.start..self.start + self.len].fill(0x5a);
    }

    pub(crate) fn is_guarded(&self) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        let mut guards = before.iter().chain(&rest[self.len..]);
        guards.all(|byte| *byte == GUARD_BYTE)
    }
}
