//! What each thread does in an epoch.

use std::collections::HashMap;
use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, LockKind, Op};

use crate::elements;
use crate::faults;
use crate::generate::element;
use crate::program::{Access, Area, Call, Epoch, Kind, Mix, Role, Sync, WindowSpec, span};
use crate::random::Random;

/// How often an element may change without being fetched: then the order of changes is a guess, and
/// the model tries them all.
const GUESSES: u32 = 5;

pub(crate) struct Writer {
    pub(crate) ranks: u32,
    pub(crate) threads: usize,
    next_id: u32,
    /// By target and area of the current epoch.
    guesses: HashMap<(u32, usize), u32>,
}

/// One script while it is written.
struct Script<'a> {
    calls: Vec<Call>,
    rank: u32,
    thread: usize,
    spec: &'a WindowSpec,
    areas: &'a [Vec<Area>],
    /// What may be flushed and have requests.
    passive: bool,
    /// Targets whose epoch is open, and whether it excludes others.
    open: Vec<(u32, bool)>,
    /// Operations under way: target, bytes, and how they touch them.
    under_way: Vec<(u32, Range<usize>, Touch)>,
    requests: Vec<u32>,
    hot: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Touch {
    Read,
    Write,
    Accumulate { ty: BasicType, at: usize },
}

impl Touch {
    fn of(access: &Access) -> Self {
        match access.kind {
            Kind::Get | Kind::Load => Self::Read,
            Kind::Put | Kind::Store => Self::Write,
            _ => Self::Accumulate {
                ty: access.ty,
                at: access.at,
            },
        }
    }

    /// Whether two accesses of one origin that overlap may be under way together: reads, and
    /// accumulates of the same elements, where those keep their order.
    fn goes_with(self, other: Self, ordered: bool) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => true,
            (
                Self::Accumulate { ty, at },
                Self::Accumulate {
                    ty: other,
                    at: there,
                },
            ) => ordered && ty == other && at.abs_diff(there).is_multiple_of(ty.extent()),
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

    /// Something that may be done at `target`; `alone`: it is locked exclusively.
    fn access(&mut self, random: &mut Random, script: &mut Script<'_>, target: u32, alone: bool) {
        let areas = &script.areas[target as usize];
        let is_open = script.open.iter().any(|(open, _)| *open == target);
        let me = Role::Owner {
            rank: script.rank,
            thread: script.thread,
        };
        let may =
            |area: &Area| area.role == me || is_open && !matches!(area.role, Role::Owner { .. });
        let mut usable: Vec<usize> = (0..areas.len()).filter(|&at| may(&areas[at])).collect();
        let contested = |&at: &usize| areas[at].role.is_contested();
        if script.hot && usable.iter().any(contested) {
            usable.retain(contested);
        }
        if usable.is_empty() {
            return;
        }
        let index = random.pick(&usable);
        let Area { bytes, role } = areas[index].clone();
        let local = target == script.rank && (!is_open || random.one_in(4));
        match role {
            Role::Read => self.place(random, script, target, &bytes, Kind::Get),
            Role::Owner { .. } if local => {
                let kind = random.pick(&[Kind::Store, Kind::Load]);
                self.place(random, script, target, &bytes, kind);
            }
            Role::Owner { .. } => {
                use Kind::{Accumulate, CompareAndSwap, FetchAndOp, Get, GetAccumulate, Put};
                let kinds = [
                    Put,
                    Put,
                    Get,
                    Get,
                    Accumulate,
                    Accumulate,
                    GetAccumulate,
                    FetchAndOp,
                    CompareAndSwap,
                ];
                let kind = random.pick(&kinds);
                self.place(random, script, target, &bytes, kind);
            }
            Role::Section => self.section(script, random, target, &bytes, alone),
            Role::Cells { ty, mix } => {
                let times = match mix {
                    Mix::Many { .. } => random.from(1, 30),
                    _ => 1,
                };
                for _ in 0..times {
                    let guesses = self.guesses.entry((target, index)).or_default();
                    let may_guess = *guesses < GUESSES;
                    let access = self.cells(random, script, target, &bytes, ty, mix, may_guess);
                    let Some(access) = access else { return };
                    if !access.fetches() {
                        *self.guesses.entry((target, index)).or_default() += 1;
                    }
                    script.push(random, access);
                }
            }
        }
    }

    /// Reads all of it, and then perhaps changes some.
    fn section(
        &mut self,
        script: &mut Script<'_>,
        random: &mut Random,
        target: u32,
        bytes: &Range<usize>,
        alone: bool,
    ) {
        let unit = script.unit(target);
        if !bytes.start.is_multiple_of(unit) {
            return;
        }
        let mut get = self.new_access(Kind::Get, target, bytes.start, BasicType::Byte, bytes.len());
        get.request = random.one_in(5);
        script.push(random, get);
        if random.one_in(3) {
            script.calls.push(Call::Pause(random.below(200) as u64));
        }
        if alone {
            let kind = random.pick(&[Kind::Put, Kind::Accumulate, Kind::GetAccumulate]);
            self.place(random, script, target, bytes, kind);
        }
    }

    fn new_access(
        &mut self,
        kind: Kind,
        target: u32,
        at: usize,
        ty: BasicType,
        count: usize,
    ) -> Access {
        self.next_id += 1;
        Access {
            id: self.next_id,
            kind,
            request: false,
            target,
            at,
            ty,
            count,
            op: match kind {
                Kind::Get | Kind::Load => Op::NoOp,
                _ => Op::Replace,
            },
            operands: Vec::new(),
            compare: Vec::new(),
        }
    }

