//! Sockets that do not wait, as both sides of a connection use them.

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};

/// A peer that does not answer for so long is gone: its host is, or the way to it.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// A connection without traffic is tried so often.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// What a socket took or gave.
#[derive(Debug)]
pub(super) enum Moved {
    Bytes(usize),
    /// Nothing can be moved now.
    Nothing,
    /// The peer has ended the connection.
    End,
}

/// Has the stream not wait, and notice a peer that is gone.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(stream, SILENCE.as_secs() as u32)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?;
    Ok(())
}

pub(super) fn send(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<Moved> {
    let mut control = SendAncillaryBuffer::new(&mut []);
    // A process that does not ignore SIGPIPE is not to end by it.
    let sent = sendmsg(stream, pieces, &mut control, SendFlags::NOSIGNAL);
    moved(sent.map_err(io::Error::from))
}

pub(super) fn receive(stream: &TcpStream, to: &mut [MaybeUninit<u8>]) -> io::Result<Moved> {
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
pub(super) fn receive_over(stream: &TcpStream, to: &mut [u8]) -> io::Result<Moved> {
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
