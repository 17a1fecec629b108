//! Rank 0: all others come to it, and what they tell each other goes through it. One thread, in a loop
//! that sleeps until a socket is ready.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use super::channel::{Message, SHORT};
use super::error::RendezvousError;
use super::fault::Fault;
use super::line::Line;
use super::newcomers::{Arrival, MOST, Newcomers};
use super::register::Register;
use super::{Member, REMIND_AFTER};
use crate::bootstrap::Ranks;
use crate::sys;

/// For how long the others are told why no job comes of it.
const FAREWELL: Duration = Duration::from_secs(2);

/// More than ranks pass to each other when a job starts.
const BLOCK: usize = 1 << 20;

/// The kernel passes over negative numbers.
const NOTHING: libc::pollfd = libc::pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// The other ranks, each connected to this one.
pub(super) struct Center {
    limit: Option<Duration>,
    /// By rank, from 1.
    lines: Vec<Line>,
}

/// Ranks that come one after the other.
struct Arrivals<'a> {
    member: &'a Member,
    limit: Option<Duration>,
    begun: Instant,
    listeners: Vec<TcpListener>,
    newcomers: Newcomers,
    register: Register,
    /// By rank, from 1.
    lines: Vec<Option<Line>>,
}

fn ranks<L>(lines: &mut [L]) -> impl Iterator<Item = (u32, &mut L)> {
    (1..).zip(lines)
}

fn seconds(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| limit.as_secs().try_into().unwrap_or(u32::MAX))
}

impl Center {
    /// Waits until all ranks have come.
    pub(super) fn meet(member: &Member, limit: Option<Duration>) -> Result<Self, RendezvousError> {
        let listeners = member.address.listen()?;
        for listener in &listeners {
            let ready = listener.set_nonblocking(true);
            ready.map_err(RendezvousError::io("making a listener that does not wait"))?;
        }
        let mut arrivals = Arrivals {
            member,
            limit,
            begun: Instant::now(),
            listeners,
            newcomers: Newcomers::new(member.secret.clone(), MOST),
            register: Register::new(member.size),
            lines: (1..member.size).map(|_| None).collect(),
        };
        let ended = arrivals.gather();
        let mut center = Self {
            limit,
            lines: Vec::new(),
        };
        if let Err(error) = ended {
            center.lines = arrivals.lines.into_iter().flatten().collect();
            return Err(center.give_up(error));
        }
        center.lines = arrivals.lines.into_iter().flatten().collect();
        for line in &mut center.lines {
            line.queue(&Message::Begin);
        }
        center.or_give_up(Self::send_all)?;
        Ok(center)
    }

