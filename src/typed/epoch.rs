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

/// For how long a device may be silent about operations of an epoch that failed.
const QUIESCE_LIMIT: Duration = Duration::from_secs(30);

/// The kind of epoch that [`Window::fence`](super::Window::fence) opens.
pub enum Active {}

/// The kind of epoch that [`Window::passive`](super::Window::passive) opens.
pub enum Passive {}

/// The kind of epoch that [`Window::exchange`](super::Window::exchange) opens.
pub enum Exchange {}

/// The kind of epoch that [`Window::loads`](super::Window::loads) opens.
pub enum Loads {}

/// An open epoch: `'op` is how long its operations may use their buffers, `'env` what the body
/// borrows from outside.
///
/// A function that the body calls takes it by reference, and names a lifetime only for buffers that it lends
/// to operations:
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
/// # window.try_fence(|epoch| send(epoch, 0, &src))?;
/// # assert_eq!(window.try_passive(|epoch| count(epoch, 0))?, 5);
/// # window.free()
/// # }
/// ```
pub struct Epoch<'op, 'env: 'op, T, Mode> {
    pub(super) state: &'op OpenEpoch<'op>,
    /// Invariant in both lifetimes, neither `Send` nor `Sync`.
    marker: PhantomData<*mut (&'op (), &'env (), T, Mode)>,
}

/// What locks need to know of their epoch.
pub(super) struct OpenEpoch<'op> {
    pub(super) raw: &'op raw::Window,
    pub(super) own: OwnPart,
    /// Epochs in destructors may run while a panic unwinds that is none of theirs.
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

/// Runs `body` in an epoch. However this is left, no operation uses a buffer any more; if not by
/// the epoch's proper close, the window is poisoned and the other ranks know.
pub(super) fn run<'env, T, M, R>(
    raw: &raw::Window,
    poisoned: &AtomicBool,
    open: impl FnOnce(&raw::Window) -> Result<()>,
    close: impl FnOnce(&raw::Window) -> Result<()>,
    body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, M>) -> R,
) -> Result<R> {
    // A peer may be through a barrier that fails here, so this includes the opening one.
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
    let value = body(&epoch);
    if let Some(error) = state.failure.into_inner() {
        return Err(error);
    }
    close(raw)?;
    poison.defuse();
    Ok(value)
}

/// Poisons a window where something that all ranks do together is left half done, and tells the others.
pub(super) struct PoisonOnExit<'w> {
    /// Dropped behind the rest.
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

    /// It is done.
    pub(super) fn defuse(self) {
        mem::forget(self);
    }
}

impl Drop for PoisonOnExit<'_> {
    /// Nothing here waits for another rank. Locks stay held, so that nobody takes what their
    /// holder left half done for whole.
    fn drop(&mut self) {
        let end = MustEnd;
        self.poisoned.store(true, Ordering::Relaxed);
        let raw = self.quiesce.raw;
        // A forked child is no rank: it has nobody to tell.
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

/// Has the device done with the buffers of all operations before those who lent them go on.
pub(super) struct QuiesceOnExit<'w> {
    raw: &'w raw::Window,
}

impl<'w> QuiesceOnExit<'w> {
    #[inline(always)]
    pub(super) fn new(raw: &'w raw::Window) -> Self {
        Self { raw }
    }

    /// The operations are complete, or the device has done with them.
    #[inline(always)]
    pub(super) fn defuse(self) {
        mem::forget(self);
    }
}

impl Drop for QuiesceOnExit<'_> {
    #[cold]
    fn drop(&mut self) {
        let end = MustEnd;
        // A forked child has nothing in flight.
        if !is_forked() && !lower::quiesce(self.raw, QUIESCE_LIMIT) {
            let line = format!(
                "transom: rank {} of a window failed in an operation, and its device may still use \
                 the buffers of operations after {QUIESCE_LIMIT:?}: aborting the process\n",
                self.raw.rank()
            );
            // In one piece, between what other ranks write.
            let _ = io::stderr().write_all(line.as_bytes());
            process::abort();
        }
        mem::forget(end);
    }
}

/// The device may be using buffers that a panic in between, such as of the program's log, would give back.
struct MustEnd;

