//! A rank other than 0: it tries to connect until rank 0 answers, and then talks only to rank 0.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rdma_sys_shim::proof::Refused;

use super::channel::{Channel, Message, SHORT};
use super::error::RendezvousError;
use super::handshake::{Claim, VERSION, greet};
use super::{GRACE, Member, REMIND_AFTER};
use crate::sys;

/// How long to try one address, and how long to wait for its answer, before trying all addresses again.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Spoke {
    size: u32,
    stream: TcpStream,
    channel: Channel,
    pub(super) limit: Option<Duration>,
    limited_by: &'static str,
}

/// How an attempt to meet rank 0 failed.
enum Failure {
    /// Rank 0 may still come.
    Passing(String),
    Final(RendezvousError),
}

impl From<RendezvousError> for Failure {
    fn from(error: RendezvousError) -> Self {
        Self::Final(error)
    }
}

/// A stream that is read until the deadline.
struct Until<'a> {
    stream: &'a TcpStream,
    deadline: Option<Instant>,
}

impl Read for Until<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.map(left_until);
        if left == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        self.stream.read(room)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn left_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Spoke {
    /// Waits for rank 0, and then for all other ranks.
    pub(super) fn meet(
        member: &Member,
        limit: Option<Duration>,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<Self, RendezvousError> {
        let mut spoke = Self::find(member, limit, is_gone)?;
        match spoke.hear(SHORT, "the arrival of all ranks")? {
            Message::Begin => Ok(spoke),
            other => Err(unexpected(other)),
        }
    }

    pub(super) fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let all = mine.len() * self.size as usize;
        self.say(&Message::Block(mine.to_vec()));
        match self.hear(all.max(SHORT), "what all ranks pass")? {
            Message::Block(bytes) if bytes.len() == all => {
                let blocks = bytes.chunks_exact(mine.len().max(1));
                Ok(blocks.map(<[u8]>::to_vec).collect())
            }
            other => Err(unexpected(other)),
        }
    }

    /// How long to wait for rank 0: a little longer than rank 0 waits, because only rank 0 knows which ranks are
    /// missing.
    fn patience(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_add(GRACE))
    }

    /// Does not fail: [`Spoke::hear`] finds out that rank 0 is gone, after it has read what rank 0 sent before.
    pub(super) fn say(&mut self, message: &Message) {
        let sealed = self.channel.seal(message);
        let said = (self.stream.set_write_timeout(self.patience()))
            .and_then(|()| self.stream.write_all(&sealed));
        if let Err(error) = said {
            tracing::debug!(%error, "rank 0 takes nothing more");
        }
    }

    #[cfg(test)]
    pub(super) fn say_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Waits for the next message. `during` says in errors what the rank waited for.
    pub(super) fn hear(
        &mut self,
        longest: usize,
        during: &'static str,
    ) -> Result<Message, RendezvousError> {
        let limit = self.patience();
        let mut stream = Until {
            stream: &self.stream,
            deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
        };
        let mut piece = [0; 1 << 14];
        loop {
            match self.channel.next(longest) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(_) => return Err(RendezvousError::HostGarbled),
            }
            match stream.read(&mut piece) {
                Ok(0) => return Err(RendezvousError::HostLeft { during }),
                Ok(len) => self.channel.push(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_time_out(&error) => {
                    let limit = limit.unwrap_or_default();
                    return Err(RendezvousError::HostSilent {
                        during,
                        limit,
                        limited_by: self.limited_by,
                    });
                }
                Err(_) => return Err(RendezvousError::HostLeft { during }),
            }
        }
    }

    /// Tries until rank 0 has accepted this rank.
    pub(super) fn find(
        member: &Member,
        limit: Option<Duration>,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<Self, RendezvousError> {
        let begun = Instant::now();
        let deadline = limit.map(|limit| begun + limit);
        let within = |time: Duration| deadline.map_or(time, |end| time.min(left_until(end)));
        let mut pause = FIRST_PAUSE;
        let mut is_reminded = false;
        loop {
            let last = match try_once(member, within) {
                Ok((stream, channel)) => {
                    return Ok(Self {
                        size: member.size,
                        stream,
                        channel,
                        limit,
                        limited_by: member.limited_by,
                    });
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(last)) => last,
            };
            let (rank, address, waited) = (member.rank, &member.address, begun.elapsed());
            if is_gone(0) {
                let during = "before this rank met it";
                return Err(RendezvousError::HostLeft { during });
            }
            if within(pause).is_zero() {
                let address = address.clone();
                return Err(RendezvousError::NoAnswer {
                    address,
                    waited,
                    limited_by: member.limited_by,
                    last,
                });
            }
            if !is_reminded && waited >= REMIND_AFTER {
                is_reminded = true;
                sys::say(&format_args!(
                    "transom: rank {rank} still looks for rank 0 at {address}: {last}"
                ));
            }
            sleep(within(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn unexpected(message: Message) -> RendezvousError {
    match message {
        Message::Fault(fault) => fault.into(),
        _ => RendezvousError::HostGarbled,
    }
}

/// Tries each address once. `within` limits a time to what is left until the deadline.
fn try_once(
    member: &Member,
    within: impl Fn(Duration) -> Duration,
) -> Result<(TcpStream, Channel), Failure> {
    let places = member.address.resolve().map_err(|error| {
        Failure::Passing(format!(
            "the host name in TRANSOM_RENDEZVOUS was not found: {error}"
        ))
    })?;
    let mut last = Failure::Passing("it has no address".to_owned());
    for place in places {
        match meet_at(place, member, &within) {
            Err(obstacle @ Failure::Passing(_)) => last = obstacle,
            done => return done,
        }
    }
    Err(last)
}

fn meet_at(
    place: SocketAddr,
    member: &Member,
    within: impl Fn(Duration) -> Duration,
) -> Result<(TcpStream, Channel), Failure> {
    // The standard library refuses a time-out of zero.
    let limit = within(CONNECT).max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&place, limit)
        .map_err(|error| Failure::Passing(format!("{place}: {error}")))?;
    // If no process listens yet, the kernel may give a connection to this host that same port, and connect it to
    // itself.
    if stream.local_addr().is_ok_and(|own| own == place) {
        return Err(Failure::Passing(format!("{place}: nobody listens")));
    }
    let prepared = stream.set_nodelay(true);
    prepared.map_err(RendezvousError::io(
        "making a connection that does not delay",
    ))?;
    let claim = Claim {
        rank: member.rank,
        size: member.size,
    };
    let nonce = rdma_sys_shim::random()
        .map_err(io::Error::other)
        .map_err(RendezvousError::io("drawing a random number"))?;
    let mut until = Until {
        stream: &stream,
        deadline: Some(Instant::now() + within(ANSWER)),
    };
    match greet(&mut until, claim, &member.secret, &nonce) {
        Ok(channel) => Ok((stream, channel)),
        Err(refused) => Err(refusal(place, refused)),
    }
}

fn refusal(place: SocketAddr, refused: Refused) -> Failure {
    let address = place.to_string();
    Failure::Final(match refused {
        Refused::Io(error) => {
            return Failure::Passing(match error.kind() {
                _ if is_time_out(&error) => format!("what listens at {place} says nothing"),
                ErrorKind::UnexpectedEof => format!("what listens at {place} hangs up"),
                _ => format!("{place}: {error}"),
            });
        }
        Refused::Stranger(begins) => RendezvousError::Stranger {
            address,
            begins: String::from_utf8_lossy(&begins).into_owned(),
        },
        Refused::Version(theirs) => RendezvousError::Version {
            address,
            ours: VERSION,
            theirs,
        },
        Refused::Secret => RendezvousError::WrongSecret { address },
    })
}
