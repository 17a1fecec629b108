//! Connections of which rank 0 does not know yet whether they are ranks. Each may send a few bytes, for a
//! short time; and they are so many at most, of which the oldest goes when one more comes. A rank that
//! has to go for strangers comes again.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use super::error::RendezvousError;
use super::handshake::{Claim, Host, HostStep, Refused};
use super::line::Line;
use super::secret::Secret;
use crate::sys;

/// From the connection to the proof: a rank does nothing else meanwhile.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// More than ranks of one job that come within the time of a handshake, on a machine that is slow.
pub(super) const MOST: usize = 512;

struct Newcomer {
    stream: TcpStream,
    from: SocketAddr,
    host: Host,
    until: Instant,
}

/// What became of one.
pub(super) enum Arrival {
    /// It knows the secret, and says that it is this rank.
    Rank(Claim, SocketAddr, Line),
    /// It says that it is this rank, and has another secret.
    OtherSecret(Claim, SocketAddr),
}

enum Heard {
    /// More has to come.
    Waiting(Newcomer),
    Gone,
    Arrived(Arrival),
}

impl Newcomer {
    fn hear(mut self) -> Heard {
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
            match self.host.receive(&bytes[..len]) {
                HostStep::Receive => {}
                HostStep::Send(challenge) => {
                    if !self.takes(&challenge) {
                        return Heard::Gone;
                    }
                }
                HostStep::Admit(answer, claim, channel) => {
                    let mut line = Line::new(self.stream, channel);
                    line.queue_raw(&answer);
                    return Heard::Arrived(Arrival::Rank(claim, self.from, line));
                }
                HostStep::Refuse(answer, refused) => {
                    self.takes(&answer);
                    if let Refused::Secret(Some(claim)) = refused {
                        return Heard::Arrived(Arrival::OtherSecret(claim, self.from));
                    }
                    tracing::debug!(from = %self.from, ?refused, "no rank of this job");
                    return Heard::Gone;
                }
            }
        }
    }

    /// Says something that any socket has room for.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        matches!(self.stream.write(bytes), Ok(len) if len == bytes.len())
    }
}

pub(super) struct Newcomers {
    secret: Secret,
    /// How many there may be.
    most: usize,
    all: VecDeque<Newcomer>,
}

impl Newcomers {
    pub(super) fn new(secret: Secret, most: usize) -> Self {
        Self {
            secret,
            most,
            all: VecDeque::new(),
        }
    }

    /// When one of them has had its time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.all.front().map(|first| first.until)
    }

    /// What to watch the sockets for.
    pub(super) fn interests(&self) -> impl Iterator<Item = libc::pollfd> {
        let of = |one: &Newcomer| sys::interest(one.stream.as_raw_fd(), libc::POLLIN);
        self.all.iter().map(of)
    }

    /// Takes whoever waits at a listener that does not wait, a few at a time.
    pub(super) fn accept(&mut self, listener: &TcpListener) -> Result<(), RendezvousError> {
        for _ in 0..64 {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    _ if is_out_of_files(&error) => {
                        if self.all.pop_front().is_none() {
                            let what = "accepting the connections of all ranks, each of which \
                                        takes a descriptor of rank 0 (raise `ulimit -n`)";
                            return Err(RendezvousError::io(what)(error));
                        }
                        continue;
                    }
                    // Of a connection that is over already, among others.
                    _ => continue,
                },
            };
            if self.all.len() >= self.most {
                self.all.pop_front();
            }
            let ready = stream.set_nonblocking(true).and(stream.set_nodelay(true));
            ready.map_err(RendezvousError::io(
                "making a connection that does not wait",
            ))?;
            let nonce = sys::random();
            let nonce = nonce.map_err(RendezvousError::io("drawing a random number"))?;
            self.all.push_back(Newcomer {
                stream,
                from,
                host: Host::new(self.secret.clone(), nonce),
                until: Instant::now() + HANDSHAKE,
            });
        }
        Ok(())
    }

    /// Hears what is there of each. Those whose time is over go.
    pub(super) fn hear(&mut self) -> Vec<Arrival> {
        let now = Instant::now();
        let mut arrivals = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.all.len());
        for one in self.all.drain(..) {
            match one.hear() {
                Heard::Waiting(one) if one.until > now => waiting.push_back(one),
                Heard::Waiting(one) => {
                    tracing::debug!(from = %one.from, "said too little for too long");
                }
                Heard::Gone => {}
                Heard::Arrived(arrival) => arrivals.push(arrival),
            }
        }
        self.all = waiting;
        arrivals
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

    /// Silent ones, each of which ends a read once it has gone.
    fn silent(listener: &TcpListener, newcomers: &mut Newcomers) -> TcpStream {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        newcomers.accept(listener).unwrap();
        assert!(newcomers.hear().is_empty());
        stream
    }

    #[test]
    fn the_oldest_goes_for_one_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut newcomers = Newcomers::new(Secret::none(), 2);
        let [mut first, second, third] = [0; 3].map(|_| silent(&listener, &mut newcomers));
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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut newcomers = Newcomers::new(Secret::none(), 2);
        let mut late = silent(&listener, &mut newcomers);
        let until = newcomers.deadline().unwrap();
        assert!(until > Instant::now());
        newcomers.all[0].until = Instant::now();
        assert!(newcomers.hear().is_empty());
        assert_eq!(newcomers.deadline(), None);
        assert_eq!(late.read(&mut [0]).unwrap(), 0);
    }
}
