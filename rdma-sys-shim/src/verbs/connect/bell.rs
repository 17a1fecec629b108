//! Waking the connector's thread where it sleeps, in poll(2).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::{Error, Result};

pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last_os("eventfd()"));
        }
        // SAFETY: a descriptor that was just made, and that nobody else knows.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: eight readable bytes. It fails only if nobody has listened for 2^64 rings.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn silence(&self) {
        let mut rings = 0_u64;
        // SAFETY: eight writable bytes. It fails only if nobody has rung.
        unsafe { libc::read(self.fd(), (&raw mut rings).cast(), 8) };
    }
}
