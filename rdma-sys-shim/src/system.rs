//! What the system says of itself and of this process.

use std::sync::LazyLock;

use crate::{Error, Result};

pub(crate) fn page_size() -> usize {
    static PAGE: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: sysconf has no preconditions.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    });
    *PAGE
}

/// A limit of this process; where it is not known, none: the kernel will say what is wrong.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live structure, which is only written.
    match unsafe { libc::getrlimit(resource, &raw mut limit) } {
        0 => limit.rlim_cur,
        _ => libc::RLIM_INFINITY,
    }
}

/// Random bytes of the kernel's.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the pointer and the length are those of `bytes`. Requests of at most 256 bytes are
    // filled whole or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(got) == Ok(N) {
        Ok(bytes)
    } else {
        Err(Error::last_os(format!("getrandom({N})")))
    }
}
