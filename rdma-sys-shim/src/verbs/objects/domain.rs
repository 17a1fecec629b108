//! Protection domains and the memory that is registered in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibverbs_sys as ffi;

use super::{Context, Handle};
use crate::system;
use crate::{Error, Result};

pub(crate) struct ProtectionDomain {
    raw: Handle<ffi::ibv_pd>,
    _context: Arc<Context>,
}

impl ProtectionDomain {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        // SAFETY: an open context, kept alive by the result, which alone destroys the domain.
        let raw = unsafe { Handle::new(ffi::ibv_alloc_pd(context.raw()), ffi::ibv_dealloc_pd) }
            .ok_or_else(|| Error::last_os("allocating a protection domain"))?;
        Ok(Arc::new(Self {
            raw,
            _context: context.clone(),
        }))
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_pd {
        self.raw.raw()
    }
}

/// Registered memory; deregistered when dropped.
pub(crate) struct MemoryRegion {
    _raw: Handle<ffi::ibv_mr>,
    len: usize,
    lkey: u32,
    rkey: u32,
    _domain: Arc<ProtectionDomain>,
}

/// Registered bytes of this process, for reports.
static REGISTERED: AtomicU64 = AtomicU64::new(0);

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
        // SAFETY: a live domain; the memory is the caller's promise. The result alone deregisters it.
        let raw = unsafe {
            let made = ffi::ibv_reg_mr(domain.raw(), base.cast(), len, access.0 as i32);
            Handle::new(made, ffi::ibv_dereg_mr)
        };
        let raw = raw.ok_or_else(|| refusal(base, len))?;
        // SAFETY: a live region; libibverbs does not change its keys.
        let (lkey, rkey) = unsafe { ((*raw.raw()).lkey, (*raw.raw()).rkey) };
        REGISTERED.fetch_add(len as u64, Ordering::Relaxed);
        Ok(Self {
            _raw: raw,
            len,
            lkey,
            rkey,
            _domain: domain.clone(),
        })
    }

    /// Registered bytes of this process.
    pub(crate) fn registered_bytes() -> u64 {
        REGISTERED.load(Ordering::Relaxed)
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
        REGISTERED.fetch_sub(self.len as u64, Ordering::Relaxed);
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
