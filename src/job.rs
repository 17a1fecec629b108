//! A rank's membership in its job: where a program begins.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rdma_sys_shim::{JobSecret, Usage};
use transom_launch::start;

use crate::access::OfOthers;
use crate::comm::{Communicator, Group, world_block_bytes};
use crate::datatype::Element;
use crate::diagnostics;
use crate::error::{AbortCause, Error, Misuse, Result};
use crate::lower::{self, Allgather, wait_on};
use crate::memory::registration::Registration;
use crate::peers::{Context, check_rank, is_forked, job_secret, named_device, not_forked};
use crate::terms::ThreadLevel;
use crate::typed::{Buffer, Registered, while_registered, while_registered_mut};
use crate::wait::set_hook;
use crate::window::Info;

/// This process's membership in a parallel job.
///
/// Dropping it leaves the job, like [`Job::finish`]: ranks that still wait for this one get an error. Dropping it
/// during a panic aborts the job.
///
/// ```no_run
/// let job = transom::Job::init()?;
/// println!("rank {} of {}", job.world().rank(), job.world().size());
/// # Ok::<(), transom::Error>(())
/// ```
pub struct Job {
    context: Arc<Context>,
    world: Communicator,
    /// Whether this rank has left already.
    finished: bool,
}

/// A process can join a job only once: launchers accept one client.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn take() -> Result<()> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(Error::new("job start", Misuse::JobTaken));
    }
    diagnostics::prepare();
    Ok(())
}

impl Job {
    /// Collective over the job. Joins the job in which this process was launched (by `transom run`, `mpiexec.hydra`,
    /// `srun --mpi=pmi2`, or through PMIx by Open MPI's `mpirun` and `srun --mpi=pmix`), or the job whose rendezvous
    /// the environment names. If there are no other ranks, it is a job of one rank.
    ///
    /// Ranks that no launcher started together get their identity from `TRANSOM_RANK` and `TRANSOM_SIZE`, and the
    /// address of their rendezvous from `TRANSOM_RENDEZVOUS=HOST:PORT`: rank 0 listens there, and the others connect to
    /// it by TCP. They authenticate each other by `TRANSOM_JOB_SECRET`, the same for all, which may be unset if all
    /// ranks are on one host (`localhost`). Under torchrun, only the secret has to be set; in indexed jobs of
    /// Kubernetes and under Flux, everything but the rank. Afterwards such a job has no launcher: see [`Job::over`].
    ///
    /// The environment variable `TRANSOM_DEVICE` chooses the device. If it is unset or `auto`, the device is soft if
    /// all ranks share a host, and otherwise an RDMA device. `TRANSOM_CONTROL_BYTES` is the size of the memory from
    /// which windows and communicators take the words that their peers write. If it is unset, this memory grows on
    /// demand. Its initial address space is 16 MiB, or 4 MiB on devices that lock such memory into physical memory, or
    /// more if the number of ranks needs more.
    ///
    /// `TRANSOM_LOG`, `TRANSOM_REPORT` and `TRANSOM_TRACE` turn on output: warnings and more on standard error, unless
    /// this program has already set a subscriber of `tracing`; a table of the operations of each window; a trace for
    /// Perfetto.
    ///
    /// # Errors
    /// The environment says that there are other ranks, but not how to reach them; ranks do not arrive within
    /// `TRANSOM_START_TIMEOUT` (seconds; 600), or belong to different jobs; the device is unknown, refused by the
    /// system, or does not connect the ranks' hosts; this process joined a job before. If one rank cannot start, no
    /// rank does, and the others are told which one it is.
    pub fn init() -> Result<Self> {
        Self::init_thread(ThreadLevel::default())
    }

    /// Collective over the job. As [`Job::init`], with a promise about threads (MPI-4.1, section 11.6.2,
    /// `MPI_Init_thread`).
    ///
    /// # Errors
    /// As for [`Job::init`].
    pub fn init_thread(level: ThreadLevel) -> Result<Self> {
        take()?;
        let named = named_device(job_secret());
        let by = start::join()?;
        if by.size() == 1 && !by.has_launcher() && named.is_err() {
            // No other rank waits for this process, so it may try another device.
            TAKEN.store(false, Ordering::SeqCst);
        }
        let started = by.name();
        let context = Context::join(by, level, named, world_block_bytes)?;
        Ok(Self::of(context, started))
    }

