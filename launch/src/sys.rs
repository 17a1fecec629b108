//! The system calls that the standard library does not offer, without policy.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Prints one line on standard error with one write. Standard error has no buffer: the parts of a formatted line would
/// be written one by one, and mixed with the lines of other ranks.
pub fn say(line: &dyn Display) {
    // If it is closed, nobody reads it.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Turns the -1 of a C call into an error.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Whether a call on a non-blocking socket or pipe may succeed later.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What `poll` is to watch.
pub(crate) fn interest(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Sleeps until one of `fds` is ready or the deadline has come. A signal ends it early.
pub(crate) fn poll(fds: &mut [libc::pollfd], deadline: Option<Instant>) -> io::Result<bool> {
    let timeout = match deadline {
        None => -1,
        // Rounded up, so that the deadline has come when the time is over.
        Some(at) => at
            .saturating_duration_since(Instant::now())
            .saturating_add(Duration::from_micros(999))
            .as_millis()
            .try_into()
            .unwrap_or(i32::MAX),
    };
    // SAFETY: the pointer and the length are those of a live slice.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `fd` is ready now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, events: i16) -> bool {
    poll(
        &mut [interest(fd.as_raw_fd(), events)],
        Some(Instant::now()),
    )
    .unwrap_or(false)
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl takes no pointers with these commands.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// A descriptor that is readable once the process has ended.
pub(crate) fn pidfd_open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = check(fd.try_into().expect("a descriptor is an int"))?;
    // SAFETY: the kernel made this descriptor just now, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Bytes to be written to a non-blocking socket or pipe.
#[derive(Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    /// When this many bytes are sent, their memory is reused.
    const WASTE: usize = 1 << 20;

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Takes the first bytes away, which are sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.is_empty() {
            self.clear();
        } else if self.sent >= Self::WASTE {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Writes what there is room for.
    pub(crate) fn write_to(&mut self, to: &mut impl io::Write) -> io::Result<()> {
        while !self.is_empty() {
            match to.write(self.rest()) {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A set of descriptors that are watched together, level-triggered.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes an integer.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel made this descriptor just now, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // It is there; and if it is not, nothing is to be done.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events.cast_unsigned(),
            u64: token,
        };
        // SAFETY: the pointer is to a live event, which the kernel only reads.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// The tokens that are ready now, those first that became ready first; at most 64.
    pub(crate) fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the pointer and the length are those of a live array.
        let count =
            check(unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 64, 0) });
        match count {
            Ok(count) => {
                let ready = &events[..count.cast_unsigned() as usize];
                Ok(ready.iter().map(|event| event.u64).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Random bytes that nobody can predict.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    // The kernel returns this many in one piece.
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    loop {
        // SAFETY: the pointer and the length are those of a live array.
        match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) } {
            got if got == N.cast_signed() => return Ok(bytes),
            got if got >= 0 => {}
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
