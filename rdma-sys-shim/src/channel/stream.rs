//! Sockets that do not wait, as both sides of a connection use them.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};

/// A peer whose host does not answer for so long is gone: its host is, or the way to it.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// An idle connection is tried after so long by its origin, and later by its target; then once a second, so many times.
const IDLE: Duration = Duration::from_secs(2);
const IDLE_AT_TARGET: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;

/// What a socket took or gave.
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

/// Has the stream not wait, and notice a peer that is gone while nothing is sent.
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
    Ok(())
}

/// Whether the peer's kernel has left what was sent without an answer for [`SILENCE`]. `TCP_USER_TIMEOUT` will not do: it also
/// ends connections to a process that receives nothing while it computes, whose kernel answers.
pub(crate) fn is_silent(stream: &TcpStream) -> bool {
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
    let silence = u128::from(info.tcpi_last_ack_recv);
    rc == 0 && info.tcpi_unacked > 0 && silence >= SILENCE.as_millis()
}

pub(crate) fn send(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<Moved> {
    let mut control = SendAncillaryBuffer::new(&mut []);
    // A process that does not ignore SIGPIPE is not to end by it.
    let sent = sendmsg(stream, pieces, &mut control, SendFlags::NOSIGNAL);
    moved(sent.map_err(io::Error::from))
}

pub(crate) fn receive(stream: &TcpStream, to: &mut [MaybeUninit<u8>]) -> io::Result<Moved> {
    if to.is_empty() {
        return Ok(Moved::Nothing);
    }
    let got = recv(stream, to, RecvFlags::empty());
    match moved(got.map(|(_, bytes)| bytes).map_err(io::Error::from))? {
        Moved::Bytes(0) => Ok(Moved::End),
        moved => Ok(moved),
    }
}

/// As [`receive`], to memory that has been written to before.
pub(crate) fn receive_over(stream: &TcpStream, to: &mut [u8]) -> io::Result<Moved> {
    let (base, len) = (to.as_mut_ptr().cast::<MaybeUninit<u8>>(), to.len());
    // SAFETY: the same memory, into which only bytes that the kernel wrote get.
    receive(stream, unsafe { std::slice::from_raw_parts_mut(base, len) })
}

fn moved(result: io::Result<usize>) -> io::Result<Moved> {
    match result {
        Ok(bytes) => Ok(Moved::Bytes(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(Moved::Nothing)
        }
        Err(error) => Err(error),
    }
}