    /// Collective over the job. Joins a job whose ranks were started by other means and are connected by an allgather
    /// of the caller: by another communication library, or a program that created the processes itself. The device is
    /// chosen as by [`Job::init`]. Unstable: see [`lower`](crate::lower).
    ///
    /// Only this call uses `by`, a few times. After it, this rank can reach all others. Since there is no launcher to
    /// report ranks that died, a rank notices a death only when it waits for the dead rank or checks it.
    ///
    /// # Errors
    /// On every rank if one rank fails and `by` still works: the device is unknown, refused by the system, or does not
    /// connect the ranks' hosts; ranks contradict each other about their identity. On this rank: `by` failed, or names
    /// a rank beyond its size; this process joined a job before, or failed to in a way that other ranks may have
    /// noticed.
    pub fn over(by: &dyn Allgather, level: ThreadLevel) -> Result<Self> {
        let ranks = check_rank(by)?;
        take()?;
        let named = named_device(JobSecret::default());
        let context = Context::over(by, ranks, level, named, world_block_bytes)?;
        Ok(Self::of(context, "an allgather"))
    }

    /// `started`: how the ranks found each other.
    fn of(context: Arc<Context>, started: &str) -> Self {
        context.combine_by(Arc::new(OfOthers(context.rank())));
        let rank = context.rank().0;
        let host = |rank| context.hosts().host_of(rank);
        let is_first = (0..rank).all(|other| host(other) != host(rank));
        diagnostics::joined(rank, is_first, context.identity());
        tracing::info!(
            ranks = context.size(),
            device = context.device().name(),
            by = started,
            "joined the job"
        );
        if context.patience().is_oversubscribed() {
            tracing::info!(
                "there are more ranks than processors here: waits give theirs away soon"
            );
        }
        let world = Communicator::world(&context);
        Self {
            context,
            world,
            finished: false,
        }
    }

    /// Local. All ranks of the job.
    #[must_use]
    pub fn world(&self) -> &Communicator {
        &self.world
    }

    /// Local. A communicator of this rank alone.
    ///
    /// # Errors
    /// Out of control memory; the process was forked from the rank.
    pub fn alone(&self) -> Result<Communicator> {
        Communicator::alone(&self.context)
    }

    /// Local. A communicator of the ranks of `group`, in that order. `by`, an allgather of the same ranks in the same
    /// order, carries its collectives. It takes no control memory, and creating a window on it takes two allgathers.
    /// Its barriers and collectives cost more than those of other communicators; communicators made from it are
    /// ordinary ones. It may be dropped before its windows. Unstable: see [`lower`](crate::lower).
    ///
    /// If `by` fails in a collective, this rank gets an error and the job is aborted, since the other ranks may not
    /// notice the failure.
    ///
    /// # Errors
    /// `by` has another number of ranks than the group, or gives this rank another number. If ranks pass different
    /// groups, the first collective fails on all of them.
    pub fn communicator(
        &self,
        group: &Group,
        by: impl Allgather + Send + 'static,
    ) -> Result<Communicator> {
        Communicator::over(&self.context, group, Box::new(by))
    }

    /// Local. Makes every long wait call `hook`, which replaces an earlier hook. Each thread that waits in a call of
    /// this library calls it a few microseconds after the wait began, and then repeatedly until the wait ends. A host
    /// library that has to be called can so make progress during waits. With a hook, waits sleep for 0.1 ms at most, or longer if more than 32 ranks share a processor.
    /// Calls that do not wait, such as [`Request::test`](crate::raw::Request::test), do not call it. Unstable: see
    /// [`lower`](crate::lower).
    ///
    /// The hook must not make a call of this library that involves other ranks, and must not wait for other ranks.
    /// Several threads may call it at once. A panic in it aborts the process. It is dropped with the job.
    pub fn on_wait(&self, hook: impl Fn() + Send + Sync + 'static) {
        set_hook(Some(Arc::new(hook)));
    }

    /// Local. Whether ranks of this host outnumber their processors. Then waiting threads do not serve other ranks,
    /// since they have no processor during most of a wait. Unstable: see [`lower`](crate::lower).
    #[must_use]
    pub fn is_oversubscribed(&self) -> bool {
        self.context.patience().is_oversubscribed()
    }

    /// Local. Makes [`Job::abort`] call `hook` with its arguments after it has told the other ranks. Replaces an
    /// earlier hook. Unstable: see [`lower`](crate::lower).
    pub fn on_abort(&self, hook: impl Fn(i32, &str) + Send + Sync + 'static) {
        self.context.set_on_abort(Arc::new(hook));
    }

