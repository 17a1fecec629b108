//! System calls as they are made while pages are being moved: no errno-driven retries hidden
//! elsewhere, no cancellation point (glibc's `pread` is one; its `syscall` is not), no
//! allocation, async-signal-safe.

use std::os::fd::RawFd;

use libc::{c_int, c_long, c_void};

/// A call that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) call: &'static str,
    pub(crate) errno: i32,
}

impl Refusal {
    /// `call` has just failed in this thread.
    pub(super) fn of(call: &'static str) -> Self {
        // SAFETY: libc's errno of this thread is always readable.
        let errno = unsafe { *libc::__errno_location() };
        Self { call, errno }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {cause}", self.call)
    }
}

pub(super) use crate::soft::segment::page_size;

fn check(call: &'static str, result: c_long) -> Result<usize, Refusal> {
    usize::try_from(result).map_err(|_| Refusal::of(call))
}

/// Repeats a call that a signal interrupted.
fn retry(call: &'static str, mut attempt: impl FnMut() -> c_long) -> Result<usize, Refusal> {
    loop {
        match check(call, attempt()) {
            Err(Refusal {
                errno: libc::EINTR, ..
            }) => {}
            other => return other,
        }
    }
}

/// Writes `len` bytes at `from` to `fd` at `offset`.
///
/// # Safety
/// `from` is mapped for `len` bytes.
pub(super) unsafe fn write_at(
    fd: RawFd,
    from: usize,
    len: usize,
    offset: u64,
) -> Result<(), Refusal> {
    let mut done = 0;
    while done < len {
        let written = retry("pwrite", || {
            // SAFETY: the caller guarantees that the bytes are mapped; the kernel reads them.
            unsafe {
                libc::syscall(
                    libc::SYS_pwrite64,
                    fd,
                    (from + done) as *const c_void,
                    len - done,
                    offset + done as u64,
                )
            }
        })?;
        if written == 0 {
            return Err(Refusal {
                call: "pwrite",
                errno: libc::EIO,
            });
        }
        done += written;
    }
    Ok(())
}

/// Reads `len` bytes of `fd` at `offset` to `to`.
///
/// # Safety
/// `to` is mapped for `len` bytes, which nobody else accesses.
pub(super) unsafe fn read_at(fd: RawFd, to: usize, len: usize, offset: u64) -> Result<(), Refusal> {
    let mut done = 0;
    while done < len {
        let read = retry("pread", || {
            // SAFETY: the caller guarantees that the bytes are mapped and its own.
            unsafe {
                libc::syscall(
                    libc::SYS_pread64,
                    fd,
                    (to + done) as *mut c_void,
                    len - done,
                    offset + done as u64,
                )
            }
        })?;
        if read == 0 {
            return Err(Refusal {
                call: "pread",
                errno: libc::EIO,
            });
        }
        done += read;
    }
    Ok(())
}

/// Opens a file of `/proc` for reading.
pub(super) fn open(path: &'static std::ffi::CStr) -> Result<RawFd, Refusal> {
    retry("openat", || {
        // SAFETY: the path is a C string.
        unsafe {
            libc::syscall(
                libc::SYS_openat,
                libc::AT_FDCWD,
                path.as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
                0,
            )
        }
    })
    .map(|fd| fd as RawFd)
}

/// Reads the next bytes of `fd` into `buffer`.
pub(super) fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Refusal> {
    retry("read", || {
        // SAFETY: the buffer is this call's own.
        unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) }
    })
}

/// Writes a last message where nothing else may be called.
pub(super) fn complain(message: &str) {
    // SAFETY: the bytes are there. Nothing is left to be done about a failure.
    unsafe {
        libc::syscall(
            libc::SYS_write,
            libc::STDERR_FILENO,
            message.as_ptr(),
            message.len(),
        )
    };
}

/// Closes a descriptor that the caller owns.
pub(super) fn close(fd: RawFd) {
    // SAFETY: closing a number is memory-safe; the caller owns it.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// `mmap` with `MAP_FIXED` or without, read and write.
///
/// # Safety
/// With `MAP_FIXED`, what is mapped at `addr` is the caller's to replace.
pub(super) unsafe fn map(
    addr: usize,
    len: usize,
    flags: c_int,
    fd: RawFd,
    offset: u64,
) -> Result<usize, Refusal> {
    // SAFETY: the caller guarantees that it may replace what it names.
    let at = unsafe {
        libc::mmap(
            addr as *mut c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd,
            offset as libc::off_t,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Refusal::of("mmap"));
    }
    Ok(at as usize)
}

/// Unmaps pages that the caller owns and no longer needs.
///
/// # Safety
/// Nothing refers to them.
pub(super) unsafe fn unmap(addr: usize, len: usize) {
    // SAFETY: the caller guarantees that nothing refers to these pages. A failure leaves them
    // mapped, which is a leak at worst.
    unsafe { libc::munmap(addr as *mut c_void, len) };
}

/// Moves the pages at `from` over those at `to`, in one step.
///
/// # Safety
/// Nothing refers to `from`, and what is mapped at `to` is the caller's to replace.
pub(super) unsafe fn move_pages(from: usize, len: usize, to: usize) -> Result<(), Refusal> {
    // SAFETY: the caller guarantees both.
    let at = unsafe {
        libc::mremap(
            from as *mut c_void,
            len,
            len,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            to as *mut c_void,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Refusal::of("mremap"));
    }
    Ok(())
}

/// `madvise` that changes no content.
pub(super) fn advise(addr: usize, len: usize, advice: c_int) -> Result<(), Refusal> {
    debug_assert!(
        [
            libc::MADV_HUGEPAGE,
            libc::MADV_NOHUGEPAGE,
            libc::MADV_DONTDUMP,
            libc::MADV_POPULATE_READ,
            libc::MADV_POPULATE_WRITE,
        ]
        .contains(&advice)
    );
    // SAFETY: none of these changes what the memory holds.
    let result = unsafe { libc::madvise(addr as *mut c_void, len, advice) };
    check("madvise", result.into()).map(drop)
}

/// Every signal of this thread blocked, until drop: the two that glibc keeps for itself too,
/// which `pthread_sigmask` would leave out.
pub(super) struct SignalsBlocked {
    before: u64,
}

impl SignalsBlocked {
    pub(super) fn new() -> Self {
        Self {
            before: Self::swap(u64::MAX),
        }
    }

    fn swap(mask: u64) -> u64 {
        let mut before = 0_u64;
        // SAFETY: the kernel's signal set is eight bytes; both places are this frame's. The call
        // cannot fail with these arguments.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                &raw const mask,
                &raw mut before,
                size_of::<u64>(),
            )
        };
        before
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        Self::swap(self.before);
    }
}
