//! Memory of a peer where it is mapped into this process.

use std::ptr;

use rdma_sys_shim::Mapping;

use super::displacement::Offset;

/// The part of a peer's memory that is mapped here, from its start.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    pub(crate) base: *mut u8,
    pub(crate) len: u64,
}

impl Reach {
    pub(crate) const NOTHING: Self = Self {
        base: ptr::null_mut(),
        len: 0,
    };

    /// The address of `len` bytes from an offset on, or null if not all of them are mapped.
    #[inline(always)]
    pub(crate) fn at(self, offset: Offset, len: u64) -> *mut u8 {
        match offset.fits(len, self.len) {
            true => self.base.wrapping_add(offset.0 as usize),
            false => ptr::null_mut(),
        }
    }

    /// The address of an offset, if the `len` bytes that begin `lo` bytes from it are mapped.
    #[inline]
    pub(crate) fn around(self, offset: Offset, lo: i64, len: u64) -> Option<*mut u8> {
        let first = self.at(offset.moved(lo)?, len);
        (!first.is_null()).then(|| first.wrapping_offset(-(lo as isize)))
    }
}

impl From<&Mapping> for Reach {
    #[inline]
    fn from(mapping: &Mapping) -> Self {
        Self {
            base: mapping.base(),
            len: mapping.len(),
        }
    }
}
