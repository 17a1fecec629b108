//! Operations on one rank's part.

use std::marker::PhantomData;
use std::slice;

use super::own::OwnPart;
use super::window::zeroed;
use super::{Passive, Request};
use crate::lower::{self, Aim, error};
use crate::raw::PROC_NULL;
use crate::{Accumulate, Element, IntoTarget, Misuse, Op, Result, raw};

/// One rank's part of a window, in an epoch of kind `Mode`. Offsets and lengths count elements.
///
/// Operations that take a buffer for `'op` use it until the epoch closes, and are complete then. A
/// [`flush`](Target::flush) or [`Lock::unlock`](super::Lock::unlock) completes them sooner, but does not end the
/// borrow. For buffers made inside the epoch there are [`put_blocking`](Target::put_blocking),
/// [`accumulate_blocking`](Target::accumulate_blocking) and [`get_vec`](Target::get_vec); for single values,
/// [`put_value`](Target::put_value), [`accumulate_value`](Target::accumulate_value), [`load`](Target::load) and
/// [`store`](Target::store). Use requests to get a buffer back early without waiting at once.
///
/// Operations of one epoch are not ordered, except accumulates and atomics on the same element: a get may miss the data
/// of an earlier put, unless the put is complete.
///
/// The target of `None` is no rank, like a neighbour beyond an edge. Operations on it succeed without effect: buffers
/// are not changed, and returned values are zero (MPI-4.1, section 12.3, `MPI_PROC_NULL`).
///
/// # Errors
/// Every operation: elements past the end of the target's part, in which case nothing is transferred; the target died;
/// a device failed. The epoch remains usable.
pub struct Target<'op, T, Mode> {
    pub(super) raw: &'op raw::Window,
    /// A rank of the window, or [`PROC_NULL`].
    pub(super) rank: u32,
    pub(super) own: &'op OwnPart,
    /// Invariant in `'op`, neither `Send` nor `Sync`.
    marker: PhantomData<*mut (&'op (), T, Mode)>,
}

impl<T, Mode> Target<'_, T, Mode> {
    /// Local. The rank whose part this is, or [`raw::PROC_NULL`].
    #[must_use]
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }
}

impl<'op, T: Element, Mode> Target<'op, T, Mode> {
    #[inline]
    pub(super) fn new(
        operation: &'static str,
        raw: &'op raw::Window,
        own: &'op OwnPart,
        rank: impl IntoTarget,
    ) -> Result<Self> {
        let rank = rank.into_target(operation, raw.ranks())?;
        let rank = rank.unwrap_or(PROC_NULL);
        Ok(Self {
            raw,
            rank,
            own,
            marker: PhantomData,
        })
    }

