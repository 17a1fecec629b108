//! Accumulates of elements that no single atomic updates: floats and misaligned integers. The
//! origin takes the target's accumulate lock, combines, and releases it.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use rdma_sys_shim::memory::{add_f64, copy};
use rdma_sys_shim::{RemoteAddress, Ticket};

use super::bounds::Place;
use crate::datatype::{BasicType, Op};
use crate::error::{Error, Result};
use crate::job::Awaited;
use crate::memory::remote::RemoteWord;
use crate::window::Window;
use crate::window::target::Target;

/// Bytes that are combined at a time where the target's memory is not mapped.
const CHUNK: usize = 64 << 10;
/// The same where it is mapped, but its elements need a private copy to be combined.
const MAPPED_CHUNK: usize = 512;

/// One accumulate on the locked path.
pub(crate) struct Locked {
    pub(crate) ty: BasicType,
    pub(crate) op: Op,
    pub(crate) len: usize,
    /// The operands; may be null for [`Op::NoOp`].
    pub(crate) operands: *const u8,
    /// If not null: the old values must equal these, or nothing changes.
    pub(crate) compare: *const u8,
    /// Where the old values go, or null.
    pub(crate) result: *mut u8,
}

impl Window {
    /// Carries out `work` on an entered target: at `there`, where its elements are mapped, or, if
    /// that is null, at `place`.
    ///
    /// # Safety
    /// `work`'s buffers are valid for its length; `there` is null, or mapped for it until the
    /// window is freed.
    pub(crate) unsafe fn accumulate_locked(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
        there: *mut u8,
        place: &Place<'_>,
        work: &Locked,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            if there.is_null() {
                self.accumulate_by_device(operation, rank, place, work)
            } else {
                self.accumulate_mapped(operation, rank, target, there, work)
            }
        }
    }

    /// # Safety
    /// As for [`Window::accumulate_locked`]; `there` is not null.
    pub(crate) unsafe fn accumulate_mapped(
        &self,
        operation: &'static str,
        rank: u32,
        target: &Target,
        there: *mut u8,
        work: &Locked,
    ) -> Result<()> {
        let route = self.route_of(operation, rank)?;
        self.with_accumulate_lock(operation, rank, &route.accumulate_lock, || {
            // SAFETY: the caller's promise; under the lock, no other accumulate of this kind
            // changes these elements.
            unsafe {
                if work.result.is_null() && work.ty == BasicType::F64 && work.op == Op::Sum {
                    add_f64(there, work.operands, work.len / 8);
                    return Ok(());
                }
                let mut held = [0; MAPPED_CHUNK];
                for start in (0..work.len).step_by(MAPPED_CHUNK) {
                    let held = &mut held[..MAPPED_CHUNK.min(work.len - start)];
                    copy(held.as_mut_ptr(), there.add(start), held.len());
                    if work.combine(start, held) {
                        copy(there.add(start), held.as_ptr(), held.len());
                    }
                }
            }
            Ok(())
        })?;
        target.set_dirty();
        Ok(())
    }

    /// # Safety
    /// As for [`Window::accumulate_locked`].
    unsafe fn accumulate_by_device(
        &self,
        operation: &'static str,
        rank: u32,
        place: &Place<'_>,
        work: &Locked,
    ) -> Result<()> {
        let Place {
            route, at: first, ..
        } = place;
        let endpoint = &*route.endpoint;
        let patience = self.context().patience();
        let failed = |error: Error| self.failed(operation, rank, error);
        self.with_accumulate_lock(operation, rank, &route.accumulate_lock, || {
            let mut held = vec![0; CHUNK.min(work.len)];
            let mut written = Ticket::DONE;
            let mut body = || -> Result<()> {
                for start in (0..work.len).step_by(CHUNK) {
                    let held = &mut held[..CHUNK.min(work.len - start)];
                    let at = RemoteAddress {
                        address: first.address + start as u64,
                        rkey: first.rkey,
                    };
                    // The last chunk's write may still use the buffer.
                    patience.release(endpoint, written)?;
                    // SAFETY: `held` outlives both operations: the read is waited for here, and
                    // the write before the buffer is used again or freed; `work`'s buffers are
                    // the caller's promise.
                    unsafe {
                        let read = endpoint.read(held.as_mut_ptr(), held.len(), at)?;
                        patience.complete(endpoint, read)?;
                        if work.combine(start, held) {
                            written = endpoint.write(held.as_ptr(), held.len(), at)?;
                        }
                    }
                }
                Ok(())
            };
            let result = body();
            // An error here too means that the device has done with the buffer. That the write has
            // taken effect is for the release of the lock behind it.
            let released = patience.release(endpoint, written);
            result.and(released).map_err(failed)
        })
    }

    /// Adds one float to an element of an entered target, if it is mapped and the accumulate lock is
    /// free; false if nothing was done.
    ///
    /// # Safety
    /// `operand` is readable for eight bytes.
    #[inline]
    pub(super) unsafe fn try_add_f64(&self, operand: *const u8, rank: u32, disp: u64) -> bool {
        let Some(target) = self.open_target(rank) else {
            return false;
        };
        let there = target.reach(disp, 8);
        let word = target
            .route()
            .and_then(|route| route.accumulate_lock.atomic());
        let (false, Some(word)) = (there.is_null(), word) else {
            return false;
        };
        let mine = self.accumulate_lock_value();
        let taken = word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        // SAFETY: `operand` is the caller's promise; `reach` found the element inside the mapping
        // of the target's memory, and under the lock no other accumulate of this kind changes it.
        unsafe { add_f64(there, operand, 1) };
        word.store(0, Ordering::Release);
        target.set_dirty();
        true
    }

    /// What the accumulate lock's word holds while this rank has it.
    #[inline]
    fn accumulate_lock_value(&self) -> u64 {
        u64::from(self.context().rank()) + 1
    }

    /// The lock word holds this rank's number plus one while it is taken. It is held for the time
    /// of one accumulate, so there is no queue.
    fn with_accumulate_lock(
        &self,
        operation: &'static str,
        rank: u32,
        word: &RemoteWord,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mine = self.accumulate_lock_value();
        let stranded = |error: Error| self.stranded(operation, rank, error);
        let found = word.compare_swap(0, mine).map_err(stranded)?;
        if found != 0 {
            self.await_accumulate_lock(operation, rank, word, mine, found)?;
        }
        let result = body();
        let released = match word.atomic() {
            Some(word) => {
                word.store(0, Ordering::Release);
                Ok(())
            }
            None => word.fetch_add(mine.wrapping_neg()).map(drop),
        };
        result.and(released.map_err(stranded))
    }

    #[cold]
    fn await_accumulate_lock(
        &self,
        operation: &'static str,
        rank: u32,
        word: &RemoteWord,
        mine: u64,
        found: u64,
    ) -> Result<()> {
        let stranded = |error: Error| self.stranded(operation, rank, error);
        let holder = Cell::new(found);
        let take = || {
            if word.load().map_err(stranded)? != 0 {
                return Ok(false);
            }
            let found = word.compare_swap(0, mine).map_err(stranded)?;
            if found != 0 {
                holder.set(found);
            }
            Ok(found == 0)
        };
        let check = || {
            let holder = (holder.get() as u32).wrapping_sub(1);
            self.context().check(operation, Awaited::Rank(holder))
        };
        self.context().patience().wait(take, check)
    }
}

