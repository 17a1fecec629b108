//! Random programs: a pure function of the seed, so that every rank makes the same one.
//!
//! They are valid, and their outcome can be decided: memory is cut into areas, each of which belongs
//! to one thread, or to readers, or is contested in a way that the model understands. Where a thread
//! would conflict with its own operations that are under way, it flushes first, or lets it be.

use std::ops::Range;

use transom::raw::Assert;
use transom::{BasicType, Op};

use crate::elements;
use crate::program::{
    Area, Epoch, Memory, Mix, Part, Program, Role, Round, Sync, WindowSpec, span,
};
use crate::random::Random;
use crate::scripts::Writer;
use crate::wrong::MOVED;

/// Seeds of one residue make programs of the same number of ranks and level of threads.
pub(crate) const CLASSES: u64 = 8;

pub(crate) fn ranks_of(seed: u64) -> u32 {
    2 + (seed % 4) as u32
}

/// Whether a job for this seed's programs has several threads per rank.
pub(crate) fn is_threaded(seed: u64) -> bool {
    seed % CLASSES < 4
}

/// An area that will be contested in the last epoch of a round.
struct Contested {
    target: usize,
    area: Area,
}

pub(crate) fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let ranks = ranks_of(seed);
    let threads = match is_threaded(seed) {
        true => random.from(1, 3),
        false => 1,
    };
    let windows: Vec<_> = (0..random.from(1, 3))
        .map(|_| window(&mut random, ranks))
        .collect();
    let mut writer = Writer::new(ranks, threads);
    let mut epochs = 0;
    let rounds = (0..random.from(2, 4))
        .map(|_| round(&mut random, &windows, &mut writer, &mut epochs))
        .collect();
    Program {
        seed,
        ranks,
        windows,
        rounds,
    }
}

fn window(random: &mut Random, ranks: u32) -> WindowSpec {
    let flavor = random.below(8);
    let locks = !random.one_in(6);
    let granularity = random.pick(&["", "", "2", "4", "8", "16", "4096"]);
    let ordering = random.pick(&["", "", "", "", "rar,raw,war,waw", "none", "raw,waw"]);
    let unit = random.pick(&[1, 1, 2, 3, 4, 8, 16]);
    let same_unit = random.one_in(2);
    let noncontiguous = random.one_in(2);
    let part = |_| {
        let memory = match (flavor, random.below(3)) {
            (0..3, _) => Memory::Allocate,
            (3, _) => Memory::Shared,
            (4, _) => Memory::Dynamic,
            (_, 0) => Memory::AllocMem,
            _ => Memory::Heap {
                into_page: random.pick(&[0, 16, 64, 1, 5, 2048, 4090]),
            },
        };
        let size = match random.below(12) {
            0 => 0,
            1..4 => random.from(1, 64),
            4..8 => random.from(64, 700),
            8..11 => random.from(700, 5000),
            _ => random.from(5000, 40_000),
        };
        let mut hints = vec![("no_locks", if locks { "false" } else { "true" })];
        if !granularity.is_empty() {
            hints.push(("mpi_accumulate_granularity", granularity));
        }
        if !ordering.is_empty() {
            hints.push(("accumulate_ordering", ordering));
        }
        if noncontiguous {
            hints.push(("alloc_shared_noncontig", "true"));
        }
        if same_unit {
            hints.push(("same_disp_unit", "true"));
        }
        if random.one_in(4) {
            hints.push(("transom_adopt", random.pick(&["true", "false"])));
        }
        if random.one_in(4) {
            hints.push(("transom_eager_lock_all", "true"));
        }
        if random.one_in(4) {
            hints.push((
                "mpi_minimum_memory_alignment",
                random.pick(&["8", "64", "8192"]),
            ));
        }
        if random.one_in(4) {
            hints.push(("a_key_that_nobody_knows", "x"));
        }
        let unit = match (memory, same_unit) {
            // There, displacements are addresses.
            (Memory::Dynamic, _) => 1,
            (_, true) => unit,
            (_, false) => random.pick(&[1, 1, 2, 5, 8, 64]),
        };
        let mut cuts = Vec::new();
        if memory == Memory::Dynamic && size > MOVED {
            cuts.extend((0..random.below(4)).map(|_| random.from(MOVED, size - 1)));
            cuts.sort_unstable();
            cuts.dedup();
        }
        Part {
            memory,
            size,
            unit,
            hints,
            cuts,
        }
    };
    let parts = (0..ranks).map(part).collect();
    WindowSpec {
        parts,
        locks,
        ordered: matches!(ordering, "" | "rar,raw,war,waw"),
    }
}

