//! Waiting for what other ranks do to words of a window.

use crate::comm::Communicator;
use crate::error::Result;
use crate::liveness::Awaited;
use crate::peers::not_forked;

/// One-sided. Tries `done` until it returns true, as the calls of this library wait: it spins, yields, then sleeps in
/// growing steps, and calls the hook of [`Job::on_wait`](crate::Job::on_wait). If the wait is long, warnings name
/// `operation`, `place` and the awaited rank. `awaited` is the rank of `comm` that has to act, as far as the last call
/// of `done` has found; `None` stands for any of them.
///
/// # Errors
/// `done` failed; the job was aborted; the awaited rank died or left; the process was forked from the rank. If a rank
/// is missing, `done` is called once more before the error.
pub fn wait_on(
    comm: &Communicator,
    operation: &'static str,
    place: &str,
    awaited: impl Fn() -> Option<u32>,
    done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    not_forked(operation)?;
    let team = comm.team();
    let any = |turn: u32| (turn < team.size()).then(|| team.world_rank(turn));
    let check = || {
        let awaited = match awaited().filter(|&rank| rank < team.size()) {
            Some(rank) => Awaited::Rank(team.world_rank(rank)),
            None => Awaited::AnyOf {
                ranks: &any,
                // The effects of a rank that left are already visible.
                excused: &|_, has_left| has_left,
                surely: None,
            },
        };
        (team.context).check(operation, awaited, &|| place.to_owned())
    };
    team.context.patience().wait(done, check)
}
