//! In-flight flags: a rank says here that it is carrying out single atomics. Each of its threads has a line, at the
//! same place of every control region, and only that thread writes it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::control::{ControlRegion, LINE, LocalWord};

/// Behind the words that tell how the rank is.
pub(crate) const AT: u64 = 2 * LINE;
pub(crate) const BYTES: u64 = THREADS as u64 * LINE;
/// So many threads have a line. Other threads have no flag.
const THREADS: usize = 64;

/// Where a thread's flag is in every control region. `number` is below [`count`].
pub(crate) fn line(number: usize) -> u64 {
    AT + number as u64 * LINE
}

/// How many flags a rank has. `by_thread`: several of its threads may be at single atomics at a time.
pub(crate) fn count(by_thread: bool) -> usize {
    if by_thread { THREADS } else { 1 }
}

/// The in-flight flags of this rank.
pub(crate) struct InFlightFlags {
    /// That of all threads, where one of them calls at a time: single atomics wait for each load on the way to it.
    first: LocalWord,
    /// Of each.
    all: Option<Box<[LocalWord; THREADS]>>,
}

impl InFlightFlags {
    pub(crate) fn new(control: &Arc<ControlRegion>, by_thread: bool) -> Self {
        let block = Arc::new(control.reserved(AT, BYTES));
        let flag = |number| LocalWord::new(&block, number as u64 * LINE);
        Self {
            first: flag(0),
            all: by_thread.then(|| Box::new(std::array::from_fn(flag))),
        }
    }

    /// This thread's, if it has one: where each has its own, none before [`InFlightFlags::enter`].
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<&AtomicU64> {
        match &self.all {
            None => Some(self.first.atomic()),
            Some(all) => {
                unlikely();
                all.get(NUMBER.get()).map(LocalWord::atomic)
            }
        }
    }

    /// Gives this thread a flag, if it has none and one is left. Not in [`InFlightFlags::own`]: for a call on the way, single
    /// atomics would save registers, and their locked instructions wait for these stores.
    pub(crate) fn enter(&self) {
        if self.all.is_some() {
            thread_number();
        }
    }
}

/// Puts the branch that calls it out of the way of the other, which has fewer instructions to hide a jump behind.
#[cold]
fn unlikely() {}

/// A thread has none: it did not ask yet, or there was none left.
const NONE: usize = usize::MAX;

/// The numbers that threads of this process have, by bits. No lock: a child may be forked at any time.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    static LEASE: Lease = const { Lease };
}

/// Of this process's threads that live, no other has the same, unless it is [`NONE`].
fn thread_number() -> usize {
    match NUMBER.get() {
        NONE => take_number(),
        number => number,
    }
}

#[cold]
fn take_number() -> usize {
    // A thread that is about to end could not give it back.
    if LEASE.try_with(|_| ()).is_err() {
        return NONE;
    }
    let with_lowest =
        |taken: u64| (taken != u64::MAX).then(|| taken | !taken & taken.wrapping_add(1));
    let order = Ordering::AcqRel;
    let Ok(before) = TAKEN.fetch_update(order, Ordering::Relaxed, with_lowest) else {
        return NONE;
    };
    let number = before.trailing_ones() as usize;
    NUMBER.set(number);
    number
}

/// Gives the number back when its thread ends.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let number = NUMBER.replace(NONE);
        if number != NONE {
            TAKEN.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;
    use crate::wait::lock;

    /// There are as many numbers for the tests of this process as one of them asks for.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_thread_has_its_own_once_it_has_entered() {
        let _alone = lock(&ALONE);
        let device = crate::devices::open("soft");
        let control = ControlRegion::new(&device, AT + BYTES, AT).unwrap();
        let (one, each) = (
            InFlightFlags::new(&control, false),
            InFlightFlags::new(&control, true),
        );
        let own = |flags: &InFlightFlags| flags.own().map(AtomicU64::as_ptr);
        let of_thread = || {
            assert!(own(&each).is_none());
            each.enter();
            (own(&one).unwrap().addr(), own(&each).unwrap().addr())
        };
        each.enter();
        let mine = (own(&one).unwrap().addr(), own(&each).unwrap().addr());
        let theirs = thread::scope(|scope| scope.spawn(of_thread).join().unwrap());
        assert_eq!(theirs.0, mine.0);
        assert_ne!(theirs.1, mine.1);
    }

    #[test]
    fn threads_that_live_have_numbers_of_their_own_while_there_are_some() {
        let _alone = lock(&ALONE);
        let mine = thread_number();
        assert_eq!(thread_number(), mine);
        let numbers = |threads: usize| {
            let all_have = Barrier::new(threads);
            thread::scope(|scope| {
                let ask = || {
                    let number = thread_number();
                    all_have.wait();
                    number
                };
                let asked: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
                let numbers = asked.into_iter().map(|thread| thread.join().unwrap());
                numbers.collect::<Vec<_>>()
            })
        };
        // Others of this process have some, too.
        for _ in 0..20 {
            let some = numbers(8);
            let different: BTreeSet<_> = some
                .iter()
                .copied()
                .filter(|&number| number != NONE)
                .collect();
            assert_eq!(different.len(), 8);
            assert!(!different.contains(&mine));
        }
        let many = numbers(2 * THREADS);
        assert!(many.iter().filter(|&&number| number == NONE).count() >= THREADS);
        assert_eq!(thread_number(), mine);
    }
}