fn round(
    random: &mut Random,
    windows: &[WindowSpec],
    writer: &mut Writer,
    epochs: &mut usize,
) -> Round {
    let count = random.from(1, 3);
    let last = random.below(windows.len());
    let mut stores = Vec::new();
    let contested = contested(random, &windows[last], last, &mut stores);
    let is_dynamic = |at: &usize| windows[*at].parts[0].memory == Memory::Dynamic;
    let dynamic = (0..windows.len()).filter(is_dynamic);
    let mut round = Round {
        stores,
        reattached: dynamic.filter(|_| random.one_in(2)).collect(),
        epochs: Vec::new(),
    };
    let (mut window, mut sync) = (last, sync(random, &windows[last]));
    for left in (0..count).rev() {
        let is_last = left == 0;
        // Often of the window and the kind of before: then epochs meet without a barrier between.
        if is_last {
            if window != last {
                (window, sync) = (last, self::sync(random, &windows[last]));
            }
        } else if random.one_in(2) {
            window = random.below(windows.len());
            sync = self::sync(random, &windows[window]);
        }
        if random.one_in(2) {
            sync = again(random, sync, writer.ranks);
        }
        // Sections need locks of their own; other epochs leave those areas alone.
        if is_last
            && contested
                .iter()
                .any(|contested| contested.area.role == Role::Section)
            && windows[last].locks
        {
            sync = Sync::Locks;
        }
        let spec = &windows[window];
        let kept_out: &[Contested] = if window == last { &contested } else { &[] };
        let areas = areas(random, spec, &sync, kept_out, is_last, writer);
        *epochs += 1;
        let mut epoch = Epoch {
            number: *epochs,
            window,
            sync: sync.clone(),
            areas,
            scripts: Vec::new(),
            before: Vec::new(),
        };
        writer.write(random, spec, &mut epoch);
        round.epochs.push(epoch);
    }
    round
}

fn sync(random: &mut Random, spec: &WindowSpec) -> Sync {
    let ranks = spec.parts.len() as u32;
    match random.below(if spec.locks { 8 } else { 3 }) {
        0 | 1 => Sync::Fence {
            opening: random.pick(&[Assert::NONE, Assert::NO_PRECEDE]),
            closing: random.pick(&[Assert::NONE, Assert::NO_SUCCEED]),
        },
        2 | 3 => Sync::Exposure {
            origins: groups(random, ranks),
            unchecked: random.one_in(4),
            by_test: random.one_in(3),
        },
        4 | 5 => Sync::Locks,
        _ => Sync::LockAll {
            assert: random.pick(&[Assert::NONE, Assert::NONE, Assert::NO_CHECK]),
            goes_on: random.one_in(2),
        },
    }
}

fn groups(random: &mut Random, ranks: u32) -> Vec<Vec<u32>> {
    let often = random.from(1, 3);
    let mut group = |_| (0..ranks).filter(|_| !random.one_in(often + 1)).collect();
    (0..ranks).map(&mut group).collect()
}

/// The same kind of synchronisation, with other groups.
fn again(random: &mut Random, sync: Sync, ranks: u32) -> Sync {
    match sync {
        Sync::Exposure {
            unchecked, by_test, ..
        } => Sync::Exposure {
            origins: groups(random, ranks),
            unchecked,
            by_test,
        },
        other => other,
    }
}

/// Areas for the last epoch of a round, and what is stored there before it.
fn contested(
    random: &mut Random,
    spec: &WindowSpec,
    window: usize,
    stores: &mut Vec<(u32, usize, usize, Vec<u8>)>,
) -> Vec<Contested> {
    let mut found = Vec::new();
    let sections = spec.locks && random.one_in(4);
    for (target, part) in spec.parts.iter().enumerate() {
        if random.one_in(3) || part.size < 16 {
            continue;
        }
        let unit = part.unit as usize;
        let (role, len) = if sections {
            (Role::Section, random.from(1, 24))
        } else {
            let ty = random.pick(&BasicType::ALL);
            let mix = mix(random, ty);
            let most = match mix {
                Mix::Many { .. } => (part.size / ty.extent()).clamp(1, 300),
                _ => 3,
            };
            (Role::Cells { ty, mix }, span(ty, random.from(1, most)))
        };
        let step = match (role, random.one_in(3)) {
            (Role::Cells { ty, .. }, false) => lcm(unit, ty.extent()),
            _ => unit,
        };
        if len > part.size {
            continue;
        }
        let start = random.from(0, part.size - len) / step * step;
        let bytes = start..start + len;
        if part.cuts.iter().any(|&cut| start < cut && cut < bytes.end) {
            continue;
        }
        if let Role::Cells { ty, .. } = role {
            let count = len.div_ceil(ty.extent());
            let mut first = Vec::new();
            for _ in 0..count {
                first.extend(element(random, ty));
            }
            first.truncate(len);
            stores.push((target as u32, window, start, first));
        }
        found.push(Contested {
            target,
            area: Area { bytes, role },
        });
    }
    found
}

