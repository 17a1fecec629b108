//! Protection domains and the memory that is registered in them.

use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::Context;
use crate::system;
use crate::{Error, Result};

pub(crate) struct ProtectionDomain {
    raw: NonNull<ffi::ibv_pd>,
    _context: Arc<Context>,
}

// SAFETY: libibverbs lets any thread use a protection domain; the pointer stays valid until drop.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        // SAFETY: an open context, kept alive by the result.
        let raw = NonNull::new(unsafe { ffi::ibv_alloc_pd(context.raw()) })
            .ok_or_else(|| Error::last_os("allocating a protection domain"))?;
        Ok(Arc::new(Self {
            raw,
            _context: context.clone(),
        }))
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: what was made in it kept it alive, and is gone.
        unsafe { ffi::ibv_dealloc_pd(self.raw()) };
    }
}

/// Registered memory; deregistered when dropped.
pub(crate) struct MemoryRegion {
    raw: NonNull<ffi::ibv_mr>,
    lkey: u32,
    rkey: u32,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs lets any thread use a memory region; the pointer stays valid until drop.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Registers `len` bytes at `base`; `access` is of verbs.
    ///
    /// # Safety
    /// Until drop, the memory stays mapped, and the device may read it, and write to it as far as
    /// `access` says.
    pub(crate) unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        base: *mut u8,
        len: usize,
        access: ffi::ibv_access_flags,
    ) -> Result<Self> {
        // SAFETY: a live domain; the memory is the caller's promise.
        let raw = unsafe { ffi::ibv_reg_mr(domain.raw(), base.cast(), len, access.0 as i32) };
        let raw = NonNull::new(raw).ok_or_else(|| refusal(base, len))?;
        // SAFETY: a live region; libibverbs does not change its keys.
        let (lkey, rkey) = unsafe { (raw.as_ref().lkey, raw.as_ref().rkey) };
        Ok(Self {
            raw,
            lkey,
            rkey,
            _domain: domain.clone(),
        })
    }

    /// What work requests of this process name it by.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// What peers name it by.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered above, and nobody else deregisters it.
        let code = unsafe { ffi::ibv_dereg_mr(self.raw.as_ptr()) };
        if code != 0 {
            tracing::warn!(code, "deregistering memory failed");
        }
    }
}

/// Why memory was not registered. The limit of locked memory shows itself as "cannot allocate", and
/// memory without the rights as "bad address".
fn refusal(base: *mut u8, len: usize) -> Error {
    let source = std::io::Error::last_os_error();
    if source.raw_os_error() == Some(libc::EFAULT) {
        return Error::BadMemory {
            address: base.addr(),
            len,
            reason: "not all of it is mapped, with the rights that the device needs there",
        };
    }
    let limit = system::limit(libc::RLIMIT_MEMLOCK);
    if source.raw_os_error() == Some(libc::ENOMEM) && limit != libc::RLIM_INFINITY {
        return Error::LockedMemory {
            len,
            limit,
            source: source.into(),
        };
    }
    Error::os(format!("registering {len} bytes at {base:p}"), source)
}
