//! The memory that is measured with, in the state in which the C program has it.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use super::error::{BenchError, Result};

/// Zeroed memory of this process.
pub(super) struct ZeroedMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl ZeroedMemory {
    /// For the origin's buffer: untouched until a get writes to it. In the C program gcc makes one calloc of malloc
    /// and memset, so that its puts too read the kernel's page of zeros.
    pub(super) fn untouched(size: usize) -> Result<Self> {
        Self::new(size, 1, false)
    }

    /// For windows to be created over: on pages of its own, and touched.
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
            // SAFETY: allocated just now with this size.
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
