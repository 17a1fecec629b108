//! Whether random programs have in them all that they are said to have.

use std::collections::BTreeSet;

use transom::{BasicType, Op};
use transom_testing::model as elements;

use crate::access::{Access, Kind, Layout};
use crate::generate;
use crate::program::{Call, Memory, Program, Role, Sync};
use crate::shapes::Shape;
use crate::typemap::TypeMap;

/// Seeds after which nothing may be missing.
const SEEDS: u64 = 1000;

/// What is never generated.
pub(crate) fn missing() -> BTreeSet<String> {
    let mut missing = wanted();
    for seed in 0..SEEDS {
        let mut seen = BTreeSet::new();
        note_program(&mut seen, &generate::program(seed));
        missing.retain(|wanted| !seen.contains(wanted));
        if missing.is_empty() {
            break;
        }
    }
    missing
}

fn wanted() -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    for side in ["target", "origin", "result"] {
        for constructor in [
            "contiguous",
            "vector",
            "hvector",
            "indexed",
            "hindexed",
            "indexed_block",
            "hindexed_block",
            "struct",
            "subarray",
            "resized",
            "dup",
        ] {
            wanted.insert(format!("{constructor} at the {side}"));
        }
        for what in [
            "gaps",
            "data below its place",
            "nothing",
            "several types",
            "nesting",
            "a negative extent",
            "a negative extent in another type",
        ] {
            wanted.insert(format!("{what} at the {side}"));
        }
    }
    for kind in [Kind::Put, Kind::Get, Kind::Accumulate, Kind::GetAccumulate] {
        for derived in [false, true] {
            for request in [false, true] {
                wanted.insert(format!("{kind:?}, datatypes {derived}, request {request}"));
            }
        }
    }
    for ty in BasicType::ALL {
        let defined = Op::ALL
            .into_iter()
            .filter(|op| elements::is_defined(*op, ty));
        for op in defined {
            wanted.insert(format!("{op:?} of {ty:?}"));
        }
    }
    for epoch in ["fence", "post and start", "lock", "lock_all"] {
        for what in [
            "a handover",
            "an answer",
            "an access by datatypes",
            "a load from another rank",
            "a store to another rank",
            "elements on which all work, by datatypes",
            "lanes",
        ] {
            wanted.insert(format!("{what} by {epoch}"));
        }
    }
    for memory in ["Allocate", "Shared", "Dynamic", "AllocMem", "Heap"] {
        wanted.insert(format!("a load from another rank's {memory}"));
        wanted.insert(format!("datatypes in {memory}"));
        wanted.insert(format!("a notification in {memory}"));
    }
    wanted.remove("a load from another rank's Dynamic");
    wanted
}

fn note_program(seen: &mut BTreeSet<String>, program: &Program) {
    for epoch in program.rounds.iter().flat_map(|round| &round.epochs) {
        let name = match &epoch.sync {
            Sync::Fence { .. } => "fence",
            Sync::Exposure { .. } => "post and start",
            Sync::Locks => "lock",
            Sync::LockAll { .. } => "lock_all",
        };
        if epoch.areas.iter().flatten().any(|area| area.lane.is_some()) {
            seen.insert(format!("lanes by {name}"));
        }
        for (rank, script) in (0..).zip(&epoch.scripts) {
            let accesses = script.iter().flatten().filter_map(|call| match call {
                Call::Access(access) => Some(&**access),
                _ => None,
            });
            for access in accesses {
                note_access(seen, access);
                let target = access.target as usize;
                let memory = match program.windows[epoch.window].parts[target].memory {
                    Memory::Heap { .. } => "Heap".to_owned(),
                    other => format!("{other:?}"),
                };
                let all_work = epoch.areas[target].iter().any(|area| {
                    let bytes = access.bytes();
                    let inside = area.bytes.start <= bytes.start && bytes.end <= area.bytes.end;
                    matches!(area.role, Role::Cells { .. }) && inside && access.count() > 1
                });
                let elsewhere = access.target != rank;
                let handed_over = access.after.is_some() && access.kind == Kind::Load;
                let answers = access.after.is_some() && access.count() == 0;
                let derived = access.derived;
                for (is_so, what) in [
                    (handed_over, format!("a handover by {name}")),
                    (answers, format!("an answer by {name}")),
                    (derived, format!("an access by datatypes by {name}")),
                    (derived, format!("datatypes in {memory}")),
                    (
                        derived && all_work,
                        format!("elements on which all work, by datatypes by {name}"),
                    ),
                    (
                        access.notifies.is_some(),
                        format!("a notification in {memory}"),
                    ),
                    (
                        elsewhere && access.kind == Kind::Load,
                        format!("a load from another rank by {name}"),
                    ),
                    (
                        elsewhere && access.kind == Kind::Load,
                        format!("a load from another rank's {memory}"),
                    ),
                    (
                        elsewhere && access.kind == Kind::Store,
                        format!("a store to another rank by {name}"),
                    ),
                ] {
                    if is_so {
                        seen.insert(what);
                    }
                }
            }
        }
    }
}