    /// The same target, for buffers that are lent for another lifetime.
    pub(super) fn again<'b>(&'b self) -> Target<'b, T, Mode> {
        Target {
            raw: self.raw,
            rank: self.rank,
            own: self.own,
            marker: PhantomData,
        }
    }

    /// One-sided. Copies `src` to the elements from `at` on (MPI-4.1, section 12.3.1).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn put(&self, at: usize, src: &'op [T]) -> Result<()> {
        let (origin, len) = (src.as_ptr().cast(), size_of_val(src));
        // SAFETY: the source is borrowed until the epoch has closed, when the operation is complete; it is not window
        // memory that this epoch writes to.
        unsafe { self.raw.put(origin, len, self.rank, at as u64) }
    }

    /// One-sided. As [`Target::put`], and then increments the target's notification counter `counter` by 1. When the
    /// target sees this ([`Epoch::wait_notify`](super::Epoch)), it also sees these elements and those of this rank's
    /// earlier puts. `src` may be empty.
    ///
    /// # Errors
    /// See [`Target`]; the target has no such counter (hint `transom_notification_counters`).
    #[inline]
    pub fn put_notify(&self, at: usize, src: &'op [T], counter: u32) -> Result<()> {
        let (origin, len, at) = (src.as_ptr().cast(), size_of_val(src), at as u64);
        // SAFETY: as for `put`.
        unsafe { self.raw.put_notify(origin, len, self.rank, at, counter) }
    }

    /// One-sided. As [`Target::put_notify`], but complete at the target when it returns.
    ///
    /// # Errors
    /// As for [`Target::put_notify`].
    #[inline]
    pub fn put_notify_blocking(&self, at: usize, src: &[T], counter: u32) -> Result<()> {
        // SAFETY: the flush completes the put while the source is borrowed, even if the counter could not be
        // incremented. If the flush fails, the device no longer uses the source either.
        let put = self.put_notify(at, unsafe { lent(src) }, counter);
        put.and(lower::flush(self.raw, self.aim("put_notify_blocking")))
    }

    /// One-sided. Copies the elements from `at` on to `dst` (MPI-4.1, section 12.3.2).
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn get(&self, at: usize, dst: &'op mut [T]) -> Result<()> {
        let (origin, len) = (dst.as_mut_ptr().cast(), size_of_val(dst));
        // SAFETY: as for `put`, and uniquely.
        unsafe { self.raw.get(origin, len, self.rank, at as u64) }
    }

    /// One-sided. As [`Target::put`], but complete at the target when it returns.
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn put_blocking(&self, at: usize, src: &[T]) -> Result<()> {
        // SAFETY: the flush completes the operation while the source is borrowed; if it fails, the device no longer
        // uses the source either.
        self.put(at, unsafe { lent(src) })?;
        lower::flush(self.raw, self.aim("put_blocking"))
    }

    /// One-sided. As [`Target::get`], but complete when it returns.
    ///
    /// # Errors
    /// See [`Target`].
    #[inline]
    pub fn get_blocking(&self, at: usize, dst: &mut [T]) -> Result<()> {
        // SAFETY: as for `put_blocking`, and uniquely.
        self.get(at, unsafe { lent_mut(dst) })?;
        self.complete("get_blocking")
    }

    /// One-sided. Returns the `len` elements from `at` on as a vector: as [`Target::get_blocking`].
    ///
    /// # Errors
    /// See [`Target`]; no memory for the vector.
    pub fn get_vec(&self, at: usize, len: usize) -> Result<Vec<T>> {
        const OPERATION: &str = "get_vec";
        self.check_range(OPERATION, at, len)?;
        let mut elements = zeroed(OPERATION, len)?;
        self.get_blocking(at, &mut elements)?;
        Ok(elements)
    }

    /// One-sided. Combines `src` into the elements from `at` on: `target = target op src`. This is atomic for each
    /// element (MPI-4.1, section 12.3.4); for aligned words of several narrow elements, see
    /// [`raw::Window::accumulate`](crate::raw::Window::accumulate).
    ///
    /// # Errors
    /// See [`Target`]; an operation that is not defined for the type.
    #[inline]
    pub fn accumulate(&self, op: Op, at: usize, src: &'op [T]) -> Result<()>
    where
        T: Accumulate,
    {
        let (origin, count, at) = (src.as_ptr().cast(), src.len(), at as u64);
        // SAFETY: as for `put`; the trait `Accumulate` guarantees the type of the elements.
        unsafe {
            self.raw
                .accumulate(origin, count, T::TYPE, self.rank, at, op)
        }
    }

    /// One-sided. As [`Target::accumulate`], but complete at the target when it returns.
    ///
    /// # Errors
    /// As for [`Target::accumulate`].
    #[inline]
    pub fn accumulate_blocking(&self, op: Op, at: usize, src: &[T]) -> Result<()>
    where
        T: Accumulate,
    {
        // SAFETY: as for `put_blocking`.
        self.accumulate(op, at, unsafe { lent(src) })?;
        lower::flush(self.raw, self.aim("accumulate_blocking"))
    }

    /// One-sided. As [`Target::accumulate`], and stores the previous values in `dst`, which is as long as `src`
    /// (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Target`]; an operation that is not defined for the type; slices of different lengths.
    #[inline]
    pub fn get_accumulate(&self, op: Op, at: usize, src: &'op [T], dst: &'op mut [T]) -> Result<()>
    where
        T: Accumulate,
    {
        same_length("get_accumulate", src.len(), dst.len(), "in the result")?;
        let (origin, result) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let (count, at) = (src.len(), at as u64);
        // SAFETY: as for `put` and `get`; the trait `Accumulate` guarantees the type of the elements.
        unsafe {
            self.raw
                .get_accumulate(origin, result, count, T::TYPE, self.rank, at, op)
        }
    }

    /// The checks of a get, before its buffer is allocated.
    pub(super) fn check_range(&self, operation: &'static str, at: usize, len: usize) -> Result<()> {
        match self.rank {
            PROC_NULL => Ok(()),
            rank => check_range::<T>(self.raw, operation, rank, at, len),
        }
    }

    #[inline]
    pub(super) fn aim(&self, operation: &'static str) -> Aim {
        Aim::new(operation, self.rank)
    }

    /// Completes all operations on this target, so that fetched data has arrived.
    #[inline]
    pub(super) fn complete(&self, operation: &'static str) -> Result<()> {
        lower::complete(self.raw, self.aim(operation))
    }
}

