//! Batches: operations that wait for each other at their end only, and give their buffers back there.

use std::marker::PhantomData;
use std::ops::Deref;

use super::epoch::QuiesceOnExit;
use super::own::OwnPart;
use super::target::same_length;
use super::window::len_of;
use super::{LockAll, Passive, Target};
use crate::lower;
use crate::raw::PROC_NULL;
use crate::{Accumulate, Element, IntoRank, IntoTarget, Op, Result, raw};

/// An open batch. Its operations may use their buffers for `'op`; `'env` is the lifetime of what the body borrows from
/// outside. It dereferences to `A`: the [`Target`] of [`Target::batch`], or the [`AllTargets`] of
/// [`Session::batch`](super::Session::batch) and [`LockAll::batch`].
pub struct Batch<'op, 'env: 'op, A> {
    on: A,
    /// Invariant in both lifetimes, neither `Send` nor `Sync`.
    marker: PhantomData<*mut (&'op (), &'env ())>,
}

impl<A> Deref for Batch<'_, '_, A> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        &self.on
    }
}

/// The parts of all ranks, in a batch.
pub struct AllTargets<'op, T> {
    raw: &'op raw::Window,
    own: &'op OwnPart,
    /// Invariant in `'op`, neither `Send` nor `Sync`.
    marker: PhantomData<*mut (&'op (), T)>,
}

impl<'op, T: Element> AllTargets<'op, T> {
    pub(super) fn new(raw: &'op raw::Window, own: &'op OwnPart) -> Self {
        Self {
            raw,
            own,
            marker: PhantomData,
        }
    }

    /// Local. This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.raw.rank()
    }

    /// Local. How many ranks share the window.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.raw.ranks()
    }

    /// The number of elements in a rank's part. Local if all parts are of equal size, and after this rank has accessed
    /// the part; else one-sided.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the size has to be read from it, and it died or left.
    pub fn len_of(&self, rank: impl IntoRank) -> Result<usize> {
        len_of::<T>(self.raw, rank)
    }

    /// Checks that a list has as many places as elements, and no `PROC_NULL`, which only the untyped interface takes.
    fn check_list(
        &self,
        operation: &'static str,
        places: &[(u32, usize)],
        elements: usize,
    ) -> Result<()> {
        let nobody = places.iter().find(|&&(rank, _)| rank == PROC_NULL);
        if let Some(&(rank, _)) = nobody {
            rank.into_rank(operation, self.raw.ranks())?;
        }
        same_length(operation, elements, places.len(), "in the list of places")
    }

    /// Local. The part of `rank`, or of no rank for `None` (see [`Target`]). It accepts the operations of an epoch.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Passive>> {
        Target::new("target", self.raw, self.own, rank)
    }

    /// One-sided. Copies `src`, element by element, to `places`, each a rank and an offset: as a [`Target::put`] of
    /// each, but all places are checked before anything is transferred. If a place occurs twice, it gets one of its
    /// elements. Mapped memory is stored to in a loop; over a network, the elements for one rank go together (MPI-4.1,
    /// section 12.3.1).
    ///
    /// # Errors
    /// `src` and `places` differ in length. A place does not exist: the error names its index, and nothing was
    /// transferred. A target died, or a device failed.
    pub fn put_indexed(&self, places: &[(u32, usize)], src: &'op [T]) -> Result<()> {
        self.check_list("put_indexed", places, src.len())?;
        // SAFETY: the source is borrowed until the batch is complete, and has an element for each place; it is not
        // window memory that this batch writes to.
        unsafe { (self.raw).put_indexed(src.as_ptr().cast(), size_of::<T>(), places) }
    }

    /// One-sided. Copies the elements at `places` to `dst`, the reverse of [`AllTargets::put_indexed`] (MPI-4.1,
    /// section 12.3.2).
    ///
    /// # Errors
    /// As for [`AllTargets::put_indexed`].
    pub fn get_indexed(&self, places: &[(u32, usize)], dst: &'op mut [T]) -> Result<()> {
        self.check_list("get_indexed", places, dst.len())?;
        // SAFETY: as for `put_indexed`, and uniquely.
        unsafe { (self.raw).get_indexed(dst.as_mut_ptr().cast(), size_of::<T>(), places) }
    }

    /// One-sided. Combines `src`, element by element, into those at `places`, each atomically: as a
    /// [`Target::accumulate`] of each, in their order. A place may occur several times (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// As for [`AllTargets::put_indexed`]; an operation that is not defined for the type.
    pub fn accumulate_indexed(&self, op: Op, places: &[(u32, usize)], src: &'op [T]) -> Result<()>
    where
        T: Accumulate,
    {
        self.check_list("accumulate_indexed", places, src.len())?;
        let origin = src.as_ptr().cast();
        // SAFETY: as for `put_indexed`; the trait `Accumulate` guarantees the type of the elements.
        unsafe { self.raw.accumulate_indexed(origin, T::TYPE, places, op) }
    }

    /// One-sided. As [`AllTargets::accumulate_indexed`], and stores the previous values in `dst`: as a
    /// [`Target::fetch_and_op`] of each. [`Op::NoOp`] reads all of them atomically (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// As for [`AllTargets::accumulate_indexed`]; `dst` and `src` differ in length.
    pub fn get_accumulate_indexed(
        &self,
        op: Op,
        places: &[(u32, usize)],
        src: &'op [T],
        dst: &'op mut [T],
    ) -> Result<()>
    where
        T: Accumulate,
    {
        const OPERATION: &str = "get_accumulate_indexed";
        self.check_list(OPERATION, places, src.len())?;
        same_length(OPERATION, src.len(), dst.len(), "in the result")?;
        let (origin, result) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        // SAFETY: as for `put_indexed` and `get_indexed`; the trait `Accumulate` guarantees the type of the elements.
        unsafe {
            self.raw
                .get_accumulate_indexed(origin, result, T::TYPE, places, op)
        }
    }

    /// The caller holds locks of all ranks.
    pub(super) fn batch<'env, R>(
        &self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, AllTargets<'b, T>>) -> Result<R>,
    ) -> Result<R> {
        let on = AllTargets::new(self.raw, self.own);
        run(self.raw, on, || self.raw.flush_all(), body)
    }
}

