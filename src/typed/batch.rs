//! Batches: operations that wait for each other at their end only, and give their buffers back there.

use std::marker::PhantomData;
use std::ops::Deref;

use super::epoch::QuiesceOnExit;
use super::own::OwnPart;
use super::{LockAll, Passive, Target};
use crate::lower;
use crate::{Element, IntoTarget, Result, raw};

/// A batch that is open: `'op` is how long its operations may use their buffers, `'env` what the body borrows
/// from outside. It dereferences to `A`: the [`Target`] of [`Target::batch`], or the [`AllTargets`] of
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

    /// Local. The part of `rank`; of `None`, nobody's (see [`Target`]). It takes the operations of an epoch.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Passive>> {
        Target::new("target", self.raw, self.own, rank)
    }

    /// All ranks are locked.
    pub(super) fn batch<'env, R>(
        &self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, AllTargets<'b, T>>) -> Result<R>,
    ) -> Result<R> {
        let on = AllTargets::new(self.raw, self.own);
        run(self.raw, on, || self.raw.flush_all(), body)
    }
}

impl<T: Element> LockAll<'_, T> {
    /// One-sided. A batch: operations on any ranks' parts, whose buffers are lent until `body` has returned and
    /// all of this rank's operations are complete.
    ///
    /// # Errors
    /// What the body returned, once its operations are complete; an operation failed, or a target died.
    pub fn batch<'env, R>(
        &'env self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, AllTargets<'b, T>>) -> Result<R>,
    ) -> Result<R> {
        self.parts().batch(body)
    }
}

impl<T: Element, Mode> Target<'_, T, Mode> {
    /// One-sided. A batch: operations on this part, whose buffers are lent until `body` has returned and all of
    /// this rank's operations on it are complete. So a buffer that is made or read inside the epoch can be used.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let mut window = transom::Window::<u64>::allocate(job.world(), 8)?;
    /// let sum = window.try_fence(|epoch| {
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
    /// What the body returned, once its operations are complete; an operation failed, or the target died.
    pub fn batch<'env, R>(
        &'env self,
        body: impl for<'b> FnOnce(&Batch<'b, 'env, Target<'b, T, Mode>>) -> Result<R>,
    ) -> Result<R> {
        let end = || lower::flush(self.raw, self.aim("batch"));
        run(self.raw, self.again(), end, body)
    }
}

/// Runs `body`, and `end` completes what it began. However this is left, no operation uses a buffer any more.
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
