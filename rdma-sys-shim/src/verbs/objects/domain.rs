//! Protection domains and the memory that is registered in them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibverbs_sys as ffi;

use super::{Context, Handle};
use crate::rdma::ObjectKind;
use crate::system;
use crate::{Error, Result};

pub(crate) struct ProtectionDomain {
    raw: Handle<ffi::ibv_pd>,
    context: Arc<Context>,
}

impl ProtectionDomain {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        // SAFETY: an open context, kept alive by the result, which alone destroys the domain.
        let raw = unsafe { Handle::new(ffi::ibv_alloc_pd(context.raw()), ffi::ibv_dealloc_pd) }
            .ok_or_else(|| {
                let call = "allocating a protection domain".to_owned();
                let source = io::Error::last_os_error();
                super::refusal(call, source, context.name(), ObjectKind::Object)
            })?;
        Ok(Arc::new(Self {
            raw,
            context: context.clone(),
        }))
    }

    /// The name of its device.
    pub(super) fn device(&self) -> &str {
        self.context.name()
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

/// The registered bytes of this process, for reports.
static REGISTERED: AtomicU64 = AtomicU64::new(0);

impl MemoryRegion {
    /// Registers `len` bytes at `base`; `access` has verbs flags.
    ///
    /// # Safety
    /// Until drop, the memory stays mapped, and the device may read it, and write to it if `access` allows.
    pub(crate) unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        base: *mut u8,
        len: usize,
        access: ffi::ibv_access_flags,
    ) -> Result<Self> {
        #[cfg(test)]
        tests::GATE.pass();
        // SAFETY: a live domain; the memory is the caller's promise. The result alone deregisters it.
        let raw = unsafe {
            let made = ffi::ibv_reg_mr(domain.raw(), base.cast(), len, access.0 as i32);
            Handle::new(made, ffi::ibv_dereg_mr)
        };
        let raw = raw.ok_or_else(|| {
            let source = io::Error::last_os_error();
            let most = domain.context.attributes().max_mr_size;
            let limits = (system::limit(libc::RLIMIT_MEMLOCK), most);
            unregistered(base, len, source, limits, domain.device())
        })?;
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

    /// The key for work requests of this process.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The key for peers.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        #[cfg(test)]
        tests::GATE.pass();
        REGISTERED.fetch_sub(self.len as u64, Ordering::Relaxed);
    }
}

/// The error for memory that was not registered. A reached limit of locked memory appears as "cannot allocate", and
/// missing rights as "bad address". `limits`: of locked memory, and of one region of the device.
fn unregistered(
    base: *mut u8,
    len: usize,
    source: io::Error,
    limits: (u64, u64),
    device: &str,
) -> Error {
    let (limit, most) = limits;
    if source.raw_os_error() == Some(libc::EFAULT) {
        return Error::BadMemory {
            address: base.addr(),
            len,
            reason: "not all of it is mapped, with the rights that the device needs there",
        };
    }
    // 0 if the driver does not say.
    if most != 0 && len as u64 > most {
        let call = format!(
            "registering {len} bytes at {base:p}, of which {device} takes {most} in one region,"
        );
        return Error::os(call, source).with_remedy("make several smaller windows");
    }
    if source.raw_os_error() == Some(libc::ENOMEM) && limit != libc::RLIM_INFINITY {
        return Error::LockedMemory {
            len,
            limit,
            source: source.into(),
        };
    }
    let call = format!("registering {len} bytes at {base:p}");
    super::refusal(call, source, device, ObjectKind::Object)
}

#[cfg(test)]
pub(in crate::verbs) mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

    use super::*;

    /// Holds up threads that register or deregister memory, while a test has it closed.
    #[derive(Default)]
    pub(in crate::verbs) struct Gate {
        closed: RwLock<()>,
        waiting: AtomicUsize,
    }

    pub(in crate::verbs) static GATE: Gate = Gate {
        closed: RwLock::new(()),
        waiting: AtomicUsize::new(0),
    };

    impl Gate {
        pub(super) fn pass(&self) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.closed.read());
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }

        pub(in crate::verbs) fn close(&self) -> RwLockWriteGuard<'_, ()> {
            self.closed.write().unwrap_or_else(PoisonError::into_inner)
        }

        /// How many threads wait before it.
        pub(in crate::verbs) fn waiting(&self) -> usize {
            self.waiting.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn refused_memory_is_explained_by_what_stands_in_its_way() {
        let text = |code, len, limits| {
            let source = io::Error::from_raw_os_error(code);
            unregistered(std::ptr::null_mut(), len, source, limits, "mlx5_0").to_string()
        };
        let unlimited = libc::RLIM_INFINITY;
        for (code, limit) in [(libc::EINVAL, unlimited), (libc::ENOMEM, 64 << 10)] {
            let text = text(code, 5 << 30, (limit, 4 << 30));
            let words = "registering 5368709120 bytes at 0x0, of which mlx5_0 takes 4294967296 in one region, failed: ";
            assert!(text.starts_with(words), "{text}");
            assert!(text.ends_with("(make several smaller windows)"), "{text}");
        }
        for most in [0, 4 << 30, u64::MAX] {
            let text = text(libc::ENOMEM, 4 << 30, (64 << 10, most));
            assert!(
                text.contains("the limit of locked memory is 64 KiB"),
                "{text}"
            );
        }
        for (code, words) in [
            (libc::EFAULT, "not all of it is mapped"),
            (libc::EAGAIN, "hca_object of mlx5_0"),
        ] {
            let text = text(code, 4 << 20, (64 << 10, 4 << 30));
            assert!(text.contains(words), "{text}");
        }
    }
}
