//! Epochs: what happens around their bodies.

use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::mem;
use std::process;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::own::OwnPart;
use super::window::{len_of, part_at};
use super::{Lock, LockAll, Target};
use crate::lower::{self, Purpose, is_forked};
use crate::raw::{self, Assert};
use crate::{AbortCause, Element, Error, IntoRank, IntoTarget, LockKind, Misuse, Result};

/// The longest time to wait until the device no longer uses the buffers of failed operations.
const QUIESCE_LIMIT: Duration = Duration::from_secs(30);

/// The kind of epoch that [`Window::fence`](super::Window::fence) opens.
pub enum Active {}

/// The kind of epoch that [`Window::passive`](super::Window::passive) opens.
pub enum Passive {}

/// The kind of epoch that [`Window::exchange`](super::Window::exchange) opens.
pub enum Exchange {}

/// The kind of epoch that [`Window::loads`](super::Window::loads) opens.
pub enum Loads {}

/// An open epoch. Its operations may use their buffers for `'op`; `'env` is the lifetime of what the body borrows from
/// outside.
///
/// A function that the body calls takes it by reference, and names a lifetime only for buffers that it lends to
/// operations:
///
/// ```
/// use transom::{Active, Epoch, LockKind, Passive, Result};
///
/// fn count(epoch: &Epoch<u64, Passive>, rank: u32) -> Result<u64> {
///     let lock = epoch.lock(rank, LockKind::Shared)?;
///     let before = lock.fetch_add(0, 1)?;
///     lock.unlock()?;
///     Ok(before)
/// }
///
/// fn send<'op>(epoch: &Epoch<'op, '_, u64, Active>, rank: u32, src: &'op [u64]) -> Result<()> {
///     epoch.target(rank)?.put(0, src)
/// }
/// # fn main() -> Result<()> {
/// # let job = transom::Job::init()?;
/// # let mut window = transom::Window::<u64>::allocate(job.world(), 2)?;
/// # let src = [5, 6];
/// # window.fence(|epoch| send(epoch, 0, &src))?;
/// # assert_eq!(window.passive(|epoch| count(epoch, 0))?, 5);
/// # window.free()
/// # }
/// ```
pub struct Epoch<'op, 'env: 'op, T, Mode> {
    pub(super) state: &'op OpenEpoch<'op>,
    /// Invariant in both lifetimes, neither `Send` nor `Sync`.
    marker: PhantomData<*mut (&'op (), &'env (), T, Mode)>,
}

/// The state of an epoch that its locks need.
pub(super) struct OpenEpoch<'op> {
    pub(super) raw: &'op raw::Window,
    pub(super) own: OwnPart,
    /// An epoch in a destructor may run while an earlier panic unwinds.
    opened_in_panic: bool,
    /// The first error of a lock that was dropped.
    failure: OnceLock<Error>,
}

/// How an epoch of all ranks opens and closes.
pub(super) trait Opening {
    const NAME: &'static str;

    fn open(raw: &raw::Window) -> Result<()>;

    fn close(raw: &raw::Window) -> Result<()>;
}

impl Opening for Active {
    const NAME: &'static str = "fence";

    fn open(raw: &raw::Window) -> Result<()> {
        raw.fence(Assert::NO_PRECEDE)
    }

    fn close(raw: &raw::Window) -> Result<()> {
        raw.fence(Assert::NO_SUCCEED)
    }
}

impl Opening for Passive {
    const NAME: &'static str = "passive";

    fn open(raw: &raw::Window) -> Result<()> {
        lower::synchronise(raw, Self::NAME, Purpose::Passive)
    }

    fn close(raw: &raw::Window) -> Result<()> {
        lower::unlock_everything(raw, Self::NAME)?;
        lower::synchronise(raw, Self::NAME, Purpose::Passive)
    }
}

impl Opening for Loads {
    const NAME: &'static str = "loads";

    fn open(raw: &raw::Window) -> Result<()> {
        lower::synchronise(raw, Self::NAME, Purpose::Loads)
    }

    fn close(raw: &raw::Window) -> Result<()> {
        lower::synchronise(raw, Self::NAME, Purpose::Loads)
    }
}

