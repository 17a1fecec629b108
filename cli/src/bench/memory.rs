//! The memory for measurements, in the same state as in the C program.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use super::error::{BenchError, Result};

/// Zeroed memory of this process.
pub(super) struct ZeroedMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl ZeroedMemory {
    /// For the origin's buffer: not written until a get writes to it. In the C program gcc turns malloc and memset into
    /// one calloc, so its puts also read the kernel's zero page.
    pub(super) fn untouched(size: usize) -> Result<Self> {
        Self::new(size, 1, false)
    }

    /// For windows over the caller's memory: on pages of its own, which have been written.
    pub(super) fn pages(size: usize) -> Result<Self> {
        Self::new(size, 4096, true)
    }

    fn new(size: usize, align: usize, touched: bool) -> Result<Self> {
        let failed = || BenchError::Buffer { size };
        let layout = Layout::from_size_align(size, align).map_err(|_| failed())?;
        assert!(layout.size() > 0, "sizes start at 1");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(failed)?;
        if touched {
            // SAFETY: this was just allocated with this size.
            unsafe { base.write_bytes(0, size) };
        }
        Ok(Self { base, layout })
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed nowhere else.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}
