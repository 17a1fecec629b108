//! What each thread does in an epoch.

use std::collections::HashMap;
use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, LockKind, Op};
use transom_testing::random::Random;

use crate::access::{Access, Kind};
use crate::faults;
use crate::program::{Area, Call, Epoch, Memory, Role, Sync, WindowSpec};

pub(crate) struct Writer {
    pub(crate) ranks: u32,
    pub(crate) threads: usize,
    pub(crate) next_id: u32,
    /// How often elements were changed without being fetched, by target and area of the current
    /// epoch.
    pub(crate) guesses: HashMap<(u32, usize), u32>,
}

/// One script while it is written.
pub(crate) struct Script<'a> {
    pub(crate) calls: Vec<Call>,
    pub(crate) rank: u32,
    pub(crate) thread: usize,
    pub(crate) spec: &'a WindowSpec,
    pub(crate) areas: &'a [Vec<Area>],
    /// What may be flushed and have requests.
    pub(crate) passive: bool,
    /// Whether the processor may work in the memory of targets: a `start` alone waits for nobody.
    pub(crate) maps: bool,
    /// Targets whose epoch is open, and whether it excludes others.
    pub(crate) open: Vec<(u32, bool)>,
    /// Operations under way: target, bytes, and how they touch them.
    under_way: Vec<(u32, Range<usize>, Touch)>,
    requests: Vec<u32>,
    /// Works on contested areas where it can.
    pub(crate) hot: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Touch {
    Read,
    Write,
    /// Elements at `at` and at distances of whole elements from there.
    Accumulate {
        ty: BasicType,
        at: usize,
        op: Op,
    },
}

impl Touch {
    fn of(access: &Access) -> Self {
        let Access { ty, op, .. } = *access;
        match access.kind {
            Kind::Get | Kind::Load => Self::Read,
            Kind::Put | Kind::Store => Self::Write,
            _ => {
                let mut places = (0..access.count()).map(|element| access.place(element));
                let at = places.next().unwrap_or(access.at);
                let fits = |place: usize| place.abs_diff(at).is_multiple_of(ty.extent());
                match places.all(fits) {
                    true => Self::Accumulate { ty, at, op },
                    // Elements that are off by a part of one: as if it wrote everywhere.
                    false => Self::Write,
                }
            }
        }
    }

    /// Whether two accesses of one origin that overlap may be under way together: reads, and
    /// accumulates of the same elements, where those keep their order.
    fn goes_with(self, other: Self, spec: &WindowSpec) -> bool {
        use Touch::Accumulate;
        match (self, other) {
            (Self::Read, Self::Read) => true,
            (
                Accumulate { ty, at, op },
                Accumulate {
                    ty: other,
                    at: there,
                    op: before,
                },
            ) => {
                spec.ordered
                    && ty == other
                    && (op == before || !spec.same_op)
                    && at.abs_diff(there).is_multiple_of(ty.extent())
            }
            _ => false,
        }
    }
}

impl Writer {
    pub(crate) fn new(ranks: u32, threads: usize) -> Self {
        Self {
            ranks,
            threads,
            next_id: 0,
            guesses: HashMap::new(),
        }
    }

    /// Which thread of `rank` locks `target`.
    pub(crate) fn locker(&self, rank: u32, target: u32) -> usize {
        (rank + target) as usize % self.threads
    }

    pub(crate) fn write(&mut self, random: &mut Random, spec: &WindowSpec, epoch: &mut Epoch) {
        self.guesses.clear();
        let hot = random.one_in(4);
        let excludes: Vec<bool> = (0..self.ranks).map(|_| random.one_in(2)).collect();
        for rank in 0..self.ranks {
            epoch.before.push(faults::before(random, rank, self));
            let mut scripts = Vec::new();
            for thread in 0..self.threads {
                let mut script = Script {
                    calls: Vec::new(),
                    rank,
                    thread,
                    spec,
                    areas: &epoch.areas,
                    passive: matches!(epoch.sync, Sync::Locks | Sync::LockAll { .. }),
                    maps: !matches!(
                        epoch.sync,
                        Sync::Exposure {
                            unchecked: false,
                            ..
                        }
                    ),
                    open: Vec::new(),
                    under_way: Vec::new(),
                    requests: Vec::new(),
                    hot,
                };
                match &epoch.sync {
                    Sync::Locks => self.lock_by_lock(random, &mut script, &excludes),
                    Sync::Exposure { origins, .. } => {
                        let posted = |target: &u32| origins[*target as usize].contains(&rank);
                        let targets = (0..self.ranks).filter(posted);
                        script.open = targets.map(|target| (target, false)).collect();
                        self.accesses(random, &mut script, &epoch.sync);
                    }
                    _ => {
                        script.open = (0..self.ranks).map(|target| (target, false)).collect();
                        self.accesses(random, &mut script, &epoch.sync);
                    }
                }
                script.finish_requests();
                scripts.push(script.calls);
            }
            epoch.scripts.push(scripts);
        }
    }

