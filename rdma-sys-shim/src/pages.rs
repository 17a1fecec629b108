//! Memory that a device allocates where no peer maps it.

use std::io;

use memmap2::{MmapOptions, MmapRaw};

use crate::system::page_size;
use crate::{Error, Result};

/// Zeroed memory of whole pages, and an address in it from which `len` bytes are aligned to `align`, a power of two or
/// 0.
pub(crate) fn zeroed(len: usize, align: usize) -> Result<(MmapRaw, *mut u8)> {
    let slack = align.saturating_sub(page_size());
    let mapped = len.max(1).checked_add(slack);
    let mapped = mapped.filter(|&mapped| mapped <= isize::MAX as usize);
    let error = |source| Error::os(format!("mapping {len} bytes"), source);
    let mapped = mapped.ok_or_else(|| error(io::Error::from_raw_os_error(libc::ENOMEM)))?;
    let memory = MmapOptions::new().len(mapped).map_anon();
    let memory = MmapRaw::from(memory.map_err(error)?);
    let start = memory.as_mut_ptr();
    let base = start.wrapping_add(start.align_offset(align.max(1)));
    Ok((memory, base))
}
