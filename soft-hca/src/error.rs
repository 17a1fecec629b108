//! Errors as the calls of verbs return them.

use std::ffi::c_int;
use std::io;

/// An error number of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    pub(crate) const NO_MEMORY: Self = Self(libc::ENOMEM);
    pub(crate) const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    pub(crate) const BUSY: Self = Self(libc::EBUSY);

    /// The error of the last call of the C library in this thread.
    pub(crate) fn last() -> Self {
        let error = io::Error::last_os_error();
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

pub(crate) type Result<T> = std::result::Result<T, Errno>;
