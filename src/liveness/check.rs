//! Whether a wait can still end: what the checks of a wait look at.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transom_launch::pmi::PmiError;

use crate::error::{Error, ErrorKind, PeerError, Result};
use crate::peers::{Context, STATE_LEFT};
use crate::terms::WorldRank;
use crate::wait::{Doubt, Verdict, take_due, unseen};

/// For how long a wait that depends on any of many ranks looks at them at a time: each may cost a
/// round trip, and the first time a connection. A small part of the interval.
const CHECK_LIMIT: Duration = Duration::from_millis(2);

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
        let verdict = match self.cause_of_abort() {
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

    /// Checks a rank for which this rank does not wait, so that it is no error if it has left. A rank that this one has not
    /// met is not checked.
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
        for (rank, peer) in self.all_known() {
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
            let turn = self.next_looked_at.fetch_add(1, Ordering::Relaxed);
            let next = ranks(turn).or_else(|| {
                self.next_looked_at.store(1, Ordering::Relaxed);
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
            if begun.elapsed() >= CHECK_LIMIT {
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
        let peer = match self.connect_to(rank) {
            Ok(peer) => peer,
            Err(error) => {
                let fails = matches!(error.kind(), ErrorKind::Peer(_))
                    || unseen::misses(rank, Instant::now());
                return if fails { Err(error) } else { Ok(()) };
            }
        };
        unseen::saw(rank);
        if let Err(error) = peer.endpoint().liveness() {
            return Err(self.name_absent(rank, error.into()));
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
}

/// Whether the rank that the error is about is gone in good order.
fn has_left(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Peer(PeerError::Left { .. }))
}
