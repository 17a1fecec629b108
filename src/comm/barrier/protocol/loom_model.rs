//! Every interleaving of a few ranks in two barriers one after the other.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::super::steps::{Step, flags, steps};
use super::super::{CallTag, Purpose};
use super::*;
use crate::comm::by_host::tests::by_host;
use crate::comm::ring::Ring;
use crate::memory::word::SharedWord;
use crate::tests::waiting_model::{Changes, explore};

/// Of each rank, its steps and its flags, and a word that it writes before the barrier and that the
/// others read after it.
struct Ranks {
    steps: Vec<Vec<Step>>,
    flags: Vec<Vec<AtomicU64>>,
    data: Vec<UnsafeCell<u64>>,
    changes: Changes,
}

// SAFETY: each rank writes its own data before a barrier, and the others read them between that and
// the next: that is what the model finds out, since loom's cell notices when it is not so.
unsafe impl Sync for Ranks {}

struct Rank<'a> {
    ranks: &'a Ranks,
    me: usize,
    purpose: Purpose,
}

impl Steps for Rank<'_> {
    /// Which rank.
    type Mismatch = u32;

    fn count(&self) -> usize {
        self.steps().len()
    }

    fn name_mismatch(&self, step: usize, tag: u32) -> (u32, u32) {
        let from = self.steps()[step].from.expect("who told this is heard");
        let (_, told) = self.purpose.name_mismatch("test", from.rank, tag);
        (told & 0xff, told)
    }

    fn signal(&self, step: usize, flag: u64) -> Result<()> {
        if let Some(to) = self.steps()[step].to {
            self.ranks.flags[to.rank as usize][to.number as usize].publish(flag);
            self.ranks.changes.note();
        }
        Ok(())
    }

    fn heard(&self, step: usize) -> Result<Option<u64>> {
        let flags = &self.ranks.flags[self.me];
        let from = self.steps()[step].from;
        Ok(from.map(|from| flags[from.number as usize].observe()))
    }

    fn wait(&self, _step: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()> {
        let over = || arrived().expect("nothing fails here");
        self.ranks.changes.wait_until(over);
        Ok(())
    }
}

impl Rank<'_> {
    fn steps(&self) -> &[Step] {
        &self.ranks.steps[self.me]
    }
}

impl Ranks {
    /// On these hosts. `oversubscribed`: they are oversubscribed.
    fn of(hosts: &[u32], oversubscribed: bool) -> Arc<Self> {
        let ranks = hosts.len() as u32;
        let all = |rank| Ring::all(ranks, rank);
        let count = flags(&all(0), by_host(hosts, 0).as_ref());
        let flags = || (0..count).map(|_| AtomicU64::new(0)).collect();
        let steps = |rank| steps(&all(rank), by_host(hosts, rank).as_ref(), oversubscribed);
        Arc::new(Self {
            steps: (0..ranks).map(steps).collect(),
            flags: (0..ranks).map(|_| flags()).collect(),
            data: (0..ranks).map(|_| UnsafeCell::new(0)).collect(),
            changes: Changes::new(),
        })
    }

    fn barrier(&self, me: usize, epoch: u32, purpose: Purpose) -> Option<u32> {
        let rank = Rank {
            ranks: self,
            me,
            purpose,
        };
        pass(&rank, epoch, purpose.code()).expect("nothing fails here")
    }

    /// Writes, meets the others, and reads what they wrote.
    fn meet(&self, me: usize) {
        // SAFETY: nobody reads it before the barrier.
        self.data[me].with_mut(|data| unsafe { *data = 7 });
        assert_eq!(self.barrier(me, 1, Purpose::Fence), None);
        for data in &self.data {
            // SAFETY: nobody writes it before a second barrier.
            data.with(|data| assert_eq!(unsafe { *data }, 7));
        }
    }

    /// And meets them again before it writes.
    fn meet_twice(&self, me: usize) {
        self.meet(me);
        assert_eq!(self.barrier(me, 2, Purpose::Passive), None);
        // SAFETY: all have read it.
        self.data[me].with_mut(|data| unsafe { *data = 8 });
    }
}

fn check(
    hosts: &'static [u32],
    preemptions: usize,
    rank: impl Fn(&Ranks, usize) + Send + Sync + Copy + 'static,
) {
    check_of(hosts, false, preemptions, rank);
}

fn check_of(
    hosts: &'static [u32],
    oversubscribed: bool,
    preemptions: usize,
    rank: impl Fn(&Ranks, usize) + Send + Sync + Copy + 'static,
) {
    explore(preemptions, move || {
        let all = Ranks::of(hosts, oversubscribed);
        let others: Vec<_> = (1..hosts.len())
            .map(|me| {
                let all = all.clone();
                thread::spawn(move || rank(&all, me))
            })
            .collect();
        rank(&all, 0);
        for other in others {
            other.join().expect("a rank");
        }
    });
}

#[test]
fn two_ranks_see_each_other() {
    check(&[0, 0], 4, Ranks::meet_twice);
}

#[test]
fn three_ranks_see_each_other() {
    check(&[0, 0, 0], 2, Ranks::meet);
}

#[test]
fn ranks_of_two_hosts_see_each_other() {
    check(&[0, 1, 0], 2, Ranks::meet_twice);
}

#[test]
fn oversubscribed_ranks_see_each_other() {
    check_of(&[0, 0, 0], true, 2, Ranks::meet_twice);
}

/// The second of the ranks came to free the window.
fn meet_at_odds(ranks: &Ranks, me: usize) {
    let purpose = match me {
        1 => Purpose::Free,
        _ => Purpose::Fence,
    };
    let mismatched = ranks.barrier(me, 1, purpose).expect("it is found");
    // Those that agree name the one that does not, and it names one of them.
    assert_eq!(mismatched == 1, me != 1);
}

#[test]
fn all_find_that_one_came_for_something_else() {
    check(&[0, 0, 0], 2, meet_at_odds);
    check(&[0, 1, 0], 2, meet_at_odds);
    check(&[0, 0, 1], 2, meet_at_odds);
    check_of(&[0, 0, 0], true, 2, meet_at_odds);
}