impl<T: Element> LockAll<'_, T> {
    /// One-sided. A batch: operations on any ranks' parts. Their buffers are lent until `body` has returned and all of
    /// this rank's operations are complete.
    ///
    /// # Errors
    /// The error of the body, once its operations are complete; an operation failed, or a target died.
    pub fn batch<'env, R>(
        &'env self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, AllTargets<'b, T>>) -> Result<R>,
    ) -> Result<R> {
        self.parts().batch(body)
    }
}

impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. A batch: operations on this part. Their buffers are lent until `body` has returned and all of this
    /// rank's operations on the part are complete, so buffers can be made or read inside the epoch.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let mut window = transom::Window::<u64>::allocate(job.world(), 8)?;
    /// let sum = window.fence(|epoch| {
    ///     let (mut first, mut last) = ([0; 2], [0; 2]);
    ///     epoch.target(0)?.batch(|target| {
    ///         target.get(0, &mut first)?;
    ///         target.get(6, &mut last)
    ///     })?;
    ///     Ok(first[0] + last[1])
    /// })?;
    /// # assert_eq!(sum, 0);
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the body, once its operations are complete; an operation failed, or the target died.
    pub fn batch<'env, R>(
        &'env self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, Target<'b, T, Mode>>) -> Result<R>,
    ) -> Result<R> {
        let end = || lower::flush(self.raw, self.aim("batch"));
        run(self.raw, self.again(), end, body)
    }
}

/// Runs `body`; then `end` completes the operations that it began. On every exit, including a panic, no operation uses
/// a buffer any more.
fn run<'b, 'env: 'b, A, R>(
    raw: &raw::Window,
    on: A,
    end: impl FnOnce() -> Result<()>,
    body: impl FnOnce(&Batch<'b, 'env, A>) -> Result<R>,
) -> Result<R> {
    let quiesce = QuiesceOnExit::new(raw);
    let batch = Batch {
        on,
        marker: PhantomData,
    };
    let value = body(&batch);
    let ended = end();
    if ended.is_ok() {
        quiesce.defuse();
    }
    let value = value?;
    ended.map(|()| value)
}
