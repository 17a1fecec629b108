//! Put and get of contiguous bytes.

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Ticket, Via};

use super::PROC_NULL;
use super::bounds::null_buffer;
use super::request::{Request, Until};
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;
use crate::window::target::Target;

#[derive(Clone, Copy)]
pub(crate) enum Way {
    Put,
    Get,
}

impl Way {
    /// Whether it goes through a mapping, where there is one. A get sees what this rank did before, also what the
    /// device has not carried out yet.
    #[inline(always)]
    pub(super) fn is_in_place(self, target: &Target) -> bool {
        match self {
            Self::Put => true,
            Self::Get => target.posted() == Ticket::DONE,
        }
    }

    pub(super) fn kind(self) -> OperationKind {
        match self {
            Self::Put => OperationKind::Put,
            Self::Get => OperationKind::Get,
        }
    }

    /// Copies between a target's memory and the origin's.
    ///
    /// # Safety
    /// As for [`copy`], from one to the other.
    #[inline(always)]
    pub(super) unsafe fn copy(self, there: *mut u8, origin: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Put => copy(there, origin, len),
                Self::Get => copy(origin, there, len),
            }
        }
    }
}

/// Mapped bytes of a target that operations may go to: a put or a get that is but a copy.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InPlace<'w> {
    there: *mut u8,
    target: &'w Target,
}

impl InPlace<'_> {
    /// Copies as many bytes from `origin` as were asked for, as [`Window::put`] does.
    ///
    /// # Safety
    /// `len` is what this was made for. `origin` is readable for so many bytes, and does not overlap with those
    /// written to.
    #[inline(always)]
    pub unsafe fn put(self, origin: *const u8, len: usize) {
        // SAFETY: `origin` and `len` are the caller's promise; the range was found inside the mapping of the target's
        // memory, which is kept until the window is freed.
        unsafe { copy(self.there, origin, len) };
        self.target.set_dirty();
    }

    /// Copies as many bytes to `origin` as were asked for, as [`Window::get`] does.
    ///
    /// # Safety
    /// `len` is what this was made for. `origin` is writable for so many bytes, nobody else touches it, and it does
    /// not overlap with those read.
    #[inline(always)]
    pub unsafe fn get(self, origin: *mut u8, len: usize) {
        // SAFETY: as for `put`, the other way round.
        unsafe { copy(origin, self.there, len) };
    }
}

