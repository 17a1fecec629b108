//! Accumulates that this rank's device carries out on its memory for other ranks, by the code for mapped memory.

use std::ptr;
use std::sync::atomic::AtomicU64;

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Combination, Combiner, ElementRuns, Operands};

use super::accumulate_lock;
use super::narrow::update_words;
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op};
use crate::diagnostics::OperationKind;
use crate::memory::word::SharedWord;
use crate::terms::WorldRank;

/// The bytes of padded elements that are combined at a time.
const CHUNK: usize = 1 << 10;

/// The accumulates of others on the memory of this rank.
pub(crate) struct OfOthers(pub(crate) WorldRank);

/// What the codes of a combination mean.
struct Meaning {
    op: Op,
    ty: BasicType,
    widths: AtomicWidths,
}

impl Meaning {
    /// `None` unless an origin asks for this.
    fn of(what: Combination) -> Option<Self> {
        let op = *Op::ALL.get(usize::from(what.operation))?;
        let ty = *BasicType::ALL.get(usize::from(what.ty))?;
        let is_sound = match what.operands {
            Operands::None => op == Op::NoOp && what.fetches,
            Operands::One => op != Op::NoOp,
            Operands::Compared => op == Op::Replace && what.fetches && ty.is_swapped(),
        };
        let widths = AtomicWidths::from_bits(what.atomics);
        (is_sound && op.is_defined_for(ty)).then_some(Self { op, ty, widths })
    }
}

/// The work on contiguous elements, as a device passes it on.
pub(super) fn combination(work: &Work, widths: AtomicWidths) -> Combination {
    Combination {
        operation: work.op as u8,
        ty: work.ty as u8,
        atomics: widths.bits(),
        operands: match work.op {
            Op::NoOp => Operands::None,
            _ if !work.compare.is_null() => Operands::Compared,
            _ => Operands::One,
        },
        fetches: !work.result.is_null(),
    }
}

impl Combiner for OfOthers {
    fn element(&self, what: Combination, address: u64) -> Option<(ElementRuns, bool)> {
        let Meaning { ty, widths, .. } = Meaning::of(what)?;
        let element = ElementRuns {
            extent: ty.extent(),
            runs: ty.runs(),
        };
        Some((element, widths.word(ty, address).is_none()))
    }

    fn try_lock(&self, lock: &AtomicU64) -> Option<bool> {
        let (seen, WorldRank(me)) = (lock.look(), self.0);
        let mine = accumulate_lock::held_by(me);
        accumulate_lock::is_lock(seen).then(|| seen == 0 && lock.replace_if(0, mine) == 0)
    }

    fn unlock(&self, lock: &AtomicU64) {
        let WorldRank(me) = self.0;
        accumulate_lock::release(lock, me);
    }

    unsafe fn combine(
        &self,
        what: Combination,
        at: *mut u8,
        count: usize,
        operands: *const u8,
        old: *mut u8,
    ) {
        let Some(Meaning { op, ty, widths }) = Meaning::of(what) else {
            return;
        };
        let result = match what.fetches {
            true => old,
            false => ptr::null_mut(),
        };
        let work = Work::of(OperationKind::Accumulate, operands, result, count, ty, op);
        // SAFETY: the caller's promise; one element is compared, and the operand is behind its value.
        unsafe {
            match what.operands {
                Operands::Compared => {
                    let compared = Work {
                        compare: operands,
                        operands: operands.add(ty.size()),
                        ..work
                    };
                    combine_dense(at, widths, &compared);
                }
                _ if ty.is_padded() => combine_padded(at, &work),
                _ => combine_dense(at, widths, &work),
            }
        }
    }
}

/// # Safety
/// As for [`Combiner::combine`], for elements without padding.
unsafe fn combine_dense(at: *mut u8, widths: AtomicWidths, work: &Work) {
    // SAFETY: the caller's promise.
    unsafe {
        match widths.word(work.ty, at.addr() as u64) {
            Some(width) => update_words(at, width, work),
            None => work.combine_in_place(at),
        }
    }
}

