//! Cross-memory attach: reading and writing another process's memory through the kernel.

use std::io;

use crate::memory::{self, Buffer, copy, copy_part};

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

/// What goes by a buffer goes so many bytes at a time: of what is long more, for which the kernel is called less often.
const STAGE: usize = 64 << 10;
const LONG_STAGE: usize = 256 << 10;
/// The kernel moves less than 2 GiB in one call.
const MOST_OF_A_CALL: usize = 1 << 30;

/// How a transfer is carried out: so many bytes in each call of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    pub(crate) at_a_time: usize,
    by_buffer: bool,
}

impl Course {
    /// That of `len` bytes between `local` and `remote`.
    pub(crate) fn of(direction: Direction, local: *mut u8, remote: u64, len: usize) -> Self {
        let (at_a_time, by_buffer) = match is_askew(direction, local, remote) {
            true if memory::streams(len) => (LONG_STAGE, true),
            _ if is_slow(direction, local, remote, len) => (STAGE, true),
            _ => (MOST_OF_A_CALL, false),
        };
        Self {
            at_a_time,
            by_buffer,
        }
    }

    /// Moves one part of a transfer of `whole` bytes that takes this course. `buffer` is for all of its parts.
    ///
    /// # Safety
    /// As for [`transfer`].
    pub(crate) unsafe fn transfer_part(
        self,
        pid: u32,
        direction: Direction,
        (local, remote, len): (*mut u8, u64, usize),
        whole: usize,
        buffer: &mut Buffer,
    ) -> Result<(), Stopped> {
        if !self.by_buffer {
            // SAFETY: the caller's promise.
            return unsafe { transfer(pid, direction, local, remote, len) };
        }
        // It lies a multiple of a cache line from the other side, where copies are not slow.
        let held = buffer.at_least(len, remote);
        // SAFETY: the buffer has room for as many bytes; `local` is the caller's promise.
        unsafe {
            if let Direction::Write = direction {
                copy(held, local, len);
            }
            transfer(pid, direction, held, remote, len)?;
            if let Direction::Read = direction {
                copy_part(local, held, len, whole);
            }
        }
        Ok(())
    }
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

/// Whether the kernel's copy takes four times as long: on processors of x86-64 it is `rep movsb`, to which the destination
/// must not lie less than 16 bytes behind the source, page by page.
fn is_slow(direction: Direction, local: *mut u8, remote: u64, len: usize) -> bool {
    const FROM: usize = 2 << 10;
    const PAGE: u64 = 4096;
    let ahead = (local.addr() as u64).wrapping_sub(remote);
    let behind_the_source = match direction {
        Direction::Write => ahead.wrapping_neg() % PAGE,
        Direction::Read => ahead % PAGE,
    };
    cfg!(target_arch = "x86_64") && len >= FROM && (1..16).contains(&behind_the_source)
}

/// Whether it is sooner by a buffer from which what no cache holds is streamed on: `rep movsb` to where the source's halves
/// of lines straddle those of the destination takes half as long again there. What is written cannot be streamed.
fn is_askew(direction: Direction, local: *mut u8, remote: u64) -> bool {
    const HALF: u64 = 32;
    let is_read = matches!(direction, Direction::Read);
    let straddles = !(local.addr() as u64)
        .wrapping_sub(remote)
        .is_multiple_of(HALF);
    cfg!(target_arch = "x86_64") && is_read && straddles
}

/// A part of either process's memory.
pub(crate) fn part(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    }
}

/// The most parts that the kernel takes at a time, of each process.
pub(crate) const MOST_PARTS: usize = 1024;

/// Moves the bytes of lists of parts that have as many in all, at most [`MOST_PARTS`] each. What was moved is taken from the
/// lists, also where it stops early.
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
        // Nothing is left of what is empty.
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
            // A short count means a fault further on, or the kernel's limit for one call: ask on.
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

/// What is left of a list when `done` bytes of it are.
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

/// Whether the kernel is likely to let the ranks of one job, descendants of `launcher`, attach to
/// each other. Under Yama's restricted mode this process lets them.
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

/// Whether no filter of system calls refuses the calls themselves: on this process they always work.
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

/// By which the kernel finds the memory of this process: the process's number leads there only while its first thread runs.
pub(crate) fn own_number() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() }.cast_unsigned()
}

fn is_dumpable() -> bool {
    // SAFETY: PR_GET_DUMPABLE takes no further arguments and touches no memory.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 }
}