    /// Local. Calls `done` until it returns true. Waits as the calls of this library do: it spins, yields, then sleeps
    /// in growing steps up to a millisecond (or longer if more than 32 ranks share a processor), and calls the hook of [`Job::on_wait`]. `awaited` is the rank of the world
    /// that has to act; `None` stands for any rank. Unstable: see [`lower`](crate::lower).
    ///
    /// # Errors
    /// The job was aborted; the awaited rank died or left, or any rank died if `awaited` is `None`; there is no such
    /// rank; the process was forked from the rank. If it fails, the last result of `done` was false.
    pub fn wait_until(&self, awaited: Option<u32>, mut done: impl FnMut() -> bool) -> Result<()> {
        const OPERATION: &str = "wait_until";
        not_forked(OPERATION)?;
        if let Some(rank) = awaited {
            self.world.team().check_rank(OPERATION, rank)?;
        }
        let _call = diagnostics::in_call_of_its_own(OPERATION);
        let done = || Ok(done());
        wait_on(&self.world, OPERATION, "of the job", || awaited, done)
    }

    /// Local. Leaves the job as dropping it does, and returns the result. Does not wait for other ranks.
    ///
    /// # Errors
    /// The job was aborted, or the launcher did not accept the farewell; this rank has left nevertheless. The process
    /// was forked from the rank, and so does not leave the job.
    pub fn finish(mut self) -> Result<()> {
        const OPERATION: &str = "finish";
        not_forked(OPERATION)?;
        // A rank that notices the abort tells the others, so it must not have left yet.
        let latest = self.context.line().last();
        let aborted = latest.map_or(Ok(()), |latest| latest.check_aborted(OPERATION));
        self.finished = true;
        diagnostics::leaving();
        let left = self.leave();
        diagnostics::left();
        set_hook(None);
        aborted.and(left.map_err(|error| error.during(OPERATION)))
    }