/// # Safety
/// As for [`Combiner::combine`]; the buffers of `work` have no padding.
unsafe fn combine_padded(at: *mut u8, work: &Work) {
    let (ty, extent, size) = (work.ty, work.ty.extent(), work.ty.size());
    let mut operands = [0_u8; CHUNK];
    let mut old = [0_u8; CHUNK];
    let each = |count: usize, move_run: &dyn Fn(usize, usize, usize)| {
        for index in 0..count {
            let mut dense = index * size;
            for &(at, len) in ty.runs() {
                move_run(index * extent + at, dense, len);
                dense += len;
            }
        }
    };
    let most = CHUNK / extent;
    for first in (0..work.count).step_by(most) {
        let count = most.min(work.count - first);
        let (spread, kept) = (operands.as_mut_ptr(), old.as_mut_ptr());
        let dense = work.part(first * size, count);
        if work.op != Op::NoOp {
            // SAFETY: the operands are the caller's promise; the chunk has room for the elements.
            each(count, &|at, packed, len| unsafe {
                copy(spread.add(at), dense.operands.add(packed), len);
            });
        }
        let result = match dense.result.is_null() {
            true => ptr::null_mut(),
            false => kept,
        };
        let some = Work::of(work.kind, spread, result, count, ty, work.op);
        // SAFETY: the caller's promise; the chunks have so many elements.
        unsafe { some.combine_in_place(at.add(first * extent)) };
        if !dense.result.is_null() {
            // SAFETY: as for the operands.
            each(count, &|at, packed, len| unsafe {
                copy(dense.result.add(packed), kept.add(at), len);
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn what(op: Op, ty: BasicType, operands: Operands, fetches: bool) -> Combination {
        Combination {
            operation: op as u8,
            ty: ty as u8,
            atomics: 15,
            operands,
            fetches,
        }
    }

    #[test]
    fn codes_mean_what_origins_ask_for_and_nothing_else() {
        let others = OfOthers(WorldRank(4));
        for op in Op::ALL {
            for ty in BasicType::ALL {
                let operands = if op == Op::NoOp {
                    Operands::None
                } else {
                    Operands::One
                };
                let known = others.element(what(op, ty, operands, true), 0);
                assert_eq!(known.is_some(), op.is_defined_for(ty), "{op:?} {ty:?}");
                if let Some((element, _)) = known {
                    assert_eq!((element.extent, element.runs), (ty.extent(), ty.runs()));
                }
            }
        }
        let i64 = BasicType::I64;
        for wrong in [
            what(Op::Sum, i64, Operands::None, true),
            what(Op::Sum, i64, Operands::Compared, true),
            what(Op::NoOp, i64, Operands::One, true),
            what(Op::NoOp, i64, Operands::None, false),
            what(Op::Replace, i64, Operands::Compared, false),
            what(Op::Replace, BasicType::F64, Operands::Compared, true),
            Combination {
                operation: Op::ALL.len() as u8,
                ..what(Op::Sum, i64, Operands::One, false)
            },
            Combination {
                ty: BasicType::ALL.len() as u8,
                ..what(Op::Sum, i64, Operands::One, false)
            },
        ] {
            assert_eq!(others.element(wrong, 0), None, "{wrong:?}");
        }
        assert!(
            others
                .element(what(Op::Replace, i64, Operands::Compared, true), 0)
                .is_some()
        );
        let sum = what(Op::Sum, i64, Operands::One, false);
        let needs_lock = |what, address| others.element(what, address).unwrap().1;
        assert!(!needs_lock(sum, 64) && needs_lock(sum, 68));
        assert!(needs_lock(Combination { atomics: 0, ..sum }, 64));
    }

    #[test]
    fn padded_elements_travel_without_their_padding() {
        let (others, ty) = (OfOthers(WorldRank(0)), BasicType::DoubleInt);
        assert!(ty.is_padded());
        let (count, extent, size) = (200, ty.extent(), ty.size());
        let mut target = vec![0xEE_u8; count * extent];
        let mut operands = Vec::new();
        for index in 0..count {
            let place = &mut target[index * extent..];
            place[..8].copy_from_slice(&(index as f64).to_ne_bytes());
            place[8..12].copy_from_slice(&7_i32.to_ne_bytes());
            operands.extend((100.0_f64).to_ne_bytes());
            operands.extend(9_i32.to_ne_bytes());
        }
        let before = target.clone();
        let mut old = vec![0; count * size];
        let what = what(Op::Maxloc, ty, Operands::One, true);
        // SAFETY: the buffers have so many elements.
        unsafe {
            let (at, old) = (target.as_mut_ptr(), old.as_mut_ptr());
            others.combine(what, at, count, operands.as_ptr(), old);
        }
        for index in 0..count {
            let (now, was) = (
                &target[index * extent..][..extent],
                &before[index * extent..][..extent],
            );
            assert_eq!(old[index * size..][..size], was[..size]);
            let is_larger = index as f64 > 100.0;
            let wanted = if is_larger { &was[..8] } else { &operands[..8] };
            assert_eq!(&now[..8], wanted, "{index}");
            assert_eq!(now[12..], was[12..], "the padding stays");
        }
    }

    #[test]
    fn a_lock_is_taken_once_and_another_word_never() {
        let others = OfOthers(WorldRank(6));
        let lock = AtomicU64::new(0);
        assert_eq!(others.try_lock(&lock), Some(true));
        assert_eq!(others.try_lock(&lock), Some(false));
        assert_eq!(accumulate_lock::awaited(lock.look()), Some(6));
        others.unlock(&lock);
        assert_eq!(lock.look(), 0);
        lock.publish(u64::MAX);
        assert_eq!(others.try_lock(&lock), None);
    }
}
