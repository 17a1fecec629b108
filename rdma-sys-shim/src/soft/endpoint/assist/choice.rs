//! Whether hands are sooner than the kernel with what is long, as found out by trying: where two processors are far from each
//! other, what lies in the caches of the one takes long to the other.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of a long transfer that is a trial, so many bytes are moved each way before one is chosen for the rest.
const SAMPLE: usize = 64 << 10;
/// Transfers from one trial to the next; after each that changes nothing, twice as many.
const PERIOD: u32 = 2;
const LONGEST_PERIOD: u32 = 256;

/// What is alike, and may have a way of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Write,
    Read,
    Add,
}

const KINDS: usize = 3;

/// By length, the last for all that are longer.
const CLASSES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    ByAssist,
    Otherwise,
    /// Both, to compare them: one half of what is not much longer than that by hands, and one otherwise.
    Trial,
    /// What is short goes by hands, and the one after it otherwise.
    TrialByAssist,
    TrialOtherwise,
}

#[derive(Clone, Copy)]
struct Habit {
    is_by_assist: bool,
    until_trial: u32,
    period: u32,
    /// Of a trial that has begun, how long it took by hands.
    by_assist: Option<Duration>,
}

impl Habit {
    const fn new() -> Self {
        Self {
            is_by_assist: false,
            until_trial: 0,
            period: PERIOD / 2,
            by_assist: None,
        }
    }

    fn choose(&mut self, is_long: bool) -> Next {
        match self.until_trial.checked_sub(1) {
            Some(next) => {
                self.until_trial = next;
                match self.is_by_assist {
                    true => Next::ByAssist,
                    false => Next::Otherwise,
                }
            }
            None if is_long => Next::Trial,
            None if self.by_assist.is_none() => Next::TrialByAssist,
            None => Next::TrialOtherwise,
        }
    }

    fn note(&mut self, by_assist: Duration, otherwise: Duration) {
        // What is little sooner keeps the peer busy for nothing.
        let is_sooner = by_assist < otherwise * 7 / 8;
        self.period = match is_sooner == self.is_by_assist {
            true => (2 * self.period).min(LONGEST_PERIOD),
            false => PERIOD,
        };
        self.is_by_assist = is_sooner;
        self.until_trial = self.period;
        self.by_assist = None;
    }

    /// How long the first half of a trial took that ends with another transfer; `None` if nobody served it, which says nothing.
    fn note_by_assist(&mut self, by_assist: Option<Duration>) {
        if by_assist.is_some() {
            self.by_assist = by_assist;
        }
    }

    /// How long the second half of it took.
    fn note_otherwise(&mut self, otherwise: Duration) {
        if let Some(by_assist) = self.by_assist {
            self.note(by_assist, otherwise);
        }
    }
}

pub(super) struct Choices(Mutex<[[Habit; CLASSES]; KINDS]>);

impl Default for Choices {
    fn default() -> Self {
        Self(Mutex::new([[Habit::new(); CLASSES]; KINDS]))
    }
}

/// How long it took for each kilobyte: those of a class are not all as long.
fn timed<T>(len: usize, body: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (body(), begun.elapsed().mul_f64(1024.0 / len as f64))
}

impl Choices {
    fn habit<T>(&self, kind: Kind, len: usize, body: impl FnOnce(&mut Habit) -> T) -> T {
        let class = (len / super::PIECE).checked_ilog2().unwrap_or(0) as usize;
        let mut habits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body(&mut habits[kind as usize][class.min(CLASSES - 1)])
    }