impl Window {
    /// Where a put or a get of so many bytes is but a copy; `None` where there is more to it, or anything amiss.
    #[inline(always)]
    pub(crate) fn in_place(
        &self,
        way: Way,
        len: usize,
        target: u32,
        disp: u64,
    ) -> Option<InPlace<'_>> {
        let target = self.open_target(target)?;
        let there = target.reach(Displacement(disp), len as u64);
        (!there.is_null() && way.is_in_place(target)).then_some(InPlace { there, target })
    }

    /// One-sided. Copies `len` bytes from `origin` to displacement `disp` (in the target's units)
    /// of `target`'s memory. Complete at the next synchronisation: fence, flush or unlock (MPI-4.1,
    /// section 12.3.1).
    ///
    /// # Errors
    /// No epoch of this target is open, the range is not in its memory, `target` is not a rank, the
    /// memory is read-only, the target died.
    ///
    /// # Safety
    /// `origin` is readable for `len` bytes, and does not change, until the operation is complete;
    /// it does not overlap with the bytes written to.
    #[inline]
    pub unsafe fn put(&self, origin: *const u8, len: usize, target: u32, disp: u64) -> Result<()> {
        if let Some(there) = self.in_place(Way::Put, len, target, disp)
            && !origin.is_null()
        {
            // SAFETY: `origin` is the caller's promise; the length is that of `there`.
            unsafe { there.put(origin, len) };
            return Ok(());
        }
        let aim = Aim::new("put", target);
        // SAFETY: the caller's promise.
        unsafe { self.transfer(aim, Way::Put, origin.cast_mut(), len, Displacement(disp)) }
            .map(drop)
    }

    /// One-sided. Copies `len` bytes at displacement `disp` (in the target's units) of `target`'s
    /// memory to `origin`. Complete at the next synchronisation: fence, flush or unlock (MPI-4.1,
    /// section 12.3.2).
    ///
    /// # Errors
    /// As for [`Window::put`].
    ///
    /// # Safety
    /// `origin` is writable for `len` bytes, and nobody else touches it, until the operation is
    /// complete; it does not overlap with the bytes read.
    #[inline]
    pub unsafe fn get(&self, origin: *mut u8, len: usize, target: u32, disp: u64) -> Result<()> {
        if let Some(there) = self.in_place(Way::Get, len, target, disp)
            && !origin.is_null()
        {
            // SAFETY: as for `put`.
            unsafe { there.get(origin, len) };
            return Ok(());
        }
        let aim = Aim::new("get", target);
        // SAFETY: the caller's promise.
        unsafe { self.transfer(aim, Way::Get, origin, len, Displacement(disp)) }.map(drop)
    }

    /// One-sided. As [`Window::put`], with a request: when it is complete, `origin` may be used
    /// again; the data may arrive later (MPI-4.1, section 12.3.5). Needs a lock or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::put`].
    ///
    /// # Safety
    /// As for [`Window::put`], until the request is complete.
    pub unsafe fn rput(
        &self,
        origin: *const u8,
        len: usize,
        target: u32,
        disp: u64,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rput", target), Displacement(disp));
        self.needs_passive(aim)?;
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer(aim, Way::Put, origin.cast_mut(), len, disp)? };
        self.request(target, ticket, Until::Released)
    }

    /// One-sided. As [`Window::get`], with a request: when it is complete, the data is in `origin`
    /// (MPI-4.1, section 12.3.5). Needs a lock or `lock_all`.
    ///
    /// # Errors
    /// As for [`Window::get`].
    ///
    /// # Safety
    /// As for [`Window::get`], until the request is complete.
    pub unsafe fn rget(
        &self,
        origin: *mut u8,
        len: usize,
        target: u32,
        disp: u64,
    ) -> Result<Request> {
        let (aim, disp) = (Aim::new("rget", target), Displacement(disp));
        self.needs_passive(aim)?;
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.transfer(aim, Way::Get, origin, len, disp)? };
        self.request(target, ticket, Until::Completed)
    }

    /// Either way, with the first operation of an epoch, where nothing is mapped, and for errors.
    ///
    /// # Safety
    /// As for [`Window::put`] or [`Window::get`]; a put only reads `origin`.
    #[inline(never)]
    pub(super) unsafe fn transfer(
        &self,
        aim: Aim,
        way: Way,
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
        let in_place = way.is_in_place(on.target);
        let there = on.target.reach(disp, len as u64);
        if in_place && !there.is_null() && !origin.is_null() {
            // SAFETY: as in `put` and `get`.
            unsafe { way.copy(there, origin, len) };
            on.target.set_dirty();
            return Ok(Ticket::DONE);
        }
        let place = match on.place(disp, len as u64) {
            Ok(place) => place,
            // SAFETY: the caller's promise.
            Err(error) => unsafe {
                return on.transfer_run_apart(way, origin, len, disp, error);
            },
        };
        if origin.is_null() {
            return Err(null_buffer(aim.operation, len));
        }
        if in_place && !place.there.is_null() {
            // SAFETY: as in `put` and `get`; `place` keeps the region mapped.
            unsafe { way.copy(place.there, origin, len) };
            on.target.set_dirty();
            on.count(way.kind(), || Via::Mapped, len as u64);
            return Ok(Ticket::DONE);
        }
        let endpoint = &place.route.endpoint;
        let at = place.at;
        // SAFETY: the caller keeps `origin` until the operation is complete.
        let posted = unsafe {
            match way {
                Way::Put => endpoint.write(origin, len, at),
                Way::Get => endpoint.read(origin, len, at),
            }
        };
        let ticket = posted.map_err(|error| on.failed(error))?;
        on.note_posted(ticket);
        on.count(way.kind(), || place.route.via(false), len as u64);
        Ok(ticket)
    }
}
