//! What is counted of one window, and all that was counted in this process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdma_sys_shim::Via;

use super::statistics::{Accesses, OperationKind, Statistics, TargetKind, Waits};
use super::{locked, trace};
use crate::terms::Flavor;

/// The values of `Via`, in the order of its variants.
const VIAS: [Via; 4] = [Via::Mapped, Via::Attached, Via::Agent, Via::Device];
const WAYS: usize = VIAS.len();
const TARGETS: usize = TargetKind::ALL.len();
const KINDS: usize = OperationKind::ALL.len() * TARGETS * WAYS;

/// The number of freed windows that keep a line of their own; later ones are added up.
const MOST_KEPT: usize = 256;

/// A number of events, and their total amount.
pub(super) struct Tally {
    count: AtomicU64,
    amount: AtomicU64,
}

impl Tally {
    pub(super) const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            amount: AtomicU64::new(0),
        }
    }

    fn add(&self, amount: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.amount.fetch_add(amount, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (read(&self.count), read(&self.amount))
    }

    pub(super) fn add_wait(&self, time: Duration) {
        self.add(time.as_nanos() as u64);
    }

    /// For tallies whose amounts come from [`Tally::add_wait`].
    pub(super) fn waits(&self) -> Waits {
        let (count, nanoseconds) = self.read();
        let time = Duration::from_nanos(nanoseconds);
        Waits { count, time }
    }
}

/// An epoch of a window at this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TracedEpoch {
    Fence,
    Lock(u32),
    LockAll,
    Start,
    Post,
}

impl TracedEpoch {
    fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence epoch",
            Self::Lock(_) => "lock epoch",
            Self::LockAll => "lock_all epoch",
            Self::Start => "start epoch",
            Self::Post => "post epoch",
        }
    }

    fn target(self) -> Option<u32> {
        match self {
            Self::Lock(rank) => Some(rank),
            _ => None,
        }
    }

    /// A different number for each epoch that can be open in a window.
    fn number(self) -> u64 {
        match self {
            Self::Fence => 0,
            Self::LockAll => 1,
            Self::Start => 2,
            Self::Post => 3,
            Self::Lock(rank) => 4 + u64::from(rank),
        }
    }
}

/// Counts of one window.
pub(crate) struct Counters {
    /// Numbers this rank's windows in the order of creation.
    pub(super) number: u32,
    flavor: Flavor,
    name: Mutex<String>,
    accesses: [Tally; KINDS],
    epochs: AtomicU64,
    flushes: AtomicU64,
    pub(super) waits: Tally,
    /// Ensures that each epoch that ends has begun.
    open: Mutex<BTreeSet<TracedEpoch>>,
}

impl Counters {
    /// For a new window with the number `number` of this rank.
    pub(crate) fn new(number: u32, flavor: Flavor) -> Arc<Self> {
        let counters = Arc::new(Self {
            number,
            flavor,
            name: Mutex::default(),
            accesses: [const { Tally::new() }; KINDS],
            epochs: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            waits: Tally::new(),
            open: Mutex::default(),
        });
        super::count_waits();
        if super::reports() {
            locked(&ALL).live.push(counters.clone());
        }
        counters
    }

    pub(crate) fn set_name(&self, name: &str) {
        name.clone_into(&mut locked(&self.name));
    }

    /// The window's title: its number, the call that made it, and its name.
    pub(super) fn title(&self) -> String {
        let name = locked(&self.name);
        let mut title = format!("{} {}", self.number, self.flavor);
        if !name.is_empty() {
            title.push_str(&format!(" {:?}", *name));
        }
        title
    }

    pub(crate) fn count(&self, kind: OperationKind, target: TargetKind, via: Via, bytes: u64) {
        let index = (kind as usize * TARGETS + target as usize) * WAYS + via as usize;
        self.accesses[index].add(bytes);
    }

    /// Notes the end of a call of flush or its variants, which leaves no other trace.
    pub(crate) fn flushed(&self, call: &'static str, target: u32) {
        self.count_flush();
        if trace::is_on() {
            trace::mark(call, self.title(), Some(target));
        }
    }

    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn begin_epoch(&self, epoch: TracedEpoch) {
        if locked(&self.open).insert(epoch) {
            self.epochs.fetch_add(1, Ordering::Relaxed);
            self.trace_epoch(true, epoch);
        }
    }

    /// Has no effect if the epoch never began.
    pub(crate) fn end_epoch(&self, epoch: TracedEpoch) {
        if locked(&self.open).remove(&epoch) {
            self.trace_epoch(false, epoch);
        }
    }

