//! Moving bytes between two layouts, for all puts and gets that need more than one copy. Contiguous bytes are a layout
//! of one run.
//!
//! The layouts are walked together ([`Together`]), in strips of equal blocks. In mapped memory a strip is copied; elsewhere
//! strips become batches for the device, one run of the target's memory after the other.

use rdma_sys_shim::memory::{Rows, copy_rows};
use rdma_sys_shim::{Direction, RemoteAddress, StridedBlocks, Ticket};

use super::PROC_NULL;
use super::bounds::{Place, check_buffer};
use super::post::Poster;
use super::put_get::is_in_place;
use super::spot::{Spot, Use};
use crate::datatype::{Layout, Piece, Span, Strip, Together};
use crate::error::{Error, Result};
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

impl Window {
    /// A put or a get of contiguous bytes that was not done at once: the first of an epoch, one of unmapped memory, or
    /// one that is refused.
    ///
    /// # Safety
    /// As for [`Window::put`] or [`Window::get`]; a put only reads `origin`.
    #[inline(never)]
    pub(super) unsafe fn transfer(
        &self,
        aim: Aim,
        direction: Direction,
        origin: *mut u8,
        len: usize,
        disp: Displacement,
    ) -> Result<Ticket> {
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.enter(aim)?;
        if len == 0 {
            return Ok(Ticket::DONE);
        }
        let there = on.target.reach(disp, len as u64);
        if !there.is_null() && !origin.is_null() && is_in_place(direction, on.target) {
            // SAFETY: as in `put` and `get`.
            unsafe { direction.copy(origin, there, len) };
            on.target.set_dirty();
            return Ok(Ticket::DONE);
        }
        let (span, run) = (Span::of(len as u64), Piece::run(0, len as u64));
        let spot = on.find(disp, span, Some(&run), Use::Moved(direction))?;
        check_buffer(aim.operation, origin, span, len as u64)?;
        // SAFETY: the caller's promise.
        unsafe { on.transfer_pieces(direction, origin, &spot, [&run, &run]) }
    }

    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    pub(super) unsafe fn transfer_layouts(
        &self,
        aim: Aim,
        direction: Direction,
        origin: *mut u8,
        disp: Displacement,
        layouts: [Layout<'_>; 2],
    ) -> Result<Ticket> {
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.open_or_enter(aim)?;
        let operation = aim.operation;
        let [near, far] = layouts;
        let (here, there) = (near.measure(operation)?, far.measure(operation)?);
        match direction {
            Direction::Write => near.check_fits(operation, &far)?,
            Direction::Read => far.check_fits(operation, &near)?,
        }
        let (Some(near), Some(far)) = (near.bytes(), far.bytes()) else {
            return Ok(Ticket::DONE);
        };
        let (span, piece) = (there.span, Some(&*far));
        let spot = on.spot(disp, span, piece, Use::Moved(direction))?;
        check_buffer(operation, origin, here.span, here.size)?;
        let pieces = [&*near, &*far];
        // SAFETY: the caller's promise.
        unsafe { on.transfer_pieces(direction, origin, &spot, pieces) }
    }
}

impl OnTarget<'_> {
    /// Moves bytes between pieces up to the end of the shorter one; `spot` is that of the target's.
    ///
    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    #[inline]
    pub(super) unsafe fn transfer_pieces(
        self,
        direction: Direction,
        origin: *mut u8,
        spot: &Spot<'_>,
        pieces: [&Piece; 2],
    ) -> Result<Ticket> {
        let place = match spot {
            Spot::Mapped(place) => {
                // SAFETY: `origin` is the caller's promise; the target's layout is mapped there.
                unsafe { copy_layouts(direction, origin, place.there, pieces) };
                self.target.set_dirty();
                return Ok(Ticket::DONE);
            }
            Spot::Device(place) => place,
            // SAFETY: the caller's promise.
            &Spot::Apart(disp) => unsafe {
                return self.transfer_apart(direction, origin, disp, pieces);
            },
        };
        let (endpoint, at) = (&*place.route.endpoint, place.at);
        let posted = match pieces.map(Piece::as_run) {
            [Some(near), Some(far)] => {
                let len = near.min(far) as usize;
                let (here, at) = (placed(origin, pieces[0].at), at.moved(pieces[1].at));
                // SAFETY: the caller's promise.
                unsafe { endpoint.transfer(direction, here, len, at) }.map_err(Error::from)
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.post_strips(direction, origin, place, pieces) },
        };
        let ticket = posted.map_err(|error| self.failed(error))?;
        self.note_posted(ticket);
        Ok(ticket)
    }

