//! Cross-memory attach: reading and writing another process's memory through the kernel.
//!
//! Such memory has no atomics, not even for its own process (`Endpoint::has_atomics`): its elements are combined under
//! the accumulate lock.

use std::io;

use rustix::process::{DumpableBehavior, dumpable_behavior};
use rustix::thread::gettid;

use crate::memory::Direction;

/// Why a transfer stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The kernel forbids it: ptrace restrictions or a filter of system calls.
    Forbidden(io::Error),
    /// The process is gone.
    Gone,
    /// A page at the other end is not mapped or lacks the right.
    Fault,
    /// Our own memory is not mapped, or the system is out of memory.
    Failed(io::Error),
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
    let mut here = [part(local, len)];
    let mut there = [part(remote as usize as *mut u8, len)];
    // SAFETY: the caller's promise.
    unsafe { transfer_lists(pid, direction, &mut here, &mut there) }
}

/// A part of the memory of either process.
pub(crate) fn part(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    }
}

/// The most parts of each process in one system call.
pub(crate) const MOST_PARTS: usize = 1024;

/// Moves bytes between lists of parts with the same total length, at most [`MOST_PARTS`] each. Removes moved bytes from
/// the lists, even if it stops early.
///
/// # Safety
/// The local parts are readable (for a write) or writable (for a read).
pub(crate) unsafe fn transfer_lists(
    pid: u32,
    direction: Direction,
    mut local: &mut [libc::iovec],
    mut remote: &mut [libc::iovec],
) -> Result<(), Stopped> {
    let call = match direction {
        Direction::Write => libc::process_vm_writev,
        Direction::Read => libc::process_vm_readv,
    };
    loop {
        // Empty parts are removed.
        local = advanced(local, 0);
        remote = advanced(remote, 0);
        if local.is_empty() || remote.is_empty() {
            return Ok(());
        }
        // SAFETY: the local parts are the caller's promise; the kernel checks the remote ones.
        let moved = unsafe {
            call(
                pid as libc::pid_t,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        if moved > 0 {
            // A short count means a fault further on, or the kernel's limit for one call; the next call tells which.
            local = advanced(local, moved as usize);
            remote = advanced(remote, moved as usize);
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
}

/// The rest of a list after `done` bytes.
fn advanced(mut list: &mut [libc::iovec], mut done: usize) -> &mut [libc::iovec] {
    while let Some(first) = list.first_mut() {
        if first.iov_len > done {
            first.iov_base = first.iov_base.wrapping_byte_add(done);
            first.iov_len -= done;
            break;
        }
        done -= first.iov_len;
        first.iov_len = 0;
        list = &mut list[1..];
    }
    list
}

/// Whether the kernel is likely to let the ranks of one job, descendants of `launcher`, attach to each other. Under
/// Yama's restricted mode, this also permits it for this process.
pub(crate) fn is_likely(launcher: Option<u32>) -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let by_yama = match scope.as_deref().map(str::trim) {
        Err(_) | Ok("0") => true,
        Ok("1") => launcher.is_some_and(allow_descendants_of) || may_trace_all(),
        Ok("2") => may_trace_all(),
        Ok(_) => false,
    };
    by_yama && is_served() && (is_dumpable() || may_trace_all())
}

fn allow_descendants_of(ancestor: u32) -> bool {
    // SAFETY: PR_SET_PTRACER takes a process number and touches no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_PTRACER, ancestor as libc::c_ulong, 0, 0, 0) };
    if rc != 0 {
        tracing::debug!(ancestor, "PR_SET_PTRACER was refused");
    }
    rc == 0
}

/// Whether no filter of system calls refuses the calls themselves: on our own process, they always work otherwise.
fn is_served() -> bool {
    let (mut word, mut seen) = (1_u64, 0_u64);
    let (there, here) = ((&raw mut word).addr() as u64, (&raw mut seen).cast());
    let own = own_number();
    // SAFETY: both words are locals.
    unsafe {
        transfer(own, Direction::Read, here, there, size_of::<u64>()).is_ok()
            && transfer(own, Direction::Write, here, there, size_of::<u64>()).is_ok()
    }
}

/// The calling thread's number, by which the kernel finds the memory of this process. The process's number works only
/// while its first thread runs.
pub(crate) fn own_number() -> u32 {
    gettid().as_raw_pid().cast_unsigned()
}

fn is_dumpable() -> bool {
    dumpable_behavior() == Ok(DumpableBehavior::Dumpable)
}

/// Whether this process may attach to any other.
fn may_trace_all() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 != 0)
}
