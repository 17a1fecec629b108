//! Accumulates of elements that no single atomic updates: floats, complex numbers, pairs, long
//! doubles, misaligned integers, and those that a hint sends here. The origin takes the target's
//! accumulate lock, combines, and releases it.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdma_sys_shim::memory::{add_f64, copy};
use rdma_sys_shim::{Number, TargetThread};

use super::accumulate_lock::{self, AccumulateAttempt};
use super::work::Work;
use crate::datatype::{BasicType, Op, combine, copy_elements};
use crate::error::{Error, Result};
use crate::memory::displacement::Displacement;
use crate::memory::remote::RemoteWord;
use crate::memory::word::LockWord;
use crate::terms::WorldRank;
use crate::wait::Verdict;
use crate::window::target::Route;
use crate::window::{OnTarget, Window};

/// The number of bytes of mapped memory that are combined at a time, if this needs a private copy.
const CHUNK: usize = 2 << 10;
/// The same for sums whose old values are fetched. Shorter parts cost more calls, and longer ones leave the caches.
const SUMMED: usize = 16 << 10;

/// A rank that has waited this long for an accumulate lock becomes the next to have it.
const LONG: Duration = Duration::from_millis(1);

impl Window {
    /// Adds one float to an element of an entered target, if it is mapped and the accumulate lock is free; returns
    /// false if it did nothing.
    ///
    /// # Safety
    /// `operand` is readable for eight bytes.
    #[inline(always)]
    pub(super) unsafe fn try_add_f64(&self, operand: *const u8, rank: u32, disp: u64) -> bool {
        let Some(target) = self.open_target(rank) else {
            return false;
        };
        let there = target.reach(Displacement(disp), 8);
        let word = target
            .route()
            .and_then(|route| route.accumulate_lock.atomic());
        let (false, Some(word)) = (there.is_null(), word) else {
            return false;
        };
        let WorldRank(me) = self.context().rank();
        let mine = accumulate_lock::held_by(me);
        let taken = word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        // SAFETY: `operand` is the caller's promise; `reach` found the element inside the mapping
        // of the target's memory, and under the lock no other accumulate of this kind changes it.
        unsafe { add_f64(there, operand, 1) };
        accumulate_lock::release(word, me);
        target.set_dirty();
        true
    }
}

impl<'w> OnTarget<'w> {
    /// Carries out `work` on the elements at `there` in the entered target's mapped memory.
    ///
    /// # Safety
    /// `work`'s buffers are valid for its elements; `there` is mapped for them until the window is
    /// freed.
    pub(super) unsafe fn accumulate_locked(self, there: *mut u8, work: &Work) -> Result<()> {
        self.with_accumulate_lock(&self.route()?.accumulate_lock, || {
            // SAFETY: the caller's promise; under the lock, no other accumulate of this kind
            // changes these elements.
            unsafe { work.combine_in_place(there) };
            Ok(())
        })?;
        self.target.set_dirty();
        Ok(())
    }

    /// Whether this rank combines elements of mapped memory under the lock. Where it would take the lock through the
    /// device, and a thread of the target can do the work, it lets that thread do so: the thread would wait for a lock
    /// whose release stands behind the request that it carries out.
    pub(super) fn locks_mapped(self, route: &Route) -> bool {
        let serves = || self.window.context().device().capabilities().target_thread;
        route.accumulate_lock.atomic().is_some() || serves() == TargetThread::Never
    }

    /// Calls `body` with the lock held, for the time of one accumulate.
    pub(super) fn with_accumulate_lock(
        self,
        word: &RemoteWord,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _call = self.window.in_call(self.aim);
        let WorldRank(me) = self.window.context().rank();
        let stranded = |error: Error| self.stranded(error);
        if !accumulate_lock::try_take(word, me).map_err(stranded)? {
            self.await_accumulate_lock(word)?;
        }
        let result = body();
        let released = match word.atomic() {
            Some(word) => {
                accumulate_lock::release(word, me);
                Ok(())
            }
            None => word.fetch_add(accumulate_lock::release_by(me)).map(drop),
        };
        result.and(released.map_err(stranded))
    }

    #[cold]
    fn await_accumulate_lock(self, word: &RemoteWord) -> Result<()> {
        match word.atomic() {
            Some(_) => self.become_next(word),
            None => {
                let check = || self.check_accumulate_lock(word);
                let WorldRank(me) = self.window.context().rank();
                let mine = accumulate_lock::held_by(me);
                self.wait_in_queue(word, mine, accumulate_lock::RESERVED, check)
            }
        }
    }

