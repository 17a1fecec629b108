//! Sessions: access to every rank's part for as long as the program likes, without a closure.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::batch::{AllTargets, Batch};
use super::epoch::QuiesceOnExit;
use super::own::OwnPart;
use super::window::len_of;
use super::{Passive, Target, Window};
use crate::lower::{self, Aim, error, not_forked};
use crate::{
    Accumulate, Atomic, Communicator, Element, Error, IntoRank, Misuse, Op, Result, Statistics, raw,
};

/// Access to every rank's part of a window, without epochs. [`Window::open`] lends a session, and
/// [`Window::into_session`] makes one that owns its window, which can be a field of a type. Offsets and lengths count
/// elements.
///
/// Operations are complete when they return. Operations that need not wait for each other go in a
/// [`batch`](Session::batch), or take a list of places, like [`get_indexed`](Session::get_indexed).
///
/// This rank's own part is accessed in the same way: while a rank is in a session, others may access its part, so
/// nothing can lend a slice of it. No rank locks a part exclusively meanwhile. If ranks access an element at the same
/// time and must not see parts of values or lose updates, use the atomic operations: [`load`](Session::load),
/// [`store`](Session::store), [`fetch_add`](Session::fetch_add), [`compare_swap`](Session::compare_swap) and
/// accumulates.
///
/// Threads can share a session if the job has [`ThreadLevel::Multiple`](crate::ThreadLevel).
///
/// ```
/// use transom::{Communicator, Job, Result, Session, Window};
///
/// /// Of a library.
/// struct Counter {
///     session: Session<'static, u64>,
/// }
///
/// impl Counter {
///     /// Collective.
///     fn new(comm: &Communicator) -> Result<Self> {
///         let window = Window::allocate(comm, 1)?.into_owned();
///         Ok(Self { session: window.into_session()? })
///     }
///
///     /// One-sided.
///     fn next(&self) -> Result<u64> {
///         self.session.fetch_add(0, 0, 1)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let job = Job::init()?;
/// let counter = Counter::new(job.world())?;
/// println!("rank {} has number {}", job.world().rank(), counter.next()?);
/// counter.session.free()
/// # }
/// ```
///
/// # Errors
/// Every operation: `rank` is not a rank of the window; elements past the end of its part, in which case nothing is
/// transferred; the target died, which repeated calls notice; a device failed; the call is from another thread than the
/// one that opened the session, in a job of [`ThreadLevel::Serialized`](crate::ThreadLevel); this rank has left the
/// job. The session remains usable. But once an operation on one rank has failed, or a rank is known to have died,
/// all batches and lists of this rank fail, whichever ranks they access.
#[repr(transparent)]
pub struct Session<'c, T: Element> {
    window: Window<'c, T>,
}

/// Whether a window is in a session, and which thread may use it.
#[derive(Default)]
pub(super) struct Opened {
    is_open: AtomicBool,
    /// The only thread that may use it; 0 for all threads.
    thread: AtomicUsize,
}

impl Opened {
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// `shared`: whether threads share it.
    pub(super) fn begin(&self, shared: bool) {
        let thread = if shared { 0 } else { this_thread() };
        self.thread.store(thread, Ordering::Relaxed);
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// All ranks have ended the session.
    pub(super) fn end(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    #[inline(always)]
    fn takes_this_thread(&self) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        thread == 0 || thread == this_thread()
    }
}

/// A number that is not 0 and differs between living threads.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| ptr::from_ref(here).addr())
}

/// Lists of up to this many places also check the liveness of their targets, since programs may repeat them.
const LOOKED_AT: usize = 64;

/// In a session, puts of the own part need no check: no lock lends it.
static NEVER_LENT: OwnPart = OwnPart::new();

impl<'c, T: Element> Session<'c, T> {
    /// The window has begun a session, and nothing else uses it while it is borrowed.
    pub(super) fn of<'w>(window: &'w Window<'c, T>) -> &'w Self {
        // SAFETY: a `Session` is a `Window`, by `repr(transparent)`.
        unsafe { &*ptr::from_ref(window).cast() }
    }

    /// The window has begun a session.
    pub(super) fn owning(window: Window<'c, T>) -> Self {
        Self { window }
    }