impl Locked {
    /// Saves the elements `held`, which stand `start` bytes into the work, as old values, and
    /// combines the operands into them. True if they have to be written back.
    ///
    /// # Safety
    /// The buffers are valid for `len` bytes, of which `start..start + held.len()` are a part.
    unsafe fn combine(&self, start: usize, held: &mut [u8]) -> bool {
        if !self.result.is_null() {
            // SAFETY: the caller's promise.
            unsafe { copy(self.result.add(start), held.as_ptr(), held.len()) };
        }
        if !self.compare.is_null() {
            let mut expected = vec![0; held.len()];
            // SAFETY: the caller's promise.
            unsafe { copy(expected.as_mut_ptr(), self.compare.add(start), held.len()) };
            if expected != held {
                return false;
            }
        }
        match self.op {
            Op::NoOp => return false,
            Op::Replace => {
                // SAFETY: the caller's promise.
                unsafe { copy(held.as_mut_ptr(), self.operands.add(start), held.len()) };
            }
            _ => {
                let size = self.ty.size();
                for (index, element) in held.chunks_exact_mut(size).enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let operand = self.operands.add(start + index * size);
                        add_one(self.ty, element, operand);
                    }
                }
            }
        }
        true
    }
}

/// # Safety
/// `operand` is readable for the element's size.
unsafe fn add_one(ty: BasicType, element: &mut [u8], operand: *const u8) {
    macro_rules! add {
        ($t:ty, $add:expr) => {{
            let held = bytemuck::pod_read_unaligned::<$t>(element);
            // SAFETY: the caller's promise.
            let operand = unsafe { operand.cast::<$t>().read_unaligned() };
            let sum: $t = $add(held, operand);
            element.copy_from_slice(bytemuck::bytes_of(&sum));
        }};
    }
    match ty {
        BasicType::I32 | BasicType::U32 => add!(u32, u32::wrapping_add),
        BasicType::I64 | BasicType::U64 => add!(u64, u64::wrapping_add),
        BasicType::F64 => add!(f64, |a: f64, b| a + b),
    }
}
