//! Going on after a death: a job of those who live.
//!
//! An agreement says who goes on (`transom_launch::survivors`). These ranks start a job of their own, as ranks that
//! meet by a rendezvous do: with a new device, and with control memory and connections of their own. So nothing of the
//! failed job can reach it. A rank that was left out, or was stopped and comes back, knows neither the memory nor the
//! keys of the new job. It can still write into windows of the failed job, which nobody uses any more.
//!
//! If a rank dies while the new job starts, some ranks may have started it and others not. The latter agree once more,
//! in the next round, among those who were to go on. The former return, notice that death when they need that rank,
//! and then call again, which is their part in that same round.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use transom_launch::start::StartError;
use transom_launch::survivors::{Fate, SurvivorsError, patience};

use crate::access::OfOthers;
use crate::comm::{Communicator, world_block_bytes};
use crate::error::{AbortCause, Error, ErrorKind, Misuse, PeerError, Result, SystemError};
use crate::peers::{Context, Membership, not_forked};
use crate::terms::WorldRank;

const OPERATION: &str = "survivors";

/// How often the ranks of a group may fail to meet although all of them live.
const MOST_FAILURES: u32 = 2;

/// The ranks that go on after a death.
pub struct Survivors {
    /// All of them, in the order of their ranks before.
    pub communicator: Communicator,
    /// The rank that each had in the communicator that called.
    pub former_ranks: Vec<u32>,
}

impl fmt::Debug for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Survivors")
            .field("former_ranks", &self.former_ranks)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    /// Collective over the ranks that live. After a death, returns a communicator of those who go on, on which windows
    /// can be made as on [`Job::world`](crate::Job::world). All who go on get the same ranks. On this communicator,
    /// and on its windows, calls fail as before; [`read_own`](crate::Window::read_own) copies this rank's part of a
    /// window.
    ///
    /// Called on a communicator of all ranks of the job, by every rank that lives, after a call has failed because of
    /// the death. After another death, it is called on the communicator that it returned.
    ///
    /// More than half of the ranks go on, or all who are not known to be dead or to have left. Only a rank of the same
    /// host and network namespace can know a death for certain; from elsewhere, it may be the work of a firewall. Ranks
    /// that do not answer are waited for, for `TRANSOM_SURVIVORS_TIMEOUT` seconds (60). After that, the others go on
    /// without them if they may; such a rank gets an error when it calls. So if a network breaks in two, at most one part
    /// goes on.
    ///
    /// The launcher must leave the survivors running: `transom run --keep-going`, Slurm's `--no-kill
    /// --kill-on-bad-exit=0`; ranks that met by a rendezvous have none that could end them.
    ///
    /// MPI-4.1 has nothing like it; MPI's proposal for fault tolerance calls it `MPI_Comm_shrink`.
    ///
    /// ```no_run
    /// # fn work(_: &transom::Communicator) -> transom::Result<()> { Ok(()) }
    /// let job = transom::Job::init()?;
    /// let mut world = job.world().clone();
    /// while let Err(error) = work(&world) {
    ///     eprintln!("{error}");
    ///     world = world.survivors()?.communicator;
    /// }
    /// # Ok::<(), transom::Error>(())
    /// ```
    ///
    /// # Errors
    /// No rank has died; this is no communicator of all ranks; it was called for this job before, if in vain; the job
    /// was joined by [`Job::over`](crate::Job::over), or was ended by [`Job::abort`](crate::Job::abort). The others go
    /// on without this rank ([`PeerError::Excluded`]). Too few ranks called ([`PeerError::Missing`]). A rank cannot
    /// start again, because the system refuses it something; then all get an error that says which. An error of those who
    /// might have gone on is final: a second call is a misuse.
    pub fn survivors(&self) -> Result<Survivors> {
        not_forked(OPERATION)?;
        let context = &self.team().context;
        let misuse = |misuse| Err(Error::new(OPERATION, misuse));
        let (ranks, size) = (self.size(), context.size());
        if ranks != size {
            return misuse(Misuse::NotAllRanks { ranks, size });
        }
        if context.has_left_itself() {
            return misuse(Misuse::JobLeft);
        }
        let Some(membership) = context.membership() else {
            let reason = "only ranks that Job::init joined, each with a socket for datagrams, can";
            return misuse(Misuse::NoSurvivors { reason });
        };
        match context.await_abort() {
            None => return misuse(Misuse::NoDeath),
            Some(ended) if ended.cause() == AbortCause::Aborted => {
                return Err(Error::new(OPERATION, ended));
            }
            Some(_) => {}
        }
        let patience = patience().map_err(|error| {
            Error::new(
                OPERATION,
                SystemError::Start(StartError::Environment(error)),
            )
        })?;
        if !context.is_first_to_go_on() {
            return misuse(Misuse::SurvivorsTaken);
        }
        let (next, went_on) = go_on(context, membership, patience)?;
        next.combine_by(Arc::new(OfOthers(next.rank())));
        let communicator = Communicator::world(&next);
        context.set_successor(next);
        let before = membership.ranks();
        let former = |rank: &u32| {
            let in_world = before.binary_search(rank).ok()? as u32;
            self.group().place_of(WorldRank(in_world))
        };
        let former_ranks = went_on.iter().filter_map(former).collect();
        Ok(Survivors {
            communicator,
            former_ranks,
        })
    }
}

