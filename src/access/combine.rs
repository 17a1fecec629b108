//! Accumulate and get_accumulate with datatypes.

use rdma_sys_shim::Ticket;

use super::PROC_NULL;
use super::bounds::check_buffer;
use super::combined::{Combined, ElementBlock};
use super::elementwise;
use super::request::{Request, Until};
use super::spot::{Spot, Use};
use super::words::MANY;
use super::work::Work;
use crate::datatype::{AtomicWidths, Layout, Op, Piece};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::memory::remote::behind_stores;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

/// So many blocks of few words are combined before work on many, if there is any, has its turn.
const AT_A_TIME: usize = 256;

/// The buffers of an operation, as its caller laid them out.
struct Buffers<'t> {
    origin: (*const u8, Layout<'t>),
    result: Option<(*mut u8, Layout<'t>)>,
}

impl Window {
    /// One-sided. As [`Window::accumulate`], from the elements of one layout at `origin` to those of
    /// another at displacement `disp` of `target`'s memory. Both hold elements of one predefined
    /// type only; the target's may be more, of which the last then stay as they are (MPI-4.1, section
    /// 12.3.4). Words of several elements are whole in each run of the target's layout.
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
        let buffers = Buffers {
            origin: (origin, origin_layout),
            result: None,
        };
        // SAFETY: the caller's promise.
        unsafe { self.combine_layouts(aim, disp, target_layout, op, &buffers) }.map(drop)
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
        self.needs_passive(aim)?;
        let buffers = Buffers {
            origin: (origin, origin_layout),
            result: None,
        };
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.combine_layouts(aim, disp, target_layout, op, &buffers)? };
        self.request(target, ticket, Until::Released)
    }

    /// One-sided. As [`Window::get_accumulate`], with a layout for each of `origin`, `result` and
    /// the target, all of one predefined type. All of the target's elements are fetched, for which the
    /// result needs room; the first ones are combined with those at `origin`, as many as there are,
    /// and the others stay as they are. For [`Op::NoOp`], `origin` and its layout do not matter
    /// (MPI-4.1, section 12.3.4).
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
        let buffers = Buffers {
            origin: (origin, origin_layout),
            result: Some((result, result_layout)),
        };
        // SAFETY: the caller's promise.
        unsafe { self.combine_layouts(aim, disp, target_layout, op, &buffers) }.map(drop)
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
        self.needs_passive(aim)?;
        let buffers = Buffers {
            origin: (origin, origin_layout),
            result: Some((result, result_layout)),
        };
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.combine_layouts(aim, disp, target_layout, op, &buffers)? };
        self.request(target, ticket, Until::Completed)
    }

    /// # Safety
    /// As for [`Window::get_accumulate_layout`].
    unsafe fn combine_layouts(
        &self,
        aim: Aim,
        disp: Displacement,
        far: Layout<'_>,
        op: Op,
        buffers: &Buffers<'_>,
    ) -> Result<Ticket> {
        let operation = aim.operation;
        if buffers.result.is_none() {
            Work::check_changes(operation, op)?;
        }
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.open_or_enter(aim)?;
        let there = far.measure(operation)?;
        let element = far.element(operation)?;
        // The origin of an operation without operands is ignored.
        let origin = Some(buffers.origin).filter(|_| op != Op::NoOp);
        let mut operands_size = 0;
        if let Some((buffer, near)) = origin {
            operands_size = check_side(operation, buffer, &near, &far)?;
            near.check_fits(operation, &far)?;
        }
        if let Some((buffer, out)) = buffers.result {
            check_side(operation, buffer, &out, &far)?;
            far.check_fits(operation, &out)?;
        }
        let (Some(ty), Some(piece)) = (element, far.elements()) else {
            return Ok(Ticket::DONE);
        };
        op.check_defined_for(operation, ty)?;
        let fetches = buffers.result.is_some();
        let usage = Use::Combined { ty, fetches };
        let spot = on.spot(disp, there.span, Some(&piece), usage)?;
        let elements = |size: u64| size / ty.size() as u64 * ty.extent() as u64;
        let (all, combined) = (elements(there.size), elements(operands_size));
        let no_memory = Piece::cut(all, combined);
        let near = origin.and_then(|(_, layout)| layout.elements());
        let out = buffers.result.and_then(|(_, layout)| layout.elements());
        let results = out.as_deref().unwrap_or(&no_memory);
        let result = buffers.result.map(|(buffer, _)| buffer);
        let combine = |parts: &Combined<'_>| {
            // SAFETY: the caller's promise.
            unsafe { on.combine_pieces(&spot, parts) }
        };
        let mut ticket = Ticket::DONE;
        if let Some(near) = near {
            ticket = combine(&Combined {
                ty,
                op,
                operands: Some(buffers.origin.0),
                result,
                layouts: [&near, results, &piece],
                skip: 0,
            })?;
        }
        // The result is of all elements of the target, also of those that no operand changes.
        if result.is_some() && combined < all {
            let fetched = combine(&Combined {
                ty,
                op: Op::NoOp,
                operands: None,
                result,
                layouts: [&no_memory, results, &piece],
                skip: combined,
            })?;
            ticket = ticket.max(fetched);
        }
        Ok(ticket)
    }
}

