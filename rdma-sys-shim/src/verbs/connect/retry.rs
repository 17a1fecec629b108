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

    pub(crate) fn due(&mut self, now: Instant, timing: &Timing, jitter: &mut Jitter) -> Due {
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
