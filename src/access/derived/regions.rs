//! Operations between rows of equal blocks, for callers that know their elements.

use rdma_sys_shim::Ticket;

use super::super::PROC_NULL;
use super::super::apart::Grain;
use super::super::put_get::Way;
use super::super::request::{Request, Until};
use super::super::work::Work;
use super::check_buffer;
use super::combined::Combined;
use crate::datatype::{BasicType, Op, Row};
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;

impl Window {
    /// As [`Window::put_layout`], from one row of bytes to another, as long in all, from the start
    /// of a target's memory.
    ///
    /// # Safety
    /// As for [`Window::put_layout`].
    pub(crate) unsafe fn put_row(
        &self,
        aim: Aim,
        origin: *const u8,
        near: Row,
        far: Row,
    ) -> Result<()> {
        let rows = [near, far];
        // SAFETY: the caller's promise.
        unsafe { self.transfer_rows(aim, Way::Put, origin.cast_mut(), rows) }.map(drop)
    }

    /// As [`Window::put_row`], the other way.
    ///
    /// # Safety
    /// As for [`Window::get_layout`].
    pub(crate) unsafe fn get_row(
        &self,
        aim: Aim,
        origin: *mut u8,
        near: Row,
        far: Row,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer_rows(aim, Way::Get, origin, [near, far]) }.map(drop)
    }

    /// As [`Window::put_row`], with a request; needs a passive-target epoch.
    ///
    /// # Safety
    /// As for [`Window::rput_layout`].
    pub(crate) unsafe fn rput_row(
        &self,
        aim: Aim,
        origin: *const u8,
        near: Row,
        far: Row,
    ) -> Result<Request> {
        self.needs_passive(aim)?;
        let (origin, rows) = (origin.cast_mut(), [near, far]);
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer_rows(aim, Way::Put, origin, rows)? };
        self.request(aim.rank, ticket, Until::Released)
    }

    /// As [`Window::rput_row`], the other way.
    ///
    /// # Safety
    /// As for [`Window::rget_layout`].
    pub(crate) unsafe fn rget_row(
        &self,
        aim: Aim,
        origin: *mut u8,
        near: Row,
        far: Row,
    ) -> Result<Request> {
        self.needs_passive(aim)?;
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer_rows(aim, Way::Get, origin, [near, far])? };
        self.request(aim.rank, ticket, Until::Completed)
    }

    /// # Safety
    /// As for [`Window::put_row`] or [`Window::get_row`].
    unsafe fn transfer_rows(
        &self,
        aim: Aim,
        way: Way,
        origin: *mut u8,
        [near, far]: [Row; 2],
    ) -> Result<Ticket> {
        if aim.rank == PROC_NULL {
            return Ok(Ticket::DONE);
        }
        let on = self.open_or_enter(aim)?;
        let (span, piece) = far.measure(aim.operation)?;
        let spot = on.spot(Displacement(0), span, piece.as_ref(), Grain::BYTE)?;
        let (here, near) = near.measure(aim.operation)?;
        let (Some(near), Some(far)) = (near, piece) else {
            return Ok(Ticket::DONE);
        };
        check_buffer(aim.operation, origin, here, here.bytes())?;
        // SAFETY: the caller's promise.
        unsafe { on.transfer_pieces(way, origin, spot, [&near, &far]) }
    }

    /// As [`Window::accumulate_layout`], between rows of elements without padding.
    ///
    /// # Safety
    /// As for [`Window::accumulate_layout`].
    pub(crate) unsafe fn accumulate_row(
        &self,
        aim: Aim,
        origin: *const u8,
        near: Row,
        far: Row,
        ty: BasicType,
        op: Op,
    ) -> Result<()> {
        Work::check_changes(aim.operation, op)?;
        if aim.rank == PROC_NULL {
            return Ok(());
        }
        let on = self.open_or_enter(aim)?;
        let ((span, piece), grain) = (far.measure(aim.operation)?, Grain::of(ty));
        let spot = on.spot(Displacement(0), span, piece.as_ref(), grain)?;
        let (here, near) = near.measure(aim.operation)?;
        let (Some(near), Some(far)) = (near, piece) else {
            return Ok(());
        };
        check_buffer(aim.operation, origin, here, here.bytes())?;
        op.check_defined_for(aim.operation, ty)?;
        let parts = Combined {
            ty,
            op,
            operands: Some(origin),
            result: None,
            // There is no result; the target's elements are as many.
            layouts: [&near, &far, &far],
            skip: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { on.combine_pieces(&spot, &parts) }.map(drop)
    }
}