    fn trace_epoch(&self, begins: bool, epoch: TracedEpoch) {
        if trace::is_on() {
            let id = u64::from(self.number) << 34 | epoch.number();
            trace::epoch(begins, epoch.name(), id, self.title(), epoch.target());
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut accesses = Vec::new();
        let mut tallies = self.accesses.iter();
        for operation in OperationKind::ALL {
            for target in TargetKind::ALL {
                for (via, tally) in VIAS.into_iter().zip(tallies.by_ref().take(WAYS)) {
                    let (count, bytes) = tally.read();
                    if count > 0 {
                        accesses.push(Accesses {
                            operation,
                            target,
                            via,
                            count,
                            bytes,
                        });
                    }
                }
            }
        }
        Statistics {
            accesses,
            epochs: self.epochs.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            waits: self.waits.waits(),
        }
    }

    /// Notes that the window is freed.
    pub(crate) fn finish(self: &Arc<Self>) {
        let mut open = std::mem::take(&mut *locked(&self.open));
        while let Some(epoch) = open.pop_first() {
            self.trace_epoch(false, epoch);
        }
        let mut all = locked(&ALL);
        let Some(place) = all.live.iter().position(|live| Arc::ptr_eq(live, self)) else {
            return;
        };
        all.live.swap_remove(place);
        match all.freed.len() < MOST_KEPT {
            true => all
                .freed
                .push((self.number, self.title(), self.statistics())),
            false => {
                all.others += 1;
                let statistics = self.statistics();
                all.rest += &statistics;
            }
        }
    }
}

/// The data of the report.
struct All {
    live: Vec<Arc<Counters>>,
    freed: Vec<(u32, String, Statistics)>,
    /// How many windows were freed after these, and their operations.
    others: u64,
    rest: Statistics,
}

static ALL: Mutex<All> = Mutex::new(All {
    live: Vec::new(),
    freed: Vec::new(),
    others: 0,
    rest: Statistics {
        accesses: Vec::new(),
        epochs: 0,
        flushes: 0,
        waits: Waits {
            count: 0,
            time: Duration::ZERO,
        },
    },
});

/// The operations in the windows of this process, with the windows' titles.
pub(super) fn all() -> Vec<(String, Statistics)> {
    let all = locked(&ALL);
    let live = all.live.iter();
    let live = live.map(|counters| (counters.number, counters.title(), counters.statistics()));
    let mut windows: Vec<_> = all.freed.iter().cloned().chain(live).collect();
    windows.sort_by_key(|&(number, ..)| number);
    let windows = windows.into_iter();
    let mut rows: Vec<_> = windows
        .map(|(_, title, counted)| (title, counted))
        .collect();
    if all.others > 0 {
        rows.push((format!("{} more", all.others), all.rest.clone()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_read_back_in_its_place() {
        let counters = Counters::new(1, Flavor::Allocate);
        for (index, operation) in (1..).zip(OperationKind::ALL) {
            for target in TargetKind::ALL {
                for via in VIAS {
                    for _ in 0..index {
                        counters.count(operation, target, via, 10 + via as u64);
                    }
                }
            }
        }
        let counted = counters.statistics();
        assert_eq!(counted.accesses.len(), KINDS);
        for accesses in &counted.accesses {
            let index = accesses.operation as u64 + 1;
            assert_eq!(accesses.count, index, "{accesses:?}");
            assert_eq!(accesses.bytes, index * (10 + accesses.via as u64));
        }
        assert_eq!(
            counted.of(OperationKind::Get),
            (16, 2 * 2 * (10 + 11 + 12 + 13))
        );
        assert_eq!(counted.by(Via::Agent), (30, 30 * 12));
        let mut twice = counted.clone();
        twice += &counted;
        assert_eq!(twice.of(OperationKind::Get).0, 32);
        assert_eq!(twice.accesses.len(), KINDS);
        let mut sum = Statistics::default();
        sum += &counted;
        assert_eq!(sum, counted);
    }

    #[test]
    fn an_epoch_begins_once_and_ends_only_if_it_began() {
        let counters = Counters::new(2, Flavor::Dynamic);
        for _ in 0..2 {
            counters.begin_epoch(TracedEpoch::Lock(3));
        }
        counters.end_epoch(TracedEpoch::Lock(4));
        assert_eq!(counters.statistics().epochs, 1);
        counters.end_epoch(TracedEpoch::Lock(3));
        counters.begin_epoch(TracedEpoch::Lock(3));
        assert_eq!(counters.statistics().epochs, 2);
    }
}