    /// Waits until this rank has the mapped lock. After a long wait, it becomes the next.
    fn become_next(self, word: &RemoteWord) -> Result<()> {
        let context = self.window.context();
        let WorldRank(me) = context.rank();
        let begun = Instant::now();
        let mut is_next = false;
        loop {
            let mut taken = false;
            let changed = || {
                let long = begun.elapsed() >= LONG;
                let attempt = accumulate_lock::retry(word, me, long, is_next);
                let attempt = attempt.map_err(|error| self.stranded(error))?;
                taken = attempt == AccumulateAttempt::Taken;
                Ok(taken || (attempt == AccumulateAttempt::Next) != is_next)
            };
            let check = || self.check_accumulate_lock(word);
            context.patience().wait(changed, check)?;
            if taken {
                return Ok(());
            }
            // The next rank waits for only one accumulate, so its patience starts anew.
            is_next = !is_next;
        }
    }

    /// Whether a wait for the lock can still end. A rank that left holds no lock.
    fn check_accumulate_lock(self, word: &RemoteWord) -> Verdict<'w> {
        self.check_holder(word, accumulate_lock::awaited, |_| false)
    }
}

impl Work {
    /// # Safety
    /// The buffers are valid for the elements, and `there` is mapped for them; nobody else changes
    /// those now.
    pub(super) unsafe fn combine_in_place(&self, there: *mut u8) {
        if self.overwrites() {
            // SAFETY: the caller's promise.
            return unsafe { copy_elements(self.ty, there, self.operands, self.count) };
        }
        if let Some(number) = self.summed() {
            // SAFETY: the caller's promise.
            return unsafe { self.add_in_place(number, there) };
        }
        let mut chunk = MaybeUninit::<[u64; CHUNK / 8]>::uninit();
        let held = chunk.as_mut_ptr().cast::<u8>();
        let extent = self.ty.extent();
        let most = CHUNK / extent;
        for first in (0..self.count).step_by(most) {
            let count = most.min(self.count - first);
            let at = there.wrapping_add(first * extent);
            // SAFETY: the caller's promise; the chunk has room for the elements.
            unsafe {
                copy_elements(self.ty, held, at, count);
                if self.combine_held(held, first, count) {
                    copy_elements(self.ty, at, held, count);
                }
            }
        }
    }

    /// As [`Work::combine_in_place`], for the sum of numbers, which needs no private copy.
    ///
    /// # Safety
    /// As for [`Work::combine_in_place`].
    unsafe fn add_in_place(&self, number: Number, there: *mut u8) {
        if self.result.is_null() {
            // SAFETY: the caller's promise; the lock that it asks for is held.
            return unsafe { number.add(there, self.operands, self.count) };
        }
        // A division would take as long as the addition of some hundred bytes.
        let most = SUMMED >> number.bytes().trailing_zeros();
        let mut first = 0;
        while first < self.count {
            let count = most.min(self.count - first);
            let offset = first * number.bytes();
            let at = there.wrapping_add(offset);
            // SAFETY: the caller's promise; the lock that it asks for is held.
            unsafe {
                copy(self.result.add(offset), at, count * number.bytes());
                number.add(at, self.operands.add(offset), count);
            }
            first += count;
        }
    }

    /// The type of number that is added, whether or not the old value is fetched.
    pub(super) fn summed(&self) -> Option<Number> {
        if self.op != Op::Sum || !self.compare.is_null() {
            return None;
        }
        match self.ty {
            BasicType::F64 => Some(Number::F64),
            BasicType::F32 => Some(Number::F32),
            BasicType::I64 | BasicType::U64 => Some(Number::I64),
            BasicType::I32 | BasicType::U32 => Some(Number::I32),
            BasicType::I16 | BasicType::U16 => Some(Number::I16),
            BasicType::I8 | BasicType::U8 => Some(Number::I8),
            // A complex sum is two sums.
            _ => None,
        }
    }

    /// Treats the `count` elements at `held` as the target's from index `first` on: saves them as old ones, and
    /// combines the operands into them. Returns whether they have to be written back.
    ///
    /// # Safety
    /// `held` is valid for the elements, and no other code accesses it; the buffers have these elements too.
    pub(super) unsafe fn combine_held(&self, held: *mut u8, first: usize, count: usize) -> bool {
        let offset = first * self.ty.extent();
        if !self.result.is_null() {
            // SAFETY: the caller's promise.
            unsafe { copy_elements(self.ty, self.result.add(offset), held, count) };
        }
        // SAFETY: the caller's promise.
        if !self.compare.is_null() && unsafe { !self.compares_equal(held, offset, count) } {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.op {
                Op::NoOp => return false,
                Op::Replace => copy_elements(self.ty, held, self.operands.add(offset), count),
                op => combine(self.ty, op, held, self.operands.add(offset), count),
            }
        }
        true
    }

    /// # Safety
    /// As for [`Work::combine_held`]; the type has no padding.
    unsafe fn compares_equal(&self, held: *const u8, offset: usize, count: usize) -> bool {
        (0..count * self.ty.size()).all(|byte| {
            // SAFETY: the caller's promise.
            unsafe { *held.add(byte) == *self.compare.add(offset + byte) }
        })
    }
}
