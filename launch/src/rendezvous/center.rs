//! Rank 0: all other ranks connect to it, and all messages between ranks go through it. It is one thread in a loop that
//! sleeps until a socket is ready.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::channel::{Message, SHORT};
use super::error::RendezvousError;
use super::fault::Fault;
use super::line::Line;
use super::newcomers::{Arrival, MOST, Newcomers};
use super::register::Register;
use super::{LOOK, Member, REMIND_AFTER};
use crate::bootstrap::Ranks;
use crate::sys;

/// How long rank 0 takes to tell the others why the start failed.
const FAREWELL: Duration = Duration::from_secs(2);

/// The most bytes of a block: more than any rank passes when a job starts.
const BLOCK: usize = 1 << 20;

/// The other ranks, each connected to this one.
pub(super) struct Center {
    size: u32,
    /// How long to wait for ranks. `None`: forever.
    pub(super) limit: Option<Duration>,
    limited_by: &'static str,
    newcomers: Newcomers,
    register: Register,
    /// In the order in which ranks came. A refused rank is here too, so that it learns why.
    lines: Vec<(u32, Line)>,
}

impl Center {
    /// Waits until all ranks have come. `is_gone`: whether a rank is known to have ended.
    pub(super) fn meet(
        member: &Member,
        listeners: Vec<TcpListener>,
        limit: Option<Duration>,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<Self, RendezvousError> {
        let mut center = Self {
            size: member.size,
            limit,
            limited_by: member.limited_by,
            newcomers: Newcomers::new(listeners, member.secret.clone(), MOST)?,
            register: Register::new(member.size),
            lines: Vec::new(),
        };
        center.or_give_up(|center| center.gather(member, is_gone))?;
        center.newcomers.close();
        center.or_give_up(|center| center.say(&Message::Begin))?;
        Ok(center)
    }

    pub(super) fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        self.or_give_up(|center| {
            let blocks = center.collect(mine)?;
            center.say(&Message::Block(blocks.concat()))?;
            Ok(blocks)
        })
    }