    /// Has `len` bytes moved in the way that was sooner. `by_assist` says whether all of its part was.
    pub(super) fn carry_out<E>(
        &self,
        kind: Kind,
        len: usize,
        by_assist: impl Fn(Range<usize>) -> Result<bool, E>,
        otherwise: impl Fn(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        if len <= 2 * SAMPLE {
            return self.carry_out_whole(kind, len, || by_assist(0..len), || otherwise(0..len));
        }
        match self.habit(kind, len, |habit| habit.choose(true)) {
            Next::ByAssist => by_assist(0..len).map(drop),
            Next::Trial => {
                let (is_served, sooner) = timed(SAMPLE, || by_assist(0..SAMPLE));
                let is_served = is_served?;
                let (done, later) = timed(SAMPLE, || otherwise(SAMPLE..2 * SAMPLE));
                done?;
                let is_by_assist = is_served
                    && self.habit(kind, len, |habit| {
                        habit.note(sooner, later);
                        habit.is_by_assist
                    });
                match is_by_assist {
                    true => by_assist(2 * SAMPLE..len).map(drop),
                    false => otherwise(2 * SAMPLE..len),
                }
            }
            _ => otherwise(0..len),
        }
    }

    /// Likewise, in one way or the other.
    fn carry_out_whole<E>(
        &self,
        kind: Kind,
        len: usize,
        by_assist: impl FnOnce() -> Result<bool, E>,
        otherwise: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        match self.habit(kind, len, |habit| habit.choose(false)) {
            Next::ByAssist => by_assist().map(drop),
            Next::TrialByAssist => {
                let (is_served, time) = timed(len, by_assist);
                let time = is_served?.then_some(time);
                self.habit(kind, len, |habit| habit.note_by_assist(time));
                Ok(())
            }
            Next::TrialOtherwise => {
                let (done, time) = timed(len, otherwise);
                self.habit(kind, len, |habit| habit.note_otherwise(time));
                done
            }
            _ => otherwise(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const BY_ASSIST: Duration = Duration::from_micros(10);

    /// The ways of transfers up to the next trial, and how it begins.
    fn until_trial(habit: &mut Habit, is_long: bool) -> (Vec<bool>, Next) {
        let mut chosen = Vec::new();
        loop {
            match habit.choose(is_long) {
                Next::ByAssist => chosen.push(true),
                Next::Otherwise => chosen.push(false),
                trial => return (chosen, trial),
            }
        }
    }

    #[test]
    fn trials_are_ever_fewer_until_something_changes() {
        let micros = Duration::from_micros;
        let mut habit = Habit::new();
        let mut until_trial = |later| {
            let (chosen, next) = until_trial(&mut habit, true);
            assert_eq!(next, Next::Trial);
            habit.note(BY_ASSIST, micros(later));
            chosen
        };
        assert_eq!(until_trial(20), []);
        for count in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert_eq!(until_trial(20), vec![true; count]);
        }
        assert_eq!(until_trial(11), [true; 256]);
        assert_eq!(until_trial(5), [false; 2], "a tenth is too little");
        assert_eq!(until_trial(12), [false; 4]);
        assert_eq!(until_trial(12), [true; 2]);
    }

    #[test]
    fn short_ones_take_turns_in_a_trial() {
        let mut habit = Habit::new();
        assert_eq!(
            until_trial(&mut habit, false),
            (vec![], Next::TrialByAssist)
        );
        // It was not served.
        habit.note_by_assist(None);
        assert_eq!(habit.choose(false), Next::TrialByAssist);
        habit.note_by_assist(Some(BY_ASSIST));
        assert_eq!(habit.choose(false), Next::TrialOtherwise);
        habit.note_otherwise(2 * BY_ASSIST);
        // Another thread's, of the same trial.
        habit.note_otherwise(BY_ASSIST / 2);
        assert_eq!(
            until_trial(&mut habit, false),
            (vec![true; 2], Next::TrialByAssist)
        );
    }

    #[test]
    fn every_byte_is_moved_once_whatever_is_chosen() {
        let choices = Choices::default();
        let lens = [1025, 8192, 70_001, 3 * SAMPLE, 1 << 20];
        for round in 0..100 {
            for len in lens {
                let moved = RefCell::new(Vec::new());
                let note = |bytes: Range<usize>, slow: bool| {
                    if slow {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    moved.borrow_mut().push(bytes);
                };
                let by_assist = |bytes| {
                    note(bytes, round % 3 == 0);
                    Ok::<_, ()>(round % 7 != 0)
                };
                let otherwise = |bytes| {
                    note(bytes, round % 3 == 1);
                    Ok(())
                };
                choices
                    .carry_out(Kind::Write, len, by_assist, otherwise)
                    .unwrap();
                let moved = moved.into_inner();
                let end = moved
                    .iter()
                    .try_fold(0, |end, bytes| (bytes.start == end).then_some(bytes.end));
                assert_eq!(end, Some(len), "{moved:?}");
            }
        }
    }

    #[test]
    fn what_fails_ends_it() {
        let choices = Choices::default();
        let fails = |_: Range<usize>| Err::<(), _>("otherwise");
        let by_assist = |_: Range<usize>| Ok(true);
        let answer = choices.carry_out(Kind::Read, 1 << 20, by_assist, fails);
        assert_eq!(answer, Err("otherwise"));
        let fails = |_: Range<usize>| Err::<bool, _>("by hands");
        let answer = choices.carry_out(Kind::Read, 1 << 20, fails, |_| Ok(()));
        assert_eq!(answer, Err("by hands"));
    }
}
