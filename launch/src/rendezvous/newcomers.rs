//! Connections to rank 0 that have not proved yet that they are ranks. Each may send a few bytes, for a short time.
//! Their number is limited: if there are too many, the oldest is closed. A rank whose connection is closed connects
//! again.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use rdma_sys_shim::proof::{Host, HostStep, Secret};

use super::channel::Channel;
use super::error::RendezvousError;
use super::handshake::{Claim, MAGIC, keys};
use super::line::Line;
use crate::sys;

/// How long a connection may take to prove who it is. A rank does nothing else during this time.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// The most newcomers: more than the ranks that connect during one handshake on a slow machine.
pub(super) const MOST: usize = 512;

struct Newcomer {
    stream: TcpStream,
    from: SocketAddr,
    host: Host,
    until: Instant,
}

/// A newcomer that has said who it is.
pub(super) enum Arrival {
    /// It knows the secret, and says that it is this rank.
    Rank(Claim, SocketAddr, Line),
    /// It says that it is this rank, but has another secret.
    OtherSecret(Claim, SocketAddr),
}

/// The state of a newcomer after reading from it.
enum Heard {
    /// More data has to arrive.
    Waiting(Newcomer),
    Gone,
    Arrived(Arrival),
}

impl Newcomer {
    fn hear(mut self, secret: &Secret) -> Heard {
        loop {
            let mut bytes = vec![0; self.host.wants()];
            let len = match self.stream.read(&mut bytes) {
                Ok(0) => return Heard::Gone,
                Ok(len) => len,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => return Heard::Waiting(self),
                    _ => return Heard::Gone,
                },
            };
            match self.host.receive(secret, &bytes[..len]) {
                HostStep::Receive => {}
                HostStep::Send(challenge, _) => {
                    if !self.takes(&challenge) {
                        return Heard::Gone;
                    }
                }
                HostStep::Admit(answer, who, said) => {
                    let [up, down] = keys(secret, &said);
                    let line = Line::new(self.stream, Channel::new(down, up), &answer);
                    return Heard::Arrived(Arrival::Rank(who.into(), self.from, line));
                }
                HostStep::Refuse(answer, refused, who) => {
                    self.takes(&answer);
                    tracing::debug!(from = %self.from, ?refused, "no rank of this job");
                    return match who {
                        Some(who) => Heard::Arrived(Arrival::OtherSecret(who.into(), self.from)),
                        None => Heard::Gone,
                    };
                }
            }
        }
    }

    /// Sends bytes for which any new socket has room. Returns whether that succeeded.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        matches!(self.stream.write(bytes), Ok(len) if len == bytes.len())
    }
}

pub(super) struct Newcomers {
    /// The listeners are non-blocking.
    listeners: Vec<TcpListener>,
    secret: Secret,
    /// The most newcomers.
    most: usize,
    all: VecDeque<Newcomer>,
}

impl Newcomers {
    pub(super) fn new(
        listeners: Vec<TcpListener>,
        secret: Secret,
        most: usize,
    ) -> Result<Self, RendezvousError> {
        for listener in &listeners {
            let ready = listener.set_nonblocking(true);
            ready.map_err(RendezvousError::io("making a listener that does not wait"))?;
        }
        Ok(Self {
            listeners,
            secret,
            most,
            all: VecDeque::new(),
        })
    }

    /// Closes the listeners and all newcomers.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.all.clear();
    }

    /// The deadline of the oldest newcomer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.all.front().map(|first| first.until)
    }

    /// What to watch the sockets for.
    pub(super) fn interests(&self) -> impl Iterator<Item = libc::pollfd> {
        let listeners = self.listeners.iter().map(TcpListener::as_raw_fd);
        let sockets = self.all.iter().map(|one| one.stream.as_raw_fd());
        listeners
            .chain(sockets)
            .map(|fd| sys::interest(fd, libc::POLLIN))
    }

    /// Accepts connections, a few at a time, and reads from each newcomer. Closes newcomers whose time is over.
    pub(super) fn hear(&mut self) -> Result<Vec<Arrival>, RendezvousError> {
        for number in 0..self.listeners.len() {
            for _ in 0..64 {
                let accepted = self.listeners[number].accept();
                match accepted {
                    Ok((stream, from)) => self.admit(stream, from)?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if is_out_of_files(&error) => {
                        if self.all.pop_front().is_none() {
                            let what = "accepting the connections of all ranks, each of which \
                                        takes a descriptor of rank 0 (raise `ulimit -n`)";
                            return Err(RendezvousError::io(what)(error));
                        }
                    }
                    // For example, the connection is already closed.
                    Err(_) => {}
                }
            }
        }
        let now = Instant::now();
        let mut arrivals = Vec::new();
        for one in std::mem::take(&mut self.all) {
            match one.hear(&self.secret) {
                Heard::Waiting(one) if one.until > now => self.all.push_back(one),
                Heard::Waiting(one) => {
                    tracing::debug!(from = %one.from, "said too little for too long");
                }
                Heard::Gone => {}
                Heard::Arrived(arrival) => arrivals.push(arrival),
            }
        }
        Ok(arrivals)
    }

    fn admit(&mut self, stream: TcpStream, from: SocketAddr) -> Result<(), RendezvousError> {
        if self.all.len() >= self.most {
            self.all.pop_front();
        }
        let ready = stream.set_nonblocking(true).and(stream.set_nodelay(true));
        ready.map_err(RendezvousError::io(
            "making a connection that does not wait",
        ))?;
        let nonce = rdma_sys_shim::random().map_err(io::Error::other);
        let nonce = nonce.map_err(RendezvousError::io("drawing a random number"))?;
        self.all.push_back(Newcomer {
            stream,
            from,
            host: Host::new(&MAGIC, &nonce),
            until: Instant::now() + HANDSHAKE,
        });
        Ok(())
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening() -> (Newcomers, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        (
            Newcomers::new(vec![listener], Secret::new(""), 2).unwrap(),
            place,
        )
    }

    /// Connects a newcomer that sends nothing. Once it has closed, a read from it ends.
    fn silent(place: SocketAddr, newcomers: &mut Newcomers) -> TcpStream {
        let stream = TcpStream::connect(place).unwrap();
        assert!(newcomers.hear().unwrap().is_empty());
        stream
    }

    #[test]
    fn the_oldest_goes_for_one_more() {
        let (mut newcomers, place) = listening();
        let [mut first, second, third] = [0; 3].map(|_| silent(place, &mut newcomers));
        assert_eq!(newcomers.all.len(), 2);
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        for mut kept in [second, third] {
            kept.set_nonblocking(true).unwrap();
            let read = kept.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(read, Err(ErrorKind::WouldBlock));
        }
    }

    #[test]
    fn those_whose_time_is_over_go() {
        let (mut newcomers, place) = listening();
        let mut late = silent(place, &mut newcomers);
        let until = newcomers.deadline().unwrap();
        assert!(until > Instant::now());
        newcomers.all[0].until = Instant::now();
        assert!(newcomers.hear().unwrap().is_empty());
        assert_eq!(newcomers.deadline(), None);
        assert_eq!(late.read(&mut [0]).unwrap(), 0);
    }
}