    fn gather(
        &mut self,
        member: &Member,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Result<(), RendezvousError> {
        let (begun, address) = (Instant::now(), &member.address);
        let deadline = self.deadline();
        let mut remind_at = Some(begun + REMIND_AFTER);
        while !self.register.is_complete() {
            let (missing, seen) = (self.register.missing(), self.register.seen());
            if let Some(&rank) = missing.iter().find(|rank| is_gone(**rank)) {
                return Err(Fault::left(rank).into());
            }
            let missing = Ranks(&missing);
            if is_over(deadline) {
                let (limit, limited_by) = (seconds(self.limit), self.limited_by);
                return Err(Fault::new(format!(
                    "{missing} did not come to {address} within {limit} s ({limited_by}){seen}"
                ))
                .into());
            }
            if is_over(remind_at) {
                remind_at = None;
                sys::say(&format_args!(
                    "transom: rank 0 still waits at {address} for {missing}{seen}"
                ));
            }
            let look_at = Some(Instant::now() + LOOK);
            self.turn([deadline, remind_at, look_at].into_iter().flatten().min())?;
            // Ranks that have come must not send anything yet.
            if let Some((rank, _)) = self.heard(SHORT)?.first() {
                return Err(Fault::garbled(*rank).into());
            }
        }
        Ok(())
    }

    /// Receives each rank's block.
    fn collect(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, RendezvousError> {
        let deadline = self.deadline();
        let mut blocks = vec![None; self.size as usize];
        blocks[0] = Some(mine.to_vec());
        loop {
            for (rank, message) in self.heard(BLOCK.max(mine.len()))? {
                let block = &mut blocks[rank as usize];
                let theirs = match message {
                    Message::Block(theirs) if block.is_none() => theirs,
                    // A rank must not send anything else before it has an answer.
                    _ => return Err(Fault::garbled(rank).into()),
                };
                if theirs.len() != mine.len() {
                    let (theirs, ours) = (theirs.len(), mine.len());
                    let why = format!("rank {rank} passed {theirs} bytes, rank 0 {ours}");
                    return Err(Fault::new(why).into());
                }
                *block = Some(theirs);
            }
            let missing = (0..).zip(&blocks).filter(|(_, block)| block.is_none());
            let missing: Vec<u32> = missing.map(|(rank, _)| rank).collect();
            if missing.is_empty() {
                return Ok(blocks.into_iter().flatten().collect());
            }
            self.wait_for(&missing, deadline)?;
        }
    }

    /// Sends a message to all ranks at the same time, and waits until it is sent.
    fn say(&mut self, message: &Message) -> Result<(), RendezvousError> {
        let deadline = self.deadline();
        self.lines
            .iter_mut()
            .for_each(|(_, line)| line.say(message));
        loop {
            let slow = self.lines.iter().filter(|(_, line)| line.has_unsent());
            let mut slow: Vec<u32> = slow.map(|(rank, _)| *rank).collect();
            if slow.is_empty() {
                return Ok(());
            }
            slow.sort_unstable();
            self.wait_for(&slow, deadline)?;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.limit.map(|limit| Instant::now() + limit)
    }

    /// Sleeps until something happens. Fails if the deadline for these ranks has passed.
    fn wait_for(
        &mut self,
        ranks: &[u32],
        deadline: Option<Instant>,
    ) -> Result<(), RendezvousError> {
        if is_over(deadline) {
            let (ranks, limit, limited_by) = (Ranks(ranks), seconds(self.limit), self.limited_by);
            return Err(Fault::new(format!(
                "{ranks} came to the rendezvous, and then said nothing for {limit} s ({limited_by})"
            ))
            .into());
        }
        self.turn(deadline)
    }

    /// Sleeps until something happens, at most until the deadline, and receives what has come.
    fn turn(&mut self, deadline: Option<Instant>) -> Result<(), RendezvousError> {
        let mut fds: Vec<_> = self.lines.iter().map(|(_, line)| line.interest()).collect();
        fds.extend(self.newcomers.interests());
        let until = deadline.into_iter().chain(self.newcomers.deadline()).min();
        let polled = sys::poll(&mut fds, until);
        polled.map_err(RendezvousError::io("waiting for the other ranks"))?;
        for ((_, line), fd) in self.lines.iter_mut().zip(&fds) {
            if fd.revents != 0 {
                line.exchange();
            }
        }
        let mut taken = Ok(());
        // Process all of them even if one is wrong, so that all learn the result.
        for arrival in self.newcomers.hear()? {
            taken = taken.and(self.take(arrival));
        }
        Ok(taken?)
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), Fault> {
        match arrival {
            Arrival::Rank(claim, place, line) => {
                self.lines.push((claim.rank, line));
                self.register.admit(claim, place)
            }
            Arrival::OtherSecret(claim, place) => {
                if self.register.suspect(claim, place) {
                    let rank = claim.rank;
                    sys::say(&format_args!(
                        "transom: rank 0 refused a process at {place}, which says that it is rank \
                         {rank} and has another TRANSOM_JOB_SECRET"
                    ));
                }
                Ok(())
            }
        }
    }

    /// The next message of each rank that has sent one.
    fn heard(&mut self, longest: usize) -> Result<Vec<(u32, Message)>, Fault> {
        let mut heard = Vec::new();
        for (rank, line) in &mut self.lines {
            match line.next(longest) {
                Ok(Some(message)) => heard.push((*rank, message)),
                Ok(None) if line.is_open() => {}
                Ok(None) => return Err(Fault::left(*rank)),
                Err(_) => return Err(Fault::garbled(*rank)),
            }
        }
        Ok(heard)
    }

    fn or_give_up<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, RendezvousError>,
    ) -> Result<T, RendezvousError> {
        step(self).inspect_err(|error| self.give_up(error))
    }

    /// Tells all connected ranks why the start failed, and waits briefly until they have read it. If rank 0 closed a
    /// connection with unread data, the kernel would discard what was sent.
    fn give_up(&mut self, error: &RendezvousError) {
        self.newcomers.close();
        let fault = match error {
            RendezvousError::Fault(fault) => fault.clone(),
            other => Fault::new(format!("rank 0 cannot go on: {other}")),
        };
        for (_, line) in &mut self.lines {
            line.say(&Message::Fault(fault.clone()));
        }
        let deadline = Instant::now() + FAREWELL;
        while self.lines.iter().any(|(_, line)| line.is_open()) && !is_over(Some(deadline)) {
            let told = self.lines.iter().filter(|(_, line)| !line.has_unsent());
            told.for_each(|(_, line)| line.end());
            if self.turn(Some(deadline)).is_err() {
                return;
            }
        }
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn seconds(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| limit.as_secs())
}

#[cfg(test)]
mod tests;
