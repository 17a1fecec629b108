//! Every interleaving of a few ranks in two barriers one after the other.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::super::{Matter, Purpose};
use super::*;
use crate::memory::word::SharedWord;
use crate::waiting_model::{Changes, explore};

/// Of each rank, its flags by round, and a word that it writes before the barrier and that the
/// others read after it.
struct Ranks {
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

impl Rounds for Rank<'_> {
    /// Which rank.
    type Odd = u32;

    fn count(&self) -> usize {
        self.ranks.flags[0].len()
    }

    fn name_odd(&self, round: usize, matter: u32) -> (u32, u32) {
        let ranks = self.ranks.flags.len();
        let behind = (self.me + ranks - (1 << round)) % ranks;
        let (_, told) = self.purpose.name_odd("test", behind as u32, matter);
        (told & 0xff, told)
    }

    fn signal(&self, round: usize, flag: u64) -> Result<()> {
        let ahead = (self.me + (1 << round)) % self.ranks.flags.len();
        self.ranks.flags[ahead][round].publish(flag);
        self.ranks.changes.note();
        Ok(())
    }

    fn heard(&self, round: usize) -> Result<u64> {
        Ok(self.ranks.flags[self.me][round].observe())
    }

    fn wait(&self, _round: usize, arrived: &dyn Fn() -> Result<bool>) -> Result<()> {
        let over = || arrived().expect("nothing fails here");
        self.ranks.changes.wait_until(over);
        Ok(())
    }
}

impl Ranks {
    fn new(ranks: usize) -> Arc<Self> {
        let rounds = ranks.next_power_of_two().trailing_zeros();
        let flags = || (0..rounds).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
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
    ranks: usize,
    preemptions: usize,
    rank: impl Fn(&Ranks, usize) + Send + Sync + Copy + 'static,
) {
    explore(preemptions, move || {
        let all = Ranks::new(ranks);
        let others: Vec<_> = (1..ranks)
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
    check(2, 4, Ranks::meet_twice);
}

#[test]
fn three_ranks_see_each_other() {
    check(3, 2, Ranks::meet);
}

#[test]
fn all_find_that_one_came_for_something_else() {
    check(3, 2, |ranks, me| {
        let purpose = match me {
            1 => Purpose::Free,
            _ => Purpose::Fence,
        };
        let odd = ranks.barrier(me, 1, purpose).expect("it is found");
        // Those that agree name the one that does not, and it names one of them.
        assert_eq!(odd == 1, me != 1);
    });
}