fn mix(random: &mut Random, ty: BasicType) -> Mix {
    let defined: Vec<_> = Op::ALL
        .into_iter()
        .filter(|&op| elements::is_defined(op, ty) && op != Op::NoOp)
        // Products of floats are not exact.
        .filter(|&op| op != Op::Prod || elements::swaps(ty))
        .collect();
    let commutes: Vec<_> = defined
        .iter()
        .copied()
        .filter(|&op| op != Op::Replace)
        .collect();
    match random.below(4) {
        0 if elements::swaps(ty) => Mix::All,
        1 if !commutes.is_empty() => Mix::Many {
            op: random.pick(&commutes),
        },
        _ => Mix::One {
            op: random.pick(&defined),
            swaps: elements::swaps(ty) && random.one_in(2),
        },
    }
}

/// A small whole number in each member, so that sums of floats are exact in any order.
pub(crate) fn element(random: &mut Random, ty: BasicType) -> Vec<u8> {
    let mut bytes = vec![0; ty.extent()];
    // Few enough to meet again: then swaps succeed and values tie.
    let number = if random.one_in(2) {
        random.below(3)
    } else {
        random.below(100)
    };
    let value = elements::number(ty, number);
    bytes[..value.len()].copy_from_slice(&value);
    let index = (random.below(5) as i32).to_ne_bytes();
    match ty {
        BasicType::FloatInt | BasicType::TwoInt | BasicType::ShortInt => {
            bytes[4..8].copy_from_slice(&index);
        }
        BasicType::DoubleInt | BasicType::LongInt => bytes[8..12].copy_from_slice(&index),
        BasicType::LongDouble => bytes[..16].copy_from_slice(&random.bytes(16)),
        BasicType::LongDoubleInt => bytes[..20].copy_from_slice(&random.bytes(20)),
        _ => {}
    }
    bytes
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Cuts every rank's memory, at any byte.
fn areas(
    random: &mut Random,
    spec: &WindowSpec,
    sync: &Sync,
    contested: &[Contested],
    is_last: bool,
    writer: &Writer,
) -> Vec<Vec<Area>> {
    let part = |(target, part): (usize, &Part)| {
        let mut areas = Vec::new();
        let mut gaps: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        for kept_out in contested
            .iter()
            .filter(|contested| contested.target == target)
        {
            gaps.push(from..kept_out.area.bytes.start);
            from = kept_out.area.bytes.end;
            let usable = kept_out.area.role != Role::Section || matches!(sync, Sync::Locks);
            if is_last && usable {
                areas.push(kept_out.area.clone());
            }
        }
        gaps.push(from..part.size);
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            let mut cuts: Vec<_> = (0..random.below(6))
                .map(|_| random.from(gap.start, gap.end))
                .collect();
            cuts.extend(part.cuts.iter().filter(|cut| gap.contains(cut)));
            cuts.extend([gap.start, gap.end]);
            cuts.sort_unstable();
            for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
                if let Some(role) = role(random, sync, target as u32, writer) {
                    let bytes = cut[0]..cut[1];
                    areas.push(Area { bytes, role });
                }
            }
        }
        areas
    };
    spec.parts.iter().enumerate().map(part).collect()
}

/// Who may do what in an area; `None`: nobody anything.
fn role(random: &mut Random, sync: &Sync, target: u32, writer: &Writer) -> Option<Role> {
    match random.below(8) {
        0 => return None,
        1 | 2 => return Some(Role::Read),
        _ => {}
    }
    let rank = match sync {
        Sync::Exposure { origins, .. } => {
            // Itself by loads and stores.
            let mut ranks = origins[target as usize].clone();
            ranks.push(target);
            random.pick(&ranks)
        }
        _ => random.below(writer.ranks as usize) as u32,
    };
    let thread = match sync {
        // A target can be locked once by a rank: by one of its threads.
        Sync::Locks => writer.locker(rank, target),
        _ => random.below(writer.threads),
    };
    Some(Role::Owner { rank, thread })
}
