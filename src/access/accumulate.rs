//! Accumulate, and the way of all its kin past the fast paths.

use rdma_sys_shim::Ticket;

use super::PROC_NULL;
use super::elementwise::{self, Fetching};
use super::request::{Request, Until};
use super::work::Work;
use crate::datatype::{AtomicWidths, BasicType, Op};
use crate::error::Result;
use crate::window::Window;
use crate::window::target::Target;

impl Window {
    /// One-sided. Combines `count` elements of type `ty` at `origin` into those at displacement
    /// `disp` (in the target's units) of `target`'s memory: `target = target op origin`, atomically
    /// for each element, in the order in which this rank calls (MPI-4.1, section 12.3.4).
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
            if let Some(word) = self.mapped_integer(ty, target, disp) {
                // SAFETY: `origin` is the caller's promise; the word lies aligned inside the
                // mapping of the target's memory.
                unsafe {
                    let operand = word.width.load(origin);
                    elementwise::fetch_op(word.at, word.width, Fetching::Add, operand);
                }
                return Ok(());
            }
            // SAFETY: the caller's promise.
            if ty == BasicType::F64 && unsafe { self.try_add_f64(origin, target, disp) } {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_any("accumulate", origin, count, ty, target, disp, op) }.map(drop)
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
        const OPERATION: &str = "raccumulate";
        self.needs_passive(OPERATION, target)?;
        // SAFETY: the caller's promise.
        unsafe {
            let ticket = self.accumulate_any(OPERATION, origin, count, ty, target, disp, op)?;
            self.request(target, ticket, Until::Released)
        }
    }

    /// # Safety
    /// As for [`Window::accumulate`].
    #[inline(never)]
    #[expect(
        clippy::too_many_arguments,
        reason = "MPI's, and the name of the operation"
    )]
    unsafe fn accumulate_any(
        &self,
        operation: &'static str,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        rank: u32,
        disp: u64,
        op: Op,
    ) -> Result<Ticket> {
        Work::check_changes(operation, op)?;
        let work = Work {
            ty,
            op,
            count,
            operands: origin,
            compare: std::ptr::null(),
            result: std::ptr::null_mut(),
        };
        // SAFETY: the caller's promise.
        unsafe { self.carry_out(operation, rank, disp, &work) }
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
        operation: &'static str,
        rank: u32,
        disp: u64,
        work: &Work,
    ) -> Result<Ticket> {
        let len = work.check(operation)?;
        if rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let target = self.open_or_enter(operation, rank)?;
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        let there = target.reach(disp, len as u64);
        if there.is_null() {
            let place = match self.place(operation, rank, target, disp, len as u64) {
                Ok(place) => place,
                // SAFETY: the caller's promise.
                Err(error) => unsafe {
                    return self.combine_run_apart(operation, rank, disp, len, work, error);
                },
            };
            work.check_buffers(operation, len)?;
            // SAFETY: the buffers are the caller's promise; `place` keeps what it found mapped.
            unsafe {
                if !place.there.is_null() {
                    let there = (place.there, place.widths);
                    self.combine_mapped(operation, rank, target, there, work)?;
                    return Ok(Ticket::DONE);
                }
                let Some(width) = place.widths.word(work.ty, place.at.address) else {
                    self.lock_and_combine_by_device(operation, rank, &place, len, work)?;
                    return Ok(Ticket::DONE);
                };
                let posted = self.combine_words_by_device(&place, width, work);
                let ticket = posted.map_err(|error| self.failed(operation, rank, error))?;
                self.note_posted(target, ticket);
                return Ok(ticket);
            }
        }
        work.check_buffers(operation, len)?;
        let there = (there, target.widths());
        // SAFETY: the buffers are the caller's promise; `there` is mapped for the elements.
        unsafe { self.combine_mapped(operation, rank, target, there, work)? };
        Ok(Ticket::DONE)
    }

    /// `there`: where the elements are, and which of them single atomics update.
    ///
    /// # Safety
    /// As for [`Window::carry_out`]; `there` is mapped for the elements.
    unsafe fn combine_mapped(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
        (there, widths): (*mut u8, AtomicWidths),
        work: &Work,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match widths.word(work.ty, there.addr() as u64) {
                Some(width) => {
                    elementwise::combine_words(there, width, work);
                    if work.overwrites() {
                        target.set_dirty();
                    }
                    Ok(())
                }
                None => self.lock_and_combine(operation, rank, target, there, work),
            }
        }
    }
}
