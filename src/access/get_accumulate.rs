//! Get_accumulate: many elements are fetched and combined.

use rdma_sys_shim::Ticket;

use super::PROC_NULL;
use super::bounds::null_buffer;
use super::request::{Request, Until};
use super::work::Work;
use crate::datatype::{BasicType, Op};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;

impl Window {
    /// One-sided. Combines `count` elements of type `ty` at `origin` into those at displacement
    /// `disp` (in the target's units) of `target`'s memory, and stores what was there before at
    /// `result`, atomically for each element, in the order in which this rank calls (MPI-4.1,
    /// section 12.3.4). For [`Op::NoOp`], `origin` may be null. For words of several elements, see [`Window::accumulate`].
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
        let work = fetching(origin, result, count, ty, op);
        // SAFETY: the caller's promise.
        unsafe { self.fetch_and_combine(aim, disp, &work) }.map(drop)
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
        self.needs_passive(aim)?;
        let work = fetching(origin, result, count, ty, op);
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.fetch_and_combine(aim, disp, &work)? };
        self.request(target, ticket, Until::Completed)
    }

    /// As [`Window::carry_out`], for work that has a result.
    ///
    /// # Safety
    /// As for [`Window::carry_out`].
    pub(super) unsafe fn fetch_and_combine(
        &self,
        aim: Aim,
        disp: Displacement,
        work: &Work,
    ) -> Result<Ticket> {
        // Without a place for the old elements it would be another operation.
        if work.result.is_null() && work.count > 0 && aim.rank != PROC_NULL {
            let len = work.check(aim.operation)?;
            self.enter(aim)?;
            return Err(null_buffer(aim.operation, len));
        }
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(aim, disp, work) }
    }
}

pub(super) fn fetching(
    operands: *const u8,
    result: *mut u8,
    count: usize,
    ty: BasicType,
    op: Op,
) -> Work {
    Work {
        ty,
        op,
        count,
        operands,
        compare: std::ptr::null(),
        result,
    }
}