    /// # Safety
    /// As for [`OnTarget::transfer_pieces`].
    #[inline(never)]
    unsafe fn post_strips(
        self,
        direction: Direction,
        origin: *mut u8,
        place: &Place<'_>,
        pieces: [&Piece; 2],
    ) -> Result<Ticket> {
        let (endpoint, at) = (&*place.route.endpoint, place.at);
        let patience = self.window.context().patience();
        let mut poster = Poster::new(endpoint, patience, direction, at.rkey);
        let mut strips = Together::new(pieces);
        let (first, second) = (strips.next(), strips.next());
        let is_one = second.is_none();
        for strip in first.into_iter().chain(second).chain(strips) {
            let blocks = blocks_of(&strip, origin, at);
            // SAFETY: blocks of the layout, which is the caller's promise.
            unsafe { poster.push_blocks(blocks, is_one)? };
        }
        // SAFETY: as above.
        unsafe { poster.finish() }
    }
}

fn placed(base: *mut u8, offset: i64) -> *mut u8 {
    base.wrapping_offset(offset as isize)
}

/// The blocks of a strip; the layouts are placed at `origin` and, at the target, `at`.
fn blocks_of(strip: &Strip<2>, origin: *mut u8, at: RemoteAddress) -> StridedBlocks {
    StridedBlocks {
        here: placed(origin, strip.at[0]),
        at: at.moved(strip.at[1]),
        len: strip.len as usize,
        count: strip.count as usize,
        stride_here: strip.stride[0] as isize,
        stride_there: strip.stride[1],
    }
}

/// # Safety
/// The layouts are inside memory that is valid for copying from one to the other.
unsafe fn copy_layouts(
    direction: Direction,
    origin: *mut u8,
    there: *mut u8,
    layouts: [&Piece; 2],
) {
    let runs = layouts.map(Piece::as_run);
    if let [Some(near), Some(far)] = runs {
        let (here, there) = (placed(origin, layouts[0].at), placed(there, layouts[1].at));
        // SAFETY: the caller's promise.
        unsafe { direction.copy(here, there, near.min(far) as usize) };
        return;
    }
    // SAFETY: the caller's promise, of parts of the layouts.
    unsafe {
        match (runs, layouts.map(Piece::as_list)) {
            ([Some(len), _], [_, Some((at, list))]) => {
                let (here, there) = (placed(origin, layouts[0].at), placed(there, at));
                let one = |here, there, len| direction.copy(here, there, len);
                let many = |here, rest: &Piece, part: &Piece| {
                    copy_strips(direction, here, there, [rest, part])
                };
                copy_list((here, len), (there, list), one, many);
            }
            ([_, Some(len)], [Some((at, list)), _]) => {
                let (here, there) = (placed(origin, at), placed(there, layouts[1].at));
                let one = |there, here, len| direction.copy(here, there, len);
                let many = |there, rest: &Piece, part: &Piece| {
                    copy_strips(direction, here, there, [part, rest])
                };
                copy_list((there, len), (here, list), one, many);
            }
            _ => {
                copy_strips(direction, origin, there, layouts);
            }
        }
    }
}

/// Copies between a run, from `run` on, and the parts of a list that is placed at `base`, up to the end of the shorter.
/// `one` copies a part that is a run. `many` copies another part beside the rest of the run, and returns the number of
/// bytes. Most parts of an index list are runs, which need few checks.
#[inline(always)]
fn copy_list(
    (mut run, mut left): (*mut u8, u64),
    (base, list): (*mut u8, &[Piece]),
    one: impl Fn(*mut u8, *mut u8, usize),
    many: impl Fn(*mut u8, &Piece, &Piece) -> u64,
) {
    for part in list {
        let copied = match part.as_run() {
            Some(len) => {
                let len = len.min(left);
                one(run, placed(base, part.at), len as usize);
                len
            }
            None => many(run, &Piece::run(0, left), part),
        };
        run = run.wrapping_add(copied as usize);
        left -= copied;
    }
}

/// Copies strip by strip, and returns the number of bytes.
///
/// # Safety
/// As for [`copy_layouts`].
#[inline(never)]
unsafe fn copy_strips(
    direction: Direction,
    origin: *mut u8,
    there: *mut u8,
    layouts: [&Piece; 2],
) -> u64 {
    let mut copied = 0;
    for strip in Together::new(layouts) {
        // SAFETY: the caller's promise.
        unsafe { copy_strip(direction, origin, there, &strip) };
        copied += strip.bytes();
    }
    copied
}

/// # Safety
/// As for [`copy_layouts`], of a strip of them.
#[inline]
unsafe fn copy_strip(direction: Direction, origin: *mut u8, there: *mut u8, strip: &Strip<2>) {
    let (here, there) = (placed(origin, strip.at[0]), placed(there, strip.at[1]));
    if strip.count == 1 {
        // SAFETY: the caller's promise.
        return unsafe { direction.copy(here, there, strip.len as usize) };
    }
    let [here_stride, there_stride] = strip.stride.map(|stride| stride as isize);
    let rows = |to_stride, from_stride| Rows {
        len: strip.len as usize,
        count: strip.count as usize,
        to_stride,
        from_stride,
    };
    // SAFETY: the caller's promise.
    unsafe {
        match direction {
            Direction::Write => copy_rows(there, here, rows(there_stride, here_stride)),
            Direction::Read => copy_rows(here, there, rows(here_stride, there_stride)),
        }
    }
}
