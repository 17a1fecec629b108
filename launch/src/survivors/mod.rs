//! How the ranks that live find each other again after a death.
//!
//! Each rank has a socket for datagrams from the job's start on, whose address the others know. Nobody reads from it
//! before this rank calls [`SurvivorSocket::agree`]. From then on a thread, `transom-survivors`, answers the others
//! until this value is dropped: a rank that has returned still answers those that have not heard of the decision. All
//! ranks know a key, by which they authenticate datagrams (`wire`).
//!
//! `agreement` decides who goes on. It can be made again among those who went on, so rounds are numbered. Then the group
//! meets by the rendezvous ([`SurvivorSocket::meet`]): its first rank listens, and tells the port to those that ask.
//! If a rank dies meanwhile, some ranks of the group may have met and others not. Both take part in the next round of
//! that group.

mod agreement;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rdma_sys_shim::proof::Secret;
use rdma_sys_shim::{JobSecret, NetworkPlace, random, without_signals};

use crate::bootstrap::Ranks as Shown;
use crate::environment::{EnvironmentError, SURVIVORS_TIMEOUT, survivors_limit};
use crate::rendezvous::{Member, Rendezvous, RendezvousError};
use agreement::{Agreement, Outcome, Ranks};
use wire::{Datagram, Said};

/// How long the thread takes to find that it is not needed any more.
const LOOK: Duration = Duration::from_secs(1);
/// How often a waiting rank looks who has died.
const TURN: Duration = Duration::from_millis(20);
/// How long an address is used alone after a datagram has come from it. Other ways may work if it does not any more.
const FRESH: Duration = Duration::from_millis(300);
/// How long ranks look for news before they try to connect to those that have not answered.
const BEFORE_CONNECTING: Duration = Duration::from_millis(500);
/// How long the ranks that have met wait for each other at least, while each of them starts.
const STARTING: Duration = Duration::from_secs(60);
/// The time between two questions where to meet.
const ASK: Duration = Duration::from_millis(20);

const NONCE: usize = 16;

/// What this process knows of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is known against it.
    Lives,
    /// It does not answer, or the connection to it is broken.
    Silent,
    /// Its process has ended, as far as this one can see. Of another host, this may be the work of a firewall.
    Ended,
    /// It has said that it leaves the job.
    Left,
}

/// This rank's socket for datagrams of the others.
pub struct SurvivorSocket(Arc<Shared>);

struct Shared {
    /// This rank, when the job started. So are all ranks here, except within an agreement, which numbers its members.
    me: u32,
    place: NetworkPlace,
    socket: UdpSocket,
    nonce: [u8; NONCE],
    others: OnceLock<Others>,
    state: Mutex<State>,
    /// Something has arrived.
    news: Condvar,
    begun: Instant,
    is_over: AtomicBool,
}

/// What all ranks were told when the job started.
struct Others {
    key: Secret,
    /// Of each rank, behind its length. Searched from the front, since there may be many and they are seldom needed.
    addresses: Vec<u8>,
}

#[derive(Default)]
struct State {
    is_served: bool,
    rounds: BTreeMap<u32, Round>,
    /// From where the last datagram of a rank has come, and when.
    reached: Reached,
}

type Reached = BTreeMap<u32, (SocketAddr, Duration)>;

struct Round {
    /// In ascending order.
    members: Vec<u32>,
    agreement: Agreement,
    /// Of the group's first rank: the port at which it waits for the others; 0 after the meeting has failed.
    port: Option<u16>,
    /// Of the others: what the first rank has told them.
    meeting: Option<SocketAddr>,
}