    /// Local. This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.window.rank()
    }

    /// Local. How many ranks share the window.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.window.ranks()
    }

    /// The number of elements in a rank's part. Local if all parts are of equal size, and after this rank has accessed
    /// the part; else one-sided.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the size has to be read from it, and it died or left.
    pub fn len_of(&self, rank: impl IntoRank) -> Result<usize> {
        len_of::<T>(self.window.raw(), rank)
    }

    /// Local. The communicator whose ranks share the window.
    #[must_use]
    pub fn comm(&self) -> &Communicator {
        self.window.comm()
    }

    /// Local. The operations of this rank in this window so far, if the window counts them: see
    /// [`raw::Window::statistics`].
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.window.statistics()
    }

    /// Local. A copy of the elements `range` of this rank's own part: as [`Window::read_own`], also after another rank
    /// has died.
    ///
    /// # Errors
    /// As for [`Window::read_own`].
    pub fn read_own(&self, range: Range<usize>) -> Result<Vec<T>> {
        self.window.read_own(range)
    }

    /// Local. Returns the window. This ends only this rank's use of the session; other ranks may continue theirs, as
    /// after [`Window::open`].
    #[must_use]
    pub fn into_window(self) -> Window<'c, T> {
        self.window
    }

    /// Collective. Ends the session and frees its window, like [`Window::free`].
    ///
    /// # Errors
    /// As for [`Window::free`].
    pub fn free(self) -> Result<()> {
        self.window.free()
    }

    /// Runs an operation on the part of `rank`, which is complete on return, unless it fails.
    #[inline(always)]
    fn on<R>(
        &self,
        operation: &'static str,
        rank: impl IntoRank,
        act: impl FnOnce(Target<'_, T, Passive>) -> Result<R>,
    ) -> Result<R> {
        let raw = self.usable(operation)?;
        let target = Target::new(operation, raw, &NEVER_LENT, rank)?;
        // A program may repeat any operation until another rank has acted, so each checks liveness. The check comes
        // first, so that its error implies that nothing was done.
        lower::check_liveness(raw, target.aim(operation))?;
        // A panic, even one of the program's log, must leave no buffer in use.
        let quiesce = QuiesceOnExit::new(raw);
        let done = act(target);
        quiesce.defuse();
        done
    }

    #[inline(always)]
    fn usable(&self, operation: &'static str) -> Result<&raw::Window> {
        let raw = self.window.raw();
        match self.window.opened().takes_this_thread() && lower::is_in_job(raw) {
            true => Ok(raw),
            false => Err(self.unusable(operation)),
        }
    }

    #[cold]
    fn unusable(&self, operation: &'static str) -> Error {
        let left = lower::in_job(self.window.raw(), operation);
        left.err()
            .unwrap_or_else(|| error(operation, Misuse::OtherThread))
    }

    /// As [`Session::batch`], for a list. A program may repeat a short list until other ranks have acted; if one of
    /// them died, that is an error.
    fn list<'env>(
        &'env self,
        operation: &'static str,
        places: &[(u32, usize)],
        transfer: impl for<'op> FnOnce(&Batch<'op, 'env, AllTargets<'op, T>>) -> Result<()>,
    ) -> Result<()> {
        let raw = self.usable(operation)?;
        if places.len() <= LOOKED_AT {
            let ranks = places.iter().map(|&(rank, _)| rank);
            let mut ranks = ranks.filter(|&rank| rank < raw.ranks());
            ranks.try_for_each(|rank| lower::check_liveness(raw, Aim::new(operation, rank)))?;
        }
        AllTargets::new(raw, &NEVER_LENT).batch(transfer)
    }

    /// One-sided. A batch: operations on any ranks' parts, which need not wait for each other. Their buffers are lent
    /// until `body` has returned and all of them are complete.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let mut window = transom::Window::<u64>::allocate(job.world(), 8)?;
    /// let session = window.open()?;
    /// let mut firsts = vec![0; session.ranks() as usize];
    /// session.batch(|batch| {
    ///     for (rank, first) in (0..).zip(firsts.chunks_mut(1)) {
    ///         batch.target(rank)?.get(0, first)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// println!("{firsts:?}");
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the body, once its operations are complete; an operation failed, or a target died.
    pub fn batch<'env, R>(
        &'env self,
        body: impl for<'op> FnOnce(&Batch<'op, 'env, AllTargets<'op, T>>) -> Result<R>,
    ) -> Result<R> {
        let raw = self.usable("batch")?;
        not_forked("batch")?;
        AllTargets::new(raw, &NEVER_LENT).batch(body)
    }

    /// One-sided. Copies `src` to the elements from `at` on (MPI-4.1, section 12.3.1).
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn put_blocking(&self, rank: impl IntoRank, at: usize, src: &[T]) -> Result<()> {
        self.on("put_blocking", rank, |target| target.put_blocking(at, src))
    }

    /// One-sided. As [`Session::put_blocking`], and then increments the target's notification counter `counter` by 1:
    /// see [`Target::put_notify`].
    ///
    /// # Errors
    /// See [`Session`]; the target has no such counter (hint `transom_notification_counters`).
    #[inline]
    pub fn put_notify_blocking(
        &self,
        rank: impl IntoRank,
        at: usize,
        src: &[T],
        counter: u32,
    ) -> Result<()> {
        self.on("put_notify_blocking", rank, |target| {
            target.put_notify_blocking(at, src, counter)
        })
    }

    /// Local. The number of times that puts with notification ([`Target::put_notify`] and its variants) have
    /// incremented this rank's counter `counter` since the window was made.
    ///
    /// # Errors
    /// This rank has no such counter.
    pub fn notifications(&self, counter: u32) -> Result<u64> {
        self.window.raw().notifications(counter)
    }

    /// Local. Waits until this rank's counter `counter` is at least `at_least`. Then the preceding puts are visible to
    /// a get from this rank's own part.
    ///
    /// # Errors
    /// This rank has no such counter; a rank of the window died or left.
    pub fn wait_notify(&self, counter: u32, at_least: u64) -> Result<()> {
        self.usable("wait_notify")?.wait_notify(counter, at_least)
    }

    /// Local. As [`Session::wait_notify`], without waiting: true if the counter has reached the value.
    ///
    /// # Errors
    /// As for [`Session::wait_notify`].
    pub fn test_notify(&self, counter: u32, at_least: u64) -> Result<bool> {
        self.usable("test_notify")?.test_notify(counter, at_least)
    }

    /// One-sided. Copies the elements from `at` on to `dst` (MPI-4.1, section 12.3.2).
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn get_blocking(&self, rank: impl IntoRank, at: usize, dst: &mut [T]) -> Result<()> {
        self.on("get_blocking", rank, |target| target.get_blocking(at, dst))
    }

    /// One-sided. Returns the `len` elements from `at` on as a vector: as [`Session::get_blocking`].
    ///
    /// # Errors
    /// See [`Session`]; no memory for the vector.
    pub fn get_vec(&self, rank: impl IntoRank, at: usize, len: usize) -> Result<Vec<T>> {
        self.on("get_vec", rank, |target| target.get_vec(at, len))
    }

    /// One-sided. The element at `at`, of any type: as [`Session::get_blocking`]. It is not atomic.
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn get_value(&self, rank: impl IntoRank, at: usize) -> Result<T> {
        self.on("get_value", rank, |target| target.get_value(at))
    }

    /// One-sided. Copies `src`, element by element, to `places`, each a rank and an offset. All places are checked
    /// before anything is transferred. Mapped memory is stored to in a loop; over a network, the elements for one rank
    /// go together. One long list costs less than many short ones (MPI-4.1, section 12.3.1).
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let mut window = transom::Window::<u64>::allocate(job.world(), 8)?;
    /// let session = window.open()?;
    /// session.put_indexed(&[(0, 5), (0, 2)], &[11, 12])?;
    /// let mut both = [0; 2];
    /// session.get_indexed(&[(0, 2), (0, 5)], &mut both)?;
    /// # assert_eq!(both, [12, 11]);
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `src` and `places` differ in length. A place does not exist: the error names its index, and nothing was
    /// transferred. See [`Session`].
    pub fn put_indexed(&self, places: &[(u32, usize)], src: &[T]) -> Result<()> {
        self.list("put_indexed", places, |batch| {
            batch.put_indexed(places, src)
        })
    }

    /// One-sided. Copies the elements at `places` to `dst`, the reverse of [`Session::put_indexed`] (MPI-4.1, section
    /// 12.3.2).
    ///
    /// # Errors
    /// As for [`Session::put_indexed`].
    pub fn get_indexed(&self, places: &[(u32, usize)], dst: &mut [T]) -> Result<()> {
        self.list("get_indexed", places, |batch| {
            batch.get_indexed(places, dst)
        })
    }

    /// One-sided. Combines `src`, element by element, into those at `places`, each atomically, in the order of the
    /// list. A place may occur several times (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// As for [`Session::put_indexed`]; an operation that is not defined for the type.
    pub fn accumulate_indexed(&self, op: Op, places: &[(u32, usize)], src: &[T]) -> Result<()>
    where
        T: Accumulate,
    {
        self.list("accumulate_indexed", places, |batch| {
            batch.accumulate_indexed(op, places, src)
        })
    }

    /// One-sided. As [`Session::accumulate_indexed`], and stores the previous values in `dst`. [`Op::NoOp`] reads all
    /// of them atomically (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// As for [`Session::accumulate_indexed`]; `dst` and `src` differ in length.
    pub fn get_accumulate_indexed(
        &self,
        op: Op,
        places: &[(u32, usize)],
        src: &[T],
        dst: &mut [T],
    ) -> Result<()>
    where
        T: Accumulate,
    {
        self.list("get_accumulate_indexed", places, |batch| {
            batch.get_accumulate_indexed(op, places, src, dst)
        })
    }

    /// One-sided. Combines `src` into the elements from `at` on: `target = target op src`,
    /// atomically for each element (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Session`]; an operation that is not defined for the type.
    #[inline]
    pub fn accumulate_blocking(
        &self,
        rank: impl IntoRank,
        op: Op,
        at: usize,
        src: &[T],
    ) -> Result<()>
    where
        T: Accumulate,
    {
        self.on("accumulate_blocking", rank, |target| {
            target.accumulate_blocking(op, at, src)
        })
    }

    /// One-sided. The element at `at`, read atomically, so that it may be concurrent with accumulates and stores of
    /// other ranks (MPI-4.1, section 12.3.4). Repeated calls fail once the target is found dead or the job was aborted.
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn load(&self, rank: impl IntoRank, at: usize) -> Result<T>
    where
        T: Accumulate,
    {
        self.on("load", rank, |target| target.load(at))
    }

    /// One-sided. Replaces the element at `at` by `value`, atomically (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn store(&self, rank: impl IntoRank, at: usize, value: T) -> Result<()>
    where
        T: Accumulate,
    {
        self.on("store", rank, |target| target.store(at, value))
    }

    /// One-sided. Adds to the element at `at`, wrapping, and returns the previous value, atomically (MPI-4.1, section
    /// 12.3.4).
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn fetch_add(&self, rank: impl IntoRank, at: usize, add: T) -> Result<T>
    where
        T: Atomic,
    {
        self.on("fetch_add", rank, |target| target.fetch_add(at, add))
    }

    /// One-sided. Combines `operand` into the element at `at`, and returns the previous value, atomically: see
    /// [`Target::fetch_and_op`] (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Session`]; an operation that is not defined for the type.
    #[inline]
    pub fn fetch_and_op(&self, rank: impl IntoRank, op: Op, at: usize, operand: T) -> Result<T>
    where
        T: Accumulate,
    {
        self.on("fetch_and_op", rank, |target| {
            target.fetch_and_op(op, at, operand)
        })
    }

    /// One-sided. Replaces the element at `at` by `new` if it equals `expect`, and returns the previous value,
    /// atomically. The swap took place if the result equals `expect` (MPI-4.1, section 12.3.4).
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn compare_swap(&self, rank: impl IntoRank, at: usize, expect: T, new: T) -> Result<T>
    where
        T: Atomic,
    {
        self.on("compare_swap", rank, |target| {
            target.compare_swap(at, expect, new)
        })
    }
}

/// Threads can share a session and move it.
const _: () = {
    const fn travels<S: Send + Sync>() {}
    travels::<Session<'static, u64>>()
};

impl<T: Element> std::fmt::Debug for Session<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .finish_non_exhaustive()
    }
}
