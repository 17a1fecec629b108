//! What a thread does at a target, by whose memory it is.

use std::ops::Range;

use transom::{BasicType, Op};
use transom_testing::random::Random;

use crate::access::{Access, Kind, Layout};
use crate::layouts::{Sequence, shuffle};
use crate::places::{Found, LONGEST, comb, dense, derived, tooth};
use crate::program::{Area, Call, Memory, Mix, Role};
use crate::scripts::{Script, Writer};
use crate::shapes::Shape;
use crate::values::{buffer, element};

/// How often an element may change without being fetched: then the order of changes is a guess, and
/// the model tries them all.
const GUESSES: u32 = 5;

impl Writer {
    /// Something that may be done at `target`; `alone`: it is locked exclusively.
    pub(crate) fn access(
        &mut self,
        random: &mut Random,
        script: &mut Script<'_>,
        target: u32,
        alone: bool,
    ) {
        let areas = &script.areas[target as usize];
        let is_open = script.open.iter().any(|(open, _)| *open == target);
        let may = |area: &Area| match area.role {
            Role::Owner { rank, thread } => (rank, thread) == (script.rank, script.thread),
            Role::Mailbox { .. } => false,
            Role::Read | Role::Cells { .. } | Role::Section => is_open,
        };
        let mut usable: Vec<usize> = (0..areas.len()).filter(|&at| may(&areas[at])).collect();
        let contested = |&at: &usize| areas[at].role.is_contested();
        if script.hot && usable.iter().any(contested) {
            usable.retain(contested);
        }
        if usable.is_empty() {
            return;
        }
        let index = random.pick(&usable);
        let area = areas[index].clone();
        let memory = script.spec.parts[target as usize].memory;
        let local = target == script.rank && (!is_open || random.one_in(4));
        // By the processor in another rank's memory.
        let often = if memory == Memory::Shared { 2 } else { 8 };
        let across = is_open && script.maps && memory != Memory::Dynamic && random.one_in(often);
        match area.role {
            Role::Read => {
                let kind = if across { Kind::Load } else { Kind::Get };
                self.place(random, script, target, &area, kind);
            }
            Role::Owner { .. } if local || across => {
                let kind = random.pick(&[Kind::Store, Kind::Load]);
                self.place(random, script, target, &area, kind);
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
                self.place(random, script, target, &area, kind);
            }
            Role::Section => self.section(random, script, target, &area, alone, across),
            Role::Cells { ty, mix } => {
                let times = match mix {
                    Mix::Many { .. } => random.from(1, 30),
                    _ => 1,
                };
                for _ in 0..times {
                    let guesses = self.guesses.entry((target, index)).or_default();
                    let may_guess = *guesses < GUESSES;
                    let cells = Cells {
                        area: &area.bytes,
                        ty,
                        mix,
                        may_guess,
                    };
                    let access = self.cells(random, script, target, &cells);
                    let Some(access) = access else { return };
                    if !access.fetches() {
                        *self.guesses.entry((target, index)).or_default() += 1;
                    }
                    script.push(random, access);
                }
            }
            Role::Mailbox { .. } => {}
        }
    }

    /// Reads all of it, and then perhaps changes some.
    fn section(
        &mut self,
        random: &mut Random,
        script: &mut Script<'_>,
        target: u32,
        area: &Area,
        alone: bool,
        across: bool,
    ) {
        let Area { bytes, .. } = area;
        let unit = script.unit(target);
        if !bytes.start.is_multiple_of(unit) {
            return;
        }
        let (read, write) = match across {
            true => (Kind::Load, Kind::Store),
            false => (Kind::Get, Kind::Put),
        };
        let mut get = self.new_access(read, target, bytes.start, BasicType::Byte, bytes.len());
        get.request = !across && random.one_in(5);
        script.push(random, get);
        if random.one_in(3) {
            script.calls.push(Call::Pause(random.below(200) as u64));
        }
        if alone {
            let kind = random.pick(&[write, Kind::Accumulate, Kind::GetAccumulate]);
            self.place(random, script, target, area, kind);
        }
    }

    /// An access to `count` elements, one after the other everywhere.
    pub(crate) fn new_access(
        &mut self,
        kind: Kind,
        target: u32,
        at: usize,
        ty: BasicType,
        count: usize,
    ) -> Access {
        let dense = Layout::dense(ty, count);
        let found = Found {
            ty,
            at,
            far: dense.clone(),
            near: dense.clone(),
            back: dense,
            derived: false,
        };
        self.access_to(kind, target, found)
    }