impl SurvivorSocket {
    /// Local. For rank `me` of a job that is about to start. `is_local`: all ranks run in this network namespace.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn open(me: u32, is_local: bool) -> rdma_sys_shim::Result<Self> {
        let place = match is_local {
            true => NetworkPlace::local()?,
            false => NetworkPlace::here(crate::start::toward_rendezvous())?,
        };
        Ok(Self(Arc::new(Shared {
            me,
            socket: place.datagrams()?,
            place,
            nonce: random()?,
            others: OnceLock::new(),
            state: Mutex::default(),
            news: Condvar::new(),
            begun: Instant::now(),
            is_over: AtomicBool::new(false),
        })))
    }

    /// Local. What other ranks have to know; of rank 0, a random number, too, from which the key is made.
    #[must_use]
    pub fn address(&self) -> Vec<u8> {
        let port = self.0.socket.local_addr().map_or(0, |own| own.port());
        let mut bytes = port.to_le_bytes().to_vec();
        bytes.extend(self.0.place.encode());
        if self.0.me == 0 {
            bytes.extend(self.0.nonce);
        }
        bytes
    }

    /// Local. The addresses of all ranks, in their order; empty for a rank without one. Only the first call has an
    /// effect. Without an address of rank 0, no rank can go on.
    pub fn introduce(&self, addresses: &[&[u8]], secret: JobSecret) {
        let Some(first) = addresses.first().filter(|first| !first.is_empty()) else {
            return;
        };
        let key = Secret::new(secret.0).tag("survivors", &[first]);
        let mut others = Others {
            key: Secret::new(key),
            addresses: Vec::new(),
        };
        for address in addresses {
            others.addresses.push(address.len() as u8);
            others.addresses.extend_from_slice(address);
        }
        others.addresses.shrink_to_fit();
        let _ = self.0.others.set(others);
    }

    /// Collective over those of `members` that live: in ascending order, the ranks that took part in the round before
    /// and went on, or all ranks. Returns those who go on now. All who return the group return the same one. `fate`
    /// says what is known of a member; it is asked often, and by `true` if it may take its time.
    ///
    /// # Errors
    /// The others go on without this rank; or too few ranks have answered within twice `patience`.
    pub fn agree(
        &self,
        round: u32,
        members: &[u32],
        patience: Duration,
        fate: impl Fn(u32, bool) -> Fate,
    ) -> Result<Vec<u32>, SurvivorsError> {
        let shared = &*self.0;
        if shared.others.get().is_none() {
            return Err(SurvivorsError::Unknown);
        }
        self.serve()?;
        let size = members.len() as u32;
        let own = number(members, shared.me).ok_or(SurvivorsError::NoMember)?;
        (shared.state().rounds)
            .entry(round)
            .or_insert_with(|| Round {
                members: members.to_vec(),
                agreement: Agreement::new(own, size, shared.now(), patience),
                port: None,
                meeting: None,
            });
        let begun = Instant::now();
        let mut fates = vec![Fate::Lives; members.len()];
        let mut next = None;
        loop {
            // A rank that has not answered for a while may be one to which this one has no connection. Connecting may
            // take seconds, so it is tried with one rank a turn.
            if begun.elapsed() > BEFORE_CONNECTING {
                let mut silent = shared.in_round(round, |round| round.agreement.unanswered());
                silent.retain(|&rank| fates[rank as usize] == Fate::Lives);
                let later = silent.iter().find(|&&rank| Some(rank) > next);
                next = later.or_else(|| silent.first()).copied();
            }
            for (number, known) in (0..).zip(&mut fates) {
                if number != own && !matches!(known, Fate::Ended | Fate::Left) {
                    let rank = members[number as usize];
                    *known = match fate(rank, next == Some(number)) {
                        Fate::Ended if !shared.is_near(rank) => Fate::Silent,
                        found => found,
                    };
                }
            }
            let now = shared.now();
            let mut state = shared.state();
            let State {
                rounds, reached, ..
            } = &mut *state;
            let Some(current) = rounds.get_mut(&round) else {
                return Err(SurvivorsError::NoMember);
            };
            for (number, known) in (0..).zip(&fates) {
                if *known != Fate::Lives {
                    let is_dead = matches!(known, Fate::Ended | Fate::Left);
                    current.agreement.suspect(number, is_dead, now);
                }
            }
            current.agreement.tick(now);
            shared.post(round, current, reached);
            let of = |ranks: &Ranks| -> Vec<u32> {
                ranks.iter().map(|&rank| members[rank as usize]).collect()
            };
            match current.agreement.outcome() {
                Some(Outcome::Group(group)) => return Ok(of(group)),
                Some(Outcome::Excluded(group)) => {
                    return Err(SurvivorsError::Excluded { group: of(group) });
                }
                Some(Outcome::Missing(missing)) => {
                    let missing = of(missing);
                    return Err(SurvivorsError::Missing {
                        apart: shared.apart(&missing),
                        missing,
                        waited: begun.elapsed(),
                    });
                }
                None => {}
            }
            let due = current.agreement.due().unwrap_or_default();
            let pause = due.saturating_sub(now).min(TURN);
            drop(shared.news.wait_timeout(state, pause));
        }
    }

    /// Collective over `group`, which was the result of the round. Returns when all of it have come. `fate`: as for
    /// [`Self::agree`].
    ///
    /// # Errors
    /// A rank of the group has ended, or did not come within `limit`.
    pub fn meet(
        &self,
        round: u32,
        group: &[u32],
        limit: Duration,
        fate: impl Fn(u32, bool) -> Fate,
    ) -> Result<Rendezvous, RendezvousError> {
        let shared = &*self.0;
        let (Some(rank), Some(key)) = (number(group, shared.me), shared.key()) else {
            return Err(RendezvousError::HostLeft {
                during: "a meeting of others",
            });
        };
        let numbers: Vec<u8> = group.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        let member = |address: SocketAddr| Member {
            rank,
            size: group.len() as u32,
            address: address.into(),
            secret: Secret::new(key.tag("meeting", &[&round.to_le_bytes(), &numbers])),
            limited_by: SURVIVORS_TIMEOUT,
        };
        let begun = Instant::now();
        // The first rank looks for all, and the others for it, as far as they are not connected.
        let is_gone = |number: u32| {
            let thoroughly = (rank == 0 || number == 0) && begun.elapsed() > BEFORE_CONNECTING;
            number != rank && fate(group[number as usize], thoroughly) != Fate::Lives
        };
        if rank == 0 {
            let listener = (shared.place.listener()).map_err(|error| RendezvousError::Io {
                what: "listening for the ranks that go on".to_owned(),
                source: std::io::Error::other(error),
            })?;
            let address = (listener.local_addr())
                .map_err(RendezvousError::io("asking for the port of a listener"))?;
            shared.in_round(round, |round| round.port = Some(address.port()));
            let met = Rendezvous::host(&member(address), listener, limit, STARTING, &is_gone);
            if met.is_err() {
                shared.in_round(round, |round| round.port = Some(0));
            }
            return met;
        }
        let is_hopeless = || (0..group.len() as u32).any(is_gone);
        shared.in_round(round, |round| round.meeting = None);
        let address = shared.where_to_meet(round, group[0], limit, &is_hopeless)?;
        // The first rank may know of a death of which this rank does not.
        let is_hopeless = |_| {
            let told = shared.ask_where_to_meet(round, group[0]);
            is_hopeless() || told.is_some_and(|meeting| meeting.port() == 0)
        };
        Rendezvous::visit(&member(address), limit, STARTING, &is_hopeless)
    }

    /// Begins to answer datagrams.
    fn serve(&self) -> Result<(), SurvivorsError> {
        let mut state = self.0.state();
        if state.is_served {
            return Ok(());
        }
        let io = |source| SurvivorsError::Io { source };
        (self.0.socket.set_read_timeout(Some(LOOK))).map_err(io)?;
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name("transom-survivors".to_owned());
        without_signals(|| thread.spawn(move || shared.answer())).map_err(io)?;
        state.is_served = true;
        Ok(())
    }
}

