//! Cross-memory attach: reading and writing another process's memory through the kernel.

use std::io;

/// Why a transfer stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The kernel does not let us: ptrace restrictions or a filter of system calls.
    Forbidden(io::Error),
    /// The process is gone.
    Gone,
    /// Some page at the other end is not mapped or lacks the right.
    Fault,
    /// Our own end is not mapped, or the system is out of memory.
    Failed(io::Error),
}

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From here into the other process.
    Write,
    /// From the other process to here.
    Read,
}

/// Moves `len` bytes between `local` and `remote` of process `pid`.
///
/// # Safety
/// `local` is readable (for a write) or writable (for a read) for `len` bytes.
pub(crate) unsafe fn transfer(
    pid: u32,
    direction: Direction,
    local: *mut u8,
    remote: u64,
    len: usize,
) -> Result<(), Stopped> {
    let mut done = 0;
    while done < len {
        let here = libc::iovec {
            iov_base: local.wrapping_add(done).cast(),
            iov_len: len - done,
        };
        let there = libc::iovec {
            iov_base: (remote as usize + done) as *mut libc::c_void,
            iov_len: len - done,
        };
        let call = match direction {
            Direction::Write => libc::process_vm_writev,
            Direction::Read => libc::process_vm_readv,
        };
        // SAFETY: the local range is the caller's promise; the remote one is checked by the kernel.
        let moved = unsafe {
            call(
                pid as libc::pid_t,
                &raw const here,
                1,
                &raw const there,
                1,
                0,
            )
        };
        if moved > 0 {
            // A short count means a fault further on, or the kernel's limit for one call: ask on.
            done += moved as usize;
            continue;
        }
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            _ if moved == 0 => Stopped::Fault,
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Stopped::Forbidden(error),
            Some(libc::ESRCH) => Stopped::Gone,
            Some(libc::EFAULT) => Stopped::Fault,
            Some(libc::EINTR) => continue,
            _ => Stopped::Failed(error),
        });
    }
    Ok(())
}

/// Under Yama's restricted mode, lets descendants of `ancestor` attach to this process: the
/// ranks of one job descend from one launcher.
pub(crate) fn allow_descendants_of(ancestor: u32) {
    let restricted = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .is_ok_and(|scope| scope.trim() == "1");
    if restricted {
        // SAFETY: PR_SET_PTRACER takes a process number and touches no memory.
        let rc = unsafe { libc::prctl(libc::PR_SET_PTRACER, ancestor as libc::c_ulong, 0, 0, 0) };
        if rc != 0 {
            tracing::debug!(ancestor, "PR_SET_PTRACER was refused");
        }
    }
}