    pub(super) fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let blocks = self.or_give_up(|center| center.collect(mine))?;
        let all = Message::Block(blocks.concat());
        for line in &mut self.lines {
            line.queue(&all);
        }
        self.or_give_up(Self::send_all)?;
        Ok(blocks)
    }

    /// Hears each rank's block.
    fn collect(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let deadline = self.deadline();
        let mut blocks = vec![None; self.lines.len()];
        while blocks.contains(&None) {
            if is_over(deadline) {
                let missing = (1..).zip(&blocks).filter(|(_, block)| block.is_none());
                return Err(self.silent(missing.map(|(rank, _)| rank).collect()));
            }
            let ready = self.poll(deadline)?;
            for ((rank, line), block) in ranks(&mut self.lines).zip(&mut blocks) {
                if !ready[rank as usize - 1] {
                    continue;
                }
                let is_open = line.receive();
                match line.next(BLOCK.max(mine.len())) {
                    Ok(Some(Message::Block(theirs))) if block.is_none() => {
                        if theirs.len() != mine.len() {
                            let [theirs, ours] = [theirs.len(), mine.len()].map(|len| len as u32);
                            return Err(Fault::LengthDiffers { rank, theirs, ours }.into());
                        }
                        *block = Some(theirs);
                    }
                    Ok(None) => {}
                    // Nothing else is a rank to say before it is answered.
                    Ok(Some(_)) | Err(_) => return Err(Fault::Garbled { rank }.into()),
                }
                if !is_open {
                    return Err(Fault::Left { rank }.into());
                }
            }
        }
        let theirs = blocks.into_iter().flatten();
        Ok([mine.to_vec()].into_iter().chain(theirs).collect())
    }

    /// Sends what is queued, to all at once.
    fn send_all(&mut self) -> Result<(), RendezvousError> {
        let deadline = self.deadline();
        loop {
            for line in &mut self.lines {
                line.send();
            }
            let slow = ranks(&mut self.lines).filter(|(_, line)| line.has_unsent());
            let slow: Vec<_> = slow.map(|(rank, _)| rank).collect();
            if slow.is_empty() {
                return Ok(());
            }
            if is_over(deadline) {
                return Err(self.silent(slow));
            }
            // What they say meanwhile is of the next call.
            let mut fds: Vec<_> = (self.lines.iter())
                .filter(|line| line.has_unsent())
                .map(|line| libc::pollfd {
                    events: libc::POLLOUT,
                    ..line.interest()
                })
                .collect();
            sys::poll(&mut fds, deadline).map_err(waiting)?;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.limit.map(|limit| Instant::now() + limit)
    }

    fn silent(&self, ranks: Vec<u32>) -> RendezvousError {
        let limit = seconds(self.limit);
        Fault::Silent { ranks, limit }.into()
    }

    /// Sleeps until one of the lines is ready: which are.
    fn poll(&self, deadline: Option<Instant>) -> Result<Vec<bool>, RendezvousError> {
        let mut fds: Vec<_> = self.lines.iter().map(Line::interest).collect();
        sys::poll(&mut fds, deadline).map_err(waiting)?;
        Ok(fds.iter().map(|fd| fd.revents != 0).collect())
    }

    fn or_give_up<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, RendezvousError>,
    ) -> Result<T, RendezvousError> {
        step(self).map_err(|error| self.give_up(error))
    }

    /// Tells all that are there why no job comes of it, and waits a moment until they have heard: a
    /// connection that is closed while something of theirs is unread would take the news back.
    fn give_up(&mut self, error: RendezvousError) -> RendezvousError {
        let fault = match &error {
            RendezvousError::Fault(fault) => fault.clone(),
            other => Fault::Host {
                why: other.to_string(),
            },
        };
        for line in &mut self.lines {
            line.queue(&Message::Fault(fault.clone()));
        }
        let deadline = Instant::now() + FAREWELL;
        let mut open = vec![true; self.lines.len()];
        let mut ended = vec![false; self.lines.len()];
        while open.contains(&true) && Instant::now() < deadline {
            for (line, ended) in self.lines.iter_mut().zip(&mut ended) {
                line.send();
                if !line.has_unsent() && !*ended {
                    *ended = true;
                    line.end();
                }
            }
            let mut fds: Vec<_> = (self.lines.iter().zip(&open))
                .map(|(line, open)| match open {
                    true => line.interest(),
                    false => NOTHING,
                })
                .collect();
            if sys::poll(&mut fds, Some(deadline)).is_err() {
                break;
            }
            for ((line, open), fd) in self.lines.iter_mut().zip(&mut open).zip(&fds) {
                if fd.revents & !libc::POLLOUT != 0 {
                    *open = line.drain();
                }
            }
        }
        error
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn waiting(error: io::Error) -> RendezvousError {
    RendezvousError::io("waiting for the other ranks")(error)
}

impl Arrivals<'_> {
    fn gather(&mut self) -> Result<(), RendezvousError> {
        let deadline = self.limit.map(|limit| self.begun + limit);
        let mut remind_at = Some(self.begun + REMIND_AFTER);
        while !self.register.is_complete() {
            if is_over(deadline) {
                return Err(Fault::Missing {
                    ranks: self.register.missing(),
                    address: self.member.address.to_string(),
                    limit: seconds(self.limit),
                    seen: self.register.seen(),
                }
                .into());
            }
            if is_over(remind_at) {
                remind_at = None;
                let (address, missing) = (&self.member.address, self.register.missing());
                let seen = self.register.seen();
                let missing = Ranks(&missing);
                sys::say(&format_args!(
                    "transom: rank 0 still waits at {address} for {missing}{seen}"
                ));
            }
            let ready = self.poll([deadline, remind_at].into_iter().flatten().min())?;
            for listener in &self.listeners {
                self.newcomers.accept(listener)?;
            }
            let arrivals = self.newcomers.hear().into_iter();
            // All of them are taken, so that all hear of what is wrong with one.
            let taken: Vec<_> = arrivals.map(|arrival| self.take(arrival)).collect();
            taken.into_iter().collect::<Result<(), _>>()?;
            self.listen(&ready)?;
        }
        Ok(())
    }

    /// Sleeps until something happens, or one of the newcomers has had its time. Says which ranks are
    /// ready, from 1.
    fn poll(&self, deadline: Option<Instant>) -> Result<Vec<bool>, RendezvousError> {
        let of_line = |line: &Option<Line>| match line {
            Some(line) => line.interest(),
            None => NOTHING,
        };
        let of_listener = |one: &TcpListener| sys::interest(one.as_raw_fd(), libc::POLLIN);
        let mut fds: Vec<_> = self.lines.iter().map(of_line).collect();
        fds.extend(self.listeners.iter().map(of_listener));
        fds.extend(self.newcomers.interests());
        let deadlines = [deadline, self.newcomers.deadline()];
        sys::poll(&mut fds, deadlines.into_iter().flatten().min()).map_err(waiting)?;
        let lines = fds[..self.lines.len()].iter();
        Ok(lines.map(|fd| fd.revents != 0).collect())
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), RendezvousError> {
        match arrival {
            Arrival::Rank(claim, place, mut line) => {
                let admitted = self.register.admit(claim, place);
                if let Err(fault) = admitted {
                    // It has no seat among the others, and has to hear of it all the same.
                    self.lines.push(Some(line));
                    return Err(fault.into());
                }
                let left = |limit: Duration| limit.saturating_sub(self.begun.elapsed());
                line.queue(&Message::Welcome(self.limit.map(left)));
                line.send();
                self.lines[claim.rank as usize - 1] = Some(line);
            }
            Arrival::OtherSecret(claim, place) => {
                if self.register.suspect(claim, place) {
                    let rank = claim.rank;
                    sys::say(&format_args!(
                        "transom: rank 0 refused a process at {place}, which says that it is rank \
                         {rank} and has another TRANSOM_JOB_SECRET"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Hears whether ranks that have come are still there; they have nothing to say.
    fn listen(&mut self, ready: &[bool]) -> Result<(), RendezvousError> {
        for ((rank, line), ready) in ranks(&mut self.lines).zip(ready) {
            let Some(line) = line.as_mut().filter(|_| *ready) else {
                continue;
            };
            line.send();
            let is_open = line.receive();
            match line.next(SHORT) {
                Ok(None) if is_open => {}
                Ok(None) => return Err(Fault::Left { rank }.into()),
                Ok(Some(_)) | Err(_) => return Err(Fault::Garbled { rank }.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