/// Whether this process may attach to any other.
fn may_trace_all() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251 + at / 4096) as u8).collect()
    }

    /// Moves the first `len` bytes to where they lie `behind` the source in its page, as a part of `whole`, and looks at them.
    /// `check` is told where both sides are. False if the kernel does not allow it.
    fn arrive(
        direction: Direction,
        from: &[u8],
        len: usize,
        behind: usize,
        whole: usize,
        check: impl FnOnce(*mut u8, u64),
    ) -> bool {
        const PAGE: usize = 4096;
        let mut to = vec![0; from.len() + PAGE];
        let skip = (from.as_ptr().addr() + behind).wrapping_sub(to.as_ptr().addr()) % PAGE;
        let begin = to.as_mut_ptr().wrapping_add(skip);
        let (local, remote) = match direction {
            Direction::Write => (from.as_ptr().cast_mut(), begin.addr() as u64),
            Direction::Read => (begin, from.as_ptr().addr() as u64),
        };
        check(local, remote);
        let own = std::process::id();
        let course = Course::of(direction, local, remote, whole);
        let mut buffer = Buffer::default();
        let moved = (0..len).step_by(course.at_a_time).try_for_each(|start| {
            let (here, there) = (local.wrapping_add(start), remote.wrapping_add(start as u64));
            let part = (here, there, course.at_a_time.min(len - start));
            // SAFETY: both are as long, and nobody else uses what is written to; a write only reads.
            unsafe { course.transfer_part(own, direction, part, whole, &mut buffer) }
        });
        if let Err(Stopped::Forbidden(error)) = moved {
            eprintln!("not tried: {error}");
            return false;
        }
        moved.unwrap();
        let (before, rest) = to.split_at(skip);
        let (moved, after) = rest.split_at(len);
        assert!(before.iter().all(|&byte| byte == 0), "{len} {behind}");
        assert!(moved == &from[..len], "{len} {behind}");
        assert!(after.iter().all(|&byte| byte == 0), "{len} {behind}");
        true
    }

    #[test]
    fn bytes_arrive_however_far_one_side_is_behind_the_other() {
        let lens = [1, 2047, 2048, 5000, STAGE - 1, STAGE + 1, 3 * STAGE + 7];
        let from = bytes(4 * STAGE + 4096);
        for len in lens {
            for behind in [0, 1, 7, 8, 15, 16, 4088, 4095] {
                for direction in [Direction::Write, Direction::Read] {
                    let slow = len >= 2048 && (1..16).contains(&behind);
                    let check = |local, remote| {
                        assert_eq!(
                            is_slow(direction, local, remote, len),
                            slow && cfg!(target_arch = "x86_64")
                        );
                    };
                    if !arrive(direction, &from, len, behind, len, check) {
                        return;
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_what_no_cache_holds_arrive_however_the_sides_lie() {
        const LEN: usize = 2 * LONG_STAGE + 777;
        let from = bytes(LEN + 64);
        for askew in [0, 1, 8, 16, 31, 32, 63] {
            for direction in [Direction::Write, Direction::Read] {
                let is_read = matches!(direction, Direction::Read);
                let check = |local, remote| {
                    assert_eq!(
                        is_askew(direction, local, remote),
                        is_read && askew % 32 != 0 && cfg!(target_arch = "x86_64")
                    );
                };
                if !arrive(direction, &from, LEN, askew, 1 << 40, check) {
                    return;
                }
            }
        }
    }

    #[test]
    fn a_part_that_is_not_mapped_is_a_fault_either_way() {
        let mut bytes = vec![0; 4 * STAGE];
        let remote = 4096 - 8;
        for behind in [8, 16] {
            let local = bytes.as_mut_ptr().wrapping_add(
                (remote as usize + behind).wrapping_sub(bytes.as_ptr().addr()) % 4096,
            );
            let (own, course) = (
                std::process::id(),
                Course::of(Direction::Read, local, remote, 9000),
            );
            let (part, mut buffer) = ((local, remote, 9000), Buffer::default());
            // SAFETY: as long as what is read.
            let moved =
                unsafe { course.transfer_part(own, Direction::Read, part, 9000, &mut buffer) };
            assert!(
                matches!(moved, Err(Stopped::Fault | Stopped::Forbidden(_))),
                "{moved:?}"
            );
        }
    }
}