/// Runs `body` in an epoch. On every exit, no operation uses a buffer any more. Unless the epoch closes properly, the
/// window is poisoned and the other ranks are told.
pub(super) fn run<'env, T, M, R>(
    raw: &raw::Window,
    poisoned: &AtomicBool,
    open: impl FnOnce(&raw::Window) -> Result<()>,
    close: impl FnOnce(&raw::Window) -> Result<()>,
    body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, M>) -> Result<R>,
) -> Result<R> {
    // If this barrier fails here, a peer may have passed it, so the guard covers the opening barrier too.
    let poison = PoisonOnExit::new(raw, poisoned);
    open(raw)?;
    let state = OpenEpoch {
        raw,
        own: OwnPart::new(),
        opened_in_panic: thread::panicking(),
        failure: OnceLock::new(),
    };
    let epoch = Epoch {
        state: &state,
        marker: PhantomData,
    };
    let result = body(&epoch);
    if let Some(error) = state.failure.into_inner() {
        return Err(error);
    }
    close(raw)?;
    poison.defuse();
    result
}

/// Poisons a window if a step of all ranks is not finished, and tells the other ranks.
pub(super) struct PoisonOnExit<'w> {
    /// Dropped last.
    quiesce: QuiesceOnExit<'w>,
    poisoned: &'w AtomicBool,
}

impl<'w> PoisonOnExit<'w> {
    pub(super) fn new(raw: &'w raw::Window, poisoned: &'w AtomicBool) -> Self {
        Self {
            quiesce: QuiesceOnExit::new(raw),
            poisoned,
        }
    }

    /// The step is finished.
    pub(super) fn defuse(self) {
        mem::forget(self);
    }
}

impl Drop for PoisonOnExit<'_> {
    /// Does not wait for another rank. Keeps the locks, so that no rank takes their holder's incomplete work for
    /// complete.
    fn drop(&mut self) {
        let end = MustEnd;
        self.poisoned.store(true, Ordering::Relaxed);
        let raw = self.quiesce.raw;
        // A forked child is not a rank and has nobody to tell.
        if !is_forked() && raw.ranks() > 1 {
            let cause = match thread::panicking() {
                true => AbortCause::Panicked,
                false => AbortCause::EpochFailed,
            };
            lower::give_up(raw, cause);
        }
        mem::forget(end);
    }
}

/// Waits until the device no longer uses the buffers of any operation, before the owners of the buffers continue.
pub(super) struct QuiesceOnExit<'w> {
    raw: &'w raw::Window,
}

impl<'w> QuiesceOnExit<'w> {
    #[inline(always)]
    pub(super) fn new(raw: &'w raw::Window) -> Self {
        Self { raw }
    }

    /// The operations are complete, or the device no longer uses their buffers.
    #[inline(always)]
    pub(super) fn defuse(self) {
        mem::forget(self);
    }
}

impl Drop for QuiesceOnExit<'_> {
    #[cold]
    fn drop(&mut self) {
        let end = MustEnd;
        // A forked child has no operations in flight.
        if !is_forked() && !lower::quiesce(self.raw, QUIESCE_LIMIT) {
            let line = format!(
                "transom: rank {} of a window failed in an operation, and its device may still use \
                 the buffers of operations after {QUIESCE_LIMIT:?}: aborting the process\n",
                self.raw.rank()
            );
            // In one write, so that lines of other ranks do not interrupt it.
            let _ = io::stderr().write_all(line.as_bytes());
            process::abort();
        }
        mem::forget(end);
    }
}

/// Aborts on a panic, for example of the program's log: unwinding would free buffers that the device may be using.
struct MustEnd;

impl Drop for MustEnd {
    fn drop(&mut self) {
        process::abort();
    }
}

impl OpenEpoch<'_> {
    /// Whether a panic is unwinding the body.
    pub(super) fn is_panicking(&self) -> bool {
        !self.opened_in_panic && thread::panicking()
    }

    /// Stores an error that would otherwise go unnoticed, if it is the first.
    pub(super) fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }
}