/// The job of those who go on, and their ranks when the first job started.
fn go_on(
    context: &Arc<Context>,
    membership: &Membership,
    patience: Duration,
) -> Result<(Arc<Context>, Vec<u32>)> {
    let before = membership.ranks();
    let in_world = |rank: u32| before.binary_search(&rank).ok().map(|rank| rank as u32);
    let Some(first) = membership.first_job(context) else {
        return Err(Error::new(OPERATION, Misuse::JobLeft));
    };
    // A rank that has not met the others closes the device with which it wanted to start. So only the first job can
    // tell that it has ended.
    let fate = |rank, thoroughly| match first.fate(WorldRank(rank), thoroughly) {
        Fate::Lives => match in_world(rank).map(|rank| context.fate(WorldRank(rank), false)) {
            Some(Fate::Silent) => Fate::Silent,
            _ => Fate::Lives,
        },
        found => found,
    };
    let socket = &membership.socket;
    let (mut group, mut failures) = (before.clone(), 0);
    for round in membership.round.. {
        let agreed = socket.agree(round, &group, patience, fate);
        let agreed = agreed.map_err(|error| named(error, in_world))?;
        failures = if agreed == group { failures } else { 0 };
        group = agreed;
        let met = (socket.meet(round, &group, patience, fate))
            .map_err(|error| Error::new(OPERATION, SystemError::Start(error.into())));
        let started = met.and_then(|met| {
            let membership = membership.after(round, &group, &first);
            Context::after(context, &met, membership, world_block_bytes)
        });
        match started {
            Ok(next) => return Ok((next, group)),
            Err(error) if was_not_met(&error) && failures < MOST_FAILURES => {
                tracing::info!(%error, "the ranks that go on have not met, and try again");
                failures += 1;
            }
            Err(error) => return Err(error.during(OPERATION)),
        }
    }
    unreachable!("rounds are numbered without end")
}

/// A rank of the group has died, or cannot be reached.
fn was_not_met(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::System(SystemError::Start(StartError::Rendezvous(_)))
    )
}

/// The error with ranks of the world of the failed job.
fn named(error: SurvivorsError, in_world: impl Fn(u32) -> Option<u32>) -> Error {
    let here = |ranks: Vec<u32>| -> Vec<u32> { ranks.into_iter().filter_map(&in_world).collect() };
    let first = |ranks: &[u32]| ranks.first().copied().unwrap_or_default();
    match error {
        SurvivorsError::Excluded { group } => {
            let group = here(group);
            let rank = first(&group);
            let reason = SurvivorsError::Excluded { group }.to_string();
            Error::new(OPERATION, PeerError::Excluded { rank, reason })
        }
        SurvivorsError::Missing {
            missing,
            apart,
            waited,
        } => {
            let (missing, apart) = (here(missing), here(apart));
            let rank = first(&missing);
            let missing = SurvivorsError::Missing {
                missing,
                apart,
                waited,
            };
            let reason = missing.to_string();
            Error::new(OPERATION, PeerError::Missing { rank, reason })
        }
        SurvivorsError::Unknown => {
            let reason = "rank 0 had no socket for datagrams when the job started";
            Error::new(OPERATION, Misuse::NoSurvivors { reason })
        }
        SurvivorsError::Io { source } => {
            let what = "answering the other ranks".to_owned();
            Error::new(OPERATION, SystemError::Io { what, source })
        }
        other => Error::new(
            OPERATION,
            SystemError::Io {
                what: "finding the ranks that live".to_owned(),
                source: std::io::Error::other(other),
            },
        ),
    }
}
