//! Sockets that do not wait, as both sides of a connection use them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::cross_memory::part;

/// No shorter outage of the network ends a connection. After this time without an answer, the next repetition is the
/// last one: if it gets no answer either, the peer's host is gone, or the way to it is broken.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// How long the answer to that repetition may take.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// The longest time between two repetitions, in milliseconds, where the kernel can be told (Linux 6.15). Others repeat
/// after 0.2 s, and wait twice as long each time.
const LONGEST_REPETITION: libc::c_int = 1000;
const TCP_RTO_MAX_MS: libc::c_int = 44;
/// On a connection that awaits an answer, keepalive probes start after this time without input: once a second, `TRIES`
/// times. The kernel ends the connection a second after the last one, so that an outage has to last through all.
const AWAITED: Duration = Duration::from_secs(1);
const TRIES: u32 = 1 + SILENCE.as_secs() as u32;
/// The possible error of the kernel's times, which are in ticks.
const TICK: Duration = Duration::from_millis(20);
/// As `AWAITED`, without an awaited answer: on the origin's side; later on the target's. Each probe is two packets, and
/// a host may have tens of thousands of connections; firewalls forget those that are idle for some minutes.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_AT_TARGET: Duration = Duration::from_secs(90);

/// The result of sending or receiving on a socket.
#[derive(Debug)]
pub(crate) enum Moved {
    Bytes(usize),
    /// Nothing can be moved now.
    Nothing,
    /// The peer has ended the connection.
    End,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Origin,
    Target,
}

/// Makes the stream nonblocking, and lets it detect a dead peer while nothing is sent.
pub(crate) fn prepare(stream: &TcpStream, side: Side) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    let idle = match side {
        Side::Origin => IDLE,
        Side::Target => IDLE_AT_TARGET,
    };
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(stream, TRIES)?;
    limit_repetitions(stream);
    Ok(())
}

/// Makes keepalive probes start soon.
pub(super) fn await_answer(stream: &TcpStream) {
    // If the system refuses this, death is detected later.
    let _ = sockopt::set_tcp_keepidle(stream, AWAITED);
}

/// Older kernels refuse this.
fn limit_repetitions(stream: &TcpStream) {
    let limit = LONGEST_REPETITION;
    // SAFETY: the kernel reads an integer of this length.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const limit).cast(),
            size_of_val(&limit) as libc::socklen_t,
        )
    };
}

/// How long the peer's kernel has been silent, measured when the origin checks.
#[derive(Default)]
pub(crate) struct Silence {
    /// The time of the first check that found data under way, with no acknowledgement since.
    since: Option<Instant>,
    /// Once that was long ago: the repetitions at that time.
    repeated: Option<u32>,
    /// The time of the first check that found a further one.
    last_repeated: Option<Instant>,
    /// Whether an answer was awaited at the last check.
    is_awaited: bool,
}

impl Silence {
    /// Whether the kernel has left sent data unacknowledged for [`SILENCE`], and a repetition after that. If nothing is
    /// under way while an answer is awaited, makes keepalive probes start soon. `TCP_USER_TIMEOUT` does not fit: it also ends connections to a
    /// process that receives nothing while it computes, though its kernel answers.
    pub(crate) fn lasts(&mut self, stream: &TcpStream, is_awaited: bool) -> bool {
        if self.is_awaited != is_awaited {
            self.awaits(stream, is_awaited);
        }
        self.has_lasted(unanswered(stream), Instant::now())
    }

    /// Ends the wait for an answer.
    pub(crate) fn rests(&mut self, stream: &TcpStream) {
        if self.is_awaited {
            self.awaits(stream, false);
        }
    }

    #[cold]
    fn awaits(&mut self, stream: &TcpStream, is_awaited: bool) {
        let idle = if is_awaited { AWAITED } else { IDLE };
        // If the system refuses this, death is detected later.
        let _ = sockopt::set_tcp_keepidle(stream, idle);
        self.is_awaited = is_awaited;
    }

    /// For an idle connection, a long time since the last answer says nothing about data sent just now.
    fn has_lasted(&mut self, seen: Unanswered, now: Instant) -> bool {
        let since = self
            .since
            .filter(|&since| seen.is_under_way && now - since + TICK <= seen.since_answer);
        let Some(since) = since else {
            *self = Self {
                since: seen.is_under_way.then_some(now),
                is_awaited: self.is_awaited,
                ..Self::default()
            };
            return false;
        };
        if now - since < SILENCE {
            return false;
        }
        let before = *self.repeated.get_or_insert(seen.repetitions);
        if seen.repetitions == before {
            return false;
        }
        now - *self.last_repeated.get_or_insert(now) >= ANSWER_TIME
    }
}