    /// One or two targets at a time, in ascending order so that nobody waits in a circle.
    fn lock_by_lock(&mut self, random: &mut Random, script: &mut Script<'_>, excludes: &[bool]) {
        let mine: Vec<_> = (0..self.ranks)
            .filter(|&target| self.locker(script.rank, target) == script.thread)
            .collect();
        for _ in 0..random.below(5) {
            let first = random.below(mine.len().max(1));
            let chosen = mine.iter().skip(first).take(random.from(1, 2));
            for &target in chosen {
                let areas = &script.areas[target as usize];
                let sections = areas.iter().any(|area| area.role == Role::Section);
                let excludes = sections || excludes[target as usize];
                let (kind, assert) = match excludes {
                    true if random.one_in(4) => (LockKind::Shared, Assert::NONE),
                    true => (LockKind::Exclusive, Assert::NONE),
                    false if random.one_in(4) => (LockKind::Shared, Assert::NO_CHECK),
                    false => (LockKind::Shared, Assert::NONE),
                };
                script.calls.push(Call::Lock(kind, target, assert));
                script.open.push((target, kind == LockKind::Exclusive));
            }
            self.accesses(random, script, &Sync::Locks);
            if random.one_in(2) {
                script.finish_requests();
            }
            while !script.open.is_empty() {
                let (target, _) = script.open.swap_remove(random.below(script.open.len()));
                script.under_way.retain(|(other, ..)| *other != target);
                script.calls.push(Call::Unlock(target));
            }
            script.finish_requests();
        }
    }

    fn accesses(&mut self, random: &mut Random, script: &mut Script<'_>, sync: &Sync) {
        let most = if script.hot { 16 } else { 9 };
        for _ in 0..random.below(most) {
            if random.one_in(9) {
                let wrong = faults::within(random, script.spec, sync, self, script.rank, |rank| {
                    script.open.iter().any(|(target, _)| *target == rank)
                });
                script.calls.extend(wrong.map(Call::Wrong));
            }
            let memory = script.spec.parts[script.rank as usize].memory;
            if memory == Memory::Dynamic && random.one_in(6) {
                script.calls.push(Call::Churn);
            }
            if !script.open.is_empty() {
                let (target, alone) = random.pick(&script.open);
                self.access(random, script, target, alone);
            } else if let Sync::Exposure { .. } | Sync::Fence { .. } = sync {
                // A rank that only exposes its part may still load and store.
                self.access(random, script, script.rank, false);
            }
            script.pause(random);
        }
    }
}

impl Script<'_> {
    pub(crate) fn unit(&self, target: u32) -> usize {
        self.spec.parts[target as usize].unit as usize
    }

    /// Adds an access, behind a flush if it conflicts with what is under way; leaves it out where
    /// there is no flush.
    pub(crate) fn push(&mut self, random: &mut Random, access: Access) {
        let (bytes, touch) = (access.bytes(), Touch::of(&access));
        let conflicts = |(target, other, how): &(u32, Range<usize>, Touch)| {
            let overlap = other.start < bytes.end && bytes.start < other.end;
            *target == access.target && overlap && !touch.goes_with(*how, self.spec)
        };
        if self.under_way.iter().any(conflicts) {
            if !self.passive {
                return;
            }
            self.flush(random, access.target);
        }
        // Elsewhere, they may be a put and a get.
        let is_local = access.target == self.rank;
        if !(is_local && matches!(access.kind, Kind::Store | Kind::Load)) {
            self.under_way.push((access.target, bytes, touch));
        }
        if access.request {
            self.requests.push(access.id);
        }
        self.calls.push(Call::Access(access.into()));
    }

    fn flush(&mut self, random: &mut Random, target: u32) {
        if random.one_in(4) {
            self.calls.push(Call::FlushAll);
            self.under_way.clear();
        } else {
            self.calls.push(Call::Flush(target));
            self.under_way.retain(|(other, ..)| *other != target);
        }
    }

    /// Now and then a flush or the end of a request.
    fn pause(&mut self, random: &mut Random) {
        if !self.passive || self.open.is_empty() {
            return;
        }
        let (target, _) = random.pick(&self.open);
        match random.below(12) {
            0 => self.flush(random, target),
            1 => self.calls.push(Call::FlushLocal(target)),
            2 => self.calls.push(Call::FlushLocalAll),
            3 => self.calls.push(Call::Sync),
            4..6 if !self.requests.is_empty() => {
                let id = self.requests.swap_remove(random.below(self.requests.len()));
                self.calls.push(Call::Wait(id));
            }
            _ => {}
        }
    }

    fn finish_requests(&mut self) {
        self.calls.extend(self.requests.drain(..).map(Call::Wait));
    }
}
