//! Windows of elements.

use std::fmt::{self, Display};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use super::epoch::{self, Active, Epoch, Exchange, Loads, Opening, Passive, PoisonOnExit};
use super::own::copy_own;
use super::session::{Opened, Session};
use crate::lower::{self, Purpose, error, not_forked};
use crate::raw::{self, Assert};
use crate::{
    Communicator, Element, EpochState, Error, Group, Info, IntoRank, Misuse, Result, Statistics,
    SystemError,
};

/// Memory of every rank of a communicator, as elements of one type. Other ranks put into it, get from it and accumulate
/// on it. Lengths and offsets count elements.
///
/// Accesses are made in epochs. All ranks open and close [`Window::fence`], [`Window::passive`] and [`Window::loads`]
/// together; [`Window::exchange`] involves only ranks that exchange data. Between epochs, [`Window::local`] and
/// [`Window::local_mut`] are this rank's own part. A [`Session`] needs no epochs: [`Window::open`],
/// [`Window::into_session`].
///
/// A panic inside an epoch, or an epoch that fails to open or close, poisons the window: the other ranks are told,
/// their epochs then fail too, and every later call on the window is an error. An error that the body of an epoch
/// returns is only a value and does not poison.
///
/// A forked child is not a rank: all calls fail there, except those that only look something up. A slice that was
/// borrowed from [`Window::local`] before the fork is the parent's memory, not a copy of it.
///
/// Dropping a window without freeing it waits for nobody, leaks its memory and logs this, since other ranks may still
/// access it. After another rank has died, that is how to give a window up ([`raw::Window`] says why its memory stays);
/// [`Window::read_own`] still copies this rank's own part.
///
/// `'c` is the borrow of the communicator, so the job cannot be left before its windows are freed. A value that holds
/// its window needs no lifetime with [`Window::into_owned`].
pub struct Window<'c, T: Element> {
    raw: raw::Window,
    poisoned: AtomicBool,
    session: Opened,
    comm: Communicator,
    marker: PhantomData<(&'c Communicator, T)>,
}

/// A window that shares its communicator instead of borrowing it, made by [`Window::into_owned`]. A library's type can
/// hold it, alone or beside the [`Job`](crate::Job). Every function that takes a `Window<T>` accepts it.
///
/// ```
/// use transom::{Communicator, Job, LockKind, OwnedWindow, Result, Window};
///
/// struct Counter {
///     window: OwnedWindow<u64>,
/// }
///
/// impl Counter {
///     fn new(comm: &Communicator) -> Result<Self> {
///         let window = Window::allocate(comm, 1)?.into_owned();
///         Ok(Self { window })
///     }
///
///     fn add(&mut self, value: u64) -> Result<u64> {
///         self.window
///             .passive(|epoch| epoch.lock(0, LockKind::Shared)?.fetch_add(0, value))
///     }
///
///     fn free(self) -> Result<()> {
///         self.window.free()
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let job = Job::init()?;
/// let mut counter = Counter::new(job.world())?;
/// counter.add(3)?;
/// counter.free()
/// # }
/// ```
///
/// Free the window, then leave the job. A window that is dropped leaks its memory at any time. After the job was left,
/// the window's collective calls ([`Window::fence`] and the other epochs, [`Window::free`]) fail at once on this rank,
/// and [`Window::local`] still works; other ranks that wait for this one get an error.
pub type OwnedWindow<T> = Window<'static, T>;

impl<'c, T: Element> Window<'c, T> {
    const ELEMENT: u64 = {
        let size = size_of::<T>();
        assert!(size > 0, "the elements of a window have at least one byte");
        assert!(
            size <= i32::MAX as usize,
            "the elements of a window have less than 2^31 bytes"
        );
        size as u64
    };

    /// Collective. A window of `len` elements on this rank, all bytes zero. Lengths may differ by
    /// rank; 0 is legal (MPI-4.1, section 12.2.2).
    ///
    /// # Errors
    /// On every rank if one rank fails: `len` elements are more than 2^63 − 1 bytes, out of memory,
    /// elements of another size on another rank, a rank that died or left.
    pub fn allocate(comm: &'c Communicator, len: usize) -> Result<Self> {
        Self::allocate_with(comm, len, &Info::new())
    }

