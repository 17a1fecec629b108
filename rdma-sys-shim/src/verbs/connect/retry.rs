//! Saying something again until it has been heard, at growing intervals.

use std::time::{Duration, Instant};

use super::timing::Timing;

#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) limit: Duration,
    /// How often it was said.
    pub(crate) sent: u32,
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
    pub(crate) fn start(now: Instant, limit: Duration, timing: &Timing) -> Self {
        Self {
            limit,
            sent: 1,
            deadline: now + limit,
            next: now + timing.first_pause,
            pause: timing.first_pause,
        }
    }

    pub(crate) fn due(&mut self, now: Instant, timing: &Timing) -> Due {
        if now >= self.deadline {
            return Due::GiveUp;
        }
        if now < self.next {
            return Due::Nothing;
        }
        self.sent += 1;
        self.pause = (self.pause * 2).min(timing.longest_pause);
        self.next = now + self.pause;
        Due::SayAgain
    }

    /// When something is due next.
    pub(crate) fn at(&self) -> Instant {
        self.next.min(self.deadline)
    }
}