impl OnTarget<'_> {
    /// Carries out work whose layouts were checked, of which the target's was found at `spot`.
    ///
    /// # Safety
    /// The buffers are valid for the layouts until the operation is complete.
    pub(super) unsafe fn combine_pieces(
        self,
        spot: &Spot<'_>,
        parts: &Combined<'_>,
    ) -> Result<Ticket> {
        if parts.is_nothing() {
            return Ok(Ticket::DONE);
        }
        // SAFETY: the caller's promise.
        unsafe {
            match parts.cuts_runs() && self.has_words(spot, parts.ty) {
                true => self.combine_runs(spot, parts),
                false => self.combine_blocks(spot, parts),
            }
        }
    }

    /// As [`OnTarget::combine_pieces`], block by block of all layouts.
    ///
    /// # Safety
    /// As for [`OnTarget::combine_pieces`].
    pub(super) unsafe fn combine_blocks(
        self,
        spot: &Spot<'_>,
        parts: &Combined<'_>,
    ) -> Result<Ticket> {
        // SAFETY: the buffers are the caller's promise; what is mapped is the target's layout.
        unsafe {
            match spot {
                Spot::Mapped(base, place) => {
                    let own = self.target.widths();
                    let widths = place.as_ref().map_or(own, |place| place.widths);
                    self.combine_in_place((*base, widths), parts)?;
                    Ok(Ticket::DONE)
                }
                Spot::Device(place) => {
                    behind_stores();
                    self.combine_by_device(place, parts)
                }
                Spot::Apart(disp) => self.combine_apart(*disp, parts),
            }
        }
    }

    /// # Safety
    /// The layouts lie in memory that is valid for the work; the target's is mapped.
    unsafe fn combine_in_place(
        self,
        (there, widths): (*mut u8, AtomicWidths),
        parts: &Combined<'_>,
    ) -> Result<()> {
        let base = there.addr() as u64;
        let at = |offset: i64| there.wrapping_offset(offset as isize);
        if widths.word(parts.ty, 0).is_some() {
            let mut all = true;
            let word = |block: &ElementBlock| {
                widths.word(parts.ty, base.wrapping_add_signed(block.target))
            };
            let mut blocks = parts.blocks();
            let mut next = blocks.next();
            while let Some(block) = next {
                let work = parts.work(&block);
                if work.count >= MANY
                    && let Some(width) = word(&block)
                {
                    // SAFETY: the caller's promise; aligned, as `word` says.
                    unsafe { self.combine_mapped_words(at(block.target), width, &work)? };
                    next = blocks.next();
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
                                elementwise::combine_words(at(block.target), width, &work);
                            },
                            None => all = false,
                        }
                        next = blocks.next();
                    }
                })?;
            }
            if parts.overwrites() {
                self.target.set_dirty();
            }
            if all {
                return Ok(());
            }
        }
        self.with_accumulate_lock(&self.route()?.accumulate_lock, || {
            for block in parts.blocks_of(widths, base, false) {
                // SAFETY: the caller's promise; the lock is held.
                unsafe { parts.work(&block).combine_mapped(at(block.target)) };
            }
            Ok(())
        })?;
        self.target.set_dirty();
        Ok(())
    }
}

/// Checks a buffer of this rank and what lies in it, if anything does; returns how many bytes of data.
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
