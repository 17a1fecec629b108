//! Accesses to dynamic windows that span several regions: adjacent regions, and layouts that have
//! data in more than one region. Each region has its own rkey and mapping, so every part becomes one
//! operation.

use rdma_sys_shim::{Direction, Ticket};

use super::layout_work::{ElementBlock, LayoutWork};
use crate::datatype::{BasicType, Piece, Together};
use crate::error::{Error, ErrorKind, Misuse, Result};
use crate::memory::displacement::{Address, Displacement};
use crate::terms::Aim;
use crate::window::{OnTarget, RegionCache};

/// How many of `len` bytes from `address` on are whole elements in one region; `None` if no region holds the first one.
fn in_one_region(ty: BasicType, regions: &RegionCache, address: Address, len: u64) -> Option<u64> {
    let room = regions.end_of(address)?.in_memory_at(address.0).0;
    let (extent, true_extent) = (ty.extent() as u64, ty.true_extent() as u64);
    let more = room.checked_sub(true_extent)? / extent;
    Some(len.min((more + 1) * extent))
}

/// The parts of `len` bytes of elements from `address` on, as offset and length; each is in one region.
fn parts(
    ty: BasicType,
    regions: &RegionCache,
    address: Address,
    len: u64,
) -> impl Iterator<Item = Option<(u64, u64)>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next.filter(|&start| start < len)?;
        let part = address
            .after(start)
            .and_then(|address| in_one_region(ty, regions, address, len - start));
        next = part.map(|part| start + part);
        Some(part.map(|part| (start, part)))
    })
}

impl OnTarget<'_> {
    /// Checks an access that no single region holds. Returns the error, unless several regions hold all elements of
    /// `far`, placed at address `disp`.
    #[cold]
    pub(super) fn check_apart(
        self,
        disp: Displacement,
        far: Option<&Piece>,
        ty: BasicType,
        error: Error,
    ) -> Result<()> {
        let is_apart = matches!(error.kind(), ErrorKind::Misuse(Misuse::NotAttached { .. }));
        let (Some(far), Some(regions)) = (far, self.route()?.attached.as_ref()) else {
            return Err(error);
        };
        let is_held = |at: i64, len: u64| {
            disp.as_address()
                .moved(at)
                .is_some_and(|address| parts(ty, regions, address, len).all(|part| part.is_some()))
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

    /// Moves bytes between pieces. The target's, placed at address `disp`, is in several regions.
    ///
    /// # Safety
    /// As for [`Window::put_layout`] or [`Window::get_layout`]; a put only reads `origin`.
    #[cold]
    pub(super) unsafe fn transfer_apart(
        self,
        direction: Direction,
        origin: *mut u8,
        disp: Displacement,
        pieces: [&Piece; 2],
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for strip in Together::new(pieces) {
            for [near, far] in strip.blocks() {
                let here = origin.wrapping_offset(near as isize);
                let block = (self.block_at(disp, far), strip.len);
                last = self.each_part(last, block, BasicType::Byte, |at, part, len| {
                    let (here, len) = (here.wrapping_add(at as usize), len as usize);
                    // SAFETY: a part of a block, which is the caller's promise.
                    unsafe { self.window.transfer(self.aim, direction, here, len, part) }
                })?;
            }
        }
        Ok(last)
    }

    /// Combines elements. The target's, placed at address `disp`, are in several regions.
    #[cold]
    pub(super) fn accumulate_apart(
        self,
        disp: Displacement,
        parts: &LayoutWork<'_>,
        blocks: impl Iterator<Item = ElementBlock>,
    ) -> Result<Ticket> {
        let mut last = Ticket::DONE;
        for block in blocks {
            let bytes = (self.block_at(disp, block.target), block.len as u64);
            last = self.each_part(last, bytes, parts.what.ty, |at, part, len| {
                let work = parts.work(&block.part(at as usize, len as usize));
                // SAFETY: a part of a block; whoever made `parts` promises that its buffers are valid.
                unsafe { self.window.carry_out(self.aim, part, &work) }
            })?;
        }
        Ok(last)
    }

    /// The address of a block of a layout that is placed at `disp`; it was found attached.
    fn block_at(self, disp: Displacement, at: i64) -> Address {
        Address(disp.0.wrapping_add_signed(at))
    }

    /// Calls `act` with each part of bytes that were found attached: its offset from their start, its address and its
    /// length. Returns the ticket of what it posted and of `last`; if it fails, that has ended.
    fn each_part(
        self,
        mut last: Ticket,
        (address, len): (Address, u64),
        ty: BasicType,
        mut act: impl FnMut(u64, Displacement, u64) -> Result<Ticket>,
    ) -> Result<Ticket> {
        let Aim { operation, rank } = self.aim;
        let gone = || {
            let address = address.0;
            Error::new(operation, Misuse::NotAttached { rank, address, len })
        };
        let regions = self.route()?.attached.as_ref().ok_or_else(gone);
        let regions = regions.inspect_err(|_| self.await_end(last))?;
        for part in parts(ty, regions, address, len) {
            // The target may detach the memory meanwhile.
            let part = part.ok_or_else(gone);
            let posted = part.and_then(|(at, len)| act(at, Displacement(address.0 + at), len));
            last = last.max(posted.inspect_err(|_| self.await_end(last))?);
        }
        Ok(last)
    }
}
