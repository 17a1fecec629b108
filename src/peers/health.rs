//! Whether the other ranks are still there, and what is told to them when one is not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdma_sys_shim::{Absence, Liveness, Ticket};
use transom_launch::notice::{self, culprit, encode};
use transom_launch::pmi::PmiError;
use transom_launch::say;

use super::context::{Context, STATE_LEFT};
use super::fabric::Fabric;
use super::fork::is_forked;
use super::peer::Peer;
use crate::error::{AbortCause, Error, ErrorKind, PeerError, Result};
use crate::terms::WorldRank;
use crate::wait::{Doubt, Verdict, Witness, take_due};

/// For how long a wait that depends on any of many ranks looks at them at a time: each may cost a
/// round trip, and the first time a connection.
const LOOK: Duration = Duration::from_millis(2);
/// For how long a rank that gives up connects to others to tell them.
const TELL: Duration = Duration::from_secs(2);
/// How many milliseconds apart a rank looks at others that it does not wait for.
const APART: u32 = 5;

/// Whom a wait depends on.
#[derive(Clone, Copy)]
pub(crate) enum Awaited<'a> {
    /// A rank of the world.
    Rank(WorldRank),
    /// Some of these ranks of the world, nobody knows which: the first, the second and so on.
    AnyOf {
        ranks: &'a dyn Fn(u32) -> Option<WorldRank>,
        /// Whether nothing is awaited of this rank any more, which is gone; true: it left in good
        /// order. What it did before that has arrived.
        excused: &'a dyn Fn(WorldRank, bool) -> bool,
        /// One of which it is known that it is awaited.
        surely: Option<WorldRank>,
    },
}

impl Context {
    /// Turns the device's "process is gone", or its refusal because the rank has withdrawn all its
    /// memory, into an error that names the rank.
    pub(super) fn name_absent(&self, rank: u32, error: Error) -> Error {
        let cause = match error.absence() {
            Some((pid, how)) => self.cause_of_absence(rank, pid, how, &error),
            None if error.is_remote_access() && self.has_withdrawn(rank) => {
                PeerError::Left { rank }
            }
            None => return error,
        };
        Error::new(error.operation(), cause)
    }

    /// An operation that needs `rank` failed. If the job was aborted, that is why; if the rank is
    /// absent, names it and tells the others.
    #[cold]
    pub(crate) fn blame(&self, rank: WorldRank, error: Error) -> Error {
        let error = self.name_absent(rank.0, error);
        match error.kind() {
            ErrorKind::Misuse(_) => error,
            _ => self.confirm(error),
        }
    }

    /// Tells the others if the error is about a rank that is missing, or about this one's device.
    fn tell_of(&self, error: &Error) {
        if let ErrorKind::Peer(
            cause @ (PeerError::Died { rank, .. }
            | PeerError::Replaced { rank, .. }
            | PeerError::Gone { rank, .. }
            | PeerError::Left { rank }
            | PeerError::Silent { rank, .. }),
        ) = error.kind()
        {
            // Telling takes seconds, and those who were told may end the job meanwhile, who know of no
            // reason.
            if matches!(cause, PeerError::Silent { .. })
                && !self.abort_words.is_set()
                && !is_forked()
            {
                say(&format_args!("transom: rank {}: {cause}", self.me()));
            }
            self.spread(*rank, cause.cause());
        }
        // Whose memory makes no sense lives, and has to hear of it.
        if let ErrorKind::Peer(PeerError::Garbled { .. }) = error.kind() {
            self.abort_everywhere(AbortCause::FoundGarbled);
        }
        // Neighbours reach this rank without the device, and would take it for one that is well.
        if error.is_own_trouble() {
            self.abort_everywhere(AbortCause::DeviceFailed);
        }
    }

    /// Whether the rank, once connected, said that it left or no longer shows its control region.
    fn has_withdrawn(&self, rank: u32) -> bool {
        let Some(peer) = self.known(rank) else {
            return false;
        };
        match peer.state.load() {
            Ok(state) => state == STATE_LEFT,
            Err(error) => peer.state.is_refused(&error),
        }
    }

