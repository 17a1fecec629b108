//! Whether a second thread helps, as found out by trying: some transfers without it, and some with it. Transfers that
//! are alike in what they do and about how long have a habit of their own.

use std::time::Duration;

/// The transfers of a trial, of each way the best counts: what comes first in a program finds its memory untouched, and is
/// slow by that.
const TRIAL: [Try; 5] = [
    Try::Alone,
    Try::Waking,
    Try::Shared,
    Try::Shared,
    Try::Alone,
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    Alone,
    Shared,
    /// Shared, and not counted: it wakes the thread, and the processor that it runs on.
    Waking,
}

/// Transfers from one trial to the next; after each that the second thread lost, twice as many.
const PERIOD: u32 = 32;
const LONGEST_PERIOD: u32 = 512;

#[derive(Clone, Copy)]
pub(super) struct Habit {
    is_shared: bool,
    /// The number of the next transfer: those from 0 on are a trial, those before it go by what the last one said.
    next: i32,
    period: u32,
    /// The shortest times of the trial under way, without the second thread and with it.
    best: [Duration; 2],
    /// The former of the last trial.
    alone: Duration,
}

impl Habit {
    pub(super) const fn new() -> Self {
        Self {
            is_shared: false,
            next: 0,
            period: PERIOD,
            best: [Duration::MAX; 2],
            alone: Duration::MAX,
        }
    }

    /// Takes over what a trial of something alike said, if there was none of this: that the second thread helps is tried again
    /// only when as many transfers have gone by.
    pub(super) fn begin_as(&mut self, alike: &Self) {
        if self.is_new() && alike.is_shared {
            *self = Self {
                next: -(PERIOD as i32),
                best: [Duration::MAX; 2],
                ..*alike
            };
        }
    }

    /// Nothing was noted.
    fn is_new(&self) -> bool {
        self.next == 0 && self.alone == Duration::MAX
    }

    /// How long a piece takes without the second thread, as far as that is known.
    pub(super) fn alone(&self) -> Duration {
        self.alone.min(self.best[0])
    }

    /// Whether the next transfer is to be shared.
    pub(super) fn shares(&self) -> bool {
        match self.next {
            ..0 => self.is_shared,
            number => TRIAL[number as usize] != Try::Alone,
        }
    }

    /// How long each piece of that transfer took.
    pub(super) fn note(&mut self, time: Duration) {
        if let Ok(number) = usize::try_from(self.next)
            && TRIAL[number] != Try::Waking
        {
            let best = &mut self.best[usize::from(TRIAL[number] == Try::Shared)];
            *best = time.min(*best);
        }
        self.next += 1;
        if self.next == TRIAL.len() as i32 {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let [alone, shared] = self.best;
        // What is little sooner takes another processor for nothing.
        self.is_shared = shared < alone * 7 / 8;
        self.period = match self.is_shared {
            true => PERIOD,
            false => (2 * self.period).min(LONGEST_PERIOD),
        };
        self.next = -(self.period as i32);
        self.alone = alone;
        self.best = [Duration::MAX; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers whose pieces take so many microseconds alone, and so many shared: how many are shared, up to the end of
    /// the next trial.
    fn shared_until_judged(habit: &mut Habit, alone: u64, shared: u64) -> (u32, u32) {
        let (mut number, mut of_them_shared) = (0, 0);
        loop {
            let shares = habit.shares();
            let time = if shares { shared } else { alone };
            habit.note(Duration::from_micros(time));
            number += 1;
            of_them_shared += u32::from(shares);
            if habit.next < 0 && number >= TRIAL.len() as u32 {
                return (number, of_them_shared);
            }
            // Until the trial has come.
            while habit.next < 0 {
                of_them_shared += u32::from(habit.shares());
                habit.note(Duration::from_micros(time));
                number += 1;
            }
        }
    }

    #[test]
    fn what_helps_is_used_and_tried_again_now_and_then() {
        let mut habit = Habit::new();
        assert_eq!(shared_until_judged(&mut habit, 10, 6), (5, 3));
        for _ in 0..3 {
            assert_eq!(shared_until_judged(&mut habit, 10, 6), (37, 35));
        }
        assert_eq!(shared_until_judged(&mut habit, 10, 9), (37, 35));
        assert!(!habit.shares(), "a tenth sooner does not count");
    }

    #[test]
    fn what_helps_is_presumed_of_what_is_alike() {
        let mut known = Habit::new();
        let mut other = Habit::new();
        other.begin_as(&known);
        assert!(other.is_new(), "nothing is known");
        shared_until_judged(&mut known, 10, 6);
        other.begin_as(&known);
        assert_eq!(other.alone(), Duration::from_micros(10));
        // All up to the trial, and those of it.
        assert_eq!(shared_until_judged(&mut other, 10, 11), (37, 35));
        assert!(!other.shares());
        other.begin_as(&known);
        assert!(!other.shares(), "its own trial counts");

        let mut lost = Habit::new();
        shared_until_judged(&mut lost, 10, 11);
        let mut other = Habit::new();
        other.begin_as(&lost);
        assert!(other.is_new());
    }

    #[test]
    fn what_does_not_help_is_tried_less_and_less_often() {
        let mut habit = Habit::new();
        assert_eq!(shared_until_judged(&mut habit, 10, 11), (5, 3));
        for period in [64, 128, 256, 512, 512] {
            let transfers = period + TRIAL.len() as u32;
            assert_eq!(shared_until_judged(&mut habit, 10, 11), (transfers, 3));
        }
        shared_until_judged(&mut habit, 10, 5);
        assert_eq!(shared_until_judged(&mut habit, 10, 5), (37, 35));
    }

    #[test]
    fn the_transfer_that_wakes_the_thread_does_not_count_nor_do_slow_ones() {
        let shares_after = |times: [u64; 5]| {
            let mut habit = Habit::new();
            for time in times {
                habit.note(Duration::from_micros(time));
            }
            habit.shares()
        };
        assert!(shares_after([10, 500, 6, 6, 10]));
        assert!(!shares_after([10, 5, 10, 10, 10]));
        assert!(!shares_after([500, 500, 10, 10, 10]));
        assert!(shares_after([10, 500, 500, 6, 500]));
    }
}