fn note_access(seen: &mut BTreeSet<String>, access: &Access) {
    let Access {
        kind,
        derived,
        request,
        ty,
        op,
        ..
    } = access;
    seen.insert(format!("{kind:?}, datatypes {derived}, request {request}"));
    if access.is_accumulate() && *derived {
        seen.insert(format!("{op:?} of {ty:?}"));
    }
    if !derived {
        return;
    }
    let sides = [
        ("target", &access.far),
        ("origin", &access.near),
        ("result", &access.back),
    ];
    for (side, layout) in sides {
        note_layout(seen, side, layout);
    }
}

fn note_layout(seen: &mut BTreeSet<String>, side: &str, layout: &Layout) {
    let data: usize = (0..layout.places.len())
        .map(|index| layout.element(index).len())
        .sum();
    let first = layout.places.first().map(|(_, ty)| ty);
    let nested = |shape: &Shape| inner(shape).iter().any(|of| !inner(of).is_empty());
    for (is_so, what) in [
        (data < layout.len(), "gaps"),
        (layout.data.start < 0, "data below its place"),
        (layout.places.is_empty(), "nothing"),
        (
            layout.places.iter().any(|(_, ty)| Some(ty) != first),
            "several types",
        ),
        (nested(&layout.shape), "nesting"),
    ] {
        if is_so {
            seen.insert(format!("{what} at the {side}"));
        }
    }
    let mut open = vec![&layout.shape];
    while let Some(shape) = open.pop() {
        if TypeMap::of(shape).extent() < 0 {
            seen.insert(format!("a negative extent at the {side}"));
            if !std::ptr::eq(shape, &raw const layout.shape) {
                seen.insert(format!("a negative extent in another type at the {side}"));
            }
        }
        if let Some(name) = constructor(shape) {
            seen.insert(format!("{name} at the {side}"));
        }
        open.extend(inner(shape));
    }
}

fn constructor(shape: &Shape) -> Option<&'static str> {
    Some(match shape {
        Shape::Basic(_) => return None,
        Shape::Contiguous(..) => "contiguous",
        Shape::Vector { bytes: false, .. } => "vector",
        Shape::Vector { .. } => "hvector",
        Shape::Indexed { bytes: false, .. } => "indexed",
        Shape::Indexed { .. } => "hindexed",
        Shape::IndexedBlock { bytes: false, .. } => "indexed_block",
        Shape::IndexedBlock { .. } => "hindexed_block",
        Shape::Struct(_) => "struct",
        Shape::Subarray { .. } => "subarray",
        Shape::Resized { .. } => "resized",
        Shape::Dup(_) => "dup",
    })
}

fn inner(shape: &Shape) -> Vec<&Shape> {
    match shape {
        Shape::Basic(_) => Vec::new(),
        Shape::Contiguous(_, of)
        | Shape::Vector { of, .. }
        | Shape::Indexed { of, .. }
        | Shape::IndexedBlock { of, .. }
        | Shape::Subarray { of, .. }
        | Shape::Resized { of, .. }
        | Shape::Dup(of) => vec![of],
        Shape::Struct(members) => members.iter().map(|(.., of)| of).collect(),
    }
}
