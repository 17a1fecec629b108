//! A rank other than 0: it looks for rank 0 until that is there, and then speaks with it alone.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::channel::{Message, SHORT};
use super::error::RendezvousError;
use super::handshake::{Claim, Guest, GuestStep, Refused, VERSION};
use super::line::{Line, Silence};
use super::{GRACE, Member, REMIND_AFTER};
use crate::sys;

/// For how long one address is tried, and one that answers is listened to, before all are tried again.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Spoke {
    size: u32,
    line: Line,
    limit: Option<Duration>,
}

/// How a try ended that is worth another.
enum Obstacle {
    Name(io::Error),
    Other(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

enum Failure {
    /// Rank 0 may come yet.
    Passing(Obstacle),
    Final(RendezvousError),
}

impl From<RendezvousError> for Failure {
    fn from(error: RendezvousError) -> Self {
        Self::Final(error)
    }
}

fn passing(text: String) -> Failure {
    Failure::Passing(Obstacle::Other(text))
}

impl Spoke {
    /// Waits for rank 0, and then for all others.
    pub(super) fn meet(member: &Member, limit: Option<Duration>) -> Result<Self, RendezvousError> {
        let mut line = find(member, limit)?;
        let answer = Instant::now() + ANSWER;
        let left = match listen(&mut line, SHORT, Some(answer), "its welcome", ANSWER)? {
            Message::Welcome(left) => left,
            other => return Err(unexpected(other)),
        };
        // Rank 0 says who is missing, for which it is waited for a little longer.
        let wait = left.map(|left| left.saturating_add(GRACE));
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let during = "the arrival of all ranks";
        match listen(&mut line, SHORT, deadline, during, wait.unwrap_or_default())? {
            Message::Begin => {}
            other => return Err(unexpected(other)),
        }
        Ok(Self {
            size: member.size,
            line,
            limit,
        })
    }

    pub(super) fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let all = mine.len() * self.size as usize;
        self.line.queue(&Message::Block(mine.to_vec()));
        let wait = self.limit.map(|limit| limit.saturating_add(GRACE));
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let during = "what all ranks pass";
        let wait = wait.unwrap_or_default();
        match listen(&mut self.line, all.max(SHORT), deadline, during, wait)? {
            Message::Block(bytes) if bytes.len() == all => {
                let blocks = bytes.chunks_exact(mine.len().max(1));
                Ok(blocks.map(<[u8]>::to_vec).collect())
            }
            other => Err(unexpected(other)),
        }
    }
}

fn unexpected(message: Message) -> RendezvousError {
    match message {
        Message::Fault(fault) => fault.into(),
        _ => RendezvousError::HostGarbled,
    }
}

fn listen(
    line: &mut Line,
    longest: usize,
    deadline: Option<Instant>,
    during: &'static str,
    limit: Duration,
) -> Result<Message, RendezvousError> {
    let heard = line.wait(longest, deadline);
    let heard = heard.map_err(RendezvousError::io("waiting for rank 0"))?;
    heard.map_err(|silence| match silence {
        Silence::Ended => RendezvousError::HostLeft { during },
        Silence::Broken => RendezvousError::HostGarbled,
        Silence::Late => RendezvousError::HostSilent { during, limit },
    })
}

/// Tries until rank 0 is there.
pub(super) fn find(member: &Member, limit: Option<Duration>) -> Result<Line, RendezvousError> {
    let begun = Instant::now();
    let deadline = limit.map(|limit| begun + limit);
    let mut pause = FIRST_PAUSE;
    let mut is_reminded = false;
    loop {
        let obstacle = match try_once(member, deadline) {
            Ok(line) => return Ok(line),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing(obstacle)) => obstacle,
        };
        let (rank, address, waited) = (member.rank, &member.address, begun.elapsed());
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let address = address.clone();
            return Err(match obstacle {
                Obstacle::Name(reason) => RendezvousError::NameNotFound {
                    address,
                    reason: reason.to_string(),
                    waited,
                },
                Obstacle::Other(last) => RendezvousError::NoAnswer {
                    address,
                    waited,
                    last,
                },
            });
        }
        if !is_reminded && waited >= REMIND_AFTER {
            is_reminded = true;
            sys::say(&format_args!(
                "transom: rank {rank} still looks for rank 0 at {address}: {obstacle}"
            ));
        }
        sleep(left(pause, deadline));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whoever answers of the addresses.
fn try_once(member: &Member, deadline: Option<Instant>) -> Result<Line, Failure> {
    let places =
        (member.address.resolve()).map_err(|error| Failure::Passing(Obstacle::Name(error)))?;
    let mut last = passing("it has no address".to_owned());
    for place in places {
        match meet_at(place, member, deadline) {
            Err(obstacle @ Failure::Passing(_)) => last = obstacle,
            done => return done,
        }
    }
    Err(last)
}

fn left(limit: Duration, deadline: Option<Instant>) -> Duration {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    // Of nothing, the standard library makes an error.
    left.unwrap_or(limit).clamp(Duration::from_millis(1), limit)
}

fn meet_at(place: SocketAddr, member: &Member, deadline: Option<Instant>) -> Result<Line, Failure> {
    let mut stream = TcpStream::connect_timeout(&place, left(CONNECT, deadline))
        .map_err(|error| passing(format!("{place}: {error}")))?;
    // Where nobody listens yet, a connection to one's own host may be drawn the very port as its own.
    if stream.local_addr().is_ok_and(|own| own == place) {
        return Err(passing(format!("{place}: nobody listens")));
    }
    let until = Instant::now() + left(ANSWER, deadline);
    let prepared = stream.set_nodelay(true);
    prepared.map_err(RendezvousError::io(
        "making a connection that does not delay",
    ))?;
    let lost = |error: io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            passing(format!("what listens at {place} says nothing"))
        }
        _ => passing(format!("{place}: {error}")),
    };
    let claim = Claim {
        rank: member.rank,
        size: member.size,
    };
    let nonce = sys::random().map_err(RendezvousError::io("drawing a random number"))?;
    let (mut guest, hello) = Guest::new(claim, member.secret.clone(), &nonce);
    stream.write_all(&hello).map_err(lost)?;
    loop {
        let mut bytes = vec![0; guest.wants()];
        let limit = left(ANSWER, Some(until));
        stream.set_read_timeout(Some(limit)).map_err(lost)?;
        let len = match stream.read(&mut bytes) {
            Ok(0) => return Err(passing(format!("what listens at {place} hangs up"))),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(lost(error)),
        };
        let step = guest.receive(&bytes[..len]);
        match step.map_err(|refused| refusal(place, refused))? {
            GuestStep::Receive if Instant::now() >= until => {
                return Err(lost(ErrorKind::TimedOut.into()));
            }
            GuestStep::Receive => {}
            GuestStep::Send(proof) => stream.write_all(&proof).map_err(lost)?,
            GuestStep::Done(channel) => {
                let ready = stream.set_nonblocking(true);
                ready.map_err(RendezvousError::io(
                    "making a connection that does not wait",
                ))?;
                return Ok(Line::new(stream, channel));
            }
        }
    }
}

fn refusal(place: SocketAddr, refused: Refused) -> RendezvousError {
    let address = place.to_string();
    match refused {
        Refused::Stranger(begins) => RendezvousError::Stranger {
            address,
            begins: String::from_utf8_lossy(&begins).into_owned(),
        },
        Refused::Version(theirs) => RendezvousError::Version {
            address,
            ours: VERSION,
            theirs,
        },
        Refused::Secret(_) => RendezvousError::WrongSecret { address },
    }
}
