//! Fetch_and_op and compare_and_swap.

use std::ptr;

use rdma_sys_shim::{Endpoint, RemoteAddress, Ticket, Width};

use super::accumulate::check_op;
use super::bounds::null_buffer;
use super::elementwise;
use super::locked::Locked;
use crate::datatype::{BasicType, Op};
use crate::error::{Error, Misuse, Result};
use crate::window::Window;
use crate::window::target::{Route, Target};

impl Window {
    /// One-sided. Combines the element at `origin` into the one at displacement `disp` (in the
    /// target's units) of `target`'s memory, and stores what was there before at `result`,
    /// atomically (MPI-4.1, section 12.3.4). `op` is [`Op::Sum`], [`Op::Replace`] or [`Op::NoOp`];
    /// for the last, `origin` may be null.
    ///
    /// # Errors
    /// As for [`Window::accumulate`].
    ///
    /// # Safety
    /// `origin` is readable and `result` writable for one element (of any alignment), and nobody
    /// else touches `result`, until the operation is complete.
    #[inline]
    pub unsafe fn fetch_and_op(
        &self,
        origin: *const u8,
        result: *mut u8,
        ty: BasicType,
        target: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        if elementwise::supported(op)
            && !origin.is_null()
            && !result.is_null()
            && let Some(word) = self.mapped_word(ty, target, disp)
        {
            // SAFETY: the buffers are the caller's promise; the word lies aligned inside the
            // mapping of the target's memory.
            unsafe {
                let operand = elementwise::load_operand(word.width, origin);
                let old = elementwise::fetch_op(word.at, word.width, op, operand);
                elementwise::store_result(word.width, result, old);
            }
            word.note_update();
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.fetch_any(origin, result, ty, target, disp, op) }
    }