/// Operations with requests. Each request is waited for or tested by itself, and returns its buffer.
impl<'op, T: Element> Target<'op, T, Passive> {
    /// One-sided. As [`Target::put`], with a request: once it is complete, the buffer may be used
    /// again; the data may arrive later (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// See [`Target`].
    pub fn rput(&self, at: usize, src: &'op mut [T]) -> Result<Request<'op, &'op mut [T]>> {
        // SAFETY: the buffer is borrowed until the epoch has closed.
        unsafe { self.put_from(at, src) }
    }

    /// One-sided. As [`Target::get`], with a request: once it is complete, the data is there
    /// (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// See [`Target`].
    pub fn rget(&self, at: usize, dst: &'op mut [T]) -> Result<Request<'op, &'op mut [T]>> {
        // SAFETY: the buffer is borrowed until the epoch has closed.
        unsafe { self.get_into(at, dst) }
    }

    /// One-sided. As [`Target::rput`], but the request owns the buffer until it is complete. The buffer is lost if the
    /// operation fails.
    ///
    /// # Errors
    /// See [`Target`].
    pub fn rput_owned(&self, at: usize, src: Vec<T>) -> Result<Request<'op, Vec<T>>> {
        // SAFETY: only the request can free the buffer, and it waits before it does.
        unsafe { self.put_from(at, src) }
    }

    /// One-sided. As [`Target::rget`], but the request owns the buffer until it is complete. Fetches as many elements
    /// as `dst` has. The buffer is lost if the operation fails.
    ///
    /// # Errors
    /// See [`Target`].
    pub fn rget_owned(&self, at: usize, dst: Vec<T>) -> Result<Request<'op, Vec<T>>> {
        // SAFETY: only the request can free the buffer, and it waits before it does.
        unsafe { self.get_into(at, dst) }
    }

    /// One-sided. As [`Target::accumulate`], with a request: once it is complete, the buffer may be
    /// used again; the target may change later (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// See [`Target::accumulate`].
    pub fn raccumulate(
        &self,
        op: Op,
        at: usize,
        src: &'op mut [T],
    ) -> Result<Request<'op, &'op mut [T]>>
    where
        T: Accumulate,
    {
        // SAFETY: the buffer is borrowed until the epoch has closed.
        unsafe { self.accumulate_from(op, at, src) }
    }

    /// One-sided. As [`Target::raccumulate`], but the request owns the buffer until it is complete. The buffer is lost
    /// if the operation fails.
    ///
    /// # Errors
    /// See [`Target::accumulate`].
    pub fn raccumulate_owned(&self, op: Op, at: usize, src: Vec<T>) -> Result<Request<'op, Vec<T>>>
    where
        T: Accumulate,
    {
        // SAFETY: only the request can free the buffer, and it waits before it does.
        unsafe { self.accumulate_from(op, at, src) }
    }

    /// One-sided. As [`Target::put_notify`], but a request owns the buffer until it is complete. Then the buffer may be
    /// used again; data and notification may arrive later. The buffer is lost if the operation fails.
    ///
    /// # Errors
    /// As for [`Target::put_notify`].
    pub fn rput_notify_owned(
        &self,
        at: usize,
        src: Vec<T>,
        counter: u32,
    ) -> Result<Request<'op, Vec<T>>> {
        Request::start(src, |origin: *mut T, len| {
            // SAFETY: only the request can free the buffer, and it waits before it does.
            unsafe {
                self.raw
                    .rput_notify(origin.cast(), len, self.rank, at as u64, counter)
            }
        })
    }

    /// One-sided. As [`Target::get_accumulate`], with a request: once it is complete, the data is
    /// there (MPI-4.1, section 12.3.5).
    ///
    /// # Errors
    /// See [`Target::get_accumulate`].
    pub fn rget_accumulate(
        &self,
        op: Op,
        at: usize,
        src: &'op [T],
        dst: &'op mut [T],
    ) -> Result<Request<'op, &'op mut [T]>>
    where
        T: Accumulate,
    {
        same_length("rget_accumulate", src.len(), dst.len(), "in the result")?;
        let (origin, count, at) = (src.as_ptr().cast(), src.len(), at as u64);
        Request::start(dst, |result: *mut T, _| {
            let result = result.cast();
            // SAFETY: as for `raccumulate`; the source is borrowed for as long.
            unsafe {
                self.raw
                    .rget_accumulate(origin, result, count, T::TYPE, self.rank, at, op)
            }
        })
    }

    /// One-sided. Returns when all of this rank's operations on this target are complete there
    /// (MPI-4.1, section 12.5.4).
    ///
    /// # Errors
    /// An operation failed, or the target died.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        match self.raw.flush(self.rank) {
            Err(_) if self.rank == PROC_NULL => Ok(()),
            flushed => flushed,
        }
    }

    /// # Safety
    /// The memory behind `src` stays untouched until the request or the epoch has completed the
    /// operation, even if the request is forgotten.
    unsafe fn put_from<B: AsMut<[T]>>(&self, at: usize, src: B) -> Result<Request<'op, B>> {
        Request::start(src, |origin: *mut T, len| {
            // SAFETY: the caller's promise, for the buffer that the request now holds.
            unsafe { self.raw.rput(origin.cast(), len, self.rank, at as u64) }
        })
    }

    /// # Safety
    /// As for `put_from`.
    unsafe fn accumulate_from<B: AsMut<[T]>>(
        &self,
        op: Op,
        at: usize,
        src: B,
    ) -> Result<Request<'op, B>>
    where
        T: Accumulate,
    {
        Request::start(src, |origin: *mut T, len| {
            let (count, at) = (len / size_of::<T>(), at as u64);
            // SAFETY: the caller's promise, for the buffer that the request now holds; the trait `Accumulate`
            // guarantees the type of the elements.
            unsafe {
                self.raw
                    .raccumulate(origin.cast(), count, T::TYPE, self.rank, at, op)
            }
        })
    }

    /// # Safety
    /// As for `put_from`.
    unsafe fn get_into<B: AsMut<[T]>>(&self, at: usize, dst: B) -> Result<Request<'op, B>> {
        Request::start(dst, |origin: *mut T, len| {
            // SAFETY: the caller's promise, for the buffer that the request now holds.
            unsafe { self.raw.rget(origin.cast(), len, self.rank, at as u64) }
        })
    }
}