impl Drop for SurvivorSocket {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for SurvivorSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SurvivorSocket")
            .field("rank", &self.0.me)
            .finish_non_exhaustive()
    }
}

/// The place of `rank` among these.
fn number(ranks: &[u32], rank: u32) -> Option<u32> {
    Some(ranks.binary_search(&rank).ok()? as u32)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn key(&self) -> Option<&Secret> {
        Some(&self.others.get()?.key)
    }

    fn in_round<T: Default>(&self, round: u32, then: impl FnOnce(&mut Round) -> T) -> T {
        let mut state = self.state();
        state.rounds.get_mut(&round).map(then).unwrap_or_default()
    }

    /// The body of the thread.
    fn answer(&self) {
        let mut room = vec![0; 1 << 16];
        while !self.is_over.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut room) {
                Ok((len, from)) => self.receive(&room[..len], from),
                Err(error) if crate::sys::is_transient(&error) => {}
                // Of an earlier datagram: nobody listens there.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => {
                    tracing::debug!(%error, "receiving datagrams");
                    std::thread::sleep(TURN);
                }
            }
        }
    }

    fn receive(&self, bytes: &[u8], from: SocketAddr) {
        let Some(key) = self.key() else { return };
        let mut state = self.state();
        let State {
            rounds, reached, ..
        } = &mut *state;
        let members = |round| Some(rounds.get(&round)?.members.len() as u32);
        let Some(datagram) = wire::decode(bytes, key, members) else {
            return;
        };
        let Some(round) = rounds.get_mut(&datagram.round) else {
            return;
        };
        let Some(sender) = number(&round.members, datagram.from) else {
            return;
        };
        if datagram.from == self.me {
            return;
        }
        reached.insert(datagram.from, (from, self.now()));
        match datagram.said {
            Said::Agreement(message) => {
                round.agreement.receive(sender, message, self.now());
                self.post(datagram.round, round, reached);
            }
            Said::WhereToMeet => {
                if let Some(port) = round.port {
                    let said = Said::MeetAt(port);
                    self.send(datagram.round, round, datagram.from, said, reached);
                }
            }
            Said::MeetAt(port) => round.meeting = Some(SocketAddr::new(from.ip(), port)),
        }
        self.news.notify_all();
    }

    /// Sends what the agreement has to say.
    fn post(&self, number: u32, round: &mut Round, reached: &Reached) {
        while let Some((to, message)) = round.agreement.next_message() {
            let to = round.members[to as usize];
            self.send(number, round, to, Said::Agreement(message), reached);
        }
    }

    /// A datagram that is lost is sent again, by whoever needs the answer.
    fn send(&self, number: u32, round: &Round, to: u32, said: Said, reached: &Reached) {
        let Some(others) = self.others.get() else {
            return;
        };
        let datagram = Datagram {
            round: number,
            from: self.me,
            said,
        };
        let bytes = wire::encode(&datagram, round.members.len() as u32, &others.key);
        let ways = match reached.get(&to) {
            Some(&(way, at)) if self.now() < at + FRESH => vec![way],
            _ => self.ways_to(others, to),
        };
        for way in ways {
            if let Err(error) = self.socket.send_to(&bytes, self.of_family(way)) {
                tracing::debug!(%error, %way, "sending a datagram to rank {to}");
            }
        }
    }

    /// Whether this rank's kernel would know if that rank had ended.
    fn is_near(&self, rank: u32) -> bool {
        let found = self.others.get().and_then(|others| others.place_of(rank));
        found.is_some_and(|(_, place)| place.is_near(&self.place))
    }

    /// Those of these ranks that run in other network namespaces of this machine.
    fn apart(&self, ranks: &[u32]) -> Vec<u32> {
        let is_apart = |rank: &u32| {
            let found = self.others.get().and_then(|others| others.place_of(*rank));
            found.is_some_and(|(_, place)| place.is_apart(&self.place))
        };
        ranks.iter().copied().filter(is_apart).collect()
    }

    fn ways_to(&self, others: &Others, rank: u32) -> Vec<SocketAddr> {
        let Some((port, place)) = others.place_of(rank) else {
            return Vec::new();
        };
        let ways = self.place.ways_to(&place).into_iter();
        ways.map(|way| SocketAddr::new(way, port)).collect()
    }

    /// The address for this socket, which may serve both families.
    fn of_family(&self, to: SocketAddr) -> SocketAddr {
        match (to.ip(), self.socket.local_addr()) {
            (IpAddr::V4(ip), Ok(SocketAddr::V6(_))) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        }
    }

    /// Asks the group's first rank until it answers.
    fn where_to_meet(
        &self,
        round: u32,
        first: u32,
        limit: Duration,
        is_hopeless: &dyn Fn() -> bool,
    ) -> Result<SocketAddr, RendezvousError> {
        let during = "while the ranks that go on looked for it";
        let begun = Instant::now();
        loop {
            match self.ask_where_to_meet(round, first) {
                Some(meeting) if meeting.port() == 0 => {
                    return Err(RendezvousError::HostLeft { during });
                }
                Some(meeting) => return Ok(meeting),
                None if is_hopeless() => return Err(RendezvousError::HostLeft { during }),
                None if begun.elapsed() >= limit => {
                    return Err(RendezvousError::HostSilent {
                        during,
                        limit,
                        limited_by: SURVIVORS_TIMEOUT,
                    });
                }
                None => drop(self.news.wait_timeout(self.state(), ASK)),
            }
        }
    }

    /// Sends the question, and returns what the first rank has answered to an earlier one.
    fn ask_where_to_meet(&self, number: u32, first: u32) -> Option<SocketAddr> {
        let state = self.state();
        let round = state.rounds.get(&number)?;
        self.send(number, round, first, Said::WhereToMeet, &state.reached);
        let meeting = round.meeting?;
        Some(SocketAddr::new(meeting.ip().to_canonical(), meeting.port()))
    }
}

