//! Whether the ranks of a host take turns on its processors, so that they had better not spin.
//!
//! That they are more than the processors that one of them sees does not say so: a launcher that binds
//! every rank to a core leaves each with one. So all tell where they may run, and the first of each host
//! says what that comes to. If each asked for itself, the launcher had to answer for every pair.

use std::io;
use std::marker::PhantomData;

use crate::pmi::{Client, PmiError};
use crate::processors::{Mask, Processors};

/// Tells the others where this rank may run. They can ask after the next barrier. Where it says nothing,
/// this rank counts as one that may run everywhere.
pub fn publish(client: &Client) {
    let mine = processors();
    if mine.is_empty() {
        return;
    }
    if let Err(error) = client.put(&processors_key(client.rank()), &mine) {
        tracing::warn!(%error, "the launcher did not take where this rank may run");
    }
}

/// Collective, with a barrier. Whether the ranks of this host, `neighbours`, take turns.
///
/// # Errors
/// As for [`Client::barrier`].
pub fn settle(client: &Client, neighbours: &[u32]) -> Result<bool, PmiError> {
    let first = neighbours.first().copied().unwrap_or(client.rank());
    if client.rank() == first {
        let lists = neighbours
            .iter()
            .map(|&rank| client.get(&processors_key(rank)));
        let lists: Vec<_> = lists.map(|list| list.unwrap_or_default()).collect();
        let oversubscribed =
            are_oversubscribed(&lists.iter().map(String::as_str).collect::<Vec<_>>());
        let told = client.put(&verdict_key(first), if oversubscribed { "1" } else { "0" });
        if let Err(error) = told {
            tracing::warn!(%error, "the launcher did not take whether ranks take turns");
        }
    }
    client.barrier()?;
    match client.get(&verdict_key(first)) {
        Ok(verdict) => Ok(verdict != "0"),
        // It costs less to give a processor away in vain than to keep it from a rank.
        Err(PmiError::NoKey { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Local. The processors that this rank may run on: none where that is not known.
#[must_use]
pub fn allowed() -> Vec<u32> {
    allowed_to(0)
}

/// Local. The same of a process of this host; 0 is this rank.
#[must_use]
pub fn allowed_to(pid: u32) -> Vec<u32> {
    Processors::of(pid).map_or_else(|_| Vec::new(), |its| its.iter().collect())
}

/// Local. Has the calling thread run on some processors, and what it starts meanwhile, until the result is dropped.
///
/// # Errors
/// The system refuses, or none of them is there.
pub fn run_at(processors: &[u32]) -> io::Result<RunsElsewhere> {
    let before = Mask::from(&Processors::allowed()?);
    Mask::from(&processors.iter().copied().collect()).bind()?;
    Ok(RunsElsewhere {
        before,
        _of_this_thread: PhantomData,
    })
}

/// A thread that does not run where it is bound, until this is dropped.
pub struct RunsElsewhere {
    before: Mask,
    _of_this_thread: PhantomData<*mut ()>,
}

impl Drop for RunsElsewhere {
    fn drop(&mut self) {
        if let Err(error) = self.before.bind() {
            tracing::warn!(%error, "a thread is not bound any more to where it was");
        }
    }
}

/// Local. Where this rank may run, to be told to the others: empty where nothing is known of it.
#[must_use]
pub fn processors() -> String {
    Processors::allowed().map_or_else(|_| String::new(), |mine| mine.to_string())
}

/// Local. Whether the ranks of this host take turns, of which each has told its [`processors`].
#[must_use]
pub fn are_oversubscribed(told: &[&str]) -> bool {
    let lists: Vec<_> = told.iter().map(|list| Processors::parse(list)).collect();
    lacks_time(told.len()) || outnumber_processors(&lists)
}

/// Whether a container may use less of its processors' time than so many ranks need. One that is bound
/// cannot know.
fn lacks_time(ranks: usize) -> bool {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    Processors::allowed().is_ok_and(|mine| available < mine.len() && available < ranks)
}

/// Whether any rank is one of more that may run on its processors than these are. One of which nothing
/// is known may run everywhere.
fn outnumber_processors(ranks: &[Option<Processors>]) -> bool {
    let meets = |mine: &Processors, other: &Option<Processors>| {
        other.as_ref().is_none_or(|other| mine.meets(other))
    };
    let outnumbered = |mine: &Processors| {
        let sharing = ranks.iter().filter(|&other| meets(mine, other));
        sharing.count() > mine.len()
    };
    ranks.iter().all(Option::is_none) || ranks.iter().flatten().any(outnumbered)
}

fn processors_key(rank: u32) -> String {
    format!("transom-processors-{rank}")
}

fn verdict_key(first: u32) -> String {
    format!("transom-oversubscribed-{first}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi::tests::job;
    use crate::processors::Mask;

    const UNKNOWN: &str = "";

    fn oversubscribed(ranks: &[&str]) -> bool {
        let lists: Vec<_> = ranks.iter().map(|list| Processors::parse(list)).collect();
        outnumber_processors(&lists)
    }

    #[test]
    fn ranks_on_processors_of_their_own_are_not_oversubscribed() {
        assert!(!oversubscribed(&["0", "1", "2", "3"]));
        assert!(!oversubscribed(&["0-1", "0-1", "2-3", "2-3"]));
        assert!(!oversubscribed(&["0,4", "1,5", "0,4"]));
        assert!(!oversubscribed(&["0-3", "0-3", "0-3", UNKNOWN]));
    }

    #[test]
    fn ranks_that_outnumber_their_processors_are_oversubscribed() {
        assert!(oversubscribed(&["0-1", "0-1", "0-1"]));
        assert!(oversubscribed(&["1", "2", "0", "0"]));
        assert!(oversubscribed(&["0", "1", "0-1"]));
        assert!(oversubscribed(&["0-1", "1-2", "1", "3"]));
        assert!(oversubscribed(&["0", UNKNOWN]));
        assert!(oversubscribed(&[UNKNOWN]));
    }

    /// What ranks of this host find that are bound like this.
    fn bound(masks: &[Option<Processors>]) -> Vec<bool> {
        let size = u32::try_from(masks.len()).unwrap();
        let neighbours: Vec<_> = (0..size).collect();
        let (found, _) = job(size, |client| {
            if let Some(mask) = &masks[client.rank() as usize] {
                Mask::from(mask).bind().unwrap();
            }
            publish(&client);
            client.barrier().unwrap();
            let oversubscribed = settle(&client, &neighbours).unwrap();
            client.finalize().unwrap();
            oversubscribed
        });
        found
    }

    #[test]
    fn ranks_find_out_whether_they_share_processors() {
        let all = Processors::allowed().unwrap();
        let each: Vec<_> = (all.iter())
            .map(|one| Some([one].into_iter().collect()))
            .collect();
        let many = all.len() + 1;
        assert_eq!(bound(&vec![None; many]), vec![true; many]);
        assert_eq!(bound(&vec![each[0].clone(); 2]), [true, true]);
        assert_eq!(bound(&each), vec![false; each.len()]);
    }

    #[test]
    fn a_thread_that_is_bound_runs_elsewhere_for_a_while() {
        let process = std::process::id();
        std::thread::spawn(move || {
            let first = allowed_to(process).into_iter().take(1);
            let first: Processors = first.collect();
            Mask::from(&first).bind().unwrap();
            assert_eq!(allowed().len(), 1);
            let bound = allowed();
            let elsewhere = run_at(&allowed_to(process)).unwrap();
            assert_eq!(allowed(), allowed_to(process));
            let started = std::thread::spawn(allowed).join().unwrap();
            assert_eq!(started, allowed_to(process));
            drop(elsewhere);
            assert_eq!(allowed(), bound);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn where_nothing_was_published_ranks_count_as_oversubscribed() {
        let (found, _) = job(2, |client| {
            client.barrier().unwrap();
            let oversubscribed = settle(&client, &[0, 1]).unwrap();
            client.finalize().unwrap();
            oversubscribed
        });
        assert_eq!(found, [true, true]);
    }

    #[test]
    fn each_host_has_its_verdict() {
        let all = Processors::allowed().unwrap();
        let one: Processors = all.first().into_iter().collect();
        let (found, _) = job(3, |client| {
            Mask::from(&one).bind().unwrap();
            publish(&client);
            client.barrier().unwrap();
            let neighbours: &[u32] = if client.rank() == 1 { &[1] } else { &[0, 2] };
            let oversubscribed = settle(&client, neighbours).unwrap();
            client.finalize().unwrap();
            oversubscribed
        });
        assert_eq!(found, [true, false, true]);
    }
}
