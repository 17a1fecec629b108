//! Who else might write to the pages at the edges of a region: those that it shares with memory
//! which is not its own, and about which its owner's promises say nothing.

use std::ops::Range;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use libc::{c_int, c_void};

use super::declined::Declined;
use super::maps::{Name, Reader};
use super::sys::Refusal;

/// How many threads this process has. One means one until that thread makes another: nobody
/// else could.
pub(super) fn threads() -> Result<usize, Refusal> {
    let failed = |error: std::io::Error| Refusal {
        call: "read of /proc/self/task",
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut threads = 0;
    for task in std::fs::read_dir("/proc/self/task").map_err(failed)? {
        task.map_err(failed)?;
        threads += 1;
    }
    Ok(threads)
}

/// Whether nothing but this process's threads writes to its memory. Reads and receives that
/// the kernel or a device carries out later, into a buffer that happens to lie on an edge page,
/// would go to the page that was there before.
pub(super) fn kernel_writes() -> Result<(), Declined> {
    if has_kernel_writer_mapping() || has_kernel_writer_descriptor() {
        return Err(Declined::EdgeMayBeWrittenByKernel);
    }
    Ok(())
}

/// Asynchronous I/O contexts have no descriptor, and a ring outlives its own.
fn has_kernel_writer_mapping() -> bool {
    let search = || -> Result<bool, Refusal> {
        let mut maps = Reader::maps()?;
        while let Some(vma) = maps.next_mapping()? {
            if vma.name == Name::KernelWriter {
                return Ok(true);
            }
        }
        Ok(false)
    };
    search().unwrap_or(true)
}

fn has_kernel_writer_descriptor() -> bool {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else {
        return true;
    };
    descriptors
        .map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok())
        .any(|fd| fd.is_none_or(|fd| !is_harmless(fd)))
}

/// Whether a descriptor is of a kind that never writes to memory outside of system calls. One
/// that is gone meanwhile is harmless too, like the one that lists them.
fn is_harmless(fd: RawFd) -> bool {
    let path = format!("/proc/self/fd/{fd}");
    let Ok(target) = std::fs::read_link(&path) else {
        return true;
    };
    if let Some(kind) = target.as_os_str().as_bytes().strip_prefix(b"anon_inode:") {
        let harmless: [&[u8]; 8] = [
            b"[eventpoll]",
            b"[eventfd]",
            b"[timerfd]",
            b"[signalfd]",
            b"inotify",
            b"[fanotify]",
            b"[pidfd]",
            b"[userfaultfd]",
        ];
        return harmless.contains(&kind);
    }
    match std::fs::metadata(&path) {
        Ok(file) if file.file_type().is_char_device() => {
            // Memory devices (null, zero, random), terminals, consoles, pseudo-terminals, serial
            // and hypervisor consoles.
            matches!(libc::major(file.rdev()), 1 | 4 | 5 | 136..=143 | 204 | 229)
        }
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Where this thread's own state lies, generously: the kernel updates its restartable-sequences
/// area whenever it likes, and `errno` is written by any failing call.
pub(super) fn thread_state() -> Vec<Range<usize>> {
    /// The thread's descriptor is smaller, and so is what libc puts beside the storage.
    const MARGIN: usize = 8 << 10;
    let around = |start: usize, len: usize| {
        start.saturating_sub(MARGIN)..start.saturating_add(len).saturating_add(MARGIN)
    };

    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker passes a structure that is valid during this call, and `found` is
        // the vector below, which nobody else uses meanwhile.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<(usize, usize)>>()) };
        if info.dlpi_phdr.is_null() || info.dlpi_tls_data.is_null() {
            return 0;
        }
        // SAFETY: the linker says that there are so many headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        if let Some(tls) = headers.iter().find(|h| h.p_type == libc::PT_TLS) {
            found.push((info.dlpi_tls_data as usize, tls.p_memsz as usize));
        }
        0
    }

    let mut blocks: Vec<(usize, usize)> = Vec::new();
    // SAFETY: the callback takes exactly this pointer.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut blocks).cast()) };
    // SAFETY: the calling thread always has a descriptor.
    let descriptor = unsafe { libc::pthread_self() } as usize;
    let mut state: Vec<_> = blocks
        .into_iter()
        .map(|(start, len)| around(start, len))
        .collect();
    state.push(around(descriptor, 0));
    state
}

/// Whether the page at `addr` may be the head of one of glibc's secondary arenas, whose locks
/// a forked child resets before any of its handlers run.
pub(super) fn may_hold_allocator_state(addr: usize) -> bool {
    const ARENA_ALIGNMENT: usize = 64 << 20;
    addr.is_multiple_of(ARENA_ALIGNMENT)
}

/// Whether the frames of this thread that are running, or are about to, may lie in `range`: an
/// edge page may hold the end of a coroutine's stack, and this may be the coroutine.
pub(super) fn is_near_stack_pointer(range: &Range<usize>) -> bool {
    const BELOW: usize = 128 << 10;
    const ABOVE: usize = 16 << 10;
    let here = 0_u8;
    let here = (&raw const here).addr();
    range.start < here + ABOVE && here.saturating_sub(BELOW) < range.end
}
