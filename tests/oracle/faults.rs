//! Calls that break a rule, with the class of the error that MPI gives them. Each breaks one.

use transom::{BasicType, ErrorClass, LockKind, Op};
use transom_testing::model as elements;
use transom_testing::random::Random;

use crate::access::Kind;
use crate::program::{Fault, Memory, Sync, WindowSpec, Wrong};
use crate::scripts::Writer;
use crate::wrong::MOVED;

/// Between epochs, with or without a fence that no operation has followed.
pub(crate) fn before(random: &mut Random, rank: u32, writer: &Writer) -> Vec<Wrong> {
    if !random.one_in(5) {
        return Vec::new();
    }
    let fault = random.pick(&[Fault::Complete, Fault::Wait, Fault::Test, Fault::Unlock]);
    let wrong = Wrong {
        fault,
        target: (rank + random.below(2) as u32) % writer.ranks,
        class: ErrorClass::RmaSync,
    };
    vec![wrong]
}

/// In an epoch of `sync`, in which `is_open` says of which targets.
pub(crate) fn within(
    random: &mut Random,
    spec: &WindowSpec,
    sync: &Sync,
    writer: &Writer,
    rank: u32,
    is_open: impl Fn(u32) -> bool,
) -> Option<Wrong> {
    let target = random.below(writer.ranks as usize) as u32;
    let open = is_open(target);
    let size = spec.parts[target as usize].size;
    let op = random.pick(&Op::ALL);
    let ty = random.pick(&BasicType::ALL);
    let which = random.below(6) as u8;
    // Another thread of this rank may have opened a target that this one has not.
    let closed = !open && (writer.threads == 1 || !matches!(sync, Sync::Locks));
    let fits = open && size >= MOVED;
    let passive = matches!(sync, Sync::Locks | Sync::LockAll { .. });
    let locks = matches!(sync, Sync::Locks);
    let lock_all = matches!(sync, Sync::LockAll { .. });
    let exposure = matches!(sync, Sync::Exposure { .. });
    // Calls that synchronise must not overlap with another thread's.
    let alone = writer.threads == 1;
    let held = alone && locks && (0..writer.ranks).any(&is_open);
    let beside_locks = lock_all && alone || held;
    let (fault, class, is_wrong) = match random.below(28) {
        0 => (Fault::NoRank(which), ErrorClass::Rank, !passive || open),
        1 | 2 => (Fault::PastEnd(which), ErrorClass::RmaRange, open),
        3 | 4 => {
            let fault = Fault::NoOperation(op, ty);
            let is_wrong = fits && !Kind::Accumulate.takes(op, ty);
            (fault, ErrorClass::Op, is_wrong)
        }
        5 => (
            Fault::NoSwap(ty),
            ErrorClass::Type,
            fits && !elements::swaps(ty),
        ),
        6 => (Fault::NullBuffer(which), ErrorClass::Buffer, fits),
        7 => (Fault::TooMany, ErrorClass::Count, fits),
        8 | 9 => (Fault::Closed(which), ErrorClass::RmaSync, closed),
        10 => (Fault::Request, ErrorClass::RmaSync, fits && !passive),
        11 => (
            Fault::Fence,
            ErrorClass::RmaSync,
            beside_locks || exposure && alone,
        ),
        12 => {
            let kind = random.pick(&[LockKind::Shared, LockKind::Exclusive]);
            let is_wrong = !spec.locks || alone && exposure || lock_all || locks && open;
            (Fault::Lock(kind), ErrorClass::RmaSync, is_wrong)
        }
        13 => {
            let is_wrong = !spec.locks || beside_locks || alone && exposure;
            (Fault::LockAll, ErrorClass::RmaSync, is_wrong)
        }
        14 => (Fault::Unlock, ErrorClass::RmaSync, !locks || closed),
        15 => (Fault::UnlockAll, ErrorClass::RmaSync, alone && !lock_all),
        16 => (
            Fault::Flush,
            ErrorClass::RmaSync,
            !passive || locks && closed,
        ),
        17 => (Fault::FlushAll, ErrorClass::RmaSync, !passive),
        18 => (
            Fault::FlushLocal,
            ErrorClass::RmaSync,
            !passive || locks && closed,
        ),
        19 => (
            Fault::Start,
            ErrorClass::RmaSync,
            beside_locks || alone && exposure,
        ),
        20 => {
            let own = alone && locks && is_open(rank);
            let is_wrong = alone && (lock_all || exposure) || own;
            (Fault::Post, ErrorClass::RmaSync, is_wrong)
        }
        21 => (Fault::Signatures, ErrorClass::Type, fits),
        22 => (Fault::Mixed, ErrorClass::Type, fits),
        23 => {
            let below = random.one_in(2);
            let fault = Fault::LayoutOutside { below };
            (fault, ErrorClass::RmaRange, open && size > 0)
        }
        24 => {
            let counters = spec.parts[target as usize].counters;
            let beyond = counters + random.below(3) as u32;
            (Fault::NotifyCounter(beyond), ErrorClass::Arg, open)
        }
        25 => {
            let counters = spec.parts[rank as usize].counters;
            (Fault::AwaitCounter(counters), ErrorClass::Arg, true)
        }
        26 => {
            let fault = random.pick(&[Fault::AttachAgain, Fault::Detach, Fault::Query]);
            let is_dynamic = spec.parts[0].memory == Memory::Dynamic;
            let is_there = spec.parts[rank as usize].size > 0;
            match (fault, is_dynamic) {
                (Fault::AttachAgain, true) => (fault, ErrorClass::RmaAttach, is_there),
                (Fault::Detach, true) => (fault, ErrorClass::RmaAttach, true),
                (Fault::Query, false) => (fault, ErrorClass::Rank, true),
                _ => (fault, ErrorClass::RmaFlavor, true),
            }
        }
        _ => {
            let fault = random.pick(&[Fault::Complete, Fault::Wait, Fault::Test]);
            (fault, ErrorClass::RmaSync, !exposure)
        }
    };
    is_wrong.then_some(Wrong {
        fault,
        target,
        class,
    })
}