    fn cause_of_absence(&self, rank: u32, pid: u32, how: Absence, error: &Error) -> PeerError {
        let said_so = |fabric: &Fabric| {
            fabric.known(rank).is_some_and(|peer| {
                let closed = matches!(peer.endpoint().liveness(), Liveness::Closed { .. });
                closed || peer.state.load().is_ok_and(|state| state == STATE_LEFT)
            })
        };
        let said_so = || said_so(self.fabric()) || self.host().is_some_and(|host| said_so(&host));
        match how {
            Absence::Closed => PeerError::Left { rank },
            Absence::Gone | Absence::Replaced if said_so() => PeerError::Left { rank },
            Absence::Gone | Absence::Replaced => match self.launcher_knows_left(rank) {
                Some(true) => PeerError::Left { rank },
                None if self.known(rank).is_none() => PeerError::Gone { rank, pid },
                _ if how == Absence::Replaced => PeerError::Replaced { rank, pid },
                _ => PeerError::Died { rank, pid },
            },
            Absence::Silent => PeerError::Silent {
                rank,
                reason: error.kind().to_string(),
            },
        }
    }

    /// Whether a wait for `awaited` can still end: doubts it, with an error that names `operation` and
    /// the rank at fault, if the job was aborted or an awaited rank is gone. If it can, and has lasted long, the log
    /// tells of it, and says by `place` of what the call is.
    #[cold]
    pub(crate) fn check(
        &self,
        operation: &'static str,
        awaited: Awaited<'_>,
        place: &dyn Fn() -> String,
    ) -> Verdict<'_> {
        let verdict = match self.aborted() {
            Some(first) => Err(Error::new(operation, first)),
            None => match awaited {
                Awaited::Rank(rank) => self.check_rank(rank.0),
                Awaited::AnyOf { ranks, excused, .. } => self.check_some(ranks, excused),
            },
        };
        let verdict = verdict.and_then(|()| self.check_sent());
        let verdict = verdict.and_then(|()| self.check_launcher(operation));
        if verdict.is_ok()
            && let Some(due) = take_due()
        {
            self.log_wait(due, &format!("{operation} {}", place()), awaited);
        }
        verdict.map_err(|error| Doubt::new(error.during(operation), self))
    }

    /// Doubts a rank of which nothing is awaited, and so nothing is missing if it left; one that this
    /// rank has not met in the world is not looked for.
    pub(crate) fn check_unawaited(&self, operation: &'static str, rank: WorldRank) -> Verdict<'_> {
        let verdict = match self.known(rank.0).map(|_| self.check_rank(rank.0)) {
            Some(Err(error)) if !has_left(&error) => Err(error),
            _ => self.check_launcher(operation),
        };
        verdict.map_err(|error| Doubt::new(error.during(operation), self))
    }

    /// A launcher that was killed leaves its ranks behind, those of this host alone.
    fn check_launcher(&self, operation: &'static str) -> Result<()> {
        match self.launcher_is_gone() {
            true => Err(PmiError::Closed { request: operation }.into()),
            false => Ok(()),
        }
    }

    /// Flags are sent without waiting for their arrival: if one was lost, the ranks may be waiting
    /// for each other in a cycle in which each awaited rank lives.
    fn check_sent(&self) -> Result<()> {
        let known = (0..self.size()).filter_map(|rank| Some((rank, self.known(rank)?)));
        for (rank, peer) in known {
            if let Err(error) = peer.endpoint().intact() {
                let error = self.name_absent(rank, error.into());
                // Whoever has left is missed by those only who await it.
                if !has_left(&error) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Looks at the next of these ranks, for a short time. Ranks that wait begin at different ones,
    /// and whoever finds one missing tells the others.
    fn check_some(
        &self,
        ranks: &dyn Fn(u32) -> Option<WorldRank>,
        excused: &dyn Fn(WorldRank, bool) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut first = None;
        loop {
            let position = self.position.fetch_add(1, Ordering::Relaxed);
            let next = ranks(position).or_else(|| {
                self.position.store(1, Ordering::Relaxed);
                ranks(0)
            });
            let Some(rank) = next.filter(|&rank| first != Some(rank)) else {
                return Ok(());
            };
            first.get_or_insert(rank);
            if let Err(error) = self.check_rank(rank.0)
                && !excused(rank, has_left(&error))
            {
                return Err(error);
            }
            if begun.elapsed() >= LOOK {
                return Ok(());
            }
        }
    }

    fn check_rank(&self, rank: u32) -> Result<()> {
        if rank == self.me() {
            return Ok(());
        }
        let missing = |cause| Err(Error::new("check", cause));
        if rank >= self.size() {
            let what = "a lock held";
            return missing(PeerError::Garbled { rank, what });
        }
        let peer = match self.peer(rank) {
            Ok(peer) => peer,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::Peer(_) => Err(error),
                    // It is judged by the operation that needs it.
                    _ => Ok(()),
                };
            }
        };
        match peer.endpoint().liveness() {
            Liveness::Alive => {}
            Liveness::Closed { .. } => return missing(PeerError::Left { rank }),
            Liveness::Gone { pid } => {
                let gone = rdma_sys_shim::Error::PeerGone { pid };
                return Err(self.name_absent(rank, gone.into()));
            }
            Liveness::Replaced { pid } => {
                let replaced = rdma_sys_shim::Error::PeerReplaced { pid };
                return Err(self.name_absent(rank, replaced.into()));
            }
        }
        match peer.state.load() {
            Ok(STATE_LEFT) => missing(PeerError::Left { rank }),
            Ok(_) => Ok(()),
            Err(error) if peer.state.is_refused(&error) => missing(PeerError::Left { rank }),
            // Over a connection that is broken nothing will come any more.
            Err(error) => Err(self.name_absent(rank, error)),
        }
    }

    /// Whether the rank is gone in good order.
    #[cold]
    pub(crate) fn has_left(&self, rank: WorldRank) -> bool {
        self.check_rank(rank.0).is_err_and(|error| has_left(&error))
    }

    /// Why the job was aborted, if it was.
    fn aborted(&self) -> Option<PeerError> {
        let word = self.abort_words.word();
        (word != 0).then(|| PeerError::Aborted {
            rank: culprit(word),
            cause: AbortCause::from_code(notice::cause(word)),
        })
    }

    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort_words.is_set()
    }

    /// Fails if the job was aborted: for calls that wait for nothing, or only for living ranks.
    #[inline]
    pub(crate) fn check_liveness(&self, operation: &'static str) -> Result<()> {
        match self.is_aborted() {
            true => Err(self.heeded(operation)),
            false => Ok(()),
        }
    }

    /// Whether it is time to look at a rank that nobody waits for: each look costs some microseconds,
    /// or a round trip.
    pub(crate) fn may_check_liveness(&self, now: u32) -> bool {
        let before = self.looked.load(Ordering::Relaxed);
        let may = now.wrapping_sub(before) >= APART;
        if may {
            self.looked.store(now, Ordering::Relaxed);
        }
        may
    }

    #[cold]
    fn heeded(&self, operation: &'static str) -> Error {
        let cause = self.aborted().unwrap_or(PeerError::Aborted {
            rank: self.me(),
            cause: AbortCause::Aborted,
        });
        self.confirm(Error::new(operation, cause))
    }

    /// Tells every rank that can be reached that this one gave up.
    pub(crate) fn abort_everywhere(&self, cause: AbortCause) {
        self.spread(self.me(), cause);
    }

    fn spread(&self, culprit: u32, cause: AbortCause) {
        // The word is its parent's, too, and so is the job.
        if is_forked() {
            return;
        }
        // The launcher may have told of another cause before.
        match self.abort_words.word() {
            0 => {}
            first => return self.tell(first, false),
        }
        let ours = encode(culprit, cause as u8);
        // Peers may swap through a device, to which the processor's swap is not atomic: then two
        // causes may each think that they were the first. One stays, and both are true.
        let found = (self.abort_words.abort()).compare_exchange(
            0,
            ours,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match found {
            Ok(_) => self.tell(ours, true),
            Err(first) => self.tell(first, false),
        }
    }

    /// Tells the others, once, why the job ends: those that this rank is connected to, which answer
    /// or fail together, and then its neighbours in the barrier. These pass it on, so that in the
    /// end every rank knows, however many are dead. `everyone`: the rest too, as time allows.
    fn tell(&self, word: u64, everyone: bool) {
        if is_forked() || self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let (me, size) = (self.me(), self.size());
        let others = || (0..size).filter(|&rank| rank != me && rank != culprit(word));
        let connected = others().filter_map(|rank| self.known(rank));
        write_abort_words(connected, word);
        let neighbours = (0..rounds(size)).map(|round| around(me, 1 << round, size));
        let rest = (1..size).map(|distance| around(me, distance, size));
        let rest = rest.take_while(|_| everyone);
        let begun = Instant::now();
        for rank in neighbours.chain(rest) {
            if begun.elapsed() >= TELL {
                tracing::debug!("gave up telling ranks that this one was not connected to");
                return;
            }
            if rank != me && rank != culprit(word) && self.known(rank).is_none() {
                write_abort_words(self.peer(rank).into_iter(), word);
            }
        }
    }
}

impl Witness for Context {
    /// Tells the others if this is about a rank that is missing. That one may have gone because of
    /// another, and told so before: then that is the error. Whoever finds it passes it on.
    #[cold]
    fn confirm(&self, error: Error) -> Error {
        match self.aborted() {
            Some(first) if !is_reason(&error, &first, self.me()) => {
                self.tell(self.abort_words.word(), false);
                Error::new(error.operation(), first)
            }
            _ => {
                self.tell_of(&error);
                error
            }
        }
    }
}

fn has_left(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Peer(PeerError::Left { .. }))
}