impl Others {
    /// The port and the place of a rank that has a socket.
    fn place_of(&self, rank: u32) -> Option<(u16, NetworkPlace)> {
        let mut rest = &self.addresses[..];
        for before in 0.. {
            let (&len, behind) = rest.split_first()?;
            let (address, behind) = behind.split_at_checked(len.into())?;
            if before < rank {
                rest = behind;
                continue;
            }
            // Only rank 0's has more.
            let end = address
                .len()
                .checked_sub(if rank == 0 { NONCE } else { 0 })?;
            let (port, place) = address[..end].split_first_chunk()?;
            return Some((u16::from_le_bytes(*port), NetworkPlace::decode(place)?));
        }
        None
    }
}

/// This rank does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurvivorsError {
    /// The others could not reach this rank, or waited for it in vain.
    #[error("others go on without this one, which some of them could not reach, or which came too late: {}", Shown(.group))]
    Excluded {
        /// The ranks that go on.
        group: Vec<u32>,
    },
    /// Too few ranks took part.
    #[error(
        "{} did not take part within {waited:.0?} ({SURVIVORS_TIMEOUT}); those who did are not more than half of \
         the ranks, so others may go on without them{}",
        Shown(.missing),
        Apart(.apart)
    )]
    Missing {
        /// The ranks that did not answer, and are not known to have ended.
        missing: Vec<u32>,
        /// Those of them that run in other network namespaces of this rank's machine.
        apart: Vec<u32>,
        /// How long this rank waited.
        waited: Duration,
    },
    /// Rank 0 had no socket when the job started, so there is no key.
    #[error("rank 0 of the job had no socket for datagrams")]
    Unknown,
    /// This rank did not go on in the round before.
    #[error("this rank is none of those that went on before")]
    NoMember,
    /// The system refused the thread that answers other ranks.
    #[error("answering the other ranks: {source}")]
    Io {
        /// The system's answer.
        source: std::io::Error,
    },
}

struct Apart<'a>(&'a [u32]);

impl fmt::Display for Apart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            apart => write!(
                f,
                "; between this rank and {}, which are in different network namespaces of one machine, there has to be \
                 a network",
                Shown(apart)
            ),
        }
    }
}

/// Local. How long ranks wait for those that have not answered after a death, by `TRANSOM_SURVIVORS_TIMEOUT`.
///
/// # Errors
/// The variable is not a number of seconds.
pub fn patience() -> Result<Duration, EnvironmentError> {
    survivors_limit(|name| std::env::var_os(name))
}

#[cfg(test)]
mod tests;