impl<T: Element, Mode> Epoch<'_, '_, T, Mode> {
    /// Local. This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.state.raw.rank()
    }

    /// Local. How many ranks share the window.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.state.raw.ranks()
    }

    /// The number of elements in a rank's part. Local if all parts are of equal size, and after this rank has accessed
    /// the part; else one-sided.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the size has to be read from it, and it died or left.
    pub fn len_of(&self, rank: impl IntoRank) -> Result<usize> {
        len_of::<T>(self.state.raw, rank)
    }
}

/// Notifications need no lock, and the sending ranks need no help of this rank.
impl<T, Mode> Epoch<'_, '_, T, Mode> {
    /// Local. The number of times that [`Target::put_notify`] has incremented this rank's counter `counter` since the
    /// window was made.
    ///
    /// # Errors
    /// This rank has no such counter.
    pub fn notifications(&self, counter: u32) -> Result<u64> {
        self.state.raw.notifications(counter)
    }

    /// Local. Waits until this rank's counter `counter` is at least `at_least`. Then the preceding puts are visible to
    /// a get from this rank's own part.
    ///
    /// # Errors
    /// This rank has no such counter; a rank of the window died or left.
    pub fn wait_notify(&self, counter: u32, at_least: u64) -> Result<()> {
        self.state.raw.wait_notify(counter, at_least)
    }

    /// Local. As [`Epoch::wait_notify`], without waiting: true if the counter has reached the value.
    ///
    /// # Errors
    /// As for [`Epoch::wait_notify`].
    pub fn test_notify(&self, counter: u32, at_least: u64) -> Result<bool> {
        self.state.raw.test_notify(counter, at_least)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Loads> {
    /// Local. The part of `rank`, in place: no rank writes to it in this epoch.
    ///
    /// # Errors
    /// `rank` is not a rank of the window or cannot be reached, or its memory cannot be mapped.
    pub fn part(&self, rank: impl IntoRank) -> Result<&'op [T]> {
        const OPERATION: &str = "part";
        let raw = self.state.raw;
        let rank = rank.into_rank(OPERATION, raw.ranks())?;
        let part = raw.shared_query(Some(rank))?;
        if part.size != raw.size_of(rank)? {
            let device = "of this window".to_owned();
            return Err(lower::error(OPERATION, Misuse::NoSharing { device }));
        }
        let (base, len) = part_at::<T>(part.base, part.size);
        // SAFETY: the memory of a rank of a shared window. It is mapped here until the window is freed, has this length
        // and begins at a page, so it is aligned; any bytes are a `T`. No rank writes there before all ranks have left
        // their bodies. References with the lifetime `'op` cannot leave the body, as this module argues.
        Ok(unsafe { slice::from_raw_parts(base.as_ptr(), len) })
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Exchange> {
    /// Local. The part of `rank`, or of no rank for `None` (see [`Target`]). If `rank` is not one of the epoch's
    /// targets, its operations fail.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Exchange>> {
        Target::new("target", self.state.raw, &self.state.own, rank)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Active> {
    /// Local. The part of `rank`, or of no rank for `None` (see [`Target`]).
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Active>> {
        Target::new("target", self.state.raw, &self.state.own, rank)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Passive> {
    /// One-sided. Acquires a lock of `rank`'s part, without that rank's help. While a rank waits for an exclusive lock,
    /// new shared locks wait too, for a second at most (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// `rank` is not a rank of the window or is already locked (perhaps by a forgotten lock); an epoch of `lock_all` is
    /// open; the window has the hint `no_locks`; a rank that could hold the lock died or left.
    #[inline]
    pub fn lock(&self, rank: impl IntoRank, kind: LockKind) -> Result<Lock<'op, T>> {
        Lock::take(self.state, rank, kind)
    }

    /// One-sided. Acquires a shared lock of every rank's part (MPI-4.1, section 12.5.3). This rank's own is acquired at
    /// once. Another rank's is acquired by the first operation there, or at once in the order of ranks with the hint
    /// `transom_eager_lock_all`.
    ///
    /// # Errors
    /// A lock is held, the window has the hint `no_locks`, a rank that could hold a lock died or
    /// left.
    pub fn lock_all(&self) -> Result<LockAll<'op, T>> {
        LockAll::take(self.state)
    }
}
