//! Saying something again until it has been heard, at growing intervals.

use std::time::{Duration, Instant};

use super::timing::Timing;

#[derive(Debug)]
pub(crate) struct Retry {
    /// How long the other may be silent.
    pub(crate) limit: Duration,
    /// How often it was said.
    pub(crate) sent: u32,
    /// The other has said that it will answer later.
    pub(crate) put_off: bool,
    deadline: Instant,
    next: Instant,
    pause: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    SayAgain,
    GiveUp,
}

impl Retry {
    /// It is said for the first time now.
    pub(crate) fn start(
        now: Instant,
        limit: Duration,
        timing: &Timing,
        jitter: &mut Jitter,
    ) -> Self {
        Self {
            limit,
            sent: 1,
            put_off: false,
            deadline: now + limit,
            next: now + jitter.around(timing.first_pause),
            pause: timing.first_pause,
        }
    }

    /// Where many processes share a processor, this may be asked seconds late. Such time does not count:
    /// who could not speak cannot say that there was no answer.
    pub(crate) fn due(&mut self, now: Instant, timing: &Timing, jitter: &mut Jitter) -> Due {
        self.deadline += now.saturating_duration_since(self.at());
        if now >= self.deadline {
            return Due::GiveUp;
        }
        if now < self.next {
            return Due::Nothing;
        }
        self.sent += 1;
        self.pause = (self.pause * 2).min(match self.put_off {
            true => timing.busy_pause,
            false => timing.longest_pause,
        });
        self.next = now + jitter.around(self.pause);
        Due::SayAgain
    }

    /// The other has heard it, and will answer later: it lives, and need not be asked so often.
    pub(crate) fn put_off(&mut self, now: Instant, timing: &Timing, jitter: &mut Jitter) {
        self.put_off = true;
        self.deadline = now + self.limit;
        self.pause = timing.busy_pause;
        self.next = now + jitter.around(self.pause);
    }

    /// When something is due next.
    pub(crate) fn at(&self) -> Instant {
        self.next.min(self.deadline)
    }
}

/// Chance, for times that are not to be the same everywhere.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// From three quarters of the time to five.
    fn around(&mut self, time: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        time * (768 + (self.0 >> 40) as u32 % 512) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let (timing, mut jitter) = (Timing::default(), Jitter::new(7));
        let (begun, limit) = (Instant::now(), Duration::from_secs(10));
        let mut retry = Retry::start(begun, limit, &timing, &mut jitter);
        let mut said = 1;
        let end = loop {
            // Three seconds late for the first three times, and punctual from then on.
            let now = retry.at() + Duration::from_secs(if said < 4 { 3 } else { 0 });
            match retry.due(now, &timing, &mut jitter) {
                Due::SayAgain => said += 1,
                Due::GiveUp => break now,
                Due::Nothing => panic!("something was due"),
            }
        };
        assert_eq!(end, begun + limit + Duration::from_secs(9));
        assert!(said > 40, "{said} times");
        assert_eq!(retry.sent, said);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let (timing, now) = (Timing::default(), Instant::now());
        let pauses = |seed| {
            let mut jitter = Jitter::new(seed);
            let mut retry = Retry::start(now, timing.timeout, &timing, &mut jitter);
            let mut at = now;
            let next = |_| {
                let pause = retry.at() - at;
                at = retry.at();
                retry.due(at, &timing, &mut jitter);
                pause
            };
            (0..20).map(next).collect::<Vec<_>>()
        };
        let found = pauses(1);
        assert_ne!(found, pauses(2));
        for (pause, number) in found.iter().zip(0..) {
            let usual = (timing.first_pause * 2_u32.pow(number)).min(timing.longest_pause);
            let range = usual * 3 / 4..=usual * 5 / 4;
            assert!(range.contains(pause), "{number}: {pause:?}");
        }
    }
}
