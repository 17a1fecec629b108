//! The path of all accumulate operations that are more than one instruction: accumulate, get_accumulate, fetch_and_op and
//! compare_and_swap. Contiguous elements are a layout of one run.

use std::iter;

use rdma_sys_shim::Ticket;

use super::PROC_NULL;
use super::bounds::{Place, check_buffer};
use super::elementwise::update_each;
use super::layout_work::{ElementBlock, LayoutWork};
use super::narrow::update_words;
use super::spot::{Spot, Use};
use super::words::MANY;
use super::work::Work;
use crate::datatype::{Layout, Op, Piece, Span};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

/// The number of words, or blocks of few words, that are updated before a check for work on many, or for another rank
/// that waits for the lock.
pub(super) const AT_A_TIME: usize = 256;

impl Window {
    /// Carries out work at a displacement of a target, by the path for its elements. Releasing or completing the
    /// returned ticket does so for the whole work.
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
        if work.count == 1
            && work.op.is_defined_for(work.ty)
            && !work.lacks_buffers()
            && let Some(word) = self.mapped_integer(work.ty, aim.rank, disp.0)
        {
            // SAFETY: the buffers are the caller's promise; the word lies aligned inside the mapping of the target's
            // memory.
            unsafe { update_each(word.at, word.width, work) };
            if work.overwrites() {
                word.target.set_dirty();
            }
            return Ok(Ticket::DONE);
        }
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
        let word = widths.word(work.ty, there.addr() as u64);
        if !there.is_null()
            && widths.are_accumulated_in_place(work.ty)
            && (word.is_some() || on.locks_mapped(on.route()?))
        {
            work.check_buffers(aim.operation, len)?;
            // SAFETY: the buffers are the caller's promise; `there` is mapped for the elements.
            unsafe {
                match word {
                    Some(width) => on.accumulate_words(there, width, work)?,
                    None => on.accumulate_locked(there, work)?,
                }
            }
            return Ok(Ticket::DONE);
        }
        let run = Piece::run(0, (work.count * work.ty.extent()) as u64);
        let &Work { ty, kind, .. } = work;
        let usage = Use::Accumulated { ty, kind };
        let spot = on.find(disp, Span::of(len as u64), Some(&run), usage)?;
        work.check_buffers(aim.operation, len)?;
        // SAFETY: the caller's promise.
        let parts = unsafe { LayoutWork::of(work, &run, &run) };
        on.accumulate_pieces(&spot, &parts)
    }

    /// # Safety
    /// As for [`Window::get_accumulate_layout`].
    pub(super) unsafe fn accumulate_layouts(
        &self,
        aim: Aim,
        op: Op,
        origin: (*const u8, Layout<'_>),
        result: Option<(*mut u8, Layout<'_>)>,
        (disp, far): (Displacement, Layout<'_>),
    ) -> Result<Ticket> {
        let operation = aim.operation;
        if result.is_none() {
            Work::check_changes(operation, op)?;
        }
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.open_or_enter(aim)?;
        let there = far.measure(operation)?;
        let element = far.element(operation)?;
        // The origin of an operation without operands is ignored.
        let origin = Some(origin).filter(|_| op != Op::NoOp);
        let mut operands_size = 0;
        if let Some((buffer, near)) = origin {
            operands_size = check_side(operation, buffer, &near, &far)?;
            near.check_fits(operation, &far)?;
        }
        if let Some((buffer, out)) = result {
            check_side(operation, buffer, &out, &far)?;
            far.check_fits(operation, &out)?;
        }
        let (Some(ty), Some(piece)) = (element, far.elements()) else {
            return Ok(Ticket::DONE);
        };
        op.check_defined_for(operation, ty)?;
        let kind = match result {
            Some(_) => OperationKind::Fetch,
            None => OperationKind::Accumulate,
        };
        let spot = on.spot(
            disp,
            there.span,
            Some(&piece),
            Use::Accumulated { ty, kind },
        )?;
        let elements = |size: u64| size / ty.size() as u64 * ty.extent() as u64;
        let (all, combined) = (elements(there.size), elements(operands_size));
        let no_memory = Piece::cut(all, combined);
        let out = result.and_then(|(_, layout)| layout.elements());
        let results = out.as_deref().unwrap_or(&no_memory);
        let result = result.map(|(buffer, _)| buffer);
        let mut ticket = Ticket::DONE;
        if let Some((buffer, layout)) = origin
            && let Some(near) = layout.elements()
        {
            let (what, layouts) = ((kind, ty, op), [&near, results, &piece]);
            // SAFETY: the caller's promise.
            let parts = unsafe { LayoutWork::new(what, Some(buffer), result, layouts, 0) };
            ticket = on.accumulate_pieces(&spot, &parts)?;
        }
        // The result has all elements of the target, including those that no operand changes.
        if combined < all {
            let (what, layouts) = ((kind, ty, Op::NoOp), [&no_memory, results, &piece]);
            // SAFETY: the caller's promise.
            let rest = unsafe { LayoutWork::new(what, None, result, layouts, combined) };
            let fetched = on.accumulate_pieces(&spot, &rest);
            ticket = ticket.max(fetched.inspect_err(|_| on.await_end(ticket))?);
        }
        Ok(ticket)
    }
}

impl OnTarget<'_> {
    /// Waits for operations in flight before an error is returned: afterwards the caller may free its buffers.
    #[cold]
    pub(super) fn await_end(self, ticket: Ticket) {
        if let Some(route) = self.target.route() {
            let patience = self.window.context().patience();
            // The caller returns its own error, the earlier one.
            let _ = patience.complete(&*route.endpoint, ticket);
        }
    }

    /// Carries out work whose layouts were checked; `spot` is that of the target's.
    pub(super) fn accumulate_pieces(
        self,
        spot: &Spot<'_>,
        parts: &LayoutWork<'_>,
    ) -> Result<Ticket> {
        if parts.what.is_nothing() {
            return Ok(Ticket::DONE);
        }
        if parts.cuts_runs() && spot.takes_blocks(parts.what.ty) {
            return self.accumulate_runs(spot, parts);
        }
        match parts.as_block() {
            // A walk would take longer than a small accumulate by the device.
            Some(block) => self.accumulate_blocks(spot, parts, || iter::once(block)),
            None => self.accumulate_blocks(spot, parts, || parts.blocks()),
        }
    }

    /// Carries out some blocks of the work, which are those of checked elements.
    pub(super) fn accumulate_blocks<I: Iterator<Item = ElementBlock>>(
        self,
        spot: &Spot<'_>,
        parts: &LayoutWork<'_>,
        blocks: impl Fn() -> I,
    ) -> Result<Ticket> {
        match spot {
            // SAFETY: what is mapped is the target's layout, which was checked.
            Spot::Mapped(place) => unsafe { self.accumulate_in_place(place, parts, blocks) },
            Spot::Device(place) => self.accumulate_by_device(place, parts, blocks()),
            Spot::Apart(disp) => self.accumulate_apart(*disp, parts, blocks()),
        }
    }

    /// # Safety
    /// The target's elements are mapped there.
    unsafe fn accumulate_in_place<I: Iterator<Item = ElementBlock>>(
        self,
        place: &Place<'_>,
        parts: &LayoutWork<'_>,
        blocks: impl Fn() -> I,
    ) -> Result<Ticket> {
        let &Place {
            route,
            there,
            widths,
            ..
        } = place;
        let base = there.addr() as u64;
        let at = |offset: i64| there.wrapping_offset(offset as isize);
        if widths.word(parts.what.ty, 0).is_some() {
            let mut all = true;
            let word = |block: &ElementBlock| {
                widths.word(parts.what.ty, base.wrapping_add_signed(block.target))
            };
            let mut walk = blocks();
            let mut next = walk.next();
            while let Some(block) = next {
                let work = parts.work(&block);
                if work.count >= MANY
                    && let Some(width) = word(&block)
                {
                    // SAFETY: the caller's promise; aligned, as `word` says.
                    unsafe { self.accumulate_words(at(block.target), width, &work)? };
                    next = walk.next();
                    continue;
                }
                self.at_words(1, |_| {
                    for _ in 0..AT_A_TIME {
                        let Some(block) = next else { break };
                        let work = parts.work(&block);
                        match word(&block) {
                            Some(_) if work.count >= MANY => break,
                            // SAFETY: as above.
                            Some(width) => unsafe {
                                update_words(at(block.target), width, &work);
                            },
                            None => all = false,
                        }
                        next = walk.next();
                    }
                })?;
            }
            if parts.what.overwrites() {
                self.target.set_dirty();
            }
            if all {
                return Ok(Ticket::DONE);
            }
        }
        let is_other = |block: &ElementBlock| !parts.is_of_words(block, widths, base);
        if !self.locks_mapped(route) {
            return self.accumulate_by_device(place, parts, blocks().filter(is_other));
        }
        self.with_accumulate_lock(&route.accumulate_lock, || {
            // Found once, since a list has many blocks of one element.
            let sum = parts.what.summed().filter(|_| !parts.what.fetches());
            for block in blocks().filter(is_other) {
                let (work, there) = (parts.work(&block), at(block.target));
                // SAFETY: the caller's promise; the lock is held.
                unsafe {
                    match sum {
                        Some(number) => number.add(there, work.operands, work.count),
                        None => work.combine_in_place(there),
                    }
                }
            }
            Ok(())
        })?;
        self.target.set_dirty();
        Ok(Ticket::DONE)
    }
}

/// Checks a buffer of this rank and its layout, if it has data; returns the number of bytes of data.
fn check_side(
    operation: &'static str,
    buffer: *const u8,
    layout: &Layout<'_>,
    far: &Layout<'_>,
) -> Result<u64> {
    let here = layout.measure(operation)?;
    layout.check_element(operation, far)?;
    check_buffer(operation, buffer, here.span, here.size)?;
    Ok(here.size)
}
