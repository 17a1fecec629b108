//! Whether a wait can still end: what the checks of a wait look at.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transom_launch::pmi::PmiError;

use crate::error::{Error, ErrorKind, PeerError, Result};
use crate::peers::{Context, STATE_LEFT};
use crate::terms::WorldRank;
use crate::wait::{Doubt, Verdict, take_due, unseen};

/// How long one check of a wait that depends on any of many ranks may take. Each rank may cost a round trip, and the
/// first time a connection. A small part of the liveness interval.
const CHECK_LIMIT: Duration = Duration::from_millis(2);

/// The ranks that a wait depends on.
#[derive(Clone, Copy)]
pub(crate) enum Awaited<'a> {
    /// A rank of the world.
    Rank(WorldRank),
    /// Some of these ranks of the world, but it is unknown which: the first, the second and so on.
    AnyOf {
        ranks: &'a dyn Fn(u32) -> Option<WorldRank>,
        /// Whether nothing more is awaited of this rank, which is gone; true: it left the job properly. Its earlier
        /// actions have taken effect.
        excused: &'a dyn Fn(WorldRank, bool) -> bool,
        /// A rank that is certainly awaited.
        surely: Option<WorldRank>,
    },
}

impl Context {
    /// Whether a wait for `awaited` can still end. If the job was aborted or an awaited rank is gone, returns a doubt
    /// with an error that names `operation` and the rank at fault. If the wait can end but has lasted long, the log
    /// reports it; `place` says what the call belongs to.
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

    /// Checks a rank for which this rank does not wait. It is no error if that rank has left. A rank without a
    /// connection is not checked.
    pub(crate) fn check_unawaited(&self, operation: &'static str, rank: WorldRank) -> Verdict<'_> {
        let verdict = match self.known(rank.0).map(|_| self.check_rank(rank.0)) {
            Some(Err(error)) if !has_left(&error) => Err(error),
            _ => self.check_launcher(operation),
        };
        verdict.map_err(|error| Doubt::new(error.during(operation), self))
    }

    /// Checks the next `most` connected ranks, as far as this process knows without asking them: one may be stopped. It
    /// is no error if one has left.
    #[cold]
    pub(crate) fn check_connected(&self, operation: &'static str, most: usize) -> Verdict<'_> {
        let first = self.next_connected.load(Ordering::Relaxed) as usize;
        let mut looked_at = 0;
        let mut next = self.all_known().skip(first).take(most);
        let living = next.try_for_each(|(rank, peer)| {
            looked_at += 1;
            match rank == self.me() {
                true => Ok(()),
                false => self.unless_left(rank, peer.endpoint().known_liveness()),
            }
        });
        // Behind the last one, it begins again.
        let next = if looked_at < most { 0 } else { first + most };
        self.next_connected.store(next as u32, Ordering::Relaxed);
        let verdict = living.and_then(|()| self.check_launcher(operation));
        verdict.map_err(|error| Doubt::new(error.during(operation), self))
    }

    /// A launcher that was killed leaves its ranks behind, but only those of this host.
    fn check_launcher(&self, operation: &'static str) -> Result<()> {
        match self.launcher_is_gone() {
            true => Err(PmiError::Closed { request: operation }.into()),
            false => Ok(()),
        }
    }

    /// Flags are sent without waiting for their arrival. If one is lost, the ranks may wait for each other in a cycle
    /// in which every awaited rank is alive.
    fn check_sent(&self) -> Result<()> {
        let mut known = self.all_known();
        known.try_for_each(|(rank, peer)| self.unless_left(rank, peer.endpoint().intact()))
    }

    /// What was found of a connected rank. Only ranks that await a rank that has left find that an error.
    fn unless_left(&self, rank: u32, found: rdma_sys_shim::Result<()>) -> Result<()> {
        let named = found.map_err(|error| self.name_absent(rank, error.into()));
        match named {
            Err(error) if has_left(&error) => Ok(()),
            other => other,
        }
    }

    /// Checks the next of these ranks, for a short time. Waiting ranks begin at different ones, and a rank that finds
    /// one missing tells the others.
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
            // Nothing more will arrive over a broken connection.
            Err(error) => Err(self.name_absent(rank, error)),
        }
    }

    /// Whether the rank left the job properly.
    #[cold]
    pub(crate) fn has_left(&self, rank: WorldRank) -> bool {
        self.check_rank(rank.0).is_err_and(|error| has_left(&error))
    }
}

/// Whether the rank that the error is about left the job properly.
fn has_left(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Peer(PeerError::Left { .. }))
}