/// Extends the lifetime of a buffer for an operation that is complete before its caller returns.
///
/// # Safety
/// The operation is complete, or the device no longer uses the buffer, before the borrow of `buffer` ends.
#[inline(always)]
pub(super) unsafe fn lent<'op, T>(buffer: &[T]) -> &'op [T] {
    // SAFETY: the caller's promise; nobody uses it afterwards.
    unsafe { slice::from_raw_parts(buffer.as_ptr(), buffer.len()) }
}

/// As [`lent`], for a buffer that is written to.
///
/// # Safety
/// As for [`lent`].
#[inline(always)]
pub(super) unsafe fn lent_mut<'op, T>(buffer: &mut [T]) -> &'op mut [T] {
    // SAFETY: as in `lent`, and uniquely.
    unsafe { slice::from_raw_parts_mut(buffer.as_mut_ptr(), buffer.len()) }
}

/// `side` says where the other elements are.
pub(super) fn same_length(
    operation: &'static str,
    origin: usize,
    other: usize,
    side: &'static str,
) -> Result<()> {
    if origin == other {
        return Ok(());
    }
    let misuse = Misuse::LengthsDiffer {
        origin: origin as u64,
        other: other as u64,
        side,
    };
    Err(error(operation, misuse))
}

/// Whether the part of `rank` has the `len` elements from `at` on.
pub(super) fn check_range<T>(
    raw: &raw::Window,
    operation: &'static str,
    rank: u32,
    at: usize,
    len: usize,
) -> Result<()> {
    let size = raw.size_of(rank)?;
    let unit = size_of::<T>() as u64;
    let end = (at as u64).checked_add(len as u64);
    if end.is_some_and(|end| end <= size / unit) {
        return Ok(());
    }
    let misuse = Misuse::PastEnd {
        rank,
        disp: at as u64,
        unit,
        len: (len as u64).saturating_mul(unit),
        size,
    };
    Err(error(operation, misuse))
}