    /// Local. The device that the job runs over.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.context.device().name()
    }

    /// Local. The resources of the device that this process has taken: registered memory, queue pairs, completion queue
    /// entries. `None` for devices on which none of them is scarce.
    #[must_use]
    pub fn device_usage(&self) -> Option<Usage> {
        self.context.device().usage()
    }

    /// Local. The addresses by which peers reach this process, and those at which it has reached others, as text.
    /// `None` for devices that do not use network addresses.
    #[must_use]
    pub fn device_addresses(&self) -> Option<String> {
        self.context.device().addresses()
    }

    /// Local. Allocates `size` zeroed bytes. A window created over them is as fast as an allocated one, and operations
    /// transfer from and to them without a copy (MPI-4.1, section 9.2, `MPI_Alloc_mem`). Aligned to 64 bytes, or more
    /// with the hint `mpi_minimum_memory_alignment`. Freed with [`Job::free_mem`] or with the job.
    ///
    /// # Errors
    /// Out of memory, or a malformed hint.
    pub fn alloc_mem(&self, size: usize, info: &Info) -> Result<NonNull<u8>> {
        not_forked("alloc_mem")?;
        self.context.alloc_mem(size, info.alignment())
    }

    /// Local. `len` elements with all bytes zero, in memory that the device can transfer from and to without a copy
    /// (MPI-4.1, section 9.2, `MPI_Alloc_mem`). Freed when dropped.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut window = transom::Window::<f64>::allocate(job.world(), 1000)?;
    /// let mut block = job.alloc::<f64>(1000)?;
    /// block.fill(0.5);
    /// window.fence(|epoch| epoch.target(0)?.put(0, &block))?;
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `len` elements exceed 2^63 − 1 bytes; out of memory or of memory that may be locked.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(&self.world, len)
    }

    /// Local. Registers the elements of `vector` with the device, which then transfers from and to them without a copy,
    /// as from and to those of [`Job::alloc`]. The registration ends when the result is dropped, which may be after
    /// this rank has left the job. On devices on which it makes no difference, nothing is registered.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// let mut window = transom::Window::<f64>::allocate(job.world(), 1000)?;
    /// let mut field = job.register(vec![0.5; 1000])?;
    /// for _ in 0..10 {
    ///     field[0] += 1.0;
    ///     window.fence(|epoch| epoch.target(0)?.put(0, &field))?;
    /// }
    /// let vector = field.into_vec();
    /// # assert_eq!(vector[0], 10.5);
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The device refuses the memory: the process may not lock so much, or the device takes less in one region.
    pub fn register<T: Element>(&self, vector: Vec<T>) -> Result<Registered<T>> {
        Registered::new(&self.world, vector)
    }

    /// Local. Runs `body` while `buffer` is registered with the device: operations transfer from it without a copy, as
    /// from [`Job::alloc`]'s memory. This is for memory that the program only borrows; [`Job::register`] takes a vector
    /// for as long as the program likes.
    ///
    /// ```
    /// # fn main() -> transom::Result<()> {
    /// # let job = transom::Job::init()?;
    /// # let mut window = transom::Window::<u32>::allocate(job.world(), 1000)?;
    /// let table: &[u32] = &[7; 1000];
    /// job.while_registered(table, |table| {
    ///     window.fence(|epoch| epoch.target(0)?.put(0, table))
    /// })?;
    /// # window.free()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body`, and as for [`Job::register`]; then `body` was not called.
    pub fn while_registered<'b, T: Element, R>(
        &self,
        buffer: &'b [T],
        body: impl FnOnce(&'b [T]) -> Result<R>,
    ) -> Result<R> {
        while_registered(&self.world, buffer, body)
    }

    /// Local. As [`Job::while_registered`], for a buffer into which operations also transfer.
    ///
    /// # Errors
    /// As for [`Job::while_registered`].
    pub fn while_registered_mut<T: Element, R>(
        &self,
        buffer: &mut [T],
        body: impl FnOnce(&mut [T]) -> Result<R>,
    ) -> Result<R> {
        while_registered_mut(&self.world, buffer, body)
    }

    /// Local. Registers `len` bytes of the program at `base` with the device, so that operations transfer from there
    /// without a copy, as from memory of [`Job::alloc_mem`], and also to there if `written`. Other ranks cannot access
    /// the memory. The registration ends when the result is dropped. On devices on which it makes no difference,
    /// nothing is registered.
    ///
    /// # Errors
    /// The memory is not mapped or not readable, or not writable although it is `written`; the process may not lock so
    /// much memory, or the device takes less in one region.
    ///
    /// # Safety
    /// Until the result is dropped, the memory stays mapped, and nothing replaces its pages: it is not freed,
    /// remapped or discarded (`munmap`, `mremap`, `MADV_DONTNEED`). If it is, operations on other memory at the same
    /// addresses transfer the old bytes. Forgetting the result never ends the registration.
    pub unsafe fn register_mem(
        &self,
        base: NonNull<u8>,
        len: usize,
        written: bool,
    ) -> Result<Registration> {
        // SAFETY: the caller's promise.
        unsafe { lower::register(&self.world, "register_mem", base.as_ptr(), len, written) }
    }

    /// Local. Frees memory that [`Job::alloc_mem`] returned (MPI-4.1, section 9.2, `MPI_Free_mem`).
    ///
    /// # Errors
    /// `base` was not returned by `alloc_mem`, or was freed already.
    ///
    /// # Safety
    /// No window over the memory exists, and nothing refers to it.
    pub unsafe fn free_mem(&self, base: NonNull<u8>) -> Result<()> {
        not_forked("free_mem")?;
        self.context.free_mem(base)
    }

    /// Local. Ends the job: the launcher is told to end all ranks with this exit code (MPI-4.1, section 11.4.2,
    /// `MPI_Abort`). Until it does, this returns, and a rank gets an error where it waits for another, in its next
    /// collective call, and in calls that begin or complete epochs. Does nothing in a process that was forked from the
    /// rank.
    ///
    /// A job of [`Job::over`], and one whose ranks used a rendezvous, has no launcher, only the hook of
    /// [`Job::on_abort`].
    pub fn abort(&self, code: i32, message: &str) {
        for context in self.context.line() {
            context.abort_everywhere(AbortCause::Aborted);
        }
        self.context.report_abort_to_launcher(code, message);
    }

    /// Leaves this job and those of its survivors.
    fn leave(&self) -> Result<()> {
        let left = self.context.line().rev().map(Context::leave);
        left.fold(Ok(()), Result::and)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("world", &self.world)
            .field("device", &self.device_name())
            .finish_non_exhaustive()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A forked child drops a copy; its parent owns the job, with its threads and connections.
        if is_forked() {
            std::mem::forget(self.context.clone());
            return;
        }
        if self.finished {
            return;
        }
        diagnostics::leaving();
        if std::thread::panicking() {
            for context in self.context.line() {
                context.abort_everywhere(AbortCause::Panicked);
            }
        } else if let Err(error) = self.leave() {
            tracing::warn!(%error, "the launcher did not take the farewell");
        }
        diagnostics::left();
        set_hook(None);
    }
}
