//! The system calls that the standard library does not offer, without policy.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{self, PidfdFlags};

/// Prints one line on standard error with one write. Standard error has no buffer: the parts of a formatted line would
/// be written one by one, and could mix with the lines of other ranks.
pub fn say(line: &dyn Display) {
    // If standard error is closed, the line is lost.
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

/// Sleeps until one of `fds` is ready or the deadline has passed. A signal ends it early.
pub(crate) fn poll(fds: &mut [libc::pollfd], deadline: Option<Instant>) -> io::Result<bool> {
    let timeout = match deadline {
        None => -1,
        // Rounded up, so that the deadline has passed when the time-out ends.
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
    Ok(ioctl_fionbio(fd, true)?)
}

/// A descriptor that is readable once the process has ended.
pub(crate) fn pidfd_open(child: &Child) -> io::Result<OwnedFd> {
    let pid = process::Pid::from_child(child);
    Ok(process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Bytes to be written to a non-blocking socket or pipe.
#[derive(Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    /// After this many bytes are sent, their memory is reused.
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

    /// Removes the first bytes, which have been sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.is_empty() {
            self.clear();
        } else if self.sent >= Self::WASTE {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Writes as much as there is room for.
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
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, events: EventFlags, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), events)?)
    }

    pub(crate) fn modify(
        &self,
        fd: BorrowedFd<'_>,
        events: EventFlags,
        token: u64,
    ) -> io::Result<()> {
        Ok(epoll::modify(
            &self.0,
            fd,
            EventData::new_u64(token),
            events,
        )?)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // This fails only if it is not there, and then nothing has to be done.
        let _ = epoll::delete(&self.0, fd);
    }

    /// The tokens that are ready now, at most 64, in the order in which they became ready.
    pub(crate) fn ready(&self) -> io::Result<Vec<u64>> {
        let now = Timespec::default();
        let mut room = [MaybeUninit::uninit(); 64];
        match epoll::wait(&self.0, &mut room, Some(&now)) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
