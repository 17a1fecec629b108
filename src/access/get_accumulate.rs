//! Get_accumulate: many elements are fetched and combined.

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
    /// units) of `target`'s memory, and stores the previous values at `result`. This is atomic for each element, and in
    /// the order of this rank's calls (MPI-4.1, section 12.3.4). With [`Op::NoOp`], `origin` may be null. For words of
    /// several elements, see [`Window::accumulate`].
    ///
    /// # Errors
    /// As for [`Window::accumulate`].
    ///
    /// # Safety
    /// `origin` is readable and `result` writable for `count` elements (of any alignment), `origin`
    /// does not change and nobody else touches `result`, until the operation is complete; they
    /// overlap neither with each other nor with the elements at the target.
    #[expect(clippy::too_many_arguments, reason = "MPI's")]
    pub unsafe fn get_accumulate(
        &self,
        origin: *const u8,
        result: *mut u8,
        count: usize,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        let (aim, disp) = (Aim::new("get_accumulate", target), Displacement(disp));
        let work = Work::of(OperationKind::Fetch, origin, result, count, ty, op);
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(aim, disp, &work) }.map(drop)
    }

    /// One-sided. As [`Window::get_accumulate`], with a request: when it is complete, the data is
    /// at `result`, and `origin` may be used again (MPI-4.1, section 12.3.5). Needs a lock or
    /// `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::get_accumulate`].
    ///
    /// # Safety
    /// As for [`Window::get_accumulate`], until the request is complete.
    #[expect(clippy::too_many_arguments, reason = "MPI's")]
    pub unsafe fn rget_accumulate(
        &self,
        origin: *const u8,
        result: *mut u8,
        count: usize,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rget_accumulate", target), Displacement(disp));
        let work = Work::of(OperationKind::Fetch, origin, result, count, ty, op);
        self.requested(aim, Until::Completed, || {
            // SAFETY: the caller's promise.
            unsafe { self.carry_out(aim, disp, &work) }
        })
    }

    /// One-sided. As [`Window::get_accumulate`], with a layout for each of `origin`, `result` and the target, all of
    /// one predefined type. All of the target's elements are fetched, and have to fit into the result. The first ones
    /// are combined with those at `origin`, as many as there are; the others stay unchanged. With [`Op::NoOp`],
    /// `origin` and its layout are ignored (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// As for [`Window::accumulate_layout`].
    ///
    /// # Safety
    /// As for [`Window::accumulate_layout`]; the bytes of the layout at `result` are writable, and
    /// nobody else touches them, until the operation is complete; they overlap neither with each
    /// other nor with anything else of the operation.
    #[expect(clippy::too_many_arguments, reason = "MPI's")]
    pub unsafe fn get_accumulate_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        result: *mut u8,
        result_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
        op: Op,
    ) -> Result<()> {
        let (aim, disp) = (Aim::new("get_accumulate", target), Displacement(disp));
        let (origin, result) = ((origin, origin_layout), Some((result, result_layout)));
        let there = (disp, target_layout);
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_layouts(aim, op, origin, result, there) }.map(drop)
    }

    /// One-sided. As [`Window::get_accumulate_layout`], with a request: when it is complete, the
    /// data is at `result`, and `origin` may be used again (MPI-4.1, section 12.3.5). Needs a lock
    /// or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::accumulate_layout`].
    ///
    /// # Safety
    /// As for [`Window::get_accumulate_layout`], until the request is complete.
    #[expect(clippy::too_many_arguments, reason = "MPI's")]
    pub unsafe fn rget_accumulate_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        result: *mut u8,
        result_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
        op: Op,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rget_accumulate", target), Displacement(disp));
        let (origin, result) = ((origin, origin_layout), Some((result, result_layout)));
        let there = (disp, target_layout);
        self.requested(aim, Until::Completed, || {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_layouts(aim, op, origin, result, there) }
        })
    }
}
