//! Accesses of dynamic windows to several regions: regions that touch, and layouts that have data in
//! more than one. Each has an rkey and a mapping of its own, so every part becomes an operation.

use rdma_sys_shim::Ticket;

use super::bounds::null_buffer;
use super::derived::Combined;
use super::put_get::Way;
use super::work::Work;
use crate::datatype::{BasicType, Piece, Together};
use crate::error::{Error, ErrorKind, Misuse, Result};
use crate::window::{RegionCache, Window};

/// What one region has to hold as a whole.
#[derive(Clone, Copy)]
pub(super) struct Grain {
    extent: u64,
    /// Without the padding at its end.
    true_extent: u64,
}

impl Grain {
    pub(super) const BYTE: Self = Self {
        extent: 1,
        true_extent: 1,
    };

    pub(super) fn of(ty: BasicType) -> Self {
        Self {
            extent: ty.extent() as u64,
            true_extent: ty.true_extent() as u64,
        }
    }

    /// How many of `len` bytes from `address` on are grains in one region; `None` if the first one is
    /// not in any.
    fn in_one_region(self, regions: &RegionCache, address: u64, len: u64) -> Option<u64> {
        let room = regions.end_of(address)? - address;
        let more = room.checked_sub(self.true_extent)? / self.extent;
        Some(len.min((more + 1) * self.extent))
    }

    /// Hands out the parts of `len` bytes from `address` on, as offset and length, each in one region.
    fn parts(
        self,
        regions: &RegionCache,
        address: u64,
        len: u64,
    ) -> impl Iterator<Item = Option<(u64, u64)>> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let start = next.filter(|&start| start < len)?;
            let part = address
                .checked_add(start)
                .and_then(|address| self.in_one_region(regions, address, len - start));
            next = part.map(|part| start + part);
            Some(part.map(|part| (start, part)))
        })
    }
}

impl Window {
    /// What to make of an access that no single region holds: the error, unless several hold all of
    /// `far`, placed at address `disp`.
    #[cold]
    pub(super) fn check_apart(
        &self,
        operation: &'static str,
        rank: u32,
        disp: u64,
        far: &Piece,
        grain: Grain,
        error: Error,
    ) -> Result<()> {
        let is_apart = matches!(error.kind(), ErrorKind::Misuse(Misuse::NotAttached { .. }));
        let Some(regions) = self.route_of(operation, rank)?.attached.as_ref() else {
            return Err(error);
        };
        let is_held = |at: i64, len: u64| {
            disp.checked_add_signed(at).is_some_and(|address| {
                grain
                    .parts(regions, address, len)
                    .all(|part| part.is_some())
            })
        };
        let mut blocks = Together::new([far]).flat_map(|strip| {
            let len = strip.len;
            strip.blocks().map(move |[at]| (at, len))
        });
        match is_apart && blocks.all(|(at, len)| is_held(at, len)) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Moves bytes between pieces, of which the target's, placed at address `disp`, is in several
    /// regions.
    ///
    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    #[cold]
    pub(super) unsafe fn transfer_apart(
        &self,
        operation: &'static str,
        way: Way,
        origin: *mut u8,
        rank: u32,
        disp: u64,
        pieces: [&Piece; 2],
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for strip in Together::new(pieces) {
            for [near, far] in strip.blocks() {
                let address = disp.wrapping_add_signed(far);
                let here = origin.wrapping_offset(near as isize);
                self.each_part(
                    operation,
                    rank,
                    address,
                    strip.len,
                    Grain::BYTE,
                    |at, len| {
                        let here = here.wrapping_add(at as usize);
                        // SAFETY: a part of a block, which is the caller's promise.
                        let posted = unsafe {
                            self.transfer(operation, way, here, len as usize, rank, address + at)?
                        };
                        last = last.max(posted);
                        Ok(())
                    },
                )?;
            }
        }
        Ok(last)
    }

    /// Combines elements, of which the target's, placed at address `disp`, are in several regions.
    ///
    /// # Safety
    /// The buffers of `parts` are valid until the operation is complete.
    #[cold]
    pub(super) unsafe fn combine_apart(
        &self,
        operation: &'static str,
        rank: u32,
        disp: u64,
        parts: &Combined<'_>,
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for block in parts.blocks() {
            let address = disp.wrapping_add_signed(block.target);
            let (len, grain) = (block.len as u64, Grain::of(parts.ty));
            self.each_part(operation, rank, address, len, grain, |at, len| {
                let work = parts.work(&block.part(at as usize, len as usize));
                // SAFETY: a part of a block, which is the caller's promise.
                let posted = unsafe { self.carry_out(operation, rank, address + at, &work)? };
                last = last.max(posted);
                Ok(())
            })?;
        }
        Ok(last)
    }

    /// Moves bytes that no single region holds, if several do; else returns the error.
    ///
    /// # Safety
    /// As for [`Window::put`] or [`Window::get`]; a put only reads `origin`.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "a transfer's, and the error")]
    pub(super) unsafe fn transfer_run_apart(
        &self,
        operation: &'static str,
        way: Way,
        origin: *mut u8,
        len: usize,
        rank: u32,
        disp: u64,
        error: Error,
    ) -> Result<Ticket> {
        let run = Piece::run(0, len as u64);
        self.check_apart(operation, rank, disp, &run, Grain::BYTE, error)?;
        if origin.is_null() {
            return Err(null_buffer(operation, len));
        }
        // SAFETY: the caller's promise.
        unsafe { self.transfer_apart(operation, way, origin, rank, disp, [&run, &run]) }
    }

    /// Carries out work of `len` bytes that no single region holds, if several do; else returns the
    /// error.
    ///
    /// # Safety
    /// As for [`Window::carry_out`].
    #[cold]
    pub(super) unsafe fn combine_run_apart(
        &self,
        operation: &'static str,
        rank: u32,
        disp: u64,
        len: usize,
        work: &Work,
        error: Error,
    ) -> Result<Ticket> {
        let run = Piece::run(0, (work.count * work.ty.extent()) as u64);
        // One element is never in several.
        self.check_apart(operation, rank, disp, &run, Grain::of(work.ty), error)?;
        work.check_buffers(operation, len)?;
        let parts = Combined {
            ty: work.ty,
            op: work.op,
            operands: (!work.operands.is_null()).then_some(work.operands),
            result: (!work.result.is_null()).then_some(work.result),
            layouts: [&run; 3],
            skip: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { self.combine_apart(operation, rank, disp, &parts) }
    }

    /// Does something with each part of `len` bytes from `address` on, which were found attached.
    fn each_part(
        &self,
        operation: &'static str,
        rank: u32,
        address: u64,
        len: u64,
        grain: Grain,
        mut act: impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let gone = || Error::new(operation, Misuse::NotAttached { rank, address, len });
        let regions = self.route_of(operation, rank)?.attached.as_ref();
        for part in grain.parts(regions.ok_or_else(gone)?, address, len) {
            // The target may detach it now.
            let (at, len) = part.ok_or_else(gone)?;
            act(at, len)?;
        }
        Ok(())
    }
}
