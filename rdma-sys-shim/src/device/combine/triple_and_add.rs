//! A combiner for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Combination, Combiner, ElementRuns, Operands};
use crate::memory::copy;

/// Gives `3 x + y` for an element `x` and an operand `y`, so that the order counts; without operands, `y` is 0. The
/// types are an integer of eight bytes, and a pair of 2 and 4 bytes with padding between and behind.
pub(crate) struct TripleAndAdd;

pub(crate) const TYPES: [ElementRuns; 2] = [
    ElementRuns {
        extent: 8,
        runs: &[(0, 8)],
    },
    ElementRuns {
        extent: 16,
        runs: &[(0, 2), (8, 4)],
    },
];

/// The result for one run of bytes.
#[cfg(any(test, feature = "testkit"))]
pub(crate) fn triple_and_add(x: &[u8], y: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    };
    let sum = number(x).wrapping_mul(3).wrapping_add(number(y));
    sum.to_le_bytes()[..x.len()].to_vec()
}

const HELD: u64 = 1;
/// A word that is no lock.
pub(crate) const NO_LOCK: u64 = 77;

impl Combiner for TripleAndAdd {
    fn element(&self, what: Combination, _: u64) -> Option<(ElementRuns, bool)> {
        if what.operands == Operands::Compared || what.operation != 0 {
            return None;
        }
        Some((*TYPES.get(usize::from(what.ty))?, what.atomics == 0))
    }

    fn try_lock(&self, lock: &AtomicU64) -> Option<bool> {
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        match lock.compare_exchange(0, HELD, success, failure) {
            Err(NO_LOCK) => None,
            taken => Some(taken.is_ok()),
        }
    }

    fn unlock(&self, lock: &AtomicU64) {
        assert_eq!(lock.swap(0, Ordering::SeqCst), HELD);
    }

    unsafe fn combine(
        &self,
        what: Combination,
        at: *mut u8,
        count: usize,
        operands: *const u8,
        old: *mut u8,
    ) {
        let element = TYPES[usize::from(what.ty)];
        let mut next = 0;
        for (there, len) in element.parts(at, count) {
            for start in (0..len).step_by(8) {
                let (mut x, mut y) = ([0_u8; 8], [0_u8; 8]);
                let (len, there) = ((len - start).min(8), there.wrapping_add(start).cast_mut());
                // SAFETY: the caller's promise; the arrays have so many bytes.
                unsafe {
                    copy(x.as_mut_ptr(), there, len);
                    if what.operands == Operands::One {
                        copy(y.as_mut_ptr(), operands.add(next), len);
                    }
                    if what.fetches {
                        copy(old.add(next), x.as_ptr(), len);
                    }
                    let number = u64::from_le_bytes(x);
                    let sum = number.wrapping_mul(3).wrapping_add(u64::from_le_bytes(y));
                    copy(there, sum.to_le_bytes().as_ptr(), len);
                }
                next += len;
            }
        }
    }
}
