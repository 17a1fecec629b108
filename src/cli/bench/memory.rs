//! The memory that is measured with, in the state in which the C program has it.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use transom::{Buffer, Job};

use super::error::{BenchError, Result};

/// The origin's buffer: zeroed and, until a get writes to it, untouched. In the C program gcc makes
/// one calloc of malloc and memset, so that its puts too read the kernel's page of zeros.
pub(super) enum OriginBuffer {
    Heap(Vec<u8>),
    Registered(Buffer<u8>),
}

impl OriginBuffer {
    pub(super) fn new(size: usize) -> Result<Self> {
        let layout = Layout::array::<u8>(size).map_err(|_| BenchError::Buffer { size })?;
        assert!(layout.size() > 0, "sizes start at 1");
        // SAFETY: the layout is not empty.
        let bytes = unsafe { alloc::alloc_zeroed(layout) };
        if bytes.is_null() {
            return Err(BenchError::Buffer { size });
        }
        // SAFETY: allocated just now with this length and an alignment of 1, and zeroed.
        Ok(Self::Heap(unsafe {
            Vec::from_raw_parts(bytes, size, size)
        }))
    }

    pub(super) fn pointer(&mut self) -> *mut u8 {
        match self {
            Self::Heap(bytes) => bytes.as_mut_ptr(),
            Self::Registered(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// In memory that the device knows.
    pub(super) fn registered(job: &Job, size: usize) -> Result<Self> {
        Ok(Self::Registered(job.alloc(size)?))
    }
}

/// Memory of the caller's for windows to be created over: on pages of its own, and touched.
pub(super) struct CallerMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl CallerMemory {
    pub(super) fn new(size: usize) -> Result<Self> {
        let failed = || BenchError::Buffer { size };
        let layout = Layout::from_size_align(size, 4096).map_err(|_| failed())?;
        assert!(layout.size() > 0, "sizes start at 1");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or_else(failed)?;
        // SAFETY: allocated just now with this size.
        unsafe { base.write_bytes(0, size) };
        Ok(Self { base, layout })
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for CallerMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed nowhere else.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}
