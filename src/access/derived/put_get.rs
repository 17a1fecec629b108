//! Put and get with datatypes.

use rdma_sys_shim::memory::{Rows, copy_rows};
use rdma_sys_shim::{Blocks, RemoteAddress, Ticket};

use super::super::PROC_NULL;
use super::super::bounds::Place;
use super::super::put_get::Way;
use super::super::request::{Request, Until};
use super::check_buffer;
use super::post::Poster;
use super::spot::{Spot, Use};
use crate::datatype::{Layout, Piece, Strip, Together};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::{OnTarget, Window};

impl Window {
    /// One-sided. As [`Window::put`], from the bytes of one layout at `origin` to those of another
    /// at displacement `disp` of `target`'s memory. As a message that is sent from one to the other:
    /// both hold the same sequence of predefined types, but the target's may go on where the data
    /// ends; what is there stays as it is (MPI-4.1, section 12.3.1).
    ///
    /// ```
    /// use transom::raw::{Assert, Datatype, Window};
    /// use transom::{BasicType, Info, Job};
    ///
    /// # fn main() -> transom::Result<()> {
    /// let job = Job::init()?;
    /// let window = Window::allocate(job.world(), 8 * 100, 8, &Info::new())?;
    /// // The third column of a matrix of 10 × 10.
    /// let f64s = BasicType::F64.into();
    /// let column = Datatype::vector(10, 1, 10, &f64s)?.commit();
    /// let values = [1.5_f64; 10];
    /// window.fence(Assert::NONE)?;
    /// let (from, dense) = (values.as_ptr().cast(), f64s.commit());
    /// // SAFETY: ten numbers, which are not touched before the fence.
    /// unsafe { window.put_layout(from, dense.times(10), job.world().rank(), 2, column.times(1))? };
    /// window.fence(Assert::NONE)?;
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Window::put`], the range being from the layout's first byte to its last; data of other
    /// elements, or of more, than there is room for (class Type); sizes past 64 bits (class Count).
    ///
    /// # Safety
    /// The bytes of the layout at `origin` are readable, and do not change, until the operation is
    /// complete; they do not overlap with the bytes written to.
    pub unsafe fn put_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
    ) -> Result<()> {
        let (aim, disp) = (Aim::new("put", target), Displacement(disp));
        let layouts = [origin_layout, target_layout];
        let origin = origin.cast_mut();
        // SAFETY: the caller's promise.
        unsafe { self.transfer_layouts(aim, Way::Put, origin, disp, layouts) }.map(drop)
    }

    /// One-sided. As [`Window::get`], from the bytes of one layout at displacement `disp` of
    /// `target`'s memory to those of another at `origin`, which may go on where the data ends
    /// (MPI-4.1, section 12.3.2).
    ///
    /// # Errors
    /// As for [`Window::put_layout`].
    ///
    /// # Safety
    /// The bytes of the layout at `origin` are writable, and nobody else touches them, until the
    /// operation is complete; they do not overlap with each other or with the bytes read.
    pub unsafe fn get_layout(
        &self,
        origin: *mut u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
    ) -> Result<()> {
        let (aim, disp) = (Aim::new("get", target), Displacement(disp));
        let layouts = [origin_layout, target_layout];
        // SAFETY: the caller's promise.
        unsafe { self.transfer_layouts(aim, Way::Get, origin, disp, layouts) }.map(drop)
    }

    /// One-sided. As [`Window::put_layout`], with a request: when it is complete, `origin` may be
    /// used again; the data may arrive later (MPI-4.1, section 12.3.5). Needs a lock or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::put_layout`].
    ///
    /// # Safety
    /// As for [`Window::put_layout`], until the request is complete.
    pub unsafe fn rput_layout(
        &self,
        origin: *const u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rput", target), Displacement(disp));
        self.needs_passive(aim)?;
        let layouts = [origin_layout, target_layout];
        let origin = origin.cast_mut();
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer_layouts(aim, Way::Put, origin, disp, layouts)? };
        self.request(target, ticket, Until::Released)
    }

    /// One-sided. As [`Window::get_layout`], with a request: when it is complete, the data is in
    /// `origin` (MPI-4.1, section 12.3.5). Needs a lock or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::get_layout`].
    ///
    /// # Safety
    /// As for [`Window::get_layout`], until the request is complete.
    pub unsafe fn rget_layout(
        &self,
        origin: *mut u8,
        origin_layout: Layout<'_>,
        target: u32,
        disp: u64,
        target_layout: Layout<'_>,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rget", target), Displacement(disp));
        self.needs_passive(aim)?;
        let layouts = [origin_layout, target_layout];
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer_layouts(aim, Way::Get, origin, disp, layouts)? };
        self.request(target, ticket, Until::Completed)
    }

    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    unsafe fn transfer_layouts(
        &self,
        aim: Aim,
        way: Way,
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
        match way {
            Way::Put => near.check_fits(operation, &far)?,
            Way::Get => far.check_fits(operation, &near)?,
        }
        let (Some(near), Some(far)) = (near.bytes(), far.bytes()) else {
            return Ok(Ticket::DONE);
        };
        let (span, piece) = (there.span, Some(&*far));
        let spot = on.spot(disp, span, piece, Use::Moved(way))?;
        check_buffer(operation, origin, here.span, here.size)?;
        let pieces = [&*near, &*far];
        // SAFETY: the caller's promise.
        unsafe { on.transfer_pieces(way, origin, &spot, pieces) }
    }
}

