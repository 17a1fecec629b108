//! Put and get. A copy of contiguous bytes to or from mapped memory is the fast path, and is tried first; see `transfer`
//! for all else.

use rdma_sys_shim::memory::copy;
use rdma_sys_shim::{Direction, Ticket};

use super::request::{Request, Until};
use crate::datatype::Layout;
use crate::diagnostics::OperationKind;
use crate::error::Result;
use crate::memory::displacement::Displacement;
use crate::terms::Aim;
use crate::window::Window;
use crate::window::target::Target;

/// Whether a put or a get uses a mapping, if there is one. A get has to see this rank's earlier operations, so it does
/// not use the mapping while the device still works on them.
#[inline(always)]
pub(super) fn is_in_place(direction: Direction, target: &Target) -> bool {
    match direction {
        Direction::Write => true,
        Direction::Read => target.posted.last() == Ticket::DONE,
    }
}

pub(super) fn kind(direction: Direction) -> OperationKind {
    match direction {
        Direction::Write => OperationKind::Put,
        Direction::Read => OperationKind::Get,
    }
}

/// Mapped bytes of an entered target: putting or getting them is only a copy.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InPlace<'w> {
    there: *mut u8,
    target: &'w Target,
}

impl InPlace<'_> {
    /// Copies the requested number of bytes from `origin`, as [`Window::put`] does.
    ///
    /// # Safety
    /// `len` is the length for which this was made. `origin` is readable for `len` bytes, and does not overlap with the
    /// bytes written to.
    #[inline(always)]
    pub unsafe fn put(self, origin: *const u8, len: usize) {
        // SAFETY: `origin` and `len` are the caller's promise; the range was found inside the mapping of the target's
        // memory, which is kept until the window is freed.
        unsafe { copy(self.there, origin, len) };
        self.target.set_dirty();
    }

    /// Copies the requested number of bytes to `origin`, as [`Window::get`] does.
    ///
    /// # Safety
    /// `len` is the length for which this was made. `origin` is writable for `len` bytes, no other code accesses it,
    /// and it does not overlap with the bytes read.
    #[inline(always)]
    pub unsafe fn get(self, origin: *mut u8, len: usize) {
        // SAFETY: as for `put`, in the other direction.
        unsafe { copy(origin, self.there, len) };
    }
}

impl Window {
    /// The bytes of a put or a get that is only a copy; `None` if more is needed, or there is an error.
    #[inline(always)]
    pub(crate) fn in_place(
        &self,
        direction: Direction,
        len: usize,
        target: u32,
        disp: u64,
    ) -> Option<InPlace<'_>> {
        let target = self.open_target(target)?;
        let there = target.reach(Displacement(disp), len as u64);
        (!there.is_null() && is_in_place(direction, target)).then_some(InPlace { there, target })
    }

    /// One-sided. Copies `len` bytes from `origin` to displacement `disp` (in the target's units)
    /// of `target`'s memory. Complete at the next synchronisation: fence, flush or unlock (MPI-4.1,
    /// section 12.3.1).
    ///
    /// # Errors
    /// No epoch of this target is open; the range is not inside its memory; `target` is not a rank; the memory is
    /// read-only; the target died.
    ///
    /// # Safety
    /// `origin` is readable for `len` bytes, and does not change, until the operation is complete;
    /// it does not overlap with the bytes written to.
    #[inline]
    pub unsafe fn put(&self, origin: *const u8, len: usize, target: u32, disp: u64) -> Result<()> {
        if let Some(there) = self.in_place(Direction::Write, len, target, disp)
            && !origin.is_null()
        {
            // SAFETY: `origin` is the caller's promise; the length is that of `there`.
            unsafe { there.put(origin, len) };
            return Ok(());
        }
        let aim = Aim::new("put", target);
        // SAFETY: the caller's promise.
        unsafe {
            self.transfer(
                aim,
                Direction::Write,
                origin.cast_mut(),
                len,
                Displacement(disp),
            )
        }
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
        if let Some(there) = self.in_place(Direction::Read, len, target, disp)
            && !origin.is_null()
        {
            // SAFETY: as for `put`.
            unsafe { there.get(origin, len) };
            return Ok(());
        }
        let aim = Aim::new("get", target);
        // SAFETY: the caller's promise.
        unsafe { self.transfer(aim, Direction::Read, origin, len, Displacement(disp)) }.map(drop)
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
        self.requested(aim, Until::Released, || {
            // SAFETY: the caller's promise.
            unsafe { self.transfer(aim, Direction::Write, origin.cast_mut(), len, disp) }
        })
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
        self.requested(aim, Until::Completed, || {
            // SAFETY: the caller's promise.
            unsafe { self.transfer(aim, Direction::Read, origin, len, disp) }
        })
    }

    /// One-sided. As [`Window::put`], from the bytes of one layout at `origin` to those of another at displacement
    /// `disp` of `target`'s memory. As in a send and a receive, both have the same sequence of predefined types. The
    /// target's layout may be longer than the data; the rest stays unchanged (MPI-4.1, section 12.3.1).
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
    /// As for [`Window::put`], where the range is from the layout's first byte to its last; data with other or more
    /// elements than the target's layout (class Type); sizes past 64 bits (class Count).
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
        // SAFETY: the caller's promise.
        unsafe { self.transfer_layouts(aim, Direction::Write, origin.cast_mut(), disp, layouts) }
            .map(drop)
    }

    /// One-sided. As [`Window::get`], from the bytes of one layout at displacement `disp` of `target`'s memory to those
    /// of another at `origin`, which may be longer than the data (MPI-4.1, section 12.3.2).
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
        unsafe { self.transfer_layouts(aim, Direction::Read, origin, disp, layouts) }.map(drop)
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
        let layouts = [origin_layout, target_layout];
        self.requested(aim, Until::Released, || {
            // SAFETY: the caller's promise.
            unsafe {
                self.transfer_layouts(aim, Direction::Write, origin.cast_mut(), disp, layouts)
            }
        })
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
        let layouts = [origin_layout, target_layout];
        self.requested(aim, Until::Completed, || {
            // SAFETY: the caller's promise.
            unsafe { self.transfer_layouts(aim, Direction::Read, origin, disp, layouts) }
        })
    }
}