impl Drop for MustEnd {
    fn drop(&mut self) {
        process::abort();
    }
}

impl OpenEpoch<'_> {
    /// Whether the body is being left by a panic.
    pub(super) fn is_panicking(&self) -> bool {
        !self.opened_in_panic && thread::panicking()
    }

    /// Notes an error that nobody else would see, if it is the first.
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

    /// How many elements a rank's part has. Local where all have as many, and once this rank has accessed the part;
    /// else one-sided.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; it has to be asked, and died or left.
    pub fn len_of(&self, rank: impl IntoRank) -> Result<usize> {
        len_of::<T>(self.state.raw, rank)
    }
}

/// Notifications need no lock, and the ranks that send them none of this one's help.
impl<T, Mode> Epoch<'_, '_, T, Mode> {
    /// Local. How often [`Target::put_notify`] has raised this rank's counter `counter` since the
    /// window was made.
    ///
    /// # Errors
    /// This rank has no such counter.
    pub fn notifications(&self, counter: u32) -> Result<u64> {
        self.state.raw.notifications(counter)
    }

    /// Local. Waits until this rank's counter `counter` is at least `at_least`. What was put before
    /// is then in its part, where a get finds it.
    ///
    /// # Errors
    /// This rank has no such counter; a rank of the window died or left.
    pub fn wait_notify(&self, counter: u32, at_least: u64) -> Result<()> {
        self.state.raw.wait_notify(counter, at_least)
    }

    /// Local. As [`Epoch::wait_notify`], without waiting: true if the counter is there.
    ///
    /// # Errors
    /// As for [`Epoch::wait_notify`].
    pub fn test_notify(&self, counter: u32, at_least: u64) -> Result<bool> {
        self.state.raw.test_notify(counter, at_least)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Loads> {
    /// Local. The part of `rank`, in place: nobody writes to it in this epoch.
    ///
    /// # Errors
    /// `rank` is not a rank of the window, or cannot be reached, or its memory not be mapped.
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
        // SAFETY: the memory of a rank of a shared window: mapped here until the window is freed, of this length,
        // at a page, and so aligned, any bytes being a `T`. No rank writes there before all have left their bodies,
        // which nothing of `'op` leaves, as this module argues.
        Ok(unsafe { slice::from_raw_parts(base.as_ptr(), len) })
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Exchange> {
    /// Local. The part of `rank`; of `None`, nobody's (see [`Target`]). If `rank` is not one of the
    /// epoch's targets, its operations fail.
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Exchange>> {
        Target::new("target", self.state.raw, &self.state.own, rank)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Active> {
    /// Local. The part of `rank`; of `None`, nobody's (see [`Target`]).
    ///
    /// # Errors
    /// `rank` is not a rank of the window.
    #[inline]
    pub fn target(&self, rank: impl IntoTarget) -> Result<Target<'op, T, Active>> {
        Target::new("target", self.state.raw, &self.state.own, rank)
    }
}

impl<'op, T: Element> Epoch<'op, '_, T, Passive> {
    /// One-sided. Waits for a lock of `rank`'s part, without that rank's help. A rank that waits
    /// for an exclusive lock keeps new shared ones back, for a second at most (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// `rank` is not a rank of the window or is locked already (perhaps by a lock that was
    /// forgotten), `lock_all` is in force, the window has the hint `no_locks`, a rank that could
    /// hold the lock died or left.
    #[inline]
    pub fn lock(&self, rank: impl IntoRank, kind: LockKind) -> Result<Lock<'op, T>> {
        Lock::take(self.state, rank, kind)
    }

    /// One-sided. A shared lock of every rank's part (MPI-4.1, section 12.5.3). This rank's own is
    /// taken at once and another's with the first operation there, in the order in which they are
    /// needed, unless the hint `transom_eager_lock_all` takes all in the order of ranks.
    ///
    /// # Errors
    /// A lock is held, the window has the hint `no_locks`, a rank that could hold a lock died or
    /// left.
    pub fn lock_all(&self) -> Result<LockAll<'op, T>> {
        LockAll::take(self.state)
    }
}