    fn access_to(&mut self, kind: Kind, target: u32, found: Found) -> Access {
        self.next_id += 1;
        Access {
            id: self.next_id,
            kind,
            request: false,
            derived: found.derived,
            notifies: None,
            after: None,
            target,
            at: found.at,
            ty: found.ty,
            op: match kind {
                Kind::Get | Kind::Load => Op::NoOp,
                _ => Op::Replace,
            },
            far: found.far,
            near: found.near,
            back: found.back,
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
        area: &Area,
        kind: Kind,
    ) {
        use Kind::{Accumulate, CompareAndSwap, FetchAndOp, Get, GetAccumulate, Load, Put, Store};
        let can_derive = matches!(kind, Put | Get | Accumulate | GetAccumulate);
        let unit = match kind {
            Store | Load if target == script.rank => 1,
            _ => script.unit(target),
        };
        let found = match (area.lane, area.bytes.clone()) {
            (Some(lane), bytes) if can_derive && random.one_in(2) => {
                comb(random, kind, &bytes, lane, unit)
            }
            (lane, bytes) => {
                let bytes = match lane {
                    Some(lane) => tooth(random, &bytes, lane),
                    None => bytes,
                };
                match can_derive && random.one_in(3) {
                    true => derived(random, kind, &bytes, unit),
                    false => dense(random, kind, &bytes, unit),
                }
            }
        };
        let Some(found) = found else { return };
        let (at, ty) = (found.at, found.ty);
        let mut access = self.access_to(kind, target, found);
        if access.is_accumulate() && kind != CompareAndSwap {
            // Devices have atomics for these.
            let common = [Op::Sum, Op::Replace, Op::NoOp];
            let ops: &[Op] = if random.one_in(3) { &common } else { &Op::ALL };
            let defined = ops.iter().filter(|op| kind.takes(**op, ty));
            access.op = random.pick(&defined.copied().collect::<Vec<_>>());
        }
        let numbers = random.one_in(2);
        access.operands = buffer(random, &access.near, numbers);
        let can_ask = script.passive && !matches!(kind, FetchAndOp | CompareAndSwap | Store | Load);
        access.request = can_ask && random.one_in(3);
        // The others are for handovers.
        let counters = script.spec.parts[target as usize].counters / 2;
        if kind == Put && !access.derived && !access.request && counters > 0 && random.one_in(4) {
            access.notifies = Some(1 + 2 * random.below(counters as usize) as u32);
        }
        if kind == CompareAndSwap {
            access.compare = random.bytes(access.near.len());
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
    fn cells(
        &mut self,
        random: &mut Random,
        script: &Script<'_>,
        target: u32,
        cells: &Cells<'_>,
    ) -> Option<Access> {
        use Kind::{Accumulate, CompareAndSwap, FetchAndOp, GetAccumulate};
        let Cells { ty, mix, .. } = *cells;
        let there = cells.area.len().div_ceil(ty.extent());
        let first = random.below(there);
        let at = cells.area.start + first * ty.extent();
        if !at.is_multiple_of(script.unit(target)) {
            return None;
        }
        let swaps = matches!(mix, Mix::All | Mix::One { swaps: true, .. });
        let mut kind = random.pick(&[Accumulate, GetAccumulate, FetchAndOp, CompareAndSwap]);
        if kind == CompareAndSwap && !swaps || kind == Accumulate && !cells.may_guess {
            kind = FetchAndOp;
        }
        if let Mix::Many { .. } = mix {
            kind = Accumulate;
        }
        let found = match kind {
            Accumulate | GetAccumulate if random.one_in(3) => {
                // Any of them, in any order.
                let mut chosen: Vec<usize> = (0..there).collect();
                shuffle(random, &mut chosen);
                chosen.truncate(random.from(1, there));
                let from_here = |cell: &usize| (*cell as i64 - first as i64) * ty.extent() as i64;
                let shape = Shape::IndexedBlock {
                    len: 1,
                    at: chosen.iter().map(from_here).collect(),
                    bytes: true,
                    of: Shape::Basic(ty).boxed(),
                };
                let elements = Sequence {
                    unit: vec![ty],
                    times: chosen.len(),
                    splits: false,
                };
                Found {
                    ty,
                    at,
                    far: Layout::new(shape, 1, false),
                    // Not from the same bytes twice: what is between numbers is no number.
                    near: elements.layout(random, LONGEST, false)?,
                    back: elements.layout(random, LONGEST, false)?,
                    derived: true,
                }
            }
            _ => {
                let count = match kind {
                    FetchAndOp | CompareAndSwap => 1,
                    _ => random.from(1, there - first),
                };
                Found::dense(ty, at, count)
            }
        };
        let mut access = self.access_to(kind, target, found);
        if kind != CompareAndSwap {
            let defined = |op: &Op| kind.takes(*op, ty);
            let ops: Vec<_> = Op::ALL.into_iter().filter(defined).collect();
            access.op = match mix {
                _ if kind != Accumulate && !script.spec.same_op && random.one_in(5) => Op::NoOp,
                Mix::One { op, .. } | Mix::Many { op } => op,
                Mix::All => random.pick(&ops),
            };
        }
        access.operands = buffer(random, &access.near, true);
        if kind == CompareAndSwap {
            access.compare = element(random, ty);
            access.compare.truncate(access.near.len());
        }
        let can_ask = script.passive && matches!(kind, Accumulate | GetAccumulate);
        access.request = can_ask && random.one_in(3);
        Some(access)
    }
}

/// Elements on which all work.
struct Cells<'a> {
    area: &'a Range<usize>,
    ty: BasicType,
    mix: Mix,
    /// Whether they may be changed without being fetched.
    may_guess: bool,
}
