//! The next step of an endpoint: a state machine without threads, clocks or memory.
//!
//! It takes the shapes of posted operations and the time. It says which part of which operation to carry out now, and
//! when to report an operation as complete.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::options::Order;
use crate::random::Random;

/// How far a later operation may get ahead of the oldest one in progress.
const REACH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Read,
    Atomic,
    Store,
}

impl Kind {
    /// Whether an operation of this kind may take effect before `earlier`, which was posted before.
    pub(crate) fn may_overtake(self, earlier: Self, order: Order) -> bool {
        let loose = order == Order::Loose;
        match (self, earlier) {
            (Self::Atomic | Self::Store, _) => false,
            (Self::Read, Self::Write | Self::Store) => false,
            (Self::Read, Self::Atomic) => loose,
            (Self::Write, _) | (Self::Read, Self::Read) => true,
        }
    }
}

/// What the schedule needs to know of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// In bytes.
    pub(crate) len: usize,
    /// It is cut only at multiples of this; `None` if it must not be cut.
    pub(crate) unit: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Carry out these bytes of the operation. After the `last` part, it has taken effect.
    Part {
        ticket: u64,
        bytes: Range<usize>,
        last: bool,
    },
    /// Deliver its results, and report it as complete.
    Report { ticket: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Do(Step),
    /// Nothing before this moment.
    At(Instant),
    /// Nothing until an operation is posted.
    Idle,
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    /// The remaining parts, the next one last, each with the pause that follows it.
    parts: Vec<(Range<usize>, Duration)>,
    /// Its next step is not taken before this time.
    not_before: Instant,
}

impl Entry {
    fn took_effect(&self) -> bool {
        self.parts.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Schedule {
    order: Order,
    delay: Duration,
    /// For plans, which are made when operations are posted, so that they depend only on what is posted.
    plan: Random,
    /// For choices among the possible steps, which also depend on time.
    choice: Random,
    /// Operations that are not yet reported, oldest first.
    entries: VecDeque<Entry>,
    /// The ticket of the oldest operation.
    oldest: u64,
    /// An operation failed: no further operations are accepted.
    failed: bool,
}

impl Schedule {
    pub(crate) fn new(seed: u64, stream: u64, delay: Duration, order: Order) -> Self {
        Self {
            order,
            delay,
            plan: Random::new(seed, 2 * stream),
            choice: Random::new(seed, 2 * stream + 1),
            entries: VecDeque::new(),
            oldest: 1,
            failed: false,
        }
    }

    /// Accepts an operation. Returns false after a failure; then the operation is flushed. Tickets count from 1.
    pub(crate) fn post(&mut self, now: Instant, shape: Shape) -> bool {
        if self.failed {
            return false;
        }
        let mut parts = self.cut(shape);
        self.shuffle(&mut parts);
        let not_before = now + self.pause();
        let parts = parts.into_iter().map(|part| (part, self.pause())).collect();
        self.entries.push_back(Entry {
            kind: shape.kind,
            parts,
            not_before,
        });
        true
    }

    /// Marks the operation as failed. It is still reported in its turn; later operations never are.
    pub(crate) fn fail(&mut self, ticket: u64) {
        self.failed = true;
        let index = (ticket - self.oldest) as usize;
        self.entries.truncate(index + 1);
        self.entries[index].parts.clear();
    }

    /// Forgets all operations, and accepts no more.
    pub(crate) fn clear(&mut self) {
        self.failed = true;
        self.entries.clear();
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        let possible = self.possible();
        let ready = |&&index: &&usize| self.entries[index].not_before <= now;
        let count = possible.iter().filter(ready).count();
        if count == 0 {
            let moments = possible.iter().map(|&index| self.entries[index].not_before);
            return moments.min().map_or(Next::Idle, Next::At);
        }
        let chosen = self.choice.below(count as u64) as usize;
        let Some(&index) = possible.iter().filter(ready).nth(chosen) else {
            unreachable!("one of the steps that were counted");
        };
        let ticket = self.oldest + index as u64;
        let entry = &mut self.entries[index];
        let Some((bytes, pause)) = entry.parts.pop() else {
            self.entries.pop_front();
            self.oldest += 1;
            return Next::Do(Step::Report { ticket });
        };
        entry.not_before = now + pause;
        Next::Do(Step::Part {
            ticket,
            bytes,
            last: entry.took_effect(),
        })
    }

    /// The operations whose next step violates no order. For the oldest this may be its report, if it took effect; for
    /// the others it is a part to carry out.
    fn possible(&self) -> Vec<usize> {
        let mut possible = Vec::new();
        let mut before: [bool; 4] = [false; 4];
        for (index, entry) in self.entries.iter().take(REACH).enumerate() {
            if entry.took_effect() {
                if index == 0 {
                    possible.push(index);
                }
                continue;
            }
            let overtaken = [Kind::Write, Kind::Read, Kind::Atomic, Kind::Store]
                .into_iter()
                .filter(|&kind| before[kind as usize]);
            if overtaken
                .into_iter()
                .all(|earlier| entry.kind.may_overtake(earlier, self.order))
            {
                possible.push(index);
            }
            before[entry.kind as usize] = true;
        }
        possible
    }

    /// Half of the operations stay in one piece; the others are cut into two to four.
    fn cut(&mut self, shape: Shape) -> Vec<Range<usize>> {
        let units = shape.unit.map_or(1, |unit| shape.len / unit);
        let whole = units < 2 || self.plan.one_in(2);
        let count = if whole { 0 } else { 1 + self.plan.below(3) };
        let unit = shape.len / units.max(1);
        let mut cuts: Vec<usize> = (0..count)
            .map(|_| unit * (1 + self.plan.below(units as u64 - 1) as usize))
            .collect();
        cuts.push(shape.len);
        cuts.sort_unstable();
        cuts.dedup();
        let mut start = 0;
        cuts.into_iter()
            .map(|end| std::mem::replace(&mut start, end)..end)
            .collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.plan.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// Usually no pause, so that tests are fast. Sometimes a pause that is longer than any accidental delay.
    fn pause(&mut self) -> Duration {
        let scale = match self.plan.below(512) {
            0 => 20,
            1..64 => 1,
            _ => return Duration::ZERO,
        };
        let nanos = self.delay.as_nanos() as u64;
        Duration::from_nanos(self.plan.below(nanos + 1)) * scale
    }
}

#[cfg(test)]
mod tests;
