//! Accumulate.

use rdma_sys_shim::Update;
use rdma_sys_shim::memory::ATOMICS_DRAIN;

use super::bounds::{byte_len, null_buffer};
use super::elementwise;
use super::locked::Locked;
use crate::datatype::{BasicType, Op};
use crate::error::{Error, Misuse, Result};
use crate::window::Window;
use crate::window::target::Target;

impl Window {
    /// One-sided. Combines `count` elements of type `ty` at `origin` into those at displacement
    /// `disp` (in the target's units) of `target`'s memory: `target = target op origin`, atomically
    /// for each element, in the order in which this rank calls (MPI-4.1, section 12.3.4). `op` is
    /// [`Op::Sum`], [`Op::Replace`] or [`Op::NoOp`].
    ///
    /// # Errors
    /// As for [`Window::put`]; an operation that accumulates do not know.
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
            if let Some(word) = self.mapped_word(ty, target, disp) {
                // SAFETY: `origin` is the caller's promise; the word lies aligned inside the
                // mapping of the target's memory.
                unsafe {
                    let operand = elementwise::load_operand(word.width, origin);
                    elementwise::apply(word.at, word.width, op, operand);
                }
                word.note_update();
                return Ok(());
            }
            // SAFETY: the caller's promise.
            if ty == BasicType::F64 && unsafe { self.try_add_f64(origin, target, disp) } {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.accumulate_any(origin, count, ty, target, disp, op) }
    }

    /// # Safety
    /// As for [`Window::accumulate`].
    #[inline(never)]
    unsafe fn accumulate_any(
        &self,
        origin: *const u8,
        count: usize,
        ty: BasicType,
        rank: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        const OPERATION: &str = "accumulate";
        check_op(OPERATION, op, ty)?;
        let len = byte_len(OPERATION, count, ty.size())?;
        let target = match self.open_target(rank) {
            Some(target) => target,
            None => self.enter(OPERATION, rank)?,
        };
        let there = target.reach(disp, len as u64);
        if there.is_null() || len == 0 {
            let place = self.place(OPERATION, rank, target, disp, len as u64)?;
            if len == 0 || op == Op::NoOp {
                return Ok(());
            }
            if origin.is_null() {
                return Err(null_buffer(OPERATION, len));
            }
            if !place.there.is_null() {
                // SAFETY: `origin` is the caller's promise; `place` keeps the region mapped.
                return unsafe {
                    self.accumulate_there(rank, target, place.there, len, ty, op, origin)
                };
            }
            let at = place.at;
            let Some(width) = self.word_width(ty, at.address) else {
                let work = locked(ty, op, len, origin);
                // SAFETY: `origin` is the caller's promise.
                return unsafe {
                    self.accumulate_locked(OPERATION, rank, target, there, &place, &work)
                };
            };
            let update = match op {
                Op::Replace => Update::Store,
                _ => Update::Add,
            };
            // SAFETY: the caller keeps `origin` until the operation is complete.
            let ticket = unsafe {
                place
                    .route
                    .endpoint
                    .update_each(at, width, update, origin, count)
            }
            .map_err(|error| self.failed(OPERATION, rank, error))?;
            self.note_posted(target, ticket);
            return Ok(());
        }
        if op == Op::NoOp {
            return Ok(());
        }
        if origin.is_null() {
            return Err(null_buffer(OPERATION, len));
        }
        // SAFETY: `origin` is the caller's promise; `there` is mapped for `len` bytes.
        unsafe { self.accumulate_there(rank, target, there, len, ty, op, origin) }
    }

    /// # Safety
    /// `there` is mapped, and `origin` readable, for `len` bytes.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "one accumulate, found and checked"
    )]
    unsafe fn accumulate_there(
        &self,
        rank: u32,
        target: &Target,
        there: *mut u8,
        len: usize,
        ty: BasicType,
        op: Op,
        origin: *const u8,
    ) -> Result<()> {
        match elementwise::mapped_width(ty, there.addr() as u64) {
            Some(width) => {
                for offset in (0..len).step_by(width.bytes()) {
                    // SAFETY: the caller's promise, for each element.
                    unsafe {
                        let operand = elementwise::load_operand(width, origin.add(offset));
                        elementwise::apply(there.add(offset), width, op, operand);
                    }
                }
                if op == Op::Replace || !ATOMICS_DRAIN {
                    target.set_dirty();
                }
                Ok(())
            }
            None => {
                let work = locked(ty, op, len, origin);
                // SAFETY: the caller's promise.
                unsafe { self.accumulate_mapped("accumulate", rank, target, there, &work) }
            }
        }
    }
}

fn locked(ty: BasicType, op: Op, len: usize, operands: *const u8) -> Locked {
    Locked {
        ty,
        op,
        len,
        operands,
        compare: std::ptr::null(),
        result: std::ptr::null_mut(),
    }
}

#[inline]
pub(super) fn check_op(operation: &'static str, op: Op, ty: BasicType) -> Result<()> {
    if elementwise::supported(op) {
        return Ok(());
    }
    Err(Error::new(
        operation,
        Misuse::BadAccumulate {
            op: format!("{op:?}"),
            ty: ty.name().to_owned(),
        },
    ))
}
