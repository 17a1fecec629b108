//! As much of io_uring as reads a file into a registered buffer: one request at a time.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Why there is none.
pub(crate) struct Unavailable(pub(crate) std::io::Error);

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`, as far as the names go.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    unused: u32,
    user_addr: u64,
}

#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    unused: u32,
    user_addr: u64,
}

#[repr(C)]
#[derive(Default)]
struct Parameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    unused: [u32; 3],
    sq_off: SubmissionOffsets,
    cq_off: CompletionOffsets,
}

#[repr(C)]
struct Submission {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    off: u64,
    addr: u64,
    len: u32,
    rw_flags: u32,
    user_data: u64,
    buf_index: u16,
    personality: u16,
    splice_fd_in: i32,
    unused: [u64; 2],
}

#[repr(C)]
struct Completion {
    user_data: u64,
    res: i32,
    flags: u32,
}

const READ_FIXED: u8 = 4;
const ENTER_GETEVENTS: libc::c_long = 1;
const REGISTER_BUFFERS: libc::c_long = 0;
const OFF_SUBMISSIONS: libc::off_t = 0;
const OFF_COMPLETIONS: libc::off_t = 0x800_0000;
const OFF_ENTRIES: libc::off_t = 0x1000_0000;
const RING_BYTES: usize = 4096;

/// A ring of one entry, with one registered buffer.
pub(crate) struct Ring {
    fd: OwnedFd,
    parameters: Parameters,
    submissions: *mut u8,
    completions: *mut u8,
    entries: *mut Submission,
}

impl Ring {
    /// # Safety
    /// The buffer stays mapped as long as the ring.
    pub(crate) unsafe fn with_buffer(base: *mut u8, len: usize) -> Result<Self, Unavailable> {
        let refused = || Unavailable(std::io::Error::last_os_error());
        let mut parameters = Parameters::default();
        // SAFETY: the structure is as long as the kernel's, and a descriptor that is returned is ours.
        let fd = unsafe {
            let fd = libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters);
            if fd < 0 {
                return Err(refused());
            }
            OwnedFd::from_raw_fd(fd as RawFd)
        };
        let map = |offset| {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let (flags, fd) = (libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd());
            // SAFETY: the kernel chooses the place; one entry fits into a page of each kind.
            let at = unsafe { libc::mmap(ptr::null_mut(), RING_BYTES, prot, flags, fd, offset) };
            if at == libc::MAP_FAILED {
                return Err(refused());
            }
            Ok(at.cast::<u8>())
        };
        let ring = Self {
            submissions: map(OFF_SUBMISSIONS)?,
            completions: map(OFF_COMPLETIONS)?,
            entries: map(OFF_ENTRIES)?.cast(),
            parameters,
            fd,
        };
        let buffer = libc::iovec {
            iov_base: base.cast(),
            iov_len: len,
        };
        // SAFETY: one buffer, which is the caller's promise.
        let rc = unsafe {
            let fd = ring.fd.as_raw_fd();
            libc::syscall(
                libc::SYS_io_uring_register,
                fd,
                REGISTER_BUFFERS,
                &buffer,
                1,
            )
        };
        if rc < 0 {
            return Err(refused());
        }
        Ok(ring)
    }

    /// Reads from a file into a part of the buffer; what `pread` would return, or less an errno.
    pub(crate) fn read(&self, fd: RawFd, offset: usize, to: *mut u8, len: usize) -> i32 {
        let (sq, cq) = (&self.parameters.sq_off, &self.parameters.cq_off);
        // SAFETY: the offsets are the kernel's, into what was mapped; there is one entry of each kind,
        // number 0, and one request under way.
        unsafe {
            self.entries.write(Submission {
                opcode: READ_FIXED,
                flags: 0,
                ioprio: 0,
                fd,
                off: offset as u64,
                addr: to.addr() as u64,
                len: len as u32,
                rw_flags: 0,
                user_data: 1,
                buf_index: 0,
                personality: 0,
                splice_fd_in: 0,
                unused: [0; 2],
            });
            self.submissions
                .add(sq.array as usize)
                .cast::<u32>()
                .write(0);
            word(self.submissions, sq.tail).fetch_add(1, Ordering::Release);
            let ring = self.fd.as_raw_fd();
            let none = ptr::null::<u8>();
            let entered = libc::syscall(
                libc::SYS_io_uring_enter,
                ring,
                1,
                1,
                ENTER_GETEVENTS,
                none,
                0,
            );
            if entered != 1 {
                return -std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            }
            let head = word(self.completions, cq.head);
            fence(Ordering::Acquire);
            let mask = word(self.completions, cq.ring_mask).load(Ordering::Relaxed);
            let index = (head.load(Ordering::Relaxed) & mask) as usize;
            let all = self.completions.add(cq.cqes as usize).cast::<Completion>();
            let result = all.add(index).read().res;
            head.fetch_add(1, Ordering::Release);
            result
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for mapped in [self.submissions, self.completions, self.entries.cast()] {
            // SAFETY: mapped by `with_buffer`, and nobody else's.
            unsafe { libc::munmap(mapped.cast(), RING_BYTES) };
        }
    }
}

/// # Safety
/// `offset` is one of the kernel's for this ring.
unsafe fn word<'a>(ring: *mut u8, offset: u32) -> &'a AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr(ring.add(offset as usize).cast()) }
}
