//! The objects of libibverbs as owned handles: each keeps alive what it was made from, and goes
//! back to the library when dropped.

mod completion;
mod context;
mod domain;
mod extended;
mod queue_pair;

pub(crate) use completion::CompletionQueue;
pub(crate) use context::{Context, PortAttributes};
pub(crate) use domain::{MemoryRegion, ProtectionDomain};
pub(crate) use queue_pair::{AddressVector, Establish, Qos, QueueLimits, QueuePair};

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use crate::{Error, Result};

/// An object of libibverbs. Dropped before what it was made from.
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
    /// The object that a call has just made; `None` if it made none.
    ///
    /// # Safety
    /// Nobody else destroys it, and `destroy` may, once whatever was made from it is gone.
    pub(crate) unsafe fn new(made: *mut T, destroy: Destroy<T>) -> Option<Self> {
        NonNull::new(made).map(|raw| Self { raw, destroy })
    }

    pub(crate) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the promise of whoever made it. What was made from it kept it alive, and is gone.
        let code = unsafe { (self.destroy)(self.raw()) };
        if code != 0 {
            let object = std::any::type_name::<T>();
            tracing::warn!(object, code, "destroying an object of libibverbs failed");
        }
    }
}

/// Has calls that would block on the descriptor fail instead. False if the system refuses.
pub(super) fn never_blocks(fd: RawFd) -> bool {
    // SAFETY: the calls take numbers only.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    }
}

/// What a call of libibverbs that returns `errno` means.
fn check(call: impl FnOnce() -> String, code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        // A few calls return −1 and set `errno` instead.
        -1 => Err(Error::last_os(call())),
        code => Err(Error::os(call(), io::Error::from_raw_os_error(code))),
    }
}
