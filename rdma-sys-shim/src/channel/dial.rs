//! Connecting to a target: at which of its addresses it answers, and whether it is the right process.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::interfaces::candidates;
use super::proof::{CHALLENGE, FULL, WELCOME, hello, prove};
use super::record::Record;
use super::socket::{OwnDescriptor, Stream};
use super::stream::{Side, Until, prepare};
use crate::error::TCP;
use crate::system::{is_shortage, random};
use crate::{Error, Result};

/// Why an attempt to reach one address failed.
enum Failed {
    /// No process listens there.
    Refused,
    /// A process other than the peer listens there.
    Other,
    /// The connection ended before both sides had proven themselves.
    Ended,
    /// The process that listens there has no capacity for more connections.
    Full,
    Call(io::Error),
}

/// What became of a process whose connection was reset.
pub(crate) enum Redialled {
    /// It lives, and this is another connection to it.
    Lives(Stream),
    /// It does not answer: it may be stopped.
    Silent,
    Gone,
}

/// Connects once more to a process at the address at which it was reached before.
pub(crate) fn redial(own: &Record, peer: &Record, at: IpAddr, patience: Duration) -> Redialled {
    match try_address(own, peer, at, [patience; 2]) {
        Ok(stream) => Redialled::Lives(stream),
        // While a process ends, its port may accept for a moment, and then ends the connection.
        Err(Failed::Refused | Failed::Other | Failed::Ended) => Redialled::Gone,
        Err(Failed::Full | Failed::Call(_)) => Redialled::Silent,
    }
}

/// Connects, and proves to the peer that this process belongs to its job. The peer may take up to `patience` for each
/// answer. Errors name the operation.
pub(crate) fn dial(
    own: &Record,
    peer: &Record,
    patience: Duration,
    operation: &'static str,
) -> Result<Stream> {
    let no_answer = |why: String| Error::NoAnswer {
        operation,
        pid: peer.pid,
        host: peer.host.as_str().into(),
        why: why.into(),
    };
    let all = candidates(own, peer);
    if all.is_empty() {
        return Err(no_answer(
            "its host has no address that this one could reach: TRANSOM_TCP_INTERFACE names the interface to use, on all \
             ranks, and `transom devices` shows the addresses"
                .to_owned(),
        ));
    }
    // TCP sends a lost packet again after a second.
    let limit = (patience / all.len() as u32).max(Duration::from_millis(1500));
    let mut tried = String::new();
    let (mut is_refused, mut is_full) = (true, false);
    for address in all {
        let failed = match try_address(own, peer, address, [limit, patience]) {
            Ok(stream) => return Ok(stream),
            Err(failed) => failed,
        };
        let why = match failed {
            Failed::Refused => "nobody listens there".to_owned(),
            Failed::Other => "another program listens there".to_owned(),
            Failed::Ended => {
                is_refused = false;
                "the connection was ended there; another program may listen".to_owned()
            }
            Failed::Full => {
                is_full = true;
                "the process has no descriptor left for the connection".to_owned()
            }
            Failed::Call(error) if is_shortage(&error) => {
                return Err(Error::os(format!("connecting to {address}"), error));
            }
            Failed::Call(error) => {
                is_refused = false;
                error.to_string()
            }
        };
        let separator = if tried.is_empty() { "" } else { "; " };
        let at = SocketAddr::new(address, peer.port);
        let _ = write!(tried, "{separator}{at}: {why}");
    }
    if is_full {
        // It may have a free descriptor later. It answers, so it is not silent.
        return Err(Error::Unreachable {
            device: TCP,
            pid: peer.pid,
            reason: format!(
                "from {} to {}: {tried} (`ulimit -n` there raises the limit of open files)",
                own.host, peer.host
            ),
        });
    }
    if is_refused && own.namespace == peer.namespace {
        return Err(Error::PeerGone { pid: peer.pid });
    }
    Err(no_answer(format!(
        "from {}: {tried}; a firewall or address translation (NAT) may keep them apart, or TRANSOM_TCP_INTERFACE may have \
         to name another interface",
        own.host
    )))
}

fn try_address(
    own: &Record,
    peer: &Record,
    address: IpAddr,
    [limit, patience]: [Duration; 2],
) -> std::result::Result<Stream, Failed> {
    let at = SocketAddr::new(address, peer.port);
    let stream = TcpStream::connect_timeout(&at, limit).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Failed::Refused,
        _ => Failed::Call(error),
    })?;
    let stream = OwnDescriptor::new(stream);
    let nonce = random().map_err(|error| Failed::Call(io::Error::other(error)))?;
    let first = hello(peer.instance, own.instance, &nonce);
    let mut answer = [0; CHALLENGE];
    let mut ask = || -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        (&*stream).write_all(&first)?;
        Until(&stream, Instant::now() + patience).read_exact(&mut answer)
    };
    ask().map_err(as_of_peer)?;
    if answer == FULL {
        return Err(Failed::Full);
    }
    let key = peer.key.with(own.secret);
    let proof = prove(&key, &first, &answer).ok_or(Failed::Other)?;
    let mut welcome = [0; WELCOME.len()];
    (&*stream)
        .write_all(&proof)
        .and_then(|()| Until(&stream, Instant::now() + patience).read_exact(&mut welcome))
        .map_err(as_of_peer)?;
    if welcome != WELCOME {
        return Err(Failed::Other);
    }
    prepare(&stream, Side::Origin).map_err(Failed::Call)?;
    Ok(stream)
}

fn as_of_peer(error: io::Error) -> Failed {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Failed::Ended,
        io::ErrorKind::WouldBlock => Failed::Call(io::Error::other("no answer in time")),
        _ => Failed::Call(error),
    }
}