impl OnTarget<'_> {
    /// Moves bytes between pieces up to the end of the shorter one, of which the target's was found
    /// at `spot`.
    ///
    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    pub(super) unsafe fn transfer_pieces(
        self,
        way: Way,
        origin: *mut u8,
        spot: &Spot<'_>,
        pieces: [&Piece; 2],
    ) -> Result<Ticket> {
        let place = match spot {
            Spot::Mapped(base, _) => {
                // SAFETY: `origin` is the caller's promise; the target's layout is mapped there.
                unsafe { copy_layouts(way, origin, *base, pieces) };
                self.target.set_dirty();
                return Ok(Ticket::DONE);
            }
            Spot::Device(place) => place,
            // SAFETY: the caller's promise.
            &Spot::Apart(disp) => unsafe {
                return self.transfer_apart(way, origin, disp, pieces);
            },
        };
        // SAFETY: the caller's promise.
        let posted = unsafe { self.post_layouts(way, origin, place, pieces) };
        let ticket = posted.map_err(|error| self.failed(error))?;
        self.note_posted(ticket);
        Ok(ticket)
    }

    /// # Safety
    /// As for [`Window::transfer_layouts`].
    unsafe fn post_layouts(
        self,
        way: Way,
        origin: *mut u8,
        place: &Place<'_>,
        layouts: [&Piece; 2],
    ) -> Result<Ticket> {
        let endpoint = &*place.route.endpoint;
        let at = place.at;
        let mut poster = Poster::new(endpoint, self.window.context().patience(), way, at.rkey);
        let mut strips = Together::new(layouts);
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

/// Those of a strip, with the layouts placed at `origin` and, at the target, `at`.
fn blocks_of(strip: &Strip<2>, origin: *mut u8, at: RemoteAddress) -> Blocks {
    let [here, there] = strip.at;
    Blocks {
        here: origin.wrapping_offset(here as isize),
        at: RemoteAddress {
            address: at.address.wrapping_add_signed(there),
            ..at
        },
        len: strip.len as usize,
        count: strip.count as usize,
        stride_here: strip.stride[0] as isize,
        stride_there: strip.stride[1],
    }
}

/// # Safety
/// The layouts are inside memory that is valid for copying from one to the other.
unsafe fn copy_layouts(way: Way, origin: *mut u8, there: *mut u8, layouts: [&Piece; 2]) {
    let place = |base: *mut u8, at: i64| base.wrapping_offset(at as isize);
    if let (Some(near), Some(far)) = (layouts[0].as_run(), layouts[1].as_run()) {
        let (here, there) = (place(origin, layouts[0].at), place(there, layouts[1].at));
        // SAFETY: the caller's promise.
        unsafe { way.copy(there, here, near.min(far) as usize) };
        return;
    }
    for strip in Together::new(layouts) {
        // SAFETY: the caller's promise.
        unsafe { copy_strip(way, origin, there, &strip) };
    }
}

/// # Safety
/// As for [`copy_layouts`], of a strip of them.
unsafe fn copy_strip(way: Way, origin: *mut u8, there: *mut u8, strip: &Strip<2>) {
    let [here, there] = [(origin, strip.at[0]), (there, strip.at[1])]
        .map(|(base, at)| base.wrapping_offset(at as isize));
    let [here_stride, there_stride] = strip.stride.map(|stride| stride as isize);
    let rows = |to_stride, from_stride| Rows {
        len: strip.len as usize,
        count: strip.count as usize,
        to_stride,
        from_stride,
    };
    // SAFETY: the caller's promise.
    unsafe {
        match way {
            Way::Put => copy_rows(there, here, rows(there_stride, here_stride)),
            Way::Get => copy_rows(here, there, rows(here_stride, there_stride)),
        }
    }
}
