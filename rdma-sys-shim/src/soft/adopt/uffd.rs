//! userfaultfd in write-protect mode: other threads' writes to a range wait until they are woken.
//! The kernel's interface is `linux/userfaultfd.h`.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong};

use super::sys::Refusal;

const USER_MODE_ONLY: c_int = 1;
const API: u64 = 0xAA;

const FEATURE_WP: u64 = 1 << 0;
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
/// Write-protection of private memory and, for the way back, of shared memory.
const REQUIRED: u64 = FEATURE_WP | FEATURE_WP_HUGETLBFS_SHMEM;

const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;

#[repr(C)]
struct Handshake {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

const WRITES: c_ulong = 1;
const READS: c_ulong = 2;

/// `_IOC` of asm-generic. Where an architecture has another encoding (mips, powerpc, sparc) the
/// kernel knows no such request, the handshake fails, and nothing is adopted.
const fn request(direction: c_ulong, number: c_ulong, size: usize) -> c_ulong {
    direction << 30 | (size as c_ulong) << 16 | (API as c_ulong) << 8 | number
}

const UFFDIO_API: c_ulong = request(READS | WRITES, 0x3F, size_of::<Handshake>());
const UFFDIO_REGISTER: c_ulong = request(READS | WRITES, 0x00, size_of::<Register>());
const UFFDIO_UNREGISTER: c_ulong = request(READS, 0x01, size_of::<Range>());
const UFFDIO_WAKE: c_ulong = request(READS, 0x02, size_of::<Range>());
const UFFDIO_WRITEPROTECT: c_ulong = request(READS | WRITES, 0x06, size_of::<WriteProtect>());

const _: () = {
    assert!(size_of::<Handshake>() == 24 && UFFDIO_API == 0xC018_AA3F);
    assert!(size_of::<Register>() == 32 && UFFDIO_REGISTER == 0xC020_AA00);
    assert!(size_of::<Range>() == 16 && UFFDIO_UNREGISTER == 0x8010_AA01);
    assert!(UFFDIO_WAKE == 0x8010_AA02);
    assert!(size_of::<WriteProtect>() == 24 && UFFDIO_WRITEPROTECT == 0xC018_AA06);
    assert!(std::mem::offset_of!(Register, mode) == 16);
    assert!(std::mem::offset_of!(WriteProtect, mode) == 16);
};

/// An open userfaultfd.
#[derive(Debug)]
pub(super) struct Uffd {
    fd: OwnedFd,
    holds_kernel_writes: bool,
}

impl Uffd {
    /// Opens one that can do all that adoption and giving back need.
    pub(super) fn open() -> Result<Self, Refusal> {
        #[cfg(test)]
        match restriction::get() {
            Restriction::None => {}
            Restriction::UserModeOnly => return Self::with_flags(USER_MODE_ONLY),
            Restriction::Missing => {
                return Err(Refusal {
                    call: "userfaultfd",
                    errno: libc::ENOSYS,
                });
            }
        }
        Self::with_flags(0).or_else(|_| Self::with_flags(USER_MODE_ONLY))
    }

    fn with_flags(flags: c_int) -> Result<Self, Refusal> {
        // WP_UNPOPULATED is Linux 6.4; without it, populating first is what there is.
        Self::with_features(flags, REQUIRED | FEATURE_WP_UNPOPULATED)
            .or_else(|_| Self::with_features(flags, REQUIRED))
    }

    /// A handshake is final, so each set of features is tried on a descriptor of its own.
    fn with_features(flags: c_int, features: u64) -> Result<Self, Refusal> {
        // SAFETY: the call takes flags only.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) };
        if fd < 0 {
            return Err(Refusal::of("userfaultfd"));
        }
        let uffd = Self {
            // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
            fd: unsafe { OwnedFd::from_raw_fd(fd as c_int) },
            holds_kernel_writes: flags & USER_MODE_ONLY == 0,
        };
        let mut handshake = Handshake {
            api: API,
            features,
            ioctls: 0,
        };
        uffd.ioctl("UFFDIO_API", UFFDIO_API, &mut handshake)?;
        Ok(uffd)
    }

    /// Whether system calls that write to a protected range wait too, rather than fail with
    /// EFAULT. It takes a privilege (`vm.unprivileged_userfaultfd`, CAP_SYS_PTRACE).
    pub(super) fn holds_kernel_writes(&self) -> bool {
        self.holds_kernel_writes
    }

    /// From here on, writes to the range wait.
    pub(super) fn protect(&self, start: usize, len: usize) -> Result<(), Refusal> {
        let range = range(start, len);
        let mut register = Register {
            range,
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        self.ioctl("UFFDIO_REGISTER", UFFDIO_REGISTER, &mut register)?;
        let mut protect = WriteProtect {
            range,
            mode: WRITEPROTECT_MODE_WP,
        };
        self.ioctl("UFFDIO_WRITEPROTECT", UFFDIO_WRITEPROTECT, &mut protect)
            .inspect_err(|_| self.release(start, len))
    }

    /// Ends the protection of a range that was not replaced, and lets the waiting writes go on.
    pub(super) fn release(&self, start: usize, len: usize) {
        // A range that is no longer registered needs no unregistering, only the waking.
        let _ = self.ioctl(
            "UFFDIO_UNREGISTER",
            UFFDIO_UNREGISTER,
            &mut range(start, len),
        );
        self.wake(start, len);
    }

    /// Lets the writes that wait for the range go on, to whatever is mapped there now.
    pub(super) fn wake(&self, start: usize, len: usize) {
        // It fails only for a malformed range. Even then closing the descriptor wakes everybody.
        let _ = self.ioctl("UFFDIO_WAKE", UFFDIO_WAKE, &mut range(start, len));
    }

    fn ioctl<T>(
        &self,
        call: &'static str,
        request: c_ulong,
        argument: &mut T,
    ) -> Result<(), Refusal> {
        // SAFETY: each request above goes with the structure that its size was computed from;
        // none of them changes what memory holds.
        let result = unsafe {
            libc::ioctl(
                self.fd.as_raw_fd(),
                request as _,
                std::ptr::from_mut(argument),
            )
        };
        if result < 0 {
            return Err(Refusal::of(call));
        }
        Ok(())
    }
}

fn range(start: usize, len: usize) -> Range {
    Range {
        start: start as u64,
        len: len as u64,
    }
}

#[cfg(test)]
pub(super) use restriction::Restriction;

/// What a test takes away from its own thread.
#[cfg(test)]
pub(super) mod restriction {
    use std::cell::Cell;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) enum Restriction {
        None,
        UserModeOnly,
        Missing,
    }

    thread_local! {
        static CURRENT: Cell<Restriction> = const { Cell::new(Restriction::None) };
    }

    pub(super) fn get() -> Restriction {
        CURRENT.get()
    }

    pub(in super::super) fn with<T>(restriction: Restriction, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(restriction);
        let result = work();
        CURRENT.set(before);
        result
    }
}
