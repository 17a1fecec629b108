//! Fetch_and_op and compare_and_swap: one element.

use super::elementwise::{self, Fetching};
use super::work::Work;
use crate::datatype::{BasicType, Op};
use crate::diagnostics::OperationKind;
use crate::error::{Error, Misuse, Result};
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;

impl Window {
    /// One-sided. Combines the element at `origin` into the one at displacement `disp` (in the target's units) of
    /// `target`'s memory, and stores the previous value at `result`, atomically (MPI-4.1, section 12.3.4). With
    /// [`Op::NoOp`], `origin` is not read.
    ///
    /// # Errors
    /// As for [`Window::accumulate`].
    ///
    /// # Safety
    /// `origin` is readable and `result` writable for one element (of any alignment), and nobody
    /// else touches `result`, until the operation is complete.
    #[inline]
    pub unsafe fn fetch_and_op(
        &self,
        origin: *const u8,
        result: *mut u8,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { fetch_at_once(self, origin, result, ty, target, disp, op) } {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.fetch_any(origin, result, ty, target, Displacement(disp), op) }
    }

    /// One-sided. Replaces the element at displacement `disp` (in the target's units) of `target`'s memory by the one
    /// at `origin` if it equals the one at `compare`. Stores the previous value at `result`. This is atomic (MPI-4.1,
    /// section 12.3.4). For integers, logicals and bytes.
    ///
    /// # Errors
    /// As for [`Window::put`]; a type of another kind.
    ///
    /// # Safety
    /// `origin` and `compare` are readable and `result` writable for one element (of any
    /// alignment), and nobody else touches `result`, until the operation is complete.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        ty: BasicType,
        target: u32,
        disp: u64,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { swap_at_once(self, origin, compare, result, ty, target, disp) } {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.swap_any(origin, compare, result, ty, target, Displacement(disp)) }
    }

    /// # Safety
    /// As for [`Window::fetch_and_op`].
    #[inline(never)]
    unsafe fn fetch_any(
        &self,
        origin: *const u8,
        result: *mut u8,
        ty: BasicType,
        rank: u32,
        disp: Displacement,
        op: Op,
    ) -> Result<()> {
        let work = Work::of(OperationKind::Fetch, origin, result, 1, ty, op);
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(Aim::new("fetch_and_op", rank), disp, &work) }.map(drop)
    }

    /// # Safety
    /// As for [`Window::compare_and_swap`].
    #[inline(never)]
    unsafe fn swap_any(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        ty: BasicType,
        rank: u32,
        disp: Displacement,
    ) -> Result<()> {
        const OPERATION: &str = "compare_and_swap";
        if !ty.is_swapped() {
            let misuse = Misuse::BadType {
                ty: ty.name(),
                legal: "integers, logicals, byte",
            };
            return Err(Error::new(OPERATION, misuse));
        }
        let kind = OperationKind::CompareAndSwap;
        let work = Work {
            compare,
            ..Work::of(kind, origin, result, 1, ty, Op::Replace)
        };
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(Aim::new(OPERATION, rank), disp, &work) }.map(drop)
    }
}

/// One-sided. [`Window::fetch_and_op`], if that takes one instruction. Returns false without effect if more is needed,
/// or there is an error.
///
/// # Safety
/// As for [`Window::fetch_and_op`]; nulls are refused.
#[inline(always)]
#[must_use]
pub unsafe fn fetch_at_once(
    window: &Window,
    origin: *const u8,
    result: *mut u8,
    ty: BasicType,
    target: u32,
    disp: u64,
    op: Op,
) -> bool {
    if let Some(fetching) = Fetching::of(op)
        && (!origin.is_null() || op == Op::NoOp)
        && !result.is_null()
        && let Some(word) = window.mapped_integer(ty, target, disp)
    {
        // SAFETY: the buffers are the caller's promise; the word lies aligned inside the
        // mapping of the target's memory.
        unsafe {
            let operand = match op {
                Op::NoOp => 0,
                _ => word.width.load(origin),
            };
            let old = elementwise::fetch_op(word.at, word.width, fetching, operand);
            word.width.store(result, old);
        }
        return true;
    }
    false
}

/// One-sided. [`Window::compare_and_swap`], if that takes one instruction. Returns false without effect if more is
/// needed, or there is an error.
///
/// # Safety
/// As for [`Window::compare_and_swap`]; nulls are refused.
#[inline(always)]
#[must_use]
pub unsafe fn swap_at_once(
    window: &Window,
    origin: *const u8,
    compare: *const u8,
    result: *mut u8,
    ty: BasicType,
    target: u32,
    disp: u64,
) -> bool {
    if !origin.is_null()
        && !compare.is_null()
        && !result.is_null()
        && let Some(word) = window.mapped_integer(ty, target, disp)
    {
        // SAFETY: as in `fetch_at_once`.
        unsafe {
            let expect = word.width.load(compare);
            let new = word.width.load(origin);
            let old = elementwise::compare_swap(word.at, word.width, expect, new);
            word.width.store(result, old);
        }
        return true;
    }
    false
}
