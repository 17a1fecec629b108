//! Connecting to a target: at which of its addresses it answers, and whether it is the right process.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::agent::FULL;
use super::record::{MAGIC, Record};
use super::socket::{OwnDescriptor, Stream};
use super::stream::{SILENCE, Side, Until, await_answer, prepare};
use crate::device::cancellation::Cancellation;
use crate::error::TCP;
use crate::proof::{Guest, Refused};
use crate::system::{is_shortage, random};
use crate::{Error, LIVENESS_INTERVAL, Result};

/// How long an address that ends connections is tried again. A process that ends may accept for a moment more, and
/// then refuses.
const ENDING: Duration = Duration::from_millis(500);
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Why an attempt to reach one address failed.
enum Failed {
    /// No process listens there.
    Refused,
    /// A process other than the peer listens there.
    Other,
    /// A process with another version of the protocol listens there.
    Version,
    /// The connection ended before both sides had proven themselves.
    Ended,
    /// The process that listens there has no capacity for more connections.
    Full,
    /// The kernel there has accepted the connection, but no process has answered in time.
    Silent(Greeted),
    Call(io::Error),
}

/// A connection on which this process has said whom it means.
struct Greeted {
    at: SocketAddr,
    stream: Stream,
    guest: Guest,
}

/// What the dials of a process have in common.
#[derive(Default)]
pub(crate) struct Dialling {
    /// At which address a process of a host was last reached.
    reached: Mutex<HashMap<String, IpAddr>>,
    /// When not to wait for stopped processes any more.
    pub(crate) cancellation: Cancellation,
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
        Err(Failed::Refused | Failed::Other | Failed::Version | Failed::Ended) => Redialled::Gone,
        Err(Failed::Full | Failed::Silent(_) | Failed::Call(_)) => Redialled::Silent,
    }
}