    /// Collective. As [`Window::allocate`], with hints, which may differ by rank.
    ///
    /// # Errors
    /// As for [`Window::allocate`]; a malformed hint.
    pub fn allocate_with(comm: &'c Communicator, len: usize, info: &Info) -> Result<Self> {
        // Too many bytes are refused where every rank hears of it.
        let bytes = len.saturating_mul(size_of::<T>());
        let info = lower::aligned_for(info, align_of::<T>());
        let raw = raw::Window::allocate(comm, bytes, Self::ELEMENT, &info)?;
        Self::over(comm, raw)
    }

    /// Collective. A window whose ranks can also load from each other's parts in place, in epochs of [`Window::loads`].
    /// All ranks have to be on one host, like those of
    /// [`Communicator::split_shared`](crate::Communicator::split_shared). This rank's part has `len` elements, all
    /// bytes zero, and begins at a page. Lengths may differ by rank; 0 is legal (MPI-4.1, section 12.2.3,
    /// `MPI_Win_allocate_shared`).
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let host = job.world().split_shared(0)?;
    /// let mut window = transom::Window::<u64>::allocate_shared(&host, 1000)?;
    /// window.local_mut()?.fill(host.rank().into());
    /// let sum: u64 = window.loads(|epoch| {
    ///     let firsts = (0..epoch.ranks()).map(|rank| Ok(epoch.part(rank)?[0]));
    ///     firsts.sum::<transom::Result<u64>>()
    /// })?;
    /// assert_eq!(sum, (0..u64::from(host.size())).sum());
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Window::allocate`]; the ranks cannot load from each other's memory.
    pub fn allocate_shared(comm: &'c Communicator, len: usize) -> Result<Self> {
        const {
            assert!(
                align_of::<T>() <= 4096,
                "elements that are aligned to a page at most"
            )
        };
        let bytes = len.saturating_mul(size_of::<T>());
        // Each part begins at a page, so it is aligned in every process.
        let info = Info::new().with("alloc_shared_noncontig", "true");
        let raw = raw::Window::allocate_shared(comm, bytes, Self::ELEMENT, &info)?;
        Self::over(comm, raw)
    }

    /// Collective. A window of the elements of `memory` on this rank. They are copied to memory that peers reach as
    /// fast as that of [`Window::allocate`]. `memory` is freed once all ranks have done so; until then, both need
    /// space. [`Window::into_vec`] returns the elements. Lengths may differ by rank; 0 is legal (MPI-4.1, section
    /// 12.2.1). A window over memory that stays in place is [`raw::Window::create`].
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let mut window = transom::Window::create(world, vec![2_u64, 3, 5])?;
    /// let value = [7];
    /// window.fence(|epoch| epoch.target(world.rank())?.put(2, &value))?;
    /// assert_eq!(window.into_vec()?, [2, 3, 7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// On every rank if one rank fails: out of memory, elements of another size on another rank, a rank that died or
    /// left. Then `memory` is lost, except with [`Window::try_create`].
    pub fn create(comm: &'c Communicator, memory: Vec<T>) -> Result<Self> {
        Self::create_with(comm, memory, &Info::new())
    }

    /// Collective. As [`Window::create`], with hints, which may differ by rank.
    ///
    /// # Errors
    /// As for [`Window::create`]; a malformed hint.
    pub fn create_with(comm: &'c Communicator, memory: Vec<T>, info: &Info) -> Result<Self> {
        Self::try_create(comm, memory, info).map_err(|(_gone, error)| error)
    }

    /// Collective. As [`Window::create_with`], but returns the vector if that fails.
    ///
    /// # Errors
    /// As for [`Window::create_with`].
    pub fn try_create(
        comm: &'c Communicator,
        memory: Vec<T>,
        info: &Info,
    ) -> std::result::Result<Self, (Vec<T>, Error)> {
        let bytes = bytemuck::cast_slice(&memory);
        let info = lower::aligned_for(info, align_of::<T>());
        let created = lower::create_copied(comm, bytes, Self::ELEMENT, &info);
        match created.and_then(|raw| Self::over(comm, raw)) {
            Ok(window) => Ok(window),
            Err(error) => Err((memory, error)),
        }
    }

    fn over(comm: &'c Communicator, raw: raw::Window) -> Result<Self> {
        let window = Self {
            raw,
            poisoned: AtomicBool::new(false),
            session: Opened::default(),
            comm: comm.clone(),
            marker: PhantomData,
        };
        let ours = window.raw.disp_unit();
        let Some((rank, theirs)) = lower::other_unit(&window.raw) else {
            return Ok(window);
        };
        // Then every rank finds a rank that differs from it, and comes here.
        let elements = |size: u64| format!("elements of {size} bytes");
        let misuse = Misuse::Mismatch {
            rank,
            ours: elements(ours),
            theirs: elements(theirs),
        };
        window.free()?;
        Err(error("window", misuse))
    }

    /// Local. The communicator whose ranks share the window.
    #[must_use]
    pub fn comm(&self) -> &Communicator {
        &self.comm
    }

    /// Local. The same window, which shares its communicator instead of borrowing it.
    #[must_use]
    pub fn into_owned(self) -> OwnedWindow<T> {
        Window {
            raw: self.raw,
            poisoned: self.poisoned,
            session: self.session,
            comm: self.comm,
            marker: PhantomData,
        }
    }

    /// Local. Whether an epoch ended in a panic, or failed to open or close. Then all calls fail.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
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

    /// Local. Which code has to run at a target for operations on it to complete: see [`Progress`](raw::Progress)
    /// (MPI-4.1, section 12.7.3).
    #[must_use]
    pub fn progress(&self) -> raw::Progress {
        self.raw.progress()
    }

    /// Local. The unit that carries out atomics: see [`raw::Window::atomic_domain`].
    #[must_use]
    pub fn atomic_domain(&self) -> raw::AtomicDomain {
        self.raw.atomic_domain()
    }

    /// Local. The operations of this rank in this window so far, if the window counts them: see
    /// [`raw::Window::statistics`].
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.raw.statistics()
    }

    /// Local. The number of elements in this rank's part.
    #[must_use]
    pub fn len(&self) -> usize {
        own_part::<T>(&self.raw).1
    }

    /// Local. True if this rank's part has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of elements in another rank's part. Local if all parts are of equal size, and after this rank has
    /// accessed the part; else one-sided.
    ///
    /// # Errors
    /// `rank` is not a rank of the window; the size has to be read from it, and it died or left.
    pub fn len_of(&self, rank: impl IntoRank) -> Result<usize> {
        len_of::<T>(&self.raw, rank)
    }

    /// Local. This rank's own part, between epochs.
    ///
    /// # Errors
    /// The window is poisoned; a [`Session`] was opened and not ended, so that other ranks may still write there; the
    /// process was forked from the rank.
    pub fn local(&self) -> Result<&[T]> {
        self.usable_alone("local")?;
        Ok(self.elements())
    }

    /// Local. This rank's own part, between epochs.
    ///
    /// # Errors
    /// As for [`Window::local`].
    pub fn local_mut(&mut self) -> Result<&mut [T]> {
        self.usable_alone("local_mut")?;
        let (base, len) = own_part(&self.raw);
        // SAFETY: as in `elements`; no rank reads there either, and the window is borrowed uniquely.
        Ok(unsafe { slice::from_raw_parts_mut(base.as_ptr(), len) })
    }

    /// Local. A copy of the elements `range` of this rank's own part, also while a [`Session`] is open, and after the
    /// window was poisoned. So it is how to save this rank's data after another rank has died. Includes what was put
    /// and complete before the last epoch that closed properly; elements that were written later have an old value, a
    /// new value or a mixture.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut window = transom::Window::<u64>::allocate(job.world(), 8)?;
    /// let mine = [1];
    /// if let Err(error) = window.fence(|epoch| epoch.target(0)?.put(0, &mine)) {
    ///     // Its epochs fail from now on. Dropping it waits for nobody.
    ///     eprintln!("{error}; saved: {:?}", window.read_own(0..window.len())?);
    ///     return Err(error);
    /// }
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `range` exceeds the part; no memory for the vector; the process was forked from the rank.
    pub fn read_own(&self, range: Range<usize>) -> Result<Vec<T>> {
        copy_own(&self.raw, "read_own", range)
    }

    /// Collective. An epoch between two fences. Waits for all ranks, and runs `body`, in which this rank may access
    /// every rank's part. Returns the result of `body` once all ranks have finished and their operations are complete
    /// (MPI-4.1, section 12.5.1). A body that cannot fail ends in `Ok(())`.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let mut window = transom::Window::<u32>::allocate(world, 2)?;
    /// let mine = [world.rank()];
    /// window.fence(|epoch| {
    ///     epoch.target((world.rank() + 1) % world.size())?.put(0, &mine)?;
    ///     epoch.target(0)?.accumulate_value(transom::Op::Sum, 1, 1)
    /// })?;
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the body: the epoch has closed properly, and the window remains usable. Or the window is or becomes
    /// poisoned ([`Window::is_poisoned`]), and the body's result is lost: an operation failed; a rank died, left,
    /// panicked in its body, or called [`Window::passive`] or [`Window::free`] instead. This rank has left the job.
    pub fn fence<'env, R>(
        &'env mut self,
        body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, Active>) -> Result<R>,
    ) -> Result<R> {
        self.run(body)
    }

    /// Collective at both ends. An epoch of locks. Waits for all ranks, and runs `body`, in which this rank may lock
    /// every rank's part and access it without that rank's help. Returns the result of `body` once all ranks have
    /// finished, their operations are complete and their locks are released (MPI-4.1, section 12.5.3).
    ///
    /// # Errors
    /// As for [`Window::fence`].
    pub fn passive<'env, R>(
        &'env mut self,
        body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, Passive>) -> Result<R>,
    ) -> Result<R> {
        self.run(body)
    }

    /// Collective at both ends. An epoch in which no rank writes. Waits for all ranks, and runs `body`, in which this
    /// rank may load from every rank's part ([`Epoch::part`]). Returns the result of `body` once all ranks have
    /// finished. Only for windows of [`Window::allocate_shared`].
    ///
    /// # Errors
    /// As for [`Window::fence`]. The window was not made by [`Window::allocate_shared`]: then nothing has begun, on any
    /// rank.
    pub fn loads<'env, R>(
        &'env mut self,
        body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, Loads>) -> Result<R>,
    ) -> Result<R> {
        let found = self.raw.flavor();
        if found != raw::Flavor::Shared {
            let needs = "a window of allocate_shared";
            return Err(error("loads", Misuse::Flavor { found, needs }));
        }
        self.run(body)
    }

    /// Collective over the groups. Exposes this rank's part to `origins`, and runs `body`, in which this rank may
    /// access the parts of `targets`. Returns the result of `body` once these operations and those of `origins` are
    /// complete (MPI-4.1, section 12.5.2: post, start, complete, wait).
    ///
    /// Each rank of `targets` has to call this with this rank among its `origins`, and the reverse. Ranks in neither
    /// group do not take part. Groups may be empty: then this rank only exposes, or only accesses. The first operation
    /// on a target waits until the target has called this.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let (rank, size) = (world.rank(), world.size());
    /// let mut window = transom::Window::<u32>::allocate(world, 1)?;
    /// let left = world.group().include(&[(rank + size - 1) % size])?;
    /// let right = world.group().include(&[(rank + 1) % size])?;
    /// let mine = [rank];
    /// window.exchange(&left, &right, |epoch| epoch.target((rank + 1) % size)?.put(0, &mine))?;
    /// assert_eq!(window.local()?, [(rank + size - 1) % size]);
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Window::fence`]: it becomes poisoned if a rank of a group died, left or panicked in its body. Nothing has
    /// begun: a rank of a group is not in the window; this rank is in only one of the groups and would wait for itself;
    /// or a [`Session`] was opened and not ended.
    pub fn exchange<'env, R>(
        &'env mut self,
        origins: &Group,
        targets: &Group,
        body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, Exchange>) -> Result<R>,
    ) -> Result<R> {
        const OPERATION: &str = "exchange";
        self.usable_alone(OPERATION)?;
        lower::in_job(&self.raw, OPERATION)?;
        lower::check_groups(&self.raw, OPERATION, origins, targets)?;
        let open = |raw: &raw::Window| {
            raw.post(origins, Assert::NONE)?;
            raw.start(targets, Assert::NONE)
        };
        let close = |raw: &raw::Window| {
            lower::in_job(raw, OPERATION)?;
            raw.complete()?;
            raw.wait()
        };
        epoch::run(&self.raw, &self.poisoned, open, close, body)
    }

    fn run<'env, M: Opening, R>(
        &'env self,
        body: impl for<'op> FnOnce(&'op Epoch<'op, 'env, T, M>) -> Result<R>,
    ) -> Result<R> {
        self.usable_together(M::NAME)?;
        let open = |raw: &raw::Window| {
            self.leave_session()?;
            M::open(raw)?;
            self.session.end();
            Ok(())
        };
        let close = |raw: &raw::Window| {
            lower::in_job(raw, M::NAME)?;
            M::close(raw)
        };
        epoch::run(&self.raw, &self.poisoned, open, close, body)
    }

    /// Collective. Opens a session. Once it returns, any rank may access every rank's part at any time, without epochs:
    /// by operations that are complete when they return, or in batches (MPI-4.1, section 12.5.3: `lock_all`).
    ///
    /// This rank's use of the session ends with the borrow. Other ranks do not notice this and may continue theirs. So
    /// this rank's part is not available as a slice until all ranks have called [`Window::close`], an epoch of all
    /// ranks or [`Window::free`].
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let world = job.world();
    /// let mut window = transom::Window::<u64>::allocate(world, 1)?;
    /// let session = window.open()?;
    /// for rank in 0..world.size() {
    ///     session.fetch_add(rank, 0, 1)?;
    /// }
    /// window.close()?;
    /// assert_eq!(window.local()?, [u64::from(world.size())]);
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The window has the hint `no_locks`: then nothing has begun. The window is or becomes poisoned: a rank died,
    /// left, or makes another call.
    pub fn open(&mut self) -> Result<&Session<'c, T>> {
        self.begin_session()?;
        Ok(Session::of(self))
    }

    /// Collective. As [`Window::open`], but the session owns its window, so that a library's type can hold it.
    /// [`Session::into_window`] returns the window, and [`Session::free`] frees it.
    ///
    /// # Errors
    /// As for [`Window::open`]; then the window is dropped.
    pub fn into_session(self) -> Result<Session<'c, T>> {
        self.try_into_session().map_err(|(error, _)| error)
    }

    /// Collective. As [`Window::into_session`], but an error returns the window too, so that
    /// [`read_own`](Window::read_own) can save this rank's part.
    ///
    /// # Errors
    /// As for [`Window::open`].
    #[expect(clippy::result_large_err, reason = "the session is as large")]
    pub fn try_into_session(self) -> std::result::Result<Session<'c, T>, (Error, Self)> {
        match self.begin_session() {
            Ok(()) => Ok(Session::owning(self)),
            Err(error) => Err((error, self)),
        }
    }

    /// Collective. Ends the session that [`Window::open`] began, once all ranks have called this. Then
    /// [`Window::local`] is this rank's own part again, including the data that other ranks put there. An epoch of all
    /// ranks and [`Window::free`] also end the session.
    ///
    /// # Errors
    /// The window is or becomes poisoned: a rank died, left, or makes another call.
    pub fn close(&mut self) -> Result<()> {
        const OPERATION: &str = "close";
        self.usable_together(OPERATION)?;
        let poison = self.poison_on_exit();
        self.leave_session()?;
        lower::synchronise(&self.raw, OPERATION, Purpose::Close)?;
        self.session.end();
        poison.defuse();
        Ok(())
    }

    fn begin_session(&self) -> Result<()> {
        const OPERATION: &str = "open";
        self.usable_together(OPERATION)?;
        if !self.session.is_open() {
            // No rank takes an exclusive lock before all ranks have ended the session.
            self.raw.lock_all(Assert::NO_CHECK)?;
        }
        // If this rank fails here, a peer may have passed the barrier and access this rank's part.
        let poison = self.poison_on_exit();
        self.session.begin(lower::is_concurrent(&self.raw));
        lower::synchronise(&self.raw, OPERATION, Purpose::Open)?;
        poison.defuse();
        Ok(())
    }

    /// Ends this rank's use of its session, if there was one. Only for calls that synchronise all ranks; after that
    /// synchronisation the session is over: [`Opened::end`].
    fn leave_session(&self) -> Result<()> {
        match self.session.is_open() {
            true => self.raw.unlock_all(),
            false => Ok(()),
        }
    }

    /// The same, before the window is freed. If it fails, tells the other ranks, which would wait for this rank.
    fn leave_session_for_good(&self) -> Result<()> {
        let poison = self.poison_on_exit();
        self.leave_session()?;
        poison.defuse();
        Ok(())
    }

    fn poison_on_exit(&self) -> PoisonOnExit<'_> {
        PoisonOnExit::new(&self.raw, &self.poisoned)
    }

    pub(super) fn raw(&self) -> &raw::Window {
        &self.raw
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.session
    }

    /// Collective. Waits for all ranks, and frees the window and its memory (MPI-4.1, section 12.2.5).
    ///
    /// # Errors
    /// The window is poisoned; a rank died, left, or called an epoch instead. Then the memory is leaked, since other
    /// ranks may still access it.
    pub fn free(self) -> Result<()> {
        self.usable_together("free")?;
        self.leave_session_for_good()?;
        // Waits even with the hint `no_locks`: if another rank is still in an epoch, its accesses must not find the
        // memory freed.
        lower::free_with(self.raw, |_, _| ())
    }

    /// Collective. As [`Window::free`], and returns this rank's current elements in a new vector. Works for windows
    /// created from a vector and for allocated ones.
    ///
    /// # Errors
    /// As for [`Window::free`]. No memory for the vector: then the window is still freed on all ranks, and this rank's
    /// elements are lost. To be safe, copy [`Window::local`] before.
    pub fn into_vec(self) -> Result<Vec<T>> {
        let mut elements = Vec::new();
        // Reserved before waiting for the others. A failure is not told to them: the window is freed either way.
        let room = elements.try_reserve_exact(self.len());
        self.usable_together("free")?;
        self.leave_session_for_good()?;
        let bytes = self.raw.size();
        lower::free_with(self.raw, |base, bytes| {
            if room.is_ok() {
                // SAFETY: our part, which is not freed yet; the window is usable, and no rank is in an epoch any more.
                elements.extend_from_slice(unsafe { elements_at(base, bytes) });
            }
        })?;
        match room {
            Ok(()) => Ok(elements),
            Err(error) => Err(no_room("into_vec", bytes, &error)),
        }
    }

    fn elements(&self) -> &[T] {
        // SAFETY: the callers ensure that the window is usable: then no rank writes there between epochs, as this
        // module argues, and while the window is borrowed no epoch opens.
        unsafe { elements_at(self.raw.base(), self.raw.size()) }
    }

    fn usable(&self, operation: &'static str) -> Result<()> {
        not_forked(operation)?;
        match self.is_poisoned() {
            false => Ok(()),
            true => Err(error(operation, Misuse::Poisoned)),
        }
    }

    /// For calls that need exclusive use of this rank's part, or let only some ranks access it.
    fn usable_alone(&self, operation: &'static str) -> Result<()> {
        self.usable(operation)?;
        match self.session.is_open() {
            false => Ok(()),
            true => {
                let misuse = Misuse::Epoch {
                    needs: "it needs a window of which no rank is in a session",
                    state: EpochState::Session,
                };
                Err(error(operation, misuse))
            }
        }
    }

    /// For calls that involve other ranks.
    fn usable_together(&self, operation: &'static str) -> Result<()> {
        self.usable(operation)?;
        lower::in_job(&self.raw, operation)
    }
}

