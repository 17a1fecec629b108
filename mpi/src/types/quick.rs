//! Predefined types without padding, which most calls have. One access finds such a type, or shows that it is not here.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use transom::BasicType;

use super::{Dense, Type};
use crate::mpi_h::{AtomicNumber, MPI_Datatype, NO_HANDLE, Number};

/// About fifteen times the number of types, so that a factor that gives each type its own place is found soon.
const PLACES: usize = 1024;
const SHIFT: u32 = u32::BITS - PLACES.trailing_zeros();
/// The number of factors that are tried. With the best of them, only a few types have no place.
const TRIED: u32 = 256;

/// Fits a cache line.
#[repr(align(32))]
struct Place {
    handle: AtomicNumber,
    dense: UnsafeCell<Dense>,
    ty: UnsafeCell<Option<&'static Type>>,
}

// SAFETY: a cell is written before its handle is stored, and never again. A thread reads it only after it has loaded
// the handle.
unsafe impl Sync for Place {}

static TABLE: [Place; PLACES] = [const {
    Place {
        handle: AtomicNumber::new(NO_HANDLE),
        dense: UnsafeCell::new(Dense {
            ty: BasicType::Byte,
            size: 1,
        }),
        ty: UnsafeCell::new(None),
    }
}; PLACES];

/// Odd, so that different handles give different products.
static FACTOR: AtomicU32 = AtomicU32::new(1);

/// Handles are numbers, or addresses in one library. They differ in their lower halves.
#[inline(always)]
fn place(handle: Number, factor: u32) -> usize {
    #[allow(clippy::unnecessary_cast, reason = "as wide as the host's handles are")]
    let low = handle as u32;
    (low.wrapping_mul(factor) >> SHIFT) as usize
}

#[inline(always)]
fn find(datatype: MPI_Datatype) -> Option<&'static Place> {
    let handle = datatype.number();
    let at = &TABLE[place(handle, FACTOR.load(Ordering::Relaxed))];
    (at.handle.load(Ordering::Acquire) == handle).then_some(at)
}

/// The type, if it is here.
#[inline(always)]
pub(crate) fn quick(datatype: MPI_Datatype) -> Option<Dense> {
    // SAFETY: the cell was written before the handle was stored, and does not change.
    find(datatype).map(|at| unsafe { *at.dense.get() })
}

/// The same with its layouts.
pub(super) fn quick_type(datatype: MPI_Datatype) -> Option<&'static Type> {
    // SAFETY: as above.
    find(datatype).and_then(|at| unsafe { *at.ty.get() })
}

/// Fills the table, once, before any call looks for a type.
pub(super) fn begin(types: &[(Number, Dense, &'static Type)]) {
    let factor = best_factor(types);
    FACTOR.store(factor, Ordering::Relaxed);
    for &(handle, dense, ty) in types {
        let at = &TABLE[place(handle, factor)];
        if at.handle.load(Ordering::Relaxed) == NO_HANDLE {
            // SAFETY: no thread reads the cells before their handle is stored.
            unsafe {
                *at.dense.get() = dense;
                *at.ty.get() = Some(ty);
            }
            at.handle.store(handle, Ordering::Release);
        }
    }
}

/// The first factor with which no two types have the same place, or else the one with the fewest such types.
fn best_factor(types: &[(Number, Dense, &'static Type)]) -> u32 {
    let candidates = (1..=TRIED).map(|number| number.wrapping_mul(0x9e37_79b9) | 1);
    let without_place = |factor| {
        let mut taken = [false; PLACES];
        let mut is_taken = |handle| std::mem::replace(&mut taken[place(handle, factor)], true);
        types.iter().filter(|ty| is_taken(ty.0)).count()
    };
    let mut best = (1, types.len());
    for factor in candidates {
        let left_out = without_place(factor);
        if left_out < best.1 {
            best = (factor, left_out);
        }
        if left_out == 0 {
            break;
        }
    }
    best.0
}
