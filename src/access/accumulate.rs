//! Accumulate, and the way of all its kin past the fast paths.

use rdma_sys_shim::{Ticket, Via};

use super::PROC_NULL;
use super::elementwise::{self, Fetching};
use super::request::{Request, Until};
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op, Span};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::memory::remote::behind_stores;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

impl Window {
    /// One-sided. Combines `count` elements of type `ty` at `origin` into those at displacement
    /// `disp` (in the target's units) of `target`'s memory: `target = target op origin`, atomically
    /// for each element, in the order in which this rank calls (MPI-4.1, section 12.3.4).
    ///
    /// Where elements of less than eight bytes are only replaced, or fetched by [`Op::NoOp`], each naturally aligned word of
    /// eight, four or two bytes that lies inside what such calls name at the target is written, read and exchanged as a whole.
    ///
    /// # Errors
    /// As for [`Window::put`]; an operation that is not defined for the type, or [`Op::NoOp`], which
    /// is one for calls that fetch.
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
            if unsafe { self.add_at_once(origin, ty, target, disp) } {
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
        self.needs_passive(aim)?;
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.accumulate_any(aim, origin, count, ty, disp, op)? };
        self.request(target, ticket, Until::Released)
    }

    /// Adds one element where that is one instruction, or a few under a lock that is free; false where there is more to
    /// it, or anything amiss, with nothing done.
    ///
    /// # Safety
    /// `origin` is readable for one element (of any alignment).
    #[inline(always)]
    pub(crate) unsafe fn add_at_once(
        &self,
        origin: *const u8,
        ty: BasicType,
        target: u32,
        disp: u64,
    ) -> bool {
        if ty == BasicType::F64 {
            // SAFETY: the caller's promise.
            return unsafe { self.try_add_f64(origin, target, disp) };
        }
        let Some(word) = self.mapped_integer(ty, target, disp) else {
            return false;
        };
        // SAFETY: `origin` is the caller's promise; the word lies aligned inside the mapping of the target's memory.
        unsafe {
            let operand = word.width.load(origin);
            elementwise::fetch_op(word.at, word.width, Fetching::Add, operand);
        }
        true
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
        let work = Work {
            ty,
            op,
            count,
            operands: origin,
            compare: std::ptr::null(),
            result: std::ptr::null_mut(),
        };
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(aim, disp, &work) }
    }

    /// Carries out work at a displacement of a target, by the path that its elements take. With the
    /// ticket, the buffers are released (all of them) and complete.
    ///
    /// # Safety
    /// The buffers of `work` that are not null are valid for its elements, and nobody else touches
    /// the result, until the operation is complete; they overlap neither with each other nor with
    /// the target's elements.
    pub(super) unsafe fn carry_out(
        &self,
        aim: Aim,
        disp: Displacement,
        work: &Work,
    ) -> Result<Ticket> {
        let len = work.check(aim.operation)?;
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.open_or_enter(aim)?;
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        let widths = on.target.widths();
        let there = on.target.reach(disp, len as u64);
        if !there.is_null() && widths.are_combined_in_place(work.ty) {
            work.check_buffers(aim.operation, len)?;
            let there = (there, widths);
            // SAFETY: the buffers are the caller's promise; `there` is mapped for the elements.
            unsafe { on.combine_mapped(there, work)? };
            return Ok(Ticket::DONE);
        }
        let place = match on.place(disp, Span::of(len as u64)) {
            Ok(place) => place,
            // SAFETY: the caller's promise.
            Err(error) => unsafe {
                return on.combine_run_apart(disp, len, work, error);
            },
        };
        work.check_buffers(aim.operation, len)?;
        // SAFETY: the buffers are the caller's promise; `place` keeps what it found mapped.
        unsafe {
            if !place.there.is_null() && place.widths.are_combined_in_place(work.ty) {
                on.count(work.kind(), || Via::Mapped, len as u64);
                on.combine_mapped((place.there, place.widths), work)?;
                return Ok(Ticket::DONE);
            }
            behind_stores();
            let _call = self.in_call(aim);
            let Some(width) = place.widths.word(work.ty, place.at.address) else {
                on.count(work.kind(), || place.route.via(false), len as u64);
                on.lock_and_combine_by_device(&place, len, work)?;
                return Ok(Ticket::DONE);
            };
            let posted = on.at_words_by_device(&place.route.accumulate_lock, || {
                self.combine_words_by_device(&place, width, work)
            });
            let ticket = posted.map_err(|error| on.failed(error))?;
            on.note_posted(ticket);
            on.count(work.kind(), || place.route.via(true), len as u64);
            Ok(ticket)
        }
    }
}

impl OnTarget<'_> {
    /// `there`: where the elements are, and which of them single atomics update.
    ///
    /// # Safety
    /// As for [`Window::carry_out`]; `there` is mapped for the elements.
    unsafe fn combine_mapped(
        self,
        (there, widths): (*mut u8, AtomicWidths),
        work: &Work,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match widths.word(work.ty, there.addr() as u64) {
                Some(width) => self.combine_mapped_words(there, width, work),
                None => self.lock_and_combine(there, work),
            }
        }
    }
}
