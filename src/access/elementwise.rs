//! Accumulates of which every element is one atomic: aligned integers.
//!
//! The path depends on the element's type and alignment only, never on the operation, the count or
//! where the target is: a single fetch_and_op and a bulk accumulate on one word are atomic to each
//! other because both use the atomics of the window's one domain. That is the processor's, here or
//! in the target's agent, or the device's, which then carries out this rank's operations on its own
//! memory too: such a device maps nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rdma_sys_shim::Width;
use rdma_sys_shim::memory::ATOMICS_DRAIN;

use crate::datatype::{BasicType, Op};
use crate::window::Window;
use crate::window::target::Target;

/// The word of an element of mapped memory, if single atomics apply to it at this address: the
/// processor has them for both widths.
#[inline]
pub(super) fn mapped_width(ty: BasicType, address: u64) -> Option<Width> {
    if !ty.is_integer() || !address.is_multiple_of(ty.size() as u64) {
        return None;
    }
    Some(match ty.size() {
        4 => Width::W4,
        _ => Width::W8,
    })
}

/// A mapped element that single atomics apply to.
pub(super) struct Word<'w> {
    pub(super) target: &'w Target,
    pub(super) at: *mut u8,
    pub(super) width: Width,
}

impl Word<'_> {
    /// Notes that the word was updated by an atomic, where that leaves something for a flush to do.
    #[inline]
    pub(super) fn note_update(&self) {
        if !ATOMICS_DRAIN {
            self.target.set_dirty();
        }
    }
}

impl Window {
    /// The element at displacement `disp` of a target, if the target was entered and the element is
    /// mapped and aligned: the fast path.
    #[inline(always)]
    pub(super) fn mapped_word(&self, ty: BasicType, rank: u32, disp: u64) -> Option<Word<'_>> {
        let target = self.open_target(rank)?;
        let at = target.reach(disp, ty.size() as u64);
        if at.is_null() {
            return None;
        }
        let width = mapped_width(ty, at.addr() as u64)?;
        Some(Word { target, at, width })
    }

    /// The word of an element, mapped or not, if single atomics apply to it at this address. A
    /// device without narrow atomics must not make them of wide ones: a neighbour's stores would be
    /// lost. All ranks of a job have devices of one kind, and so take the same path.
    pub(super) fn word_width(&self, ty: BasicType, address: u64) -> Option<Width> {
        let capabilities = self.context().device().capabilities();
        mapped_width(ty, address).filter(|&width| width == Width::W8 || capabilities.narrow_atomics)
    }
}

/// The element at `from`, zero-extended.
///
/// # Safety
/// `from` is readable for the width; it need not be aligned.
#[inline]
pub(crate) unsafe fn load_operand(width: Width, from: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            Width::W4 => u64::from(from.cast::<u32>().read_unaligned()),
            Width::W8 => from.cast::<u64>().read_unaligned(),
        }
    }
}

/// Stores an old value at `to`.
///
/// # Safety
/// `to` is writable for the width; it need not be aligned.
#[inline]
pub(crate) unsafe fn store_result(width: Width, to: *mut u8, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            Width::W4 => to.cast::<u32>().write_unaligned(value as u32),
            Width::W8 => to.cast::<u64>().write_unaligned(value),
        }
    }
}

/// `op` on the word at `at`; returns what it held before. `op` is one of those that
/// [`supported`] names.
///
/// # Safety
/// `at` is mapped, aligned for the width and shared as an atomic by all who access it now.
#[inline]
pub(crate) unsafe fn fetch_op(at: *mut u8, width: Width, op: Op, operand: u64) -> u64 {
    macro_rules! on {
        ($atomic:ty, $operand:expr) => {{
            // SAFETY: the caller's promise.
            let word = unsafe { <$atomic>::from_ptr(at.cast()) };
            match op {
                Op::Sum => word.fetch_add($operand, Ordering::SeqCst),
                Op::Replace => word.swap($operand, Ordering::SeqCst),
                _ => word.load(Ordering::SeqCst),
            }
        }};
    }
    match width {
        Width::W4 => u64::from(on!(AtomicU32, operand as u32)),
        Width::W8 => on!(AtomicU64, operand),
    }
}

/// Accumulates one element without fetching.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
pub(crate) unsafe fn apply(at: *mut u8, width: Width, op: Op, operand: u64) {
    if op != Op::Replace {
        // SAFETY: the caller's promise.
        unsafe { fetch_op(at, width, op, operand) };
        return;
    }
    // SAFETY: the caller's promise. A plain store is atomic to the locked instructions of others.
    unsafe {
        match width {
            Width::W4 => AtomicU32::from_ptr(at.cast()).store(operand as u32, Ordering::Release),
            Width::W8 => AtomicU64::from_ptr(at.cast()).store(operand, Ordering::Release),
        }
    }
}

/// A compare-and-swap on the word at `at`; returns what it held before.
///
/// # Safety
/// As for [`fetch_op`].
#[inline]
pub(crate) unsafe fn compare_swap(at: *mut u8, width: Width, expect: u64, new: u64) -> u64 {
    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            Width::W4 => AtomicU32::from_ptr(at.cast())
                .compare_exchange(expect as u32, new as u32, success, failure)
                .unwrap_or_else(|old| old)
                .into(),
            Width::W8 => AtomicU64::from_ptr(at.cast())
                .compare_exchange(expect, new, success, failure)
                .unwrap_or_else(|old| old),
        }
    }
}

/// Whether accumulates know `op`.
#[inline]
pub(crate) fn supported(op: Op) -> bool {
    matches!(op, Op::Sum | Op::Replace | Op::NoOp)
}