/// Connects, and proves to the peer that this process belongs to its job. If no address answers within `patience`, but
/// the peer's kernel has accepted a connection, the peer may be stopped: then it is awaited as `dialling` says, or not,
/// if that is `None`. Errors name the operation.
pub(crate) fn dial(
    own: &Record,
    peer: &Record,
    patience: Duration,
    operation: &'static str,
    dialling: Option<&Dialling>,
) -> Result<Stream> {
    let no_answer = |why: String| Error::NoAnswer {
        operation,
        pid: peer.pid,
        host: peer.host.as_str().into(),
        why: why.into(),
    };
    let mut all = own.place.ways_to(&peer.place);
    if all.is_empty() {
        return Err(no_answer(
            "its host has no address that this one could reach: TRANSOM_TCP_INTERFACE names the interface to use, on all \
             ranks, and `transom devices` shows the addresses"
                .to_owned(),
        ));
    }
    let before = dialling.and_then(|dialling| dialling.reached(peer));
    all.sort_by_key(|&address| Some(address) != before);
    // TCP sends a lost packet again after a second.
    let limit = (patience / all.len() as u32).max(Duration::from_millis(1500));
    let mut tried = String::new();
    let (mut is_refused, mut is_full, mut silent) = (true, false, Vec::new());
    for address in all {
        let begun = Instant::now();
        let failed = match try_address(own, peer, address, [limit, patience]) {
            Ok(stream) => {
                if let Some(dialling) = dialling {
                    dialling.has_reached(peer, address, &tried);
                }
                return Ok(stream);
            }
            Err(failed) => failed,
        };
        let why = match failed {
            Failed::Refused => "nobody listens there".to_owned(),
            Failed::Other => "another program listens there".to_owned(),
            Failed::Version => "another version of Transom listens there".to_owned(),
            Failed::Ended => {
                is_refused = false;
                "the connection was ended there: another program may listen, or the process had no descriptor left".to_owned()
            }
            Failed::Full => {
                is_full = true;
                "the process has no descriptor left for the connection".to_owned()
            }
            Failed::Silent(greeted) => {
                is_refused = false;
                silent.push(greeted);
                format!(
                    "its kernel accepts connections, but no process has answered for {:.0?}",
                    begun.elapsed()
                )
            }
            Failed::Call(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(Error::os(format!("connecting to {address}"), error).with_remedy(
                    "this host has no free port for one more connection there; net.ipv4.ip_local_port_range sets the range",
                ));
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
    if let Some(dialling) = dialling.filter(|_| !silent.is_empty()) {
        let answered = dialling.wait_for_one(own, peer, silent)?;
        return answered.ok_or(Error::PeerGone { pid: peer.pid });
    } else if !silent.is_empty() {
        return Err(no_answer(format!("from {}: {tried}", own.host)));
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
    if is_refused && own.place.namespace == peer.place.namespace {
        return Err(Error::PeerGone { pid: peer.pid });
    }
    Err(no_answer(format!(
        "from {}: {tried}; a firewall or address translation (NAT) may keep them apart, or TRANSOM_TCP_INTERFACE may have \
         to name another interface",
        own.host
    )))
}

impl Dialling {
    fn all_reached(&self) -> MutexGuard<'_, HashMap<String, IpAddr>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At which address a process of the peer's host was last reached.
    fn reached(&self, peer: &Record) -> Option<IpAddr> {
        self.all_reached().get(&peer.host).copied()
    }

    /// Later dials to this host begin with this address. `tried`: those that did not lead there.
    fn has_reached(&self, peer: &Record, address: IpAddr, tried: &str) {
        let before = self.all_reached().insert(peer.host.clone(), address);
        if !tried.is_empty() && before != Some(address) {
            tracing::warn!(
                "{} is reached at {address}, and not at other addresses ({tried}); TRANSOM_TCP_INTERFACE can name the interface",
                peer.host
            );
        }
    }

    /// Waits until the peer answers on one of these connections. `None` if it has answered on none, and all have ended.
    fn wait_for_one(
        &self,
        own: &Record,
        peer: &Record,
        mut silent: Vec<Greeted>,
    ) -> Result<Option<Stream>> {
        const FIRST: Duration = Duration::from_secs(10);
        let (begun, mut next) = (Instant::now(), FIRST);
        while !silent.is_empty() {
            if self.cancellation.is_due() {
                return Err(Error::Cancelled { pid: peer.pid });
            }
            if begun.elapsed() >= next {
                tracing::warn!(
                    "has waited {} s for process {} on {} to accept a connection: it is stopped, or another program listens at {}",
                    next.as_secs(),
                    peer.pid,
                    peer.host,
                    silent[0].at
                );
                next *= 2;
            }
            let mut polled: Vec<_> = (silent.iter())
                .map(|greeted| PollFd::new(&*greeted.stream, PollFlags::IN))
                .collect();
            let moment = Timespec {
                tv_sec: 0,
                tv_nsec: LIVENESS_INTERVAL.as_nanos() as i64,
            };
            // An error ends the wait, as an event does.
            let _ = poll(&mut polled, Some(&moment));
            let answered = polled.iter().position(|fd| !fd.revents().is_empty());
            if let Some(greeted) = answered.map(|place| silent.swap_remove(place))
                && let Ok(stream) = greeted.prove(own, peer, SILENCE)
            {
                return Ok(Some(stream));
            }
        }
        Ok(None)
    }
}

/// Tries it until it no longer ends connections, for a while.
fn try_address(
    own: &Record,
    peer: &Record,
    address: IpAddr,
    limits: [Duration; 2],
) -> std::result::Result<Stream, Failed> {
    let begun = Instant::now();
    loop {
        match try_once(own, peer, address, limits) {
            Err(Failed::Ended) if begun.elapsed() < ENDING => std::thread::sleep(BETWEEN_TRIES),
            result => return result,
        }
    }
}

fn try_once(
    own: &Record,
    peer: &Record,
    address: IpAddr,
    [limit, patience]: [Duration; 2],
) -> std::result::Result<Stream, Failed> {
    let at = SocketAddr::new(address, peer.port);
    let stream = TcpStream::connect_timeout(&at, limit).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Failed::Refused,
        _ => as_of_peer(error),
    })?;
    let stream = OwnDescriptor::new(stream);
    let nonce = random().map_err(|error| Failed::Call(io::Error::other(error)))?;
    let guest = Guest::new(&MAGIC, [peer.instance, own.instance], &nonce);
    let greeted = Greeted { at, stream, guest };
    greeted.greet(patience).map_err(as_of_peer)?;
    match greeted.has_answer(patience) {
        Ok(false) => Err(Failed::Silent(greeted)),
        Ok(true) => greeted.prove(own, peer, patience),
        Err(error) => Err(as_of_peer(error)),
    }
}

impl Greeted {
    fn greet(&self, patience: Duration) -> io::Result<()> {
        // Its probes tell whether the host is there, however long the process does not answer.
        prepare(&self.stream, Side::Origin)?;
        await_answer(&self.stream);
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(patience))?;
        (&*self.stream).write_all(self.guest.hello())
    }

    /// Whether the peer has answered, or has ended the connection, within `patience`.
    fn has_answer(&self, patience: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(patience))?;
        loop {
            return match self.stream.peek(&mut [0]) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error),
            };
        }
    }

    /// The rest of the handshake, once the peer answers.
    fn prove(
        self,
        own: &Record,
        peer: &Record,
        patience: Duration,
    ) -> std::result::Result<Stream, Failed> {
        let stream = self.stream;
        let mut until = Until(&stream, Instant::now() + patience);
        let proven = self.guest.prove(&peer.proven(own.secret), &mut until);
        proven.map_err(|refused| match refused {
            Refused::Io(error) => as_of_peer(error),
            Refused::Stranger(begins) if FULL.starts_with(&begins) => Failed::Full,
            Refused::Version(_) => Failed::Version,
            Refused::Stranger(_) | Refused::Secret => Failed::Other,
        })?;
        prepare(&stream, Side::Origin).map_err(Failed::Call)?;
        Ok(stream)
    }
}

fn as_of_peer(error: io::Error) -> Failed {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Failed::Ended,
        io::ErrorKind::WouldBlock => Failed::Call(io::Error::other("no answer in time")),
        _ => Failed::Call(error),
    }
}
