//! The objects of libibverbs as owned handles: each keeps alive what it was made from, and goes
//! back to the library when dropped.

mod completion;
mod context;
mod domain;
mod extended;
mod queue_pair;

pub(crate) use completion::CompletionQueue;
pub(crate) use context::{Context, Partition, PortAttributes};
#[cfg(test)]
pub(in crate::verbs) use domain::tests::GATE;
pub(crate) use domain::{MemoryRegion, ProtectionDomain};
pub(crate) use queue_pair::{AddressVector, Establish, Qos, QueueLimits, QueuePair};

use std::io;
use std::path::Path;
use std::ptr::NonNull;

use crate::rdma::{ObjectKind, explain_again, queue_bytes};
use crate::system;
use crate::{Error, Result};

/// An object of libibverbs. It is dropped before the object that it was made from.
pub(crate) struct Handle<T> {
    raw: NonNull<T>,
    destroy: Destroy<T>,
}

type Destroy<T> = unsafe extern "C" fn(*mut T) -> libc::c_int;

// SAFETY: libibverbs lets any thread use any of its objects; the pointer stays valid until drop.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// The object that a call has just made; `None` if the call failed.
    ///
    /// # Safety
    /// Nobody else destroys it, and `destroy` is safe once everything made from it is gone.
    pub(crate) unsafe fn new(made: *mut T, destroy: Destroy<T>) -> Option<Self> {
        NonNull::new(made).map(|raw| Self { raw, destroy })
    }

    pub(crate) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the promise of the caller of `new`. Objects made from it kept it alive, and are gone.
        let code = unsafe { (self.destroy)(self.raw()) };
        if code != 0 {
            let object = std::any::type_name::<T>();
            tracing::warn!(object, code, "destroying an object of libibverbs failed");
        }
    }
}

/// Converts the result of a libibverbs call that returns `errno`.
fn check(call: impl FnOnce() -> String, code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        // A few calls return −1 and set `errno` instead.
        -1 => Err(Error::last_os(call())),
        // Some drivers return negative numbers, as the kernel does.
        code => Err(Error::os(
            call(),
            io::Error::from_raw_os_error(code.saturating_abs()),
        )),
    }
}

/// The error of a call that was to make an object of a device.
#[cold]
fn refusal(call: String, source: io::Error, device: &str, kind: ObjectKind) -> Error {
    let error = Error::os(call, source);
    match error.os_code() {
        Some(libc::EAGAIN) => error.with_remedy(explain_again(Path::new("/"), device, kind)),
        _ => error,
    }
}

/// The error if a queue for this many send requests was refused.
#[cold]
fn queue_refusal(call: String, send_requests: u32, device: &str) -> Error {
    let source = io::Error::last_os_error();
    let limit = system::limit(libc::RLIMIT_MEMLOCK);
    explain_refusal(call, source, send_requests, limit, device)
}

/// Queues use locked memory, and its limit appears as "cannot allocate".
fn explain_refusal(
    call: String,
    source: io::Error,
    send_requests: u32,
    limit: u64,
    device: &str,
) -> Error {
    if source.raw_os_error() == Some(libc::ENOMEM) && limit != libc::RLIM_INFINITY {
        return Error::LockedQueues {
            call,
            needed: queue_bytes(send_requests),
            limit,
            source: source.into(),
        };
    }
    refusal(call, source, device, ObjectKind::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_same_by_either_sign() {
        for code in [libc::ETIMEDOUT, -libc::ETIMEDOUT] {
            let refused = check(|| "connecting a queue pair".to_owned(), code).unwrap_err();
            assert_eq!(refused.os_code(), Some(libc::ETIMEDOUT));
        }
    }

    #[test]
    fn a_queue_that_is_not_to_be_locked_says_how_much_is_needed() {
        let refused = |code, limit| {
            let source = io::Error::from_raw_os_error(code);
            let call = "creating a queue pair of 85 send requests";
            explain_refusal(call.to_owned(), source, 85, limit, "mlx5_0")
        };
        let locked = refused(libc::ENOMEM, 64 << 10);
        assert!(locked.is_out_of_memory());
        assert_eq!(
            locked.to_string(),
            "creating a queue pair of 85 send requests failed: Cannot allocate memory (os error 12) (the queues of a \
             connection lock about 44 KiB, and the limit of locked memory is 64 KiB; raise it with `ulimit -l`)"
        );
        for (code, limit) in [
            (libc::ENOMEM, libc::RLIM_INFINITY),
            (libc::EINVAL, 64 << 10),
        ] {
            let text = refused(code, limit).to_string();
            assert!(!text.contains("the limit of locked memory"), "{text}");
        }
        let text = refused(libc::EAGAIN, 64 << 10).to_string();
        assert!(
            text.contains("hca_object") && text.contains("mlx5_0") && text.contains("rdma.max"),
            "{text}"
        );
    }
}