/// What the kernel says of unacknowledged data.
#[derive(Clone, Copy)]
struct Unanswered {
    is_under_way: bool,
    /// The time since the last acknowledgement.
    since_answer: Duration,
    /// How often it has sent something again since then.
    repetitions: u32,
}

fn unanswered(stream: &TcpStream) -> Unanswered {
    // SAFETY: zeroes are a valid record.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes no more than `len` bytes to the record.
    let rc = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    // If the peer accepts no more data, or an answer is awaited, the kernel sends only probes.
    let is_under_way = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    Unanswered {
        is_under_way: rc == 0 && is_under_way,
        since_answer: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        repetitions: u32::from(info.tcpi_retransmits) + u32::from(info.tcpi_probes),
    }
}

/// Reads from a blocking stream until a deadline. The limit of a single call would restart after each signal.
pub(crate) struct Until<'a>(pub(crate) &'a TcpStream, pub(crate) Instant);

impl Read for Until<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.0.set_read_timeout(Some(left))?;
        let mut stream = self.0;
        stream.read(to)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.0;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends as much of the parts as the socket takes.
///
/// # Safety
/// The parts may be read. If others change them meanwhile, any bytes may be sent; if one is not mapped, the error is
/// `EFAULT`.
pub(crate) unsafe fn send_parts(stream: &TcpStream, parts: &[libc::iovec]) -> io::Result<Moved> {
    // SAFETY: zeroes are a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    // MSG_NOSIGNAL: SIGPIPE must not kill a process that does not ignore it.
    // SAFETY: the kernel reads the list and the parts, as the caller allows.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    moved(sent)
}

pub(crate) fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<Moved> {
    // SAFETY: the reference allows it.
    unsafe { send_parts(stream, &[part(bytes.as_ptr().cast_mut(), bytes.len())]) }
}

/// Receives at most `len` bytes.
///
/// # Safety
/// The memory may be written to. If it is not mapped, the error is `EFAULT`.
pub(crate) unsafe fn receive_to(stream: &TcpStream, to: *mut u8, len: usize) -> io::Result<Moved> {
    if len == 0 {
        return Ok(Moved::Nothing);
    }
    // SAFETY: the kernel writes no more than `len` bytes, as the caller allows.
    let got = unsafe { libc::recv(stream.as_raw_fd(), to.cast(), len, 0) };
    match moved(got)? {
        Moved::Bytes(0) => Ok(Moved::End),
        moved => Ok(moved),
    }
}

pub(crate) fn receive(stream: &TcpStream, to: &mut [u8]) -> io::Result<Moved> {
    // SAFETY: the reference allows it.
    unsafe { receive_to(stream, to.as_mut_ptr(), to.len()) }
}

/// Interprets the return value of a send or receive call.
fn moved(returned: isize) -> io::Result<Moved> {
    if let Ok(bytes) = usize::try_from(returned) {
        return Ok(Moved::Bytes(bytes));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Moved::Nothing),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_when_something_was_under_way_and_waits_for_a_last_repetition() {
        let start = Instant::now();
        let mut silence = Silence::default();
        // At each second: is something under way, when did the last acknowledgement come, how often was it repeated, is
        // the peer taken for gone?
        let looks = [
            (100, true, 0, 0, false), // the connection was idle for long
            (102, false, 102, 0, false),
            (200, true, 102, 0, false),
            (203, true, 202, 1, false), // what was first under way has arrived
            (207, true, 202, 4, false),
            (208, true, 202, 4, false), // the way may be open again since the fourth
            (213, true, 202, 4, false),
            (214, true, 202, 5, false),
            (215, true, 202, 5, true),
            (216, true, 215, 0, false),
            (300, true, 299, 0, false), // nobody has looked for long
            (304, true, 299, 4, false),
            (305, true, 299, 4, false),
            (306, true, 299, 5, false),
            (307, true, 299, 6, true),
        ];
        for (at, is_under_way, acknowledged, repetitions, expected) in looks {
            let now = start + Duration::from_secs(at);
            let seen = Unanswered {
                is_under_way,
                since_answer: Duration::from_secs(at - acknowledged),
                repetitions,
            };
            assert_eq!(silence.has_lasted(seen, now), expected, "at {at}");
        }
    }
}
