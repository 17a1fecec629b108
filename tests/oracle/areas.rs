//! How memory is divided among those that work on it: at any byte.

use std::ops::Range;

use transom::{BasicType, Op};
use transom_testing::model as elements;
use transom_testing::random::Random;

use crate::access::span;
use crate::program::{Area, Lane, Mix, Part, Role, Sync, WindowSpec};
use crate::scripts::Writer;
use crate::values::element;

/// An area that will be contested in the last epoch of a round.
pub(crate) struct Contested {
    pub(crate) target: usize,
    pub(crate) area: Area,
}

/// Areas for the last epoch of a round, and what is stored there before it.
pub(crate) fn contested(
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
            let mix = mix(random, ty, spec.same_op);
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
            area: Area {
                bytes,
                lane: None,
                role,
            },
        });
    }
    found
}

fn mix(random: &mut Random, ty: BasicType, same_op: bool) -> Mix {
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
        0 if elements::swaps(ty) && !same_op => Mix::All,
        1 if !commutes.is_empty() => Mix::Many {
            op: random.pick(&commutes),
        },
        _ => Mix::One {
            op: random.pick(&defined),
            swaps: elements::swaps(ty) && !same_op && random.one_in(2),
        },
    }
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Cuts every rank's memory, at any byte.
pub(crate) fn areas(
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
                let bytes = cut[0]..cut[1];
                if bytes.len() >= 12 && random.one_in(4) {
                    areas.extend(lanes(random, sync, target as u32, writer, bytes));
                } else if let Some(role) = role(random, sync, target as u32, part, writer) {
                    let lane = None;
                    areas.push(Area { bytes, lane, role });
                }
            }
        }
        areas
    };
    spec.parts.iter().enumerate().map(part).collect()
}

/// Who may do what in an area; `None`: nobody anything.
fn role(
    random: &mut Random,
    sync: &Sync,
    target: u32,
    part: &Part,
    writer: &Writer,
) -> Option<Role> {
    match random.below(8) {
        0 => None,
        1 | 2 => Some(Role::Read),
        3 if part.counters > 0 => {
            let (rank, thread) = owner(random, sync, target, writer);
            let may_send = match sync {
                Sync::Exposure { origins, .. } => origins[target as usize].contains(&rank),
                _ => true,
            };
            Some(match may_send {
                true => Role::Mailbox {
                    sender: (rank, thread),
                    reader: random.below(writer.threads),
                },
                false => Role::Owner { rank, thread },
            })
        }
        _ => {
            let (rank, thread) = owner(random, sync, target, writer);
            Some(Role::Owner { rank, thread })
        }
    }
}

/// A thread that may work on a target alone.
fn owner(random: &mut Random, sync: &Sync, target: u32, writer: &Writer) -> (u32, usize) {
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
    (rank, thread)
}

/// Two or three that work in each other's gaps.
fn lanes(
    random: &mut Random,
    sync: &Sync,
    target: u32,
    writer: &Writer,
    bytes: Range<usize>,
) -> Vec<Area> {
    let lanes = random.from(2, 3);
    let widest = (bytes.len() / lanes).min(24);
    let width = random.from(1, widest);
    let lane = |number| {
        let (rank, thread) = owner(random, sync, target, writer);
        Area {
            bytes: bytes.clone(),
            lane: Some(Lane {
                first: number * width,
                width,
                stride: lanes * width,
            }),
            role: Role::Owner { rank, thread },
        }
    };
    (0..lanes).map(lane).collect()
}