#[cold]
fn no_room(operation: &'static str, bytes: u64, cause: &dyn Display) -> Error {
    let failed = SystemError::Io {
        what: format!("no {bytes} bytes for the elements of a window ({cause})"),
        source: io::ErrorKind::OutOfMemory.into(),
    };
    error(operation, failed)
}

/// Between epochs, threads can share a window and move it.
const _: () = {
    const fn travels<W: Send + Sync>() {}
    travels::<Window<'static, u64>>()
};

impl<T: Element> fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("rank", &self.rank())
            .field("ranks", &self.ranks())
            .field("len", &self.len())
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

/// The number of elements in a rank's part.
pub(super) fn len_of<T>(raw: &raw::Window, rank: impl IntoRank) -> Result<usize> {
    let rank = rank.into_rank("len_of", raw.ranks())?;
    Ok((raw.size_of(rank)? / size_of::<T>() as u64) as usize)
}

/// Elements with all bytes zero.
pub(super) fn zeroed<T: Element>(operation: &'static str, len: usize) -> Result<Vec<T>> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    let room = bytemuck::try_zeroed_vec(len);
    room.map_err(|()| no_room(operation, bytes, &"the allocator has none"))
}

/// The address of this rank's part, and its number of elements.
pub(super) fn own_part<T>(raw: &raw::Window) -> (NonNull<T>, usize) {
    part_at(raw.base(), raw.size())
}

/// The same, for a part of `bytes` bytes.
pub(super) fn part_at<T>(base: *mut u8, bytes: u64) -> (NonNull<T>, usize) {
    let base = NonNull::new(base.cast()).unwrap_or(NonNull::dangling());
    debug_assert!(base.is_aligned());
    (base, bytes as usize / size_of::<T>())
}

/// # Safety
/// This is a rank's own part, and no rank writes there while the elements are borrowed.
unsafe fn elements_at<'a, T: Element>(base: *const u8, bytes: u64) -> &'a [T] {
    let (base, len) = part_at(base.cast_mut(), bytes);
    // SAFETY: our registered memory, aligned and of this length; any bytes are a `T`; the caller's promise.
    unsafe { slice::from_raw_parts(base.as_ptr(), len) }
}