/// The first cause stays: a later one is mostly its consequence.
fn write_abort_words<'p>(peers: impl Iterator<Item = &'p Peer>, word: u64) {
    let mut told: Vec<(&Peer, u64)> = peers.map(|peer| (peer, 0)).collect();
    let mut posted = Vec::with_capacity(told.len());
    for (peer, old) in &mut told {
        // SAFETY: `told` keeps the word until every operation is waited for below.
        match unsafe { peer.abort.begin_compare_swap(0, word, old) } {
            Ok(Ticket::DONE) | Err(_) => {}
            Ok(ticket) => posted.push((*peer, ticket)),
        }
    }
    for (peer, ticket) in posted {
        let _ = peer.abort.complete(ticket);
    }
}

/// Whether the job was aborted for the silence, or for this rank's trouble, that this error gives the reason of: this
/// rank may have told so itself.
fn is_reason(error: &Error, first: &PeerError, me: u32) -> bool {
    let told = (first.rank(), first.cause());
    match error.kind() {
        ErrorKind::Peer(ours @ PeerError::Silent { rank, .. }) => told == (*rank, ours.cause()),
        _ => error.is_own_trouble() && told == (me, AbortCause::DeviceFailed),
    }
}

/// The rank `distance` further on, around the ring.
pub(crate) fn around(rank: u32, distance: u32, size: u32) -> u32 {
    ((u64::from(rank) + u64::from(distance)) % u64::from(size)) as u32
}

/// ceil(log2(size)): in so many steps, what one of so many ranks says can come to all.
pub(crate) fn rounds(size: u32) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_the_ceiling_of_the_logarithm() {
        let of = |size| rounds(size);
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(of), [0, 0, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn a_rank_that_told_of_a_silent_one_still_knows_why() {
        let silent = |rank| {
            let reason = "no answer within 10 s".to_owned();
            Error::new("put", PeerError::Silent { rank, reason })
        };
        let aborted = |rank, cause| PeerError::Aborted { rank, cause };
        assert!(is_reason(&silent(3), &aborted(3, AbortCause::Silent), 1));
        assert!(!is_reason(&silent(3), &aborted(2, AbortCause::Silent), 1));
        assert!(!is_reason(&silent(3), &aborted(3, AbortCause::Died), 1));
        let told = Error::new("put", aborted(3, AbortCause::Silent));
        assert!(!is_reason(&told, &aborted(3, AbortCause::Silent), 1));
    }
}