    /// One-sided. Replaces the element at displacement `disp` (in the target's units) of
    /// `target`'s memory by the one at `origin` if it equals the one at `compare`, and stores what
    /// was there before at `result`, atomically (MPI-4.1, section 12.3.4). Integers only.
    ///
    /// # Errors
    /// As for [`Window::put`]; a type that is not an integer.
    ///
    /// # Safety
    /// `origin` and `compare` are readable and `result` writable for one element (of any
    /// alignment), and nobody else touches `result`, until the operation is complete.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        ty: BasicType,
        target: u32,
        disp: u64,
    ) -> Result<()> {
        if !origin.is_null()
            && !compare.is_null()
            && !result.is_null()
            && let Some(word) = self.mapped_word(ty, target, disp)
        {
            // SAFETY: as in `fetch_and_op`.
            unsafe {
                let expect = elementwise::load_operand(word.width, compare);
                let new = elementwise::load_operand(word.width, origin);
                let old = elementwise::compare_swap(word.at, word.width, expect, new);
                elementwise::store_result(word.width, result, old);
            }
            word.note_update();
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.swap_any(origin, compare, result, ty, target, disp) }
    }

    /// # Safety
    /// As for [`Window::fetch_and_op`].
    #[inline(never)]
    unsafe fn fetch_any(
        &self,
        origin: *const u8,
        result: *mut u8,
        ty: BasicType,
        rank: u32,
        disp: u64,
        op: Op,
    ) -> Result<()> {
        const OPERATION: &str = "fetch_and_op";
        check_op(OPERATION, op, ty)?;
        let len = ty.size();
        let target = self.enter(OPERATION, rank)?;
        let place = self.place(OPERATION, rank, target, disp, len as u64)?;
        if result.is_null() || origin.is_null() && op != Op::NoOp {
            return Err(null_buffer(OPERATION, len));
        }
        let there = match target.reach(disp, len as u64) {
            unmapped if unmapped.is_null() => place.there,
            mapped => mapped,
        };
        let at = place.at;
        let Some(width) = self.word_width(ty, at.address) else {
            let work = Locked {
                ty,
                op,
                len,
                operands: origin,
                compare: ptr::null(),
                result,
            };
            // SAFETY: the buffers are the caller's promise; `there` is null or mapped.
            return unsafe {
                self.accumulate_locked(OPERATION, rank, target, there, &place, &work)
            };
        };
        let operand = if op == Op::NoOp {
            0
        } else {
            // SAFETY: not null, and so the caller's promise.
            unsafe { elementwise::load_operand(width, origin) }
        };
        if !there.is_null() {
            // SAFETY: an aligned word inside the mapping of the target's memory; `result` is the
            // caller's promise.
            unsafe {
                let old = elementwise::fetch_op(there, width, op, operand);
                elementwise::store_result(width, result, old);
            }
            return Ok(());
        }
        if op == Op::Replace {
            let old = self.replace_by_device(rank, place.route, at, width, operand)?;
            // SAFETY: `result` is the caller's promise.
            unsafe { elementwise::store_result(width, result, old) };
            return Ok(());
        }
        let posting = Posting {
            operation: OPERATION,
            rank,
            target,
            endpoint: &*place.route.endpoint,
            width,
        };
        // SAFETY: `result` is the caller's promise; `old` is what `fetch` gets and hands on.
        unsafe {
            self.fetch(&posting, result, |endpoint, old| {
                endpoint.fetch_add(at, width, operand, old)
            })
        }
    }

    /// No device replaces a word as such: swaps against what was last seen.
    fn replace_by_device(
        &self,
        rank: u32,
        route: &Route,
        at: RemoteAddress,
        width: Width,
        new: u64,
    ) -> Result<u64> {
        let endpoint = &*route.endpoint;
        let failed = |error: Error| self.failed("fetch_and_op", rank, error);
        let (mut expect, mut old) = (0, 0);
        loop {
            // SAFETY: `old` outlives the operation, which is waited for.
            let posted = unsafe { endpoint.compare_swap(at, width, expect, new, &raw mut old) };
            let ticket = posted.map_err(|error| failed(error.into()))?;
            let patience = self.context().patience();
            patience.complete(endpoint, ticket).map_err(failed)?;
            if old == expect {
                return Ok(old);
            }
            expect = old;
        }
    }

    /// Posts an atomic, by `post`, whose old value goes to `result`. Where eight bytes fit there,
    /// the device stores them, and a later synchronisation waits for that; else this call does.
    ///
    /// # Safety
    /// `result` is writable for the width, and nobody else touches it, until the operation is
    /// complete. `post` does what is sound with a place for eight bytes that the operation owns.
    unsafe fn fetch(
        &self,
        posting: &Posting<'_>,
        result: *mut u8,
        post: impl FnOnce(&dyn Endpoint, *mut u64) -> rdma_sys_shim::Result<Ticket>,
    ) -> Result<()> {
        let &Posting {
            operation,
            rank,
            target,
            endpoint,
            width,
        } = posting;
        let failed = |error: Error| self.failed(operation, rank, error);
        let wide = result.cast::<u64>();
        if width == Width::W8 && wide.is_aligned() {
            let ticket = post(endpoint, wide).map_err(|error| failed(error.into()))?;
            self.note_posted(target, ticket);
            return Ok(());
        }
        let mut old = 0;
        let ticket = post(endpoint, &raw mut old).map_err(|error| failed(error.into()))?;
        let patience = self.context().patience();
        patience.complete(endpoint, ticket).map_err(failed)?;
        // SAFETY: the caller's promise.
        unsafe { elementwise::store_result(width, result, old) };
        Ok(())
    }

    /// # Safety
    /// As for [`Window::compare_and_swap`].
    #[inline(never)]
    unsafe fn swap_any(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        ty: BasicType,
        rank: u32,
        disp: u64,
    ) -> Result<()> {
        const OPERATION: &str = "compare_and_swap";
        if !ty.is_integer() {
            let misuse = Misuse::BadOperation {
                op: OPERATION.to_owned(),
                ty: ty.name().to_owned(),
            };
            return Err(Error::new(OPERATION, misuse));
        }
        let len = ty.size();
        let target = self.enter(OPERATION, rank)?;
        let place = self.place(OPERATION, rank, target, disp, len as u64)?;
        if origin.is_null() || compare.is_null() || result.is_null() {
            return Err(null_buffer(OPERATION, len));
        }
        let there = match target.reach(disp, len as u64) {
            unmapped if unmapped.is_null() => place.there,
            mapped => mapped,
        };
        let at = place.at;
        let Some(width) = self.word_width(ty, at.address) else {
            let work = Locked {
                ty,
                op: Op::Replace,
                len,
                operands: origin,
                compare,
                result,
            };
            // SAFETY: the buffers are the caller's promise; `there` is null or mapped.
            return unsafe {
                self.accumulate_locked(OPERATION, rank, target, there, &place, &work)
            };
        };
        // SAFETY: the operands are the caller's promise.
        let (expect, new) = unsafe {
            (
                elementwise::load_operand(width, compare),
                elementwise::load_operand(width, origin),
            )
        };
        if !there.is_null() {
            // SAFETY: an aligned word inside the mapping of the target's memory; `result` is the
            // caller's promise.
            unsafe {
                let old = elementwise::compare_swap(there, width, expect, new);
                elementwise::store_result(width, result, old);
            }
            return Ok(());
        }
        let posting = Posting {
            operation: OPERATION,
            rank,
            target,
            endpoint: &*place.route.endpoint,
            width,
        };
        // SAFETY: `result` is the caller's promise; `old` is what `fetch` gets and hands on.
        unsafe {
            self.fetch(&posting, result, |endpoint, old| {
                endpoint.compare_swap(at, width, expect, new, old)
            })
        }
    }
}

/// An atomic on its way to the device.
struct Posting<'w> {
    operation: &'static str,
    rank: u32,
    target: &'w Target,
    endpoint: &'w dyn Endpoint,
    width: Width,
}
