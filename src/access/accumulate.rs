//! Accumulate. The addition of one element to mapped memory is the fast path, and is tried first; see
//! `accumulate_layouts` for all else.

use std::ptr;

use rdma_sys_shim::Ticket;

use super::elementwise::{self, Fetching};
use super::request::{Request, Until};
use super::work::Work;
use crate::datatype::{BasicType, Layout, Op};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;

impl Window {
    /// One-sided. Combines `count` elements of type `ty` at `origin` into those at displacement `disp` (in the target's
    /// units) of `target`'s memory: `target = target op origin`. This is atomic for each element, and in the order of
    /// this rank's calls (MPI-4.1, section 12.3.4).
    ///
    /// If naturally aligned elements of less than eight bytes are only replaced, or fetched by [`Op::NoOp`], each
    /// naturally aligned word of eight, four or two bytes inside the target's elements of such calls is written, read
    /// and exchanged as a whole.
    ///
    /// # Errors
    /// As for [`Window::put`]; an operation that is not defined for the type, or [`Op::NoOp`], which only fetches.
    ///
    /// # Safety
    /// `origin` is readable for `count` elements (of any alignment), and does not change, until the
    /// operation is complete; it does not overlap with the elements written to.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        if count == 1 && op == Op::Sum && !origin.is_null() {
            // SAFETY: the caller's promise.
            if unsafe { add_at_once(self, origin, ty, target, disp) } {
                return Ok(());
            }
        }
        let (aim, disp) = (Aim::new("accumulate", target), Displacement(disp));
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_any(aim, origin, count, ty, disp, op) }.map(drop)
    }

    /// One-sided. As [`Window::accumulate`], with a request: when it is complete, `origin` may be
    /// used again; the target may change later (MPI-4.1, section 12.3.5). Needs a lock or
    /// `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::accumulate`].
    ///
    /// # Safety
    /// As for [`Window::accumulate`], until the request is complete.
    pub unsafe fn raccumulate(
        &self,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("raccumulate", target), Displacement(disp));
        self.requested(aim, Until::Released, || {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_any(aim, origin, count, ty, disp, op) }
        })
    }

    /// One-sided. As [`Window::accumulate`], from the elements of one layout at `origin` to those of another at
    /// displacement `disp` of `target`'s memory. Both consist of one predefined type. The target's layout may have more
    /// elements, which then stay unchanged (MPI-4.1, section 12.3.4). Words of several elements are whole in each run
    /// of the target's layout. An element that the target's layout has several times gets all its operands, in their
    /// order; elements that overlap without being identical may lose updates.
    ///
    /// # Errors
    /// As for [`Window::put_layout`]; elements of several types (class Type); an operation that is
    /// not defined for the type.
    ///
    /// # Safety
    /// As for [`Window::put_layout`].
    pub unsafe fn accumulate_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
        op: Op,
    ) -> Result<()> {
        let (aim, disp) = (Aim::new("accumulate", target), Displacement(disp));
        let (origin, there) = ((origin, origin_layout), (disp, target_layout));
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_layouts(aim, op, origin, None, there) }.map(drop)
    }

    /// One-sided. As [`Window::accumulate_layout`], with a request: when it is complete, `origin`
    /// may be used again; the target may change later (MPI-4.1, section 12.3.5). Needs a lock or
    /// `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::accumulate_layout`].
    ///
    /// # Safety
    /// As for [`Window::accumulate_layout`], until the request is complete.
    pub unsafe fn raccumulate_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
        op: Op,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("raccumulate", target), Displacement(disp));
        let (origin, there) = ((origin, origin_layout), (disp, target_layout));
        self.requested(aim, Until::Released, || {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_layouts(aim, op, origin, None, there) }
        })
    }

    /// # Safety
    /// As for [`Window::accumulate`].
    #[inline(never)]
    unsafe fn accumulate_any(
        &self,
        aim: Aim,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        disp: Displacement,
        op: Op,
    ) -> Result<Ticket> {
        Work::check_changes(aim.operation, op)?;
        let work = Work::of(
            OperationKind::Accumulate,
            origin,
            ptr::null_mut(),
            count,
            ty,
            op,
        );
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(aim, disp, &work) }
    }
}

/// One-sided. [`Window::accumulate`] of one element by [`Op::Sum`], if that takes one instruction, or a few under a
/// free lock. Returns false without effect if more is needed, or there is an error.
///
/// # Safety
/// As for [`Window::accumulate`], and `origin` is not null.
#[inline(always)]
#[must_use]
pub unsafe fn add_at_once(
    window: &Window,
    origin: *const u8,
    ty: BasicType,
    target: u32,
    disp: u64,
) -> bool {
    if ty == BasicType::F64 {
        // SAFETY: the caller's promise.
        return unsafe { window.try_add_f64(origin, target, disp) };
    }
    let Some(word) = window.mapped_integer(ty, target, disp) else {
        return false;
    };
    // SAFETY: `origin` is the caller's promise; the word lies aligned inside the mapping of the target's memory.
    unsafe {
        let operand = word.width.load(origin);
        elementwise::fetch_op(word.at, word.width, Fetching::Add, operand);
    }
    true
}
