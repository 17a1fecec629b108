//! Operations on one element, whose operands and results are values.

use std::slice;

use super::Target;
use super::target::{lent, lent_mut};
use crate::lower;
use crate::{Accumulate, Atomic, Element, Op, Result};

/// Elements of any type. Like put and get, these operations are not atomic.
impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. As [`Target::put`] of one element, which may be computed inside the epoch (MPI-4.1, section 12.3.1).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn put_value(&self, at: usize, value: T) -> Result<()> {
        // SAFETY: when `release` returns, even with an error, the device no longer uses the local variable.
        self.put(at, unsafe { lent(slice::from_ref(&value)) })?;
        lower::release(self.raw, self.aim("put_value"))
    }

    /// One-sided. The element at `at`: as [`Target::get_blocking`] (MPI-4.1, section 12.3.2).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn get_value(&self, at: usize) -> Result<T> {
        let mut value = T::zeroed();
        // SAFETY: when `complete` returns, the operation is complete, or the device no longer uses the local variable.
        self.get(at, unsafe { lent_mut(slice::from_mut(&mut value)) })?;
        self.complete("get_value")?;
        Ok(value)
    }
}

/// These are atomic with respect to each other and to accumulates of all ranks, also on this rank's own part: all
/// atomics of the window are carried out by one unit, the processors or the device ([`Window::atomic_domain`]).
///
/// [`Window::atomic_domain`]: super::Window::atomic_domain
impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. Combines `value` into the element at `at`: `target = target op value`, atomically (MPI-4.1, section
    /// 12.3.4). As [`Target::accumulate`] of one element, which may be computed inside the epoch. It is complete at the
    /// target after a flush, or when the epoch closes.
    ///
    /// # Errors
    /// See [`Target`]; an operation that is not defined for the type.
    #[inline]
    pub fn accumulate_value(&self, op: Op, at: usize, value: T) -> Result<()>
    where
        T: Accumulate,
    {
        // SAFETY: as for `put_value`.
        self.accumulate(op, at, unsafe { lent(slice::from_ref(&value)) })?;
        lower::release(self.raw, self.aim("accumulate_value"))
    }

    /// One-sided. The element at `at`, read atomically: as [`Target::fetch_and_op`] with [`Op::NoOp`], so that it may
    /// be concurrent with accumulates and stores of other ranks. Repeated calls fail once the target is found dead or
    /// the job was aborted.
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn load(&self, at: usize) -> Result<T>
    where
        T: Accumulate,
    {
        let value = self.fetch_and_op(Op::NoOp, at, T::zeroed())?;
        lower::check_liveness(self.raw, self.aim("load"))?;
        Ok(value)
    }

    /// One-sided. Replaces the element at `at` by `value`, atomically: as [`Target::accumulate`] with [`Op::Replace`].
    /// It is complete at the target when it returns (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn store(&self, at: usize, value: T) -> Result<()>
    where
        T: Accumulate,
    {
        // SAFETY: as for `put_value`; the flush even completes the operation.
        self.accumulate(Op::Replace, at, unsafe { lent(slice::from_ref(&value)) })?;
        lower::flush(self.raw, self.aim("store"))
    }

    /// One-sided. Adds to the element at `at`, wrapping, and returns the previous value, atomically (MPI-4.1, section
    /// 12.3.4).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn fetch_add(&self, at: usize, add: T) -> Result<T>
    where
        T: Atomic,
    {
        self.fetch_and_op(Op::Sum, at, add)
    }

    /// One-sided. Combines `operand` into the element at `at`, and returns the previous value, atomically.
    /// [`Op::Replace`] is a swap, and [`Op::NoOp`] an atomic load (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Target`]; an operation that is not defined for the type.
    #[inline]
    pub fn fetch_and_op(&self, op: Op, at: usize, operand: T) -> Result<T>
    where
        T: Accumulate,
    {
        let mut old = T::zeroed();
        let origin = (&raw const operand).cast();
        let result = (&raw mut old).cast();
        // SAFETY: both are local variables of one element, which outlive the operation: when `complete` returns, it is
        // complete, or the device no longer uses them.
        unsafe {
            self.raw
                .fetch_and_op(origin, result, T::TYPE, self.rank, at as u64, op)?;
        }
        self.complete("fetch_and_op")?;
        Ok(old)
    }

    /// One-sided. Replaces the element at `at` by `new` if it equals `expect`, and returns the previous value,
    /// atomically. The swap took place if the result equals `expect` (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn compare_swap(&self, at: usize, expect: T, new: T) -> Result<T>
    where
        T: Atomic,
    {
        let mut old = T::zeroed();
        let (origin, compare) = ((&raw const new).cast(), (&raw const expect).cast());
        let result = (&raw mut old).cast();
        // SAFETY: as in `fetch_and_op`.
        unsafe {
            self.raw
                .compare_and_swap(origin, compare, result, T::TYPE, self.rank, at as u64)?;
        }
        self.complete("compare_and_swap")?;
        Ok(old)
    }
}