    /// An access of a kind somewhere in an area that belongs to this thread for now.
    fn place(
        &mut self,
        random: &mut Random,
        script: &mut Script<'_>,
        target: u32,
        area: &Range<usize>,
        kind: Kind,
    ) {
        use Kind::{CompareAndSwap, FetchAndOp, Get, Load, Put, Store};
        let ty = match kind {
            Put | Get | Store | Load => BasicType::Byte,
            CompareAndSwap => random.pick(&BasicType::ALL[..8]),
            _ => random.pick(&BasicType::ALL),
        };
        let unit = match kind {
            Store | Load => 1,
            _ => script.unit(target),
        };
        let align = if random.one_in(3) { 1 } else { ty.extent() };
        let aligned = |at: usize| at.next_multiple_of(unit).next_multiple_of(align);
        let mut at = random.from(area.start, area.end - 1);
        at = if random.one_in(3) {
            aligned(area.start)
        } else {
            aligned(at)
        };
        if !at.is_multiple_of(unit) {
            at = at.next_multiple_of(unit);
        }
        if at >= area.end {
            return;
        }
        let room = area.end - at;
        let fits = (0..).take_while(|count| span(ty, count + 1) <= room);
        let most = fits.last().map_or(0, |count| count + 1).min(3000);
        let count = match kind {
            FetchAndOp | CompareAndSwap if most == 0 => return,
            FetchAndOp | CompareAndSwap => 1,
            _ if random.one_in(20) => 0,
            _ if random.one_in(3) => random.from(0, most),
            _ => random.from(0, most.min(9)),
        };
        let mut access = self.new_access(kind, target, at, ty, count);
        if access.is_accumulate() && kind != CompareAndSwap {
            let ops = operations(kind, ty);
            access.op = random.pick(&ops);
        }
        access.operands = match random.one_in(2) {
            true => random.bytes(access.len()),
            false => (0..count).flat_map(|_| element(random, ty)).collect(),
        };
        let can_ask = script.passive && !matches!(kind, FetchAndOp | CompareAndSwap | Store | Load);
        access.request = can_ask && random.one_in(3);
        if kind == CompareAndSwap {
            access.compare = random.bytes(access.len());
            // Behind a replace, which it keeps its order with, it succeeds.
            if random.one_in(2) {
                let mut first = self.new_access(FetchAndOp, target, at, ty, 1);
                first.operands = access.compare.clone();
                script.push(random, first);
            }
        }
        script.push(random, access);
    }

    /// An access to some of the elements that everybody works on.
    #[expect(clippy::too_many_arguments, reason = "what an access consists of")]
    fn cells(
        &mut self,
        random: &mut Random,
        script: &Script<'_>,
        target: u32,
        area: &Range<usize>,
        ty: BasicType,
        mix: Mix,
        may_guess: bool,
    ) -> Option<Access> {
        use Kind::{Accumulate, CompareAndSwap, FetchAndOp, GetAccumulate};
        let there = area.len().div_ceil(ty.extent());
        let first = random.below(there);
        let at = area.start + first * ty.extent();
        if !at.is_multiple_of(script.unit(target)) {
            return None;
        }
        let swaps = matches!(mix, Mix::All | Mix::One { swaps: true, .. });
        let mut kind = random.pick(&[Accumulate, GetAccumulate, FetchAndOp, CompareAndSwap]);
        if kind == CompareAndSwap && !swaps || kind == Accumulate && !may_guess {
            kind = FetchAndOp;
        }
        if let Mix::Many { .. } = mix {
            kind = Accumulate;
        }
        let count = match kind {
            FetchAndOp | CompareAndSwap => 1,
            _ => random.from(1, there - first),
        };
        let mut access = self.new_access(kind, target, at, ty, count);
        if kind != CompareAndSwap {
            let ops = operations(kind, ty);
            access.op = match mix {
                _ if kind != Accumulate && random.one_in(5) => Op::NoOp,
                Mix::One { op, .. } | Mix::Many { op } => op,
                Mix::All => random.pick(&ops),
            };
        }
        access.operands = (0..count).flat_map(|_| element(random, ty)).collect();
        access.compare = match kind {
            CompareAndSwap => element(random, ty),
            _ => Vec::new(),
        };
        let can_ask = script.passive && matches!(kind, Accumulate | GetAccumulate);
        access.request = can_ask && random.one_in(3);
        Some(access)
    }
}

impl Script<'_> {
    fn unit(&self, target: u32) -> usize {
        self.spec.parts[target as usize].unit as usize
    }

    /// Adds an access, behind a flush if it conflicts with what is under way; leaves it out where
    /// there is no flush.
    fn push(&mut self, random: &mut Random, access: Access) {
        let (bytes, touch) = (access.bytes(), Touch::of(&access));
        let conflicts = |(target, other, how): &(u32, Range<usize>, Touch)| {
            let overlap = other.start < bytes.end && bytes.start < other.end;
            *target == access.target && overlap && !touch.goes_with(*how, self.spec.ordered)
        };
        if self.under_way.iter().any(conflicts) {
            if !self.passive {
                return;
            }
            self.flush(random, access.target);
        }
        if !matches!(access.kind, Kind::Store | Kind::Load) {
            self.under_way.push((access.target, bytes, touch));
        }
        if access.request {
            self.requests.push(access.id);
        }
        self.calls.push(Call::Access(access));
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
            3..5 if !self.requests.is_empty() => {
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

fn operations(kind: Kind, ty: BasicType) -> Vec<Op> {
    let fits =
        |&op: &Op| elements::is_defined(op, ty) && (kind != Kind::Accumulate || op != Op::NoOp);
    Op::ALL.into_iter().filter(fits).collect()
}
