//! In-flight flags: a rank says here that it is carrying out single atomics. Each of its threads has a line, at the
//! same place of every control region, and only that thread writes it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::control::{ControlRegion, LINE, LocalWord};

/// After the words of the rank's state.
pub(crate) const AT: u64 = 2 * LINE;
pub(crate) const BYTES: u64 = THREADS as u64 * LINE;
/// The number of threads that can have a line. Further threads have no flag.
const THREADS: usize = 64;

/// The offset of a thread's flag in every control region. `number` is below [`count`].
pub(crate) fn line(number: usize) -> u64 {
    AT + number as u64 * LINE
}

/// The number of a rank's flags. `by_thread`: several of its threads may carry out single atomics at a time.
pub(crate) fn count(by_thread: bool) -> usize {
    if by_thread { THREADS } else { 1 }
}

/// The in-flight flags of this rank.
pub(crate) struct InFlightFlags {
    /// The flag of all threads, if calls do not overlap. It is kept here because single atomics wait for each load on
    /// the way to it.
    first: LocalWord,
    /// The flags of the threads, if calls may overlap.
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

    /// This thread's flag, if it has one. If each thread has its own, there is none before [`InFlightFlags::enter`].
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

    /// Gives this thread a flag, if it has none and one is free. This is not part of [`InFlightFlags::own`]: for a call
    /// there, single atomics would save registers, and their locked instructions wait for these stores.
    pub(crate) fn enter(&self) {
        if self.all.is_some() {
            thread_number();
        }
    }
}

/// Moves the calling branch out of line. The other branch has fewer instructions, which could not hide a jump.
#[cold]
fn unlikely() {}

/// The thread has no number: it did not ask yet, or none was free.
const NONE: usize = usize::MAX;

/// The numbers of this process's threads, as bits. There is no lock, since a child may be forked at any time.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    static LEASE: Lease = const { Lease };
}

/// Unique among the living threads of this process, unless it is [`NONE`].
fn thread_number() -> usize {
    match NUMBER.get() {
        NONE => take_number(),
        number => number,
    }
}

#[cold]
fn take_number() -> usize {
    // A thread that is about to end could not return it.
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

/// Returns the number when its thread ends.
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
